"""Guests and uplinks in lab files: what is refused, with line and nearest name, and what follows for the EM."""

from __future__ import annotations

import pytest

from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab

HEAD = """name: x
hosts: {gw: {netns: host}, h1: {}, vm: {tap: vm0}, web: {container: web}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [gw, h1, web]}
  - {id: 3, name: red, subnet: 10.9.3.0/24, members: [h1, vm]}
  - {id: 4, name: bare, members: [gw, h1]}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, "lab.yaml")
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("uplinks", "told"),
    [
        (
            "w: {vesw: blue, host: gw}",
            ":4: uplinks.w: should be one of bridge: NAME, nic: NAME and nat: true, not none",
        ),
        (
            "w: {vesw: blue, host: gw, bridge: b, nic: e}",
            ":4: uplinks.w: should be one of bridge: NAME, nic: NAME and",
        ),
        (
            "w: {vesw: bleu, host: gw, bridge: b}",
            ':4: uplinks.w.vesw: unknown virtual switch "bleu" (known: blue, red',
        ),
        (
            "w: {vesw: blue, host: gv, bridge: b}",
            ':4: uplinks.w.host: unknown host "gv" (known: gw, h1, vm, web; near',
        ),
        (
            "w: {vesw: red, host: gw, bridge: b}",
            ':4: uplinks.w.host: host "gw" is not a member of "red": add it there',
        ),
        (
            "w: {vesw: blue, host: gw, nat: true}",
            ':4: uplinks.w.host: host "gw" is not one of the lab\'s own: nat nee',
        ),
        (
            "w: {vesw: bare, host: h1, nat: true}",
            ':4: uplinks.w.nat: "bare" has no IPv4 subnet: nat translates IPv4',
        ),
        (
            "w: {vesw: red, host: vm, bridge: b}",
            ':4: uplinks.w.host: host "vm" is a virtual machine: its VNIC leads to',
        ),
        (
            "w: {vesw: blue, host: gw, bridge: a-name-of-17-char}",
            ':4: uplinks.w.bridge: name "a-name-of-17-char" has',
        ),
        (
            "w: {vesw: blue, host: gw, bridge: b, static: [525400]}",
            ":4: uplinks.w.static[0]: 525400 is no text: write",
        ),
        (
            'w: {vesw: blue, host: gw, bridge: b, static: ["01:00:5e:00:00:01"]}',
            ":4: uplinks.w.static[0]: 01:00:5e:00:00:01 is not the address of one station",
        ),
        (
            "w: {vesw: blue, host: gw, bridge: b}\n  x: {vesw: bare, host: gw, bridge: b}",
            ':5: uplinks.x.bridge: uplink "w" already leads to b: that would be a loop',
        ),
        (
            "w: {vesw: blue, host: gw, bridge: b}\n  x: {vesw: blue, host: gw, bridge: c}",
            ':5: uplinks.x: the VNIC of host "gw" in "blue" leads out by uplink "w" already',
        ),
        (
            "w: {vesw: blue, host: gw, brigde: b}",
            ':4: uplinks.w.brigde: unknown key "brigde" (known: vesw, host, bridg',
        ),
    ],
)
def test_wrong_uplink_is_told_with_line_and_what_would_be_right(uplinks: str, told: str) -> None:
    found = problems(HEAD.replace("vesws:", f"uplinks:\n  {uplinks}\nvesws:"))
    assert any(problem.startswith(f"lab.yaml{told}") for problem in found), found


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("{pid: 0}", "hosts.h2.pid: should be greater than or equal to 1, not 0"),
        (
            "{pid: 7, container: web}",
            "hosts.h2: pid and container: a host is in one place; write one of them",
        ),
        ("{netns: host, tap: vm1}", "hosts.h2: netns and tap: a host is in one place; write one of them"),
        ("{engine: docker}", "hosts.h2: engine is for containers: write container: NAME too"),
        ("{container: --help}", 'hosts.h2.container: "--help" is not the name or id of a container'),
        ("{container: c, engine: lxc}", "hosts.h2.engine: should be 'podman' or 'docker', not 'lxc'"),
        ("{netns: ../x}", 'hosts.h2.netns: "../x" should be own, host, the name of a network namespace'),
        (
            "{tap: {name: vm1, owner: a b}}",
            'hosts.h2.tap.owner: "a b" is not the name of a user, or a user id',
        ),
        ("{tap: a-name-of-17-char}", 'hosts.h2.tap: name "a-name-of-17-char" has 17 characters'),
        ("{tap: vm1}", 'hosts.h2.tap: host "h2" is in 0 virtual switches; a virtual machine is in one'),
    ],
)
def test_wrong_guest_is_told_with_line_and_what_would_be_right(host: str, told: str) -> None:
    found = problems(HEAD.replace("h1: {}", f"h1: {{}}, h2: {host}"))
    assert any(problem.startswith(f"lab.yaml:2: {told}") for problem in found), found


def test_tap_of_two_virtual_machines_is_refused() -> None:
    found = problems(HEAD.replace("web: {container: web}", "vm2: {tap: vm0}"))
    assert 'lab.yaml:2: hosts.vm2.tap: vm0 is the TAP of host "vm" already' in found


def test_app_on_a_guest_is_refused() -> None:
    found = problems(f"{HEAD}apps: [{{kind: x, host: web}}]\n")
    assert any('host "web" is a guest: an app needs a host of its own' in problem for problem in found), found


def test_switch_with_an_uplink_has_mac_tables_and_sends_the_unknown_there() -> None:
    model = parse_lab(f"{HEAD}uplinks: {{w: {{vesw: blue, host: gw, bridge: b}}}}\n", "lab.yaml")
    blue, red, bare = em_config(model).vesws
    assert (blue.mac, blue.default_ports) == ("learn", ["gw"])
    assert (red.mac, red.default_ports) == ("learn", [])
    assert (bare.mac, bare.default_ports) == (None, [])


def test_uplink_with_the_drivers_behaviour_changes_nothing_for_the_em() -> None:
    model = parse_lab(f"{HEAD}uplinks: {{w: {{vesw: blue, host: gw, bridge: b, mac: driver}}}}\n", "lab.yaml")
    assert em_config(model).vesws[0].mac is None


def test_port_of_a_bridge_has_no_address_but_a_virtual_machine_has_one_kept() -> None:
    model = parse_lab(f"{HEAD}uplinks: {{w: {{vesw: blue, host: gw, bridge: b}}}}\n", "lab.yaml")
    blue, red, bare = model.vesws
    assert model.address(blue, "gw") is None
    assert str(model.address(blue, "h1")) == "10.9.2.2/24"
    assert model.address(red, "vm") is None
    assert list(map(str, model.ips_of(red, "vm"))) == ["10.9.3.3/24"]
    assert model.address(bare, "h1") is None
