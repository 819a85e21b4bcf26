"""Wrong lab files: one line each, with the place, the cause, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.lab.file.em_file import load_em_file
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab

HOSTS = "{h1: {}, h2: {}}"
VESWS = "[{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]"
BLUE = "id: 2, name: blue, subnet: 10.9.2.0/24"


def lab(more: str = "", *, hosts: str = HOSTS, vesws: str = VESWS, name: str = "x") -> str:
    return f"name: {name}\nhosts: {hosts}\nvesws: {vesws}\n{more}"


def told_wrong_files() -> Iterator[tuple[str, list[str]]]:
    """Yield the files of wrong_files.txt, each with the lines that it is refused with."""
    base = made = ""
    said: list[str] = []
    for line in [*Path(__file__).with_name("wrong_files.txt").read_text().splitlines(), "#"]:
        if line.startswith("    "):
            said.append(f"lab.yaml:{line.strip()}")
            continue
        if said:
            yield made, said
            made, said = "", []
        text = line.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")
        old, differs, new = text.partition(" -> ")
        kind, _, value = text.partition(": ")
        if line.startswith("="):
            base += line[2:] + "\n"
        elif line.startswith("#"):
            base = ""
        elif differs:
            assert old in base, line
            made = base.replace(old, new)
        elif line:
            made = {"file": value, "more": lab(value)}.get(kind) or lab(**{kind: value})


TOLD = [
    *told_wrong_files(),
    (
        lab(hosts=f"{{{', '.join(f'h{at}: {{sysctl: 3}}' for at in range(1, 101))}}}"),
        [
            'lab.yaml:2: hosts.h1.sysctl: unknown key "sysctl" (known: ...; nearest: sysctls); '
            "and 99 more like it: h2, h3, h4, h5, ..."
        ],
    ),
    (
        lab(vesws=f"[{{id: 2, name: blue, members: [{', '.join(f'x{at}' for at in range(200))}]}}]"),
        [
            'lab.yaml:3: vesws[0].members[0]: unknown host "x0" (known: h1, h2); '
            'and 199 more like it: "x1", "x2", "x3", "x4", ...'
        ],
    ),
]


@pytest.mark.parametrize(("text", "lines"), TOLD, ids=range(len(TOLD)))
def test_wrong_lab_file_is_refused_as_it_is_told(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_lab(text, "lab.yaml", {})
    assert len(refused.value.problems) == len(lines), refused.value.problems
    for said, expected in zip(refused.value.problems, lines, strict=True):
        assert re.fullmatch(re.escape(expected).replace(r"\.\.\.", ".*"), said), said


def test_lab_file_given_as_an_em_file_is_named_as_such(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(lab())
    with pytest.raises(ConfigError) as refused:
        load_em_file(file)
    (line,) = refused.value.problems
    assert line.startswith(f"{file}:2: hosts: this is a lab file, not an EM file: opavnic apply {file} ")


@pytest.mark.parametrize(
    "more",
    [
        "fabric: {link: {rate: 25Gbit/s, latency: 0, jitter: 0, loss: 0.2}}",
        "fabric: {link: {rate: 100bit/s, latency: 1us, queue: 65536, loss: 1}}",
        "fabric: {topology: single-switch}",
        "faults: [loss on h1 0.2 for=2]",
        "seed: 0x10",
    ],
)
def test_quantities_with_a_unit_or_a_documented_one_are_read(more: str) -> None:
    assert parse_lab(lab(more), "lab.yaml", {}).name == "x"


def test_fault_of_registers_is_for_each_hfi_of_a_kernel_that_is_to_run() -> None:
    hosts = "{h1: {}, k1: {kernel: hfi1}, k2: {kernel: hfi1, hfis: 2}}"
    faults = "faults: [register-error on k1, register-error on k2, register-error on k2.2 after=1s]"
    parse_lab(lab(faults, hosts=hosts, vesws="[]"), "lab.yaml", {})
    with pytest.raises(ConfigError, match=r"faults\[0\]: k1 has no registers"):
        parse_lab(
            lab("faults: [register-error on k1]", hosts="{k1: {kernel: opa_vnic}}", vesws="[]"),
            "lab.yaml",
            {},
        )
