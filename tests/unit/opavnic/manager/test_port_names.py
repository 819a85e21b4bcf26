"""What ports are called by the descriptions of their nodes, and what is said of members that are not there."""

from __future__ import annotations

import pytest

from hfi_sim.management.sa.picture import SaPort
from opavnic.manager.port_names import DescribedPorts
from vema.em.desired.desired import parse_config
from vema.em.desired.ports import PortFacts, Roster


def port(guid: int, description: str, number: int = 1, *, ethernet: bool = True) -> SaPort:
    return SaPort(guid, guid, number, description, ethernet, frozenset(), bytes(32), bytes(32), ())


def seen(*ports: SaPort) -> dict[int, SaPort]:
    return {one.guid: one for one in ports}


def roster(names: DescribedPorts, ports: dict[int, SaPort]) -> Roster:
    facts = [
        PortFacts(n.guid, n.guid, n.name, n.hfi, n.host, n.opa_port_num, aliases=n.aliases)
        for n in names.of(ports)
    ]
    return Roster(facts, given=True, open_ended=True)


@pytest.mark.parametrize(
    ("member", "guid"),
    [
        ("n1", 1),
        ("n1:1", 1),
        ("n1 hfi1_0", 1),
        ("n1 hfi1_0:1", 1),
        ("n1:2", 2),
        ("n1.2", 3),
        ("n1.2:1", 3),
        ("n1 hfi1_1", 3),
        ("login.site.org", 4),
        ("0x0000000000000004", 4),
        ("0x4", 4),
        ("storage unit 7", 5),
        ("storage", 5),
    ],
)
def test_port_is_known_by_host_hfi_description_and_guid(member: str, guid: int) -> None:
    ports = seen(
        port(1, "n1 hfi1_0"),
        port(2, "n1 hfi1_0", 2),
        port(3, "n1 hfi1_1"),
        port(4, "login.site.org hfi1_0"),
        port(5, "storage unit 7"),
    )
    found = roster(DescribedPorts(), ports).find(member)
    assert found is not None
    assert found.guid == guid


def config(*members: str) -> dict[str, object]:
    return {"vesws": [{"id": 2, "name": "blue", "members": list(members)}]}


def test_members_that_are_not_there_are_said_once_each_with_what_would_be_right() -> None:
    ports = seen(
        port(1, "node1 hfi1_0"),
        port(2, "node2 hfi1_0", ethernet=False),
        port(3, "localhost hfi1_0"),
        port(4, "localhost hfi1_0"),
    )
    names = DescribedPorts()
    known = roster(names, ports)
    said = names.trouble(parse_config(config("node1", "node2", "localhost", "nod1", "node9")))
    assert len(said) == 5
    assert "2 ports describe themselves as localhost:1" in said[0]
    assert said[1] == (
        "node2 (member of blue): its port node2:1 does not announce Ethernet: is opa_vnic loaded there?"
    )
    assert "localhost (member of blue): 2 ports are called so" in said[2]
    assert "0x0000000000000003, 0x0000000000000004" in said[2]
    assert said[3].startswith("nod1 (member of blue): no port in service is called so")
    assert "node1" in said[3]
    assert known.find("localhost") is None
    twin = known.find("0x0000000000000003")
    assert twin is not None
    assert twin.guid == 3


def test_ports_that_only_leaves_out_are_not_there() -> None:
    ports = seen(port(1, "node1 hfi1_0"), port(2, "node2 hfi1_0"))
    names = DescribedPorts(["node1"])
    assert [name.guid for name in names.of(ports)] == [1]
    wanted = parse_config(config("node1", "node2"))
    assert names.trouble(wanted) == []
    assert names.left_out(wanted) == ["node2"]


def test_port_without_a_description_is_known_by_its_guid() -> None:
    names = DescribedPorts()
    (name,) = names.of(seen(port(7, "\0 ")))
    assert name.host == "0x0000000000000007"
    assert names.trouble(parse_config(config("0x0000000000000007"))) == []


def test_nothing_is_missed_before_the_fabric_was_read() -> None:
    assert DescribedPorts().trouble(parse_config(config("node1"))) == []


def test_host_of_only_that_no_port_is_called_is_said_with_the_nearest_name() -> None:
    names = DescribedPorts(["n2", "node3"])
    names.of(seen(port(1, "node1 hfi1_0"), port(2, "n2 hfi1_0")))
    (line,) = names.only_unknown()
    assert line.startswith("--only node3: no port in service is called so")
    assert "nearest: node1" in line
