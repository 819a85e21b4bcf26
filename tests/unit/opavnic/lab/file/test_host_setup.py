"""What a lab file says of hosts besides their place, and what it takes from the environment."""

from __future__ import annotations

import pytest

from hfi_sim.netdev.qdiscs import Qdisc, QdiscClass
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.yaml_source import with_variables, without_variables
from vema.base.sections import AS_WRITTEN

FILE = """\
name: setup
hosts:
  h1: {HOST}
  h2: {}
vesws:
  - {id: 2, name: blue, subnet: [10.9.2.0/24, "fd00:2::/64"], members: all}
  - {id: 3, name: red, subnet: 10.9.3.0/24, members: [h2]}
"""


def with_host(keys: str) -> str:
    return FILE.replace("{HOST}", keys)


def addresses(text: str) -> dict[str, list[str]]:
    model = parse_lab(text, "lab.yaml", {})
    return {
        f"{host}/{vesw.name}": [str(one.ip) for one in model.addresses(vesw, host)]
        for vesw in model.vesws
        for host in vesw.members
    }


def test_each_subnet_of_a_switch_has_an_address_for_every_member() -> None:
    assert addresses(with_host("{}")) == {
        "h1/blue": ["10.9.2.1", "fd00:2::1"],
        "h2/blue": ["10.9.2.2", "fd00:2::2"],
        "h2/red": ["10.9.3.2"],
    }


def test_host_after_one_with_a_number_counts_on_from_there() -> None:
    assert addresses(with_host("{number: 7}"))["h2/blue"] == ["10.9.2.8", "fd00:2::8"]


def test_addresses_of_a_host_replace_those_by_its_number() -> None:
    found = addresses(with_host("{addresses: {blue: 10.9.2.77/24}}"))
    assert found["h1/blue"] == ["10.9.2.77"]
    assert addresses(with_host("{addresses: {blue: []}}"))["h1/blue"] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.9.3.0/24 via 10.9.2.2", "10.9.3.0/24 via 10.9.2.2"),
        ("default via fd00:2::2 dev blue metric 7", "default via fd00:2::2 dev blue metric 7"),
        ("10.9.0.0/16 via 10.9.2.2 via 10.9.2.3", "10.9.0.0/16 via 10.9.2.2 via 10.9.2.3"),
        ("{to: 10.8.0.0/16, dev: blue}", "10.8.0.0/16 dev blue"),
    ],
)
def test_route_is_written_as_ip_route_has_it_or_by_keys(text: str, shown: str) -> None:
    model = parse_lab(with_host(f"{{routes: [{text}]}}"), "lab.yaml", {})
    assert [str(route) for route in model.hosts["h1"].routes] == [shown]


def test_qdisc_is_told_the_kernel_with_its_defaults_and_written_as_it_was_read() -> None:
    said = (
        "{blue: {kind: htb, default: a, classes: {A: {rate: 8M, qdisc: {kind: tbf, rate: 80M, latency: 1ms}}}},"
        " red: {kind: prio, classes: {1: {qdisc: {kind: bfifo, limit: 64K}}}}}"
    )
    host = parse_lab(with_host(f"{{qdiscs: {said}}}"), "lab.yaml", {}).hosts["h1"]
    bucket = Qdisc("tbf", limit=10_000 + 65536, rate=10_000_000, burst=65536)
    assert host.qdiscs["blue"].told == Qdisc(
        "htb", default=10, classes=(QdiscClass(10, 1_000_000, 1_000_000, 1600, 0, bucket),)
    )
    leaf = Qdisc("bfifo", limit=65536)
    assert host.qdiscs["red"].told == Qdisc("prio", bands=3, classes=(QdiscClass(1, qdisc=leaf),))
    again = type(host).model_validate(host.model_dump(mode="json", exclude_unset=True, context=AS_WRITTEN))
    assert again.qdiscs == host.qdiscs


def test_variables_come_from_the_environment_or_their_default() -> None:
    text = "name: ${LAB}\nhosts: ${HOSTS:-3}\nseed: ${SEED:-5}\n"
    model = parse_lab(text, "lab.yaml", {"LAB": "mine", "SEED": "", "HOSTS": "2"})
    assert (model.name, list(model.hosts), model.seed) == ("mine", ["h1", "h2"], 5)


def test_shell_keeps_its_own_variables() -> None:
    command = "for i in $ONE ${1%.*} $${HOME} $(id); do :; done"
    model = parse_lab(with_host(f'{{exec: ["{command}"]}}'), "lab.yaml", {})
    assert model.hosts["h1"].exec == [command.replace("$$", "$")]


@pytest.mark.parametrize("text", ["${A}", "$${A}", "$$${A:-b} ${1} $A", "no"])
def test_text_that_is_saved_is_read_back_as_it_is(text: str) -> None:
    assert with_variables(without_variables(text), {}) == text


def test_value_from_the_environment_is_no_yaml() -> None:
    model = parse_lab('name: x\nhosts: {h1: {exec: ["${WORDS}"]}}\n', "lab.yaml", {"WORDS": "a: [b, ${C}]"})
    assert model.hosts["h1"].exec == ["a: [b, ${C}]"]


def test_free_keys_hold_what_anchors_refer_to() -> None:
    text = "x-one: &one {sysctls: {net.ipv4.ip_forward: 1}}\nname: x\nhosts: {h1: {<<: *one, number: 3}}\n"
    model = parse_lab(text, "lab.yaml", {})
    assert (model.hosts["h1"].sysctls, model.hosts["h1"].number) == ({"net.ipv4.ip_forward": "1"}, 3)
