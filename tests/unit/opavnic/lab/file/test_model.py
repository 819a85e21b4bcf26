"""Lab files: what is accepted, and the exact line that a person reads for each mistake."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import MAX_FILE_BYTES, load_lab, parse_lab
from opavnic.lab.file.model import LabModel
from vema.em.desired.subnets import overlaps

ROOT = Path(__file__).parents[5]
GOOD = """\
name: two-hosts
hosts: {h1: {}, h2: {}}
vesws:
  - {id: 2, name: blue, pkey: 0x8002, mtu: 1500, subnet: 10.9.2.0/24, members: [h1, h2]}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, "lab.yaml")
    return list(caught.value.problems)


EM_FILES = "em-"
"""Files for `opavnic em apply` begin so; em-lab.yaml is the lab for them."""
LAB_FILES = [
    file
    for file in sorted((ROOT / "examples").glob("*.yaml"))
    if not file.name.startswith(EM_FILES) or file.name == "em-lab.yaml"
]


@pytest.mark.parametrize("file", LAB_FILES, ids=lambda file: file.name)
def test_example_is_right(file: Path) -> None:
    assert load_lab(file).name == file.stem


def test_defaults_are_filled_in() -> None:
    lab = parse_lab(GOOD, "lab.yaml")
    assert lab.em.mode == "builtin"
    assert lab.fabric.link.rate == 100e9
    assert lab.fabric.link.latency == pytest.approx(300e-9)
    assert not lab.driver_quirks


def test_hosts_get_addresses_in_file_order() -> None:
    lab = parse_lab(GOOD.replace("members: [h1, h2]", "members: [h2, h1]"), "lab.yaml")
    blue = lab.vesws[0]
    assert [str(lab.address(blue, host)) for host in ("h1", "h2")] == ["10.9.2.1/24", "10.9.2.2/24"]


def test_host_without_a_section_of_its_own_is_a_plain_host() -> None:
    assert parse_lab("name: x\nhosts:\n  h1:\n", "lab.yaml").hosts["h1"].netns == "own"


@pytest.mark.parametrize(
    ("text", "engine", "workers"),
    [
        ("datapath: python", "python", "auto"),
        ("datapath:", "auto", "auto"),
        ("datapath: {workers: 4}", "auto", 4),
        ("datapath: {engine: native, workers: auto}", "native", "auto"),
    ],
)
def test_datapath_is_a_word_or_a_section(text: str, engine: str, workers: int | str) -> None:
    datapath = parse_lab(f"name: x\nhosts: {{h1: {{}}}}\n{text}\n", "lab.yaml").datapath
    assert (datapath.engine, datapath.workers) == (engine, workers)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("em: off", "off"),
        ("em: external", "external"),
        ("em:", "builtin"),
        ("em: {mode: off}", "off"),
    ],
)
def test_em_section_forms(text: str, mode: str) -> None:
    assert parse_lab(f"name: x\nhosts: {{h1: {{}}}}\n{text}\n", "lab.yaml").em.mode == mode


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("subnet_manager: external", "external"),
        ("subnet_manager: {mode: external}", "external"),
        ("subnet_manager: {}", "builtin"),
        ("subnet_manager:", "builtin"),
    ],
)
def test_subnet_manager_section_forms(text: str, mode: str) -> None:
    assert parse_lab(f"name: x\nhosts: {{h1: {{}}}}\n{text}\n", "lab.yaml").subnet_manager.mode == mode


def test_all_mistakes_are_told_at_once_in_file_order() -> None:
    text = (
        GOOD.replace("mtu: 1500", "mtu: 20000")
        .replace("[h1, h2]", "[h1, h3]")
        .replace("h2: {}", "h2: {x: 1}")
    )
    assert [line.split(":")[1] for line in problems(text)] == ["2", "4", "4"]


def test_quirk_low_8_bits_of_two_ids_on_one_host_are_refused() -> None:
    text = GOOD + "  - {id: 0x102, name: red, members: [h1]}\n"
    assert parse_lab(text, "lab.yaml").vesws[1].id == 0x102
    assert problems(text + "driver_quirks: true\n") == [
        'lab.yaml:5: vesws[1].id: 0x102 has the same low 8 bits as the id of "blue", and both are on host "h1": with '
        "driver_quirks only one of them comes up"
    ]


def test_more_virtual_switches_than_a_port_has_vports_are_refused() -> None:
    vesws = "".join(f"  - {{id: {n}, name: v{n}, members: [h1]}}\n" for n in range(1, 257))
    assert problems(f"name: x\nhosts: {{h1: {{}}}}\nvesws:\n{vesws}") == [
        'lab.yaml:259: vesws[255].members: host "h1" is in 256 virtual switches; a port carries 255'
    ]


def test_model_in_python_is_held_to_the_same_rules() -> None:
    with pytest.raises(ValueError, match=r'vesws\[0\]\.members\[0\]: unknown host "h9"'):
        LabModel.model_validate(
            {"name": "x", "hosts": {"h1": {}}, "vesws": [{"id": 1, "name": "a", "members": ["h9"]}]}
        )


def test_aliases_that_would_fill_the_memory_are_refused() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    [problem] = problems("a0: &a0 [x, x]\n" + levels)
    assert problem.endswith("more than 100000 values: this is not a lab file")


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    big, binary = tmp_path / "big.yaml", tmp_path / "binary.yaml"
    big.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    binary.write_bytes(b"name: \xff\xfe")
    for file, reason in (
        (tmp_path / "none.yaml", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (big, f"more than {MAX_FILE_BYTES} bytes: this is not a lab file"),
        (binary, "not UTF-8 text (byte 6)"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_lab(file)
        assert caught.value.problems == (f"{file}: {reason}",)


def test_character_that_json_writes_as_a_pair_is_one_character_and_half_of_one_is_told() -> None:
    text = '{"name": "x", "hosts": {"h1": {}}, "vesws": [{"id": 2,\n"name": "%s", "members": ["h1"]}]}'
    (mistake,) = problems(text % r"\ud83d\ude00")
    assert "\U0001f600" in mistake
    for half in (text % r"\ud83d", text.replace('"name": "%s"', r'"\udc00": 1')):
        assert problems(half) == ["lab.yaml:2: not text: half of a surrogate pair"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 255), st.integers(20, 32)).map(
                lambda n: f"10.0.{n[0] & 0xFF}.{n[0]}/{n[1]}"
            ),
            st.tuples(st.integers(0, 255), st.integers(118, 128)).map(lambda n: f"fd00::{n[0]:x}/{n[1]}"),
        ),
        max_size=12,
    )
)
def test_subnets_that_overlap_one_before_them_are_those_that_are_told(texts: list[str]) -> None:
    subnets = {index: ipaddress.ip_network(text, strict=False) for index, text in enumerate(texts)}

    def overlap(one: int, other: int) -> bool:
        a, b = subnets[one], subnets[other]
        return a.version == b.version and a.overlaps(b)  # type: ignore[arg-type]

    found = overlaps(subnets)
    assert set(found) == {i for i in subnets if any(overlap(i, j) for j in range(i))}
    assert all(j < i and overlap(i, j) for i, j in found.items())


@pytest.mark.parametrize(
    ("hosts", "subnet", "said", "has"),
    [
        (256, "10.0.0.0/16", "auto", True),
        (257, "10.0.0.0/16", "auto", False),
        (257, "fd00::/64", "auto", True),
        (257, "10.0.0.0/16", "true", True),
        (2, "10.0.0.0/16", "false", False),
    ],
)
def test_large_virtual_switch_has_no_link_local_addresses_unless_they_are_of_use(
    hosts: int, subnet: str, said: str, has: bool
) -> None:
    fabric = "{topology: {kind: clos, leaves: 9, spines: 1, hosts_per_leaf: 30}}"
    vesw = f'{{id: 2, name: net, subnet: "{subnet}", link_local: {said}, members: all}}'
    text = f"name: many\nfabric: {fabric}\nhosts: {hosts}\nvesws: [{vesw}]\n"
    assert parse_lab(text, "lab.yaml").vesws[0].has_link_local is has


def test_more_static_neighbours_than_memory_should_hold_are_refused() -> None:
    fabric = "{topology: {kind: clos, leaves: 32, spines: 1, hosts_per_leaf: 40}}"
    vesw = "{id: 2, name: net, subnet: 10.0.0.0/16, neighbours: static, members: all}"
    text = f"name: many\nfabric: {fabric}\nhosts: HOSTS\nvesws: [{vesw}]\n"
    assert parse_lab(text.replace("HOSTS", "1000"), "lab.yaml").vesws[0].neighbour_entries == {4: 999, 6: 0}
    (problem,) = problems(text.replace("HOSTS", "1200"))
    assert problem.endswith(
        "vesws[0]: 1438800 static neighbours are more than 1048576: leave them to the kernel, and raise its limits"
    )


def test_a_host_chooses_its_kernel_by_name() -> None:
    text = "name: k\nhosts: {h1: {}, k1: {kernel: KERNEL}}\nvesws: [{id: 2, name: net, members: all}]\n"
    chosen = parse_lab(text.replace("KERNEL", "{name: patched}"), "lab.yaml").hosts["k1"].kernel
    newest = parse_lab(text.replace("KERNEL", "opa_vnic"), "lab.yaml").hosts["k1"].kernel
    assert chosen is not None
    assert newest is not None
    assert (chosen.name, newest.name, chosen.driver) == ("patched", "", newest.driver)
    (problem,) = problems(text.replace("KERNEL", "{name: ../x}"))
    assert '"../x" is not the name of a kernel' in problem
    (problem,) = problems(text.replace("KERNEL", "patched"))
    assert "opa_vnic" in problem
