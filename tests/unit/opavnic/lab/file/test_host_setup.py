"""What a lab file says of hosts besides their place, and what it takes from the environment."""

from __future__ import annotations

import pytest

from hfi_sim.netdev.qdiscs import Qdisc, QdiscClass
from opavnic.lab.file.errors import ConfigError
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


def problems(text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, "lab.yaml", environment)
    return list(caught.value.problems)


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


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("{number: 2, addresses: {blue: 10.9.2.3/24}}", 'addresses.blue: 10.9.2.3 is already that of host "h2"'),
        ("{addresses: {blu: 10.9.2.1/24}}", 'addresses.blu: host "h1" is in no virtual switch "blu" '
         '(known: blue, red, lo; nearest: blue)'),
        ("{addresses: {blue: 10.9.2.1}}", "addresses.blue: '10.9.2.1' is not an address with its prefix length, "
         "such as 10.9.2.1/24"),
        ("{sysctls: {kernel.hostname: x}}", 'sysctls: "kernel.hostname" is not one of a network namespace: '
         "a host has those below net., such as net.ipv4.ip_forward"),
        ("{sysctls: {net.ipv4.ip_forward: yes}}", "sysctls.net.ipv4.ip_forward: True should be a number, or text in "
         "quotes"),
        ("{routes: 10.9.3.0/24}", "routes: route to 10.9.3.0/24: via which gateway, or dev which virtual switch?"),
        ("{routes: [10.9.3.0/24 vie 10.9.2.2]}", 'routes[0]: "10.9.3.0/24 vie 10.9.2.2": unknown word "vie" '
         "(known: via, dev, metric; nearest: via)"),
        ("{routes: [10.9.3.0/24 dev gold]}", 'routes[0]: host "h1" is in no virtual switch "gold" (known: blue, '
         "red)"),
        ("{exec: [{run: ls, vnic: gold}]}", 'exec[0].vnic: host "h1" is in no virtual switch "gold" (known: blue, '
         "red)"),
        ("{exec: [{a: b}]}", 'exec[0].a: unknown key "a" (known: run, vnic); keys "run" and "vnic" are missing'),
        ("{netns: host, exec: [true ls]}", "exec: only for hosts with a namespace or kernel of the lab's own: "
         "it would stay behind"),
        ("{exce: []}", 'exce: unknown key "exce" '),
        ("{qdiscs: {blue: tbf}}", "qdiscs.blue: 'tbf' is not a mapping such as {kind: tbf, rate: 10M}"),
        ("{qdiscs: {blue: {kind: tfb, rate: 1M}}}", 'qdiscs.blue.kind: "tfb" is no qdisc that a lab file can say '
         "(known: pfifo, bfifo, tbf, "),
        ("{qdiscs: {blue: {kind: tbf}}}", "qdiscs.blue: tbf needs rate"),
        ("{qdiscs: {blue: {kind: tbf, rate: 100}}}", "qdiscs.blue.rate: 100 has no unit; a rate has one: 100G, "),
        ("{qdiscs: {blue: {kind: tbf, rate: 1M, limit: 5}}}", 'qdiscs.blue: tbf has no key "limit" (known: rate, '
         "burst, latency)"),
        ("{qdiscs: {blue: {kind: sfq, limit: 5}}}", 'qdiscs.blue: sfq has no key "limit" (it has none)'),
        ("{qdiscs: {blue: {kind: pfifo, limit: 64K}}}", "qdiscs.blue: '64K' is not a whole number"),
        ("{qdiscs: {blue: {kind: pfifo, limit: 0}}}", "qdiscs.blue: limit 0 is not within 1 to 4294967295"),
        ("{qdiscs: {blue: {kind: htb}}}", "qdiscs.blue: htb needs classes"),
        ("{qdiscs: {blue: {kind: htb, default: 3, classes: {2: {rate: 1M}}}}}", "qdiscs.blue: default 3 is not among "
         "its classes: 2"),
        ("{qdiscs: {blue: {kind: htb, classes: {xy: {rate: 1M}}}}}", "qdiscs.blue.classes.xy: 'xy' is not the number "
         "of a class, 1 to ffff: 10 is what tc calls 1:10"),
        ("{qdiscs: {blue: {kind: htb, classes: {2: {}}}}}", "qdiscs.blue: class 2 needs rate"),
        ("{qdiscs: {blue: {kind: htb, classes: {2: {rate: 2M, ceil: 1M}}}}}", "qdiscs.blue: class 2: ceil is below "),
        ("{qdiscs: {blue: {kind: prio, classes: {4: {qdisc: {kind: sfq}}}}}}", "qdiscs.blue: class 4 is not one of "
         "its 3 bands"),
        ("{qdiscs: {blue: {kind: prio, classes: {1: {rate: 1M}}}}}", "qdiscs.blue: class 1: of a band of prio, "),
        ("{qdiscs: {gold: {kind: sfq}}}", 'qdiscs.gold: host "h1" is in no virtual switch "gold" (known: blue, red)'),
        ("{netns: host, qdiscs: {blue: {kind: sfq}}}", "qdiscs: only for hosts with a namespace or kernel of the "),
    ],
)  # fmt: skip
def test_mistake_in_the_setup_of_a_host_is_said_with_its_place(keys: str, said: str) -> None:
    (line,) = problems(with_host(keys))
    assert line.startswith(f"lab.yaml:3: hosts.h1.{said}")


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


def test_number_that_another_host_has_is_refused() -> None:
    (line,) = problems(with_host("{number: 5}").replace("h2: {}", "h2: {number: 5}"))
    assert line == 'lab.yaml:4: hosts.h2.number: 5 is already that of host "h1"'


def test_subnet_too_small_for_the_highest_number_is_refused() -> None:
    line = problems(with_host("{number: 254}"))[0]
    where = "lab.yaml:6: vesws[0].subnet[0]"
    assert line == f'{where}: 10.9.2.0/24 has too few addresses for host "h2", whose number is 255'


def test_variables_come_from_the_environment_or_their_default() -> None:
    text = "name: ${LAB}\nhosts: ${HOSTS:-3}\nseed: ${SEED:-5}\n"
    model = parse_lab(text, "lab.yaml", {"LAB": "mine", "SEED": "", "HOSTS": "2"})
    assert (model.name, list(model.hosts), model.seed) == ("mine", ["h1", "h2"], 5)


def test_variable_without_a_value_is_the_only_mistake_that_is_told() -> None:
    assert problems("name: lab\nhosts: ${N}\n") == [
        "lab.yaml:2: hosts: N is not set in the environment: set it, or write ${N:-DEFAULT}; for the text itself, $${N}"
    ]


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
