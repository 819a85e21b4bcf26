"""Lab files: what is accepted, and the exact line that a person reads for each mistake."""

from __future__ import annotations

import ipaddress
import json
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


def test_host_whose_name_is_no_text_is_the_only_mistake_that_is_told() -> None:
    text = GOOD.replace("{h1: {}, h2: {}}", "{1: {}, no: {}}").replace("[h1, h2]", '["1", "False"]')
    assert problems(text) == [
        'lab.yaml:2: hosts.1: the key 1 is read as a number: write it in quotes, "1"',
        'lab.yaml:2: hosts.no: the key no is read as yes or no: write it in quotes, "no"',
    ]


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


@pytest.mark.parametrize("workers", ["0", "257", "true", "1.5", "many", "[]"])
def test_wrong_number_of_workers_is_refused_with_what_would_be_right(workers: str) -> None:
    (problem,) = problems(f"name: x\nhosts: {{h1: {{}}}}\ndatapath: {{workers: {workers}}}\n")
    assert problem.startswith("lab.yaml:3: datapath.workers: should be auto or a number from 1 to 256, not ")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("em: off", "off"),
        ("em: external", "external"),
        ("em:", "builtin"),
        ("em: {mode: off}", "off"),
        ("em: {mode: on}", None),
    ],
)
def test_em_section_forms(text: str, mode: str | None) -> None:
    source = f"name: x\nhosts: {{h1: {{}}}}\n{text}\n"
    if mode is None:
        assert problems(source) == ["lab.yaml:3: em.mode: should be 'builtin', 'external' or 'off', not true"]
    else:
        assert parse_lab(source, "lab.yaml").em.mode == mode


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("off", "subnet_manager: should be builtin, external, or a mapping with the key mode, not False"),
        ("opafm", "subnet_manager: should be 'builtin' or 'external', not 'opafm'"),
        ("3", "subnet_manager: should be builtin, external, or a mapping with the key mode, not 3"),
    ],
)
def test_wrong_subnet_manager_is_refused_with_what_would_be_right(text: str, problem: str) -> None:
    source = f"name: x\nhosts: {{h1: {{}}}}\nsubnet_manager: {text}\n"
    assert problems(source) == [f"lab.yaml:3: {problem}"]


def test_apps_beside_a_fabric_manager_are_refused() -> None:
    source = (
        "name: x\nhosts: {h1: {}}\nsubnet_manager: external\n"
        "vesws: [{id: 2, name: v, members: [h1]}]\napps: [{kind: x, host: h1}]\n"
    )
    assert any("apps need the built-in subnet manager" in problem for problem in problems(source))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            ("members: [h1, h2]", "members: [h1, h9]"),
            'lab.yaml:4: vesws[0].members[1]: unknown host "h9" (known: h1, h2; nearest: h2)',
        ),
        (
            ("name: two-hosts", "nmae: two-hosts\nname: x"),
            'lab.yaml:1: nmae: unknown key "nmae" (known: name, fabric, hosts, vesws, em, subnet_manager, '
            "uplinks, apps, faults, seed, datapath, driver_quirks, ...; nearest: name)",
        ),
        (("name: two-hosts\n", ""), 'lab.yaml:1: name: key "name" is missing'),
        (
            ("h2: {}}", "h2: {}, h2: {}}"),
            'lab.yaml:2: hosts.h2: key "h2" appears twice (first in line 2)',
        ),
        (
            ("h2: {}}", "h2: {netns: a/b}}"),
            'lab.yaml:2: hosts.h2.netns: "a/b" should be own, host, the name of a network namespace as `ip netns` '
            "lists it, or an absolute path",
        ),
        (
            ("members: [h1, h2]", "members: [h1, h1]"),
            'lab.yaml:4: vesws[0].members[1]: host "h1" appears twice',
        ),
        (
            ("vesws:", "datapath: 3\nvesws:"),
            "lab.yaml:3: datapath: should be auto, python, native, or a mapping with the keys engine, workers and "
            "merge_udp, not 3",
        ),
        (
            ("vesws:", "datapath: fast\nvesws:"),
            "lab.yaml:3: datapath: should be 'auto', 'python' or 'native', not 'fast'",
        ),
        (
            ("vesws:", "em: 3\nvesws:"),
            "lab.yaml:3: em: should be builtin, external, off, or a mapping with keys such as mode and mac, not 3",
        ),
        (("vesws:", "fabric: 3\nvesws:"), "lab.yaml:3: fabric: should be a mapping, not 3"),
        (("vesws:", "apps: [[1]]\nvesws:"), "lab.yaml:3: apps[0]: should be a mapping, not a list"),
        (("id: 2", "id: 4096"), "lab.yaml:4: vesws[0].id: should be less than or equal to 4095, not 4096"),
        (("id: 2", "id: true"), "lab.yaml:4: vesws[0].id: should be a whole number, not true"),
        (
            ("pkey: 0x8002", "pkey: 2"),
            "lab.yaml:4: vesws[0].pkey: pkey 0x0002 is a limited membership: its members could not communicate "
            "with each other; write 0x8002",
        ),
        (
            ("10.9.2.0/24", "10.9.2.7/24"),
            'lab.yaml:4: vesws[0].subnet: "10.9.2.7/24" is an address in a subnet; the subnet is 10.9.2.0/24',
        ),
        (
            ("10.9.2.0/24", "10.9.2.0/31"),
            "lab.yaml:4: vesws[0].subnet: 10.9.2.0/31 has too few addresses for 2 hosts",
        ),
        (
            ("vesws:", "apps: [{kind: ejfat-bl, host: h1}]\nvesws:"),
            'lab.yaml:3: apps[0].kind: unknown kind of app "ejfat-bl" (known: ejfat-lb; nearest: ejfat-lb)',
        ),
        (
            ("10.9.2.0/24", "239.1.2.0/24"),
            "lab.yaml:4: vesws[0].subnet: 239.1.2.0/24 is multicast: hosts cannot have addresses there",
        ),
        (
            ("10.9.2.0/24", "127.9.2.0/24"),
            "lab.yaml:4: vesws[0].subnet: 127.9.2.0/24 is loopback: hosts cannot have addresses there",
        ),
        (
            ("10.9.2.0/24", "ff02::/64"),
            "lab.yaml:4: vesws[0].subnet: ff02::/64 is multicast: hosts cannot have addresses there",
        ),
        (
            ("mtu: 1500, subnet: 10.9.2.0/24", "mtu: 1279, subnet: 'fd77::/64'"),
            "lab.yaml:4: vesws[0].subnet: fd77::/64 is IPv6, which needs an MTU of at least 1280; it is 1279 here",
        ),
        (
            ("members: [h1, h2]", "members: []"),
            "lab.yaml:4: vesws[0].members: a virtual switch without members carries nothing: list its hosts",
        ),
        (
            ("name: blue", "name: a-very-long-name"),
            'lab.yaml:4: vesws[0].name: name "a-very-long-name" has 16 characters; it names an interface, '
            "which allows 15",
        ),
        (
            ("name: blue", "name: lo"),
            'lab.yaml:4: vesws[0].name: name "lo" cannot name an interface: letters, digits, ".", "-" and "_", '
            "and not all, default, lo",
        ),
        (
            ("name: two-hosts", "name: a/b"),
            'lab.yaml:1: name: name "a/b": 1 to 32 letters, digits, "-" and "_", beginning with a letter or '
            "digit (it becomes part of a path and of a namespace's name)",
        ),
        (
            ("vesws:", "fabric: {link: {rate: 100X}}\nvesws:"),
            "lab.yaml:3: fabric.link.rate: '100X' is not a rate such as 100G, 25G or 800M (bits per second)",
        ),
        (
            ("vesws:", "fabric: {positions: {h1: [0, 1], h22: [2, 1]}}\nvesws:"),
            'lab.yaml:3: fabric.positions.h22: unknown HFI or switch "h22" (nearest: "h2"; known: em, h1, h2, sw0)',
        ),
        (
            ("vesws:", "fabric: {positions: {h1: [1]}}\nvesws:"),
            "lab.yaml:3: fabric.positions.h1: [1] is not a position: two numbers, [to the right, down]",
        ),
    ],
)
def test_mistake_is_told_with_line_and_path(change: tuple[str, str], problem: str) -> None:
    assert problems(GOOD.replace(*change)) == [problem]


def test_second_virtual_switch_that_repeats_the_first_is_told_once() -> None:
    text = GOOD + "  - {id: 2, name: blue, subnet: 10.9.2.128/25, members: [h1]}\n"
    assert problems(text) == [
        'lab.yaml:5: vesws[1].id: id 2 is already that of "blue"',
    ]


def test_lab_of_more_hosts_than_a_switch_has_ports_is_told_which_fabric_has_room() -> None:
    assert problems("name: x\nhosts: 256\nvesws: [{id: 2, name: blue, members: all}]\n") == [
        "lab.yaml:1: fabric.topology: single-switch: 257 HFI ports, a switch has at most 254: take several switches, "
        "such as {kind: clos, leaves: 6, spines: 2, hosts_per_leaf: 48}"
    ]


def test_lab_without_hosts_is_refused() -> None:
    assert problems("name: x\nhosts: {}\n") == [
        "lab.yaml:2: hosts: is empty; it should be such as {h1: {}, h2: {}}"
    ]


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "lab.yaml:1: it is empty; a lab file is a mapping with name, hosts and vesws; see examples/"),
        ("- 1\n", "lab.yaml:1: a lab file is a mapping with name, hosts and vesws; see examples/"),
        ("a:\n  b: [\n", "lab.yaml:3: not YAML: expected the node content, but found '<stream end>'"),
        ("a: &a [*a]\n", "lab.yaml:1: a[0]: an alias that contains itself"),
        (
            "a: 1\n---\nb: 2\n",
            "lab.yaml:2: not YAML: but found another document (a second document begins: a file has one, so remove "
            "this ---)",
        ),
    ],
)
def test_text_that_is_no_lab_file_is_one_line(text: str, problem: str) -> None:
    assert problems(text) == [problem]


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


def mistakes(text: str) -> tuple[str, ...]:
    """Return the mistakes in a text, none where it is a lab file; anything but ConfigError is a bug."""
    try:
        parse_lab(text, "lab.yaml")
    except ConfigError as error:
        return error.problems
    return ()


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_lab_or_has_a_line_for_each_mistake(text: str) -> None:
    assert all(line.startswith("lab.yaml:") for line in mistakes(text))


SECTIONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "members", "h1", "kind", "netns"]), inner)
    ),
    max_leaves=12,
)


@given(st.sampled_from(["hosts", "vesws", "fabric", "em", "icrc"]), SECTIONS)
def test_any_section_is_right_or_has_a_line_for_each_mistake(key: str, section: object) -> None:
    text = json.dumps({"name": "x", "hosts": {"h1": {}}, key: section})
    assert all(line.startswith("lab.yaml:1: ") for line in mistakes(text))


def test_character_that_json_writes_as_a_pair_is_one_character_and_half_of_one_is_told() -> None:
    text = '{"name": "x", "hosts": {"h1": {}}, "vesws": [{"id": 2,\n"name": "%s", "members": ["h1"]}]}'
    (mistake,) = mistakes(text % r"\ud83d\ude00")
    assert "\U0001f600" in mistake
    assert mistakes(text % r"\ud83d") == ("lab.yaml:2: not text: half of a surrogate pair",)
    assert mistakes(text.replace('"name": "%s"', r'"\udc00": 1')) == (
        "lab.yaml:2: not text: half of a surrogate pair",
    )


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
