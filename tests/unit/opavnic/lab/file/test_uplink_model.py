"""Guests and uplinks in lab files: what follows for the EM and for addresses."""

from __future__ import annotations

from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.loader import parse_lab

HEAD = """name: x
hosts: {gw: {netns: host}, h1: {}, vm: {tap: vm0}, web: {container: web}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [gw, h1, web]}
  - {id: 3, name: red, subnet: 10.9.3.0/24, members: [h1, vm]}
  - {id: 4, name: bare, members: [gw, h1]}
"""


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
