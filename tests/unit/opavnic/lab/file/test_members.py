"""Members of virtual switches by host, HFI, port and GUID: what they mean."""

from __future__ import annotations

import pytest

from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.topology import port_guids
from opavnic.lab.hosts.vnics import plan_interfaces
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
    every = lab("all")
    known = {name: guid for guid, name in port_guids(every.fabric, every.hosts, [EM_NODE]).items()}
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


def test_name_of_14_characters_and_two_addresses_are_enough_for_hosts_with_a_vnic_each() -> None:
    assert ports(lab("[h1, h2]", name="fourteen-chars", subnet="10.9.2.0/30")) == ["h1:1", "h2:1"]
