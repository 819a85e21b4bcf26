"""Members of virtual switches by host, HFI, port and GUID: what they mean, and what is wrong with them."""

from __future__ import annotations

import pytest

from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.topology import port_guids
from opavnic.lab.hosts.interfaces import plan_interfaces
from opavnic.world.em_node import EM_NODE

LAB = """name: rails
hosts: {{h1: {{hfis: 2}}, h2: {{ports: 2}}}}
vesws:
  - {{id: 2, name: {name}, pkey: 0x8002, subnet: {subnet}, members: {members}}}
"""


def lab(members: str, *, name: str = "blue", subnet: str = "10.9.2.0/24") -> LabModel:
    return parse_lab(LAB.format(members=members, name=name, subnet=subnet), "lab.yaml")


def ports(model: LabModel) -> list[str]:
    return [port.name for port in model.members_of(model.vesws[0])]


def guids() -> dict[str, int]:
    model = lab("all")
    return {name: guid for guid, name in port_guids(model.fabric, model.hosts, [EM_NODE]).items()}


@pytest.mark.parametrize(
    ("members", "meant"),
    [
        ("all", ["h1:1", "h2:1"]),
        ("[h1, h2]", ["h1:1", "h2:1"]),
        ("[h1.2, h2]", ["h1.2:1", "h2:1"]),
        ('["h1.2:1", "h2:2", h1]', ["h1.2:1", "h2:2", "h1:1"]),
        ('["h[1-2]:1", h1.2]', ["h1:1", "h2:1", "h1.2:1"]),
    ],
)
def test_members_are_ports_by_any_of_their_names(members: str, meant: list[str]) -> None:
    assert ports(lab(members)) == meant


def test_members_by_guid_are_read_with_and_without_quotes_and_told_to_the_em_by_name() -> None:
    known = guids()
    model = lab(f'[0x{known["h1.2:1"]:016X}, "{known["h2:2"]:#x}"]')
    assert ports(model) == ["h1.2:1", "h2:2"]
    assert em_config(model).vesws[0].members == ["h1.2", "h2:2"]


def test_second_vnic_of_a_host_has_its_own_vport_name_and_address() -> None:
    model = lab('[h1, h2, h1.2, "h2:2"]')
    planned = [plan_interfaces(model, host) for host in model.hosts]
    assert [
        [(str(one), one.name, one.port, one.vport_num, str(one.address)) for one in its] for its in planned
    ] == [
        [("h1/blue", "blue", "h1:1", 1, "10.9.2.1/24"), ("h1/blue-2", "blue-2", "h1.2:1", 1, "10.9.2.3/24")],
        [("h2/blue", "blue", "h2:1", 1, "10.9.2.2/24"), ("h2/blue-2", "blue-2", "h2:2", 1, "10.9.2.4/24")],
    ]


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ("[h1.3]", r'members\[0\]: unknown host "h1.3" \(host "h1" has 2 ports: h1, h1.2; its key hfis'),
        ('[h1, "h1:1"]', r'members\[1\]: host "h1:1" appears twice: it is the port that "h1" means'),
        ('["0x1175010100ffff"]', r"members\[0\]: no port of a host has the GUID 0x1175010100ffff"),
    ],
)
def test_members_that_mean_no_port_or_one_twice_are_refused(members: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        lab(members)


def test_member_by_guid_and_by_name_is_refused_as_the_same_port() -> None:
    with pytest.raises(
        ConfigError, match=r'members\[1\]: "0x\w+" appears twice: it is the port that "h2" means'
    ):
        lab(f'[h2, "{guids()["h2:1"]:#x}"]')


@pytest.mark.parametrize(
    ("name", "subnet", "problem"),
    [
        (
            "fourteen-chars",
            "10.9.2.0/24",
            r'name: "fourteen-chars" is too long for a host with 2 VNICs there',
        ),
        ("blue", "10.9.2.0/30", r"subnet: 10.9.2.0/30 has too few addresses for 2 VNICs of each host"),
    ],
)
def test_second_vnic_needs_room_for_its_name_and_address(name: str, subnet: str, problem: str) -> None:
    lab("[h1, h2]", name=name, subnet=subnet)
    with pytest.raises(ConfigError, match=problem):
        lab("[h1, h1.2]", name=name, subnet=subnet)


def test_member_whose_own_port_has_no_cable_is_refused_although_its_host_is_reached() -> None:
    text = """name: x
fabric: {topology: {kind: explicit, switches: {sw0: {}}, links: [[h1, "sw0:1"]]}}
hosts: {h1: {hfis: 2}}
vesws: [{id: 2, name: blue, members: [h1, h1.2]}]
"""
    with pytest.raises(
        ConfigError, match=r'members\[1\]: host "h1.2" cannot be reached .*: no cable is at h1.2:1'
    ):
        parse_lab(text, "lab.yaml")
