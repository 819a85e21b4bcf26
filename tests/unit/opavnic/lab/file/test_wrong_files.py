"""Wrong lab files: one line each, with the place, the cause, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.lab.file.em_file import EmFile
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab

HOSTS = "{h1: {}, h2: {}}"
VESWS = "[{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]"
BLUE = "id: 2, name: blue, subnet: 10.9.2.0/24"


def lab(more: str = "", *, hosts: str = HOSTS, vesws: str = VESWS, name: str = "x") -> str:
    return f"name: {name}\nhosts: {hosts}\nvesws: {vesws}\n{more}"


def vesw(keys: str) -> str:
    return lab(vesws=f"[{{{keys}}}]")


def link(option: str) -> str:
    return lab(f"fabric: {{link: {{{option}}}}}")


WRONG = {
    # quantities without a unit
    link("rate: 100"): "4: fabric.link.rate: 100 has no unit; a rate has one: 100G, 100M or 100bit/s",
    link('rate: "100"'): "4: fabric.link.rate: 100 has no unit; a rate has one: 100G",
    link("rate: 1e9"): "4: fabric.link.rate: 1e9 has no unit; a rate has one: ",
    link("rate: 0"): "4: fabric.link.rate: 0: a rate is above 0",
    link("rate: 10 km"): "4: fabric.link.rate: '10 km' is not a rate such as 100G, 25G or 800M",
    link("latency: 300"): "4: fabric.link.latency: 300 has no unit; a delay has one: 300ns, 300us or 300ms",
    link("latency: 0.5"): "4: fabric.link.latency: 0.5 has no unit; a delay has one: 0.5ns",
    link("jitter: 20"): "4: fabric.link.jitter: 20 has no unit; a delay has one: 20ns",
    link("delay: 300"): "4: fabric.link: delay: 300 has no unit; a delay has one: 300ns",
    link("delay: 1us 20"): "4: fabric.link: delay: 20 has no unit; a delay has one: 20ns",
    link(
        "queue: 20 metres"
    ): "4: fabric.link.queue: '20 metres' is not a size such as 65536, 64K or 16M (bytes), or",
    link("loss: 20"): "4: fabric.link.loss: 20 is not a share such as 20% or 0.2: with a unit it is 20%",
    lab(
        "faults: [loss on h1 20]"
    ): '4: faults[0]: "loss on h1 20": "20" is neither OPTION=VALUE nor a probability',
    lab(
        "faults: [delay on h1 delay=10]"
    ): "4: faults[0]: fault delay: delay: 10 has no unit; a delay has one: 10ns",
    lab(
        "faults: [rate on h1 rate=10]"
    ): "4: faults[0]: fault rate: rate: 10 has no unit; a rate has one: 10G",
    # numbers that YAML reads as others
    vesw(
        "id: 010, name: blue, members: [h1, h2]"
    ): "3: vesws[0].id: 010 is an octal number in YAML, 8: write the dec",
    vesw("id: 08, name: blue, members: [h1, h2]"): "3: vesws[0].id: should be a whole number, not '08'",
    vesw(
        "id: 1:30, name: blue, members: [h1, h2]"
    ): "3: vesws[0].id: 1:30 is a number of base 60 in YAML, 90: write",
    lab("seed: 0777"): "4: seed: 0777 is an octal number in YAML, 511: write the decimal number",
    # names that are not known: the nearest one
    lab("fabric: {topology: fattree}"): "4: fabric.topology: should be 'single-switch', 'fat-tree', 'clos', ",
    lab("topology: fat-tree"): '4: topology: unknown key "topology" (known: ',
    lab("fabric: {routing: fattree}"): "not 'fattree' (nearest: \"fat-tree\")",
    lab(
        "em: extern"
    ): "4: em: should be 'builtin', 'external' or 'off', not 'extern' (nearest: \"external\")",
    lab(
        "em: {mac: lern}"
    ): "4: em.mac: should be 'locally-administered' or 'learn', not 'lern' (nearest: \"learn\")",
    lab(
        "subnet_manager: extern"
    ): "4: subnet_manager: should be 'builtin' or 'external', not 'extern' (nearest: \"ext",
    lab(
        "datapath: nativ"
    ): "4: datapath: should be 'auto', 'python' or 'native', not 'nativ' (nearest: \"native\")",
    vesw(
        f"{BLUE}, link: dow, members: [h1, h2]"
    ): "3: vesws[0].link: should be 'up' or 'down', not 'dow' (nearest",
    vesw(
        f"{BLUE}, members: [h1, h22]"
    ): '3: vesws[0].members[1]: unknown host "h22" (known: h1, h2; nearest: h2)',
    vesw(f"{BLUE}, member: [h1, h2], members: [h1]"): 'unknown key "member" (known: ',
    lab(
        hosts="{h1: {kernel: opa-vnic}, h2: {}}"
    ): "2: hosts.h1.kernel: should be 'opa_vnic' or 'hfi1', not 'opa-vnic' (nearest",
    lab("faults: [los on h1 20%]"): 'unknown fault "los" (nearest: "loss"',
    lab("seeed: 3"): '4: seeed: unknown key "seeed" (known: ',
    # shapes of values
    lab(hosts="[h1, h2]"): "2: hosts: is a mapping, such as {h1: {}, h2: {}}, not a list",
    lab(hosts="h1"): "2: hosts: should be a mapping such as {h1: {}, h2: {}}, not 'h1'",
    lab(hosts="{}"): "2: hosts: is empty",
    lab("driver_quirks: yess"): "4: driver_quirks: should be true or false, not 'yess'",
    vesw(f"{BLUE}"): '3: vesws[0]: key "members" is missing',
    vesw(
        "id: 5000, name: blue, members: [h1, h2]"
    ): "3: vesws[0].id: should be less than or equal to 4095, not 5000",
    vesw(
        "id: 2, name: blue, subnet: 10.9.2.1/24, members: [h1, h2]"
    ): "is an address in a subnet; the subnet is 10.9",
    vesw("id: 2, name: blue, pkey: 0x0001, members: [h1, h2]"): "pkey 0x0001 is a limited membership",
    lab(name="a/b"): '1: name: name "a/b": 1 to 32 letters, digits',
    "name: x\nname: y\nhosts: {h1: {}}\n": '2: name: key "name" appears twice (first in line 1)',
    "vesws: [{id: 2, name: blue, members: [h1]}]\n": "1: this is an EM file: opavnic em apply lab.yaml; a lab file has",
    "- name: x\n": "1: a lab file is a mapping with name, hosts and vesws; see examples/",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_wrong_lab_file_is_refused_in_one_line_with_cause_and_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_lab(text, "lab.yaml", {})
    (line,) = refused.value.problems
    assert said in line
    assert line.startswith("lab.yaml:")


def told_wrong_files() -> Iterator[tuple[str, str]]:
    """Yield the files of wrong_files.txt, each with the line that it is refused with."""
    kind = text = ""
    for line in Path(__file__).with_name("wrong_files.txt").read_text().splitlines():
        if line.startswith("    "):
            made = {"file": text, "more": lab(text)}.get(kind) or lab(**{kind: text})
            yield made, line.strip()
        elif line and not line.startswith("#"):
            kind, _, text = line.partition(": ")
            text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")


TOLD = [*told_wrong_files()]


@pytest.mark.parametrize(("text", "said"), TOLD, ids=range(len(TOLD)))
def test_wrong_lab_file_is_refused_as_it_is_told(text: str, said: str) -> None:
    assert_refused(text, [f"lab.yaml:{said}"])


MANY = {
    lab(hosts=f"{{{', '.join(f'h{at}: {{sysctl: 3}}' for at in range(1, 101))}}}"): [
        'lab.yaml:2: hosts.h1.sysctl: unknown key "sysctl" (known: ...; nearest: sysctls); '
        "and 99 more like it: h2, h3, h4, h5, ..."
    ],
    vesw(f"{BLUE}, members: [{', '.join(f'x{at}' for at in range(200))}]"): [
        'lab.yaml:3: vesws[0].members[0]: unknown host "x0" (known: h1, h2); '
        'and 199 more like it: "x1", "x2", "x3", "x4", ...'
    ],
    lab("faults: [loss on h7 1%, loss on h8 2%, crash on sw0, loss on h9 3%, loss on h9 4%]"): [
        'lab.yaml:4: faults[0]: unknown link, port or node "h7" (nearest: ...); '
        'and 3 more like it: "loss on h8 2%", "loss on h9 3%", "loss on h9 4%"',
        'lab.yaml:4: faults[2]: unknown agent or manager that can crash "sw0" (known: h1, h2, em)',
    ],
    vesw(f"{BLUE}, members: [h8, h9]"): [
        'lab.yaml:3: vesws[0].members[0]: unknown host "h8" (known: h1, h2; nearest: h...)',
        'lab.yaml:3: vesws[0].members[1]: unknown host "h9" (known: h1, h2; nearest: h...)',
    ],
    lab(hosts="{h1: {lid: x}, h2: {lid: x}}"): [
        "lab.yaml:2: hosts.h1.lid: should be a whole number, not 'x'; and 1 more like it: h2"
    ],
}
"""Files in which a mistake is made many times, and what is said then; a few that differ are said one by one."""


@pytest.mark.parametrize(("text", "lines"), MANY.items(), ids=range(len(MANY)))
def test_mistake_that_is_made_many_times_is_one_line(text: str, lines: list[str]) -> None:
    assert_refused(text, lines)


def assert_refused(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_lab(text, "lab.yaml", {})
    assert len(refused.value.problems) == len(lines), refused.value.problems
    for said, expected in zip(refused.value.problems, lines, strict=True):
        assert re.fullmatch(re.escape(expected).replace(r"\.\.\.", ".*"), said), said


def test_lab_file_given_as_an_em_file_is_named_as_such(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(lab())
    with pytest.raises(ConfigError) as refused:
        EmFile(file)
    (line,) = refused.value.problems
    assert line.startswith(f"{file}:2: hosts: this is a lab file, not an EM file: opavnic apply {file} ")


@pytest.mark.parametrize(
    "text",
    [
        link("rate: 25Gbit/s, latency: 0, jitter: 0, loss: 0.2"),
        link("rate: 100bit/s, latency: 1us, queue: 65536, loss: 1"),
        lab("fabric: {topology: single-switch}"),
        lab("faults: [loss on h1 0.2 for=2]"),
        vesw("id: 0x10, name: blue, members: [h1, h2]"),
    ],
)
def test_quantities_with_a_unit_or_a_documented_one_are_read(text: str) -> None:
    assert parse_lab(text, "lab.yaml", {}).name == "x"
