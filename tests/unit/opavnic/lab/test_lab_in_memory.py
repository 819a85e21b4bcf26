"""Labs without a kernel: the same fabric, agents and manager, hosts that answer pings in memory."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, NoReturn

import pytest

from hfi_sim.base.errors import NetdevError
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.vnics import avoid_taken_names, plan_interfaces
from opavnic.lab.run.demo import run_demo
from opavnic.lab.run.lab import Lab
from opavnic.world.host_backends.given import Interface, VnicKey
from opavnic.world.host_backends.memory_host import InMemoryHost


def model(**changes: Any) -> LabModel:
    return LabModel.model_validate(
        {
            "name": "x",
            "fabric": {"id": 0x301},
            "hosts": {"h1": {}, "h2": {}, "h3": {}},
            "vesws": [
                {"id": 2, "name": "blue", "pkey": 0x8002, "subnet": "10.9.2.0/24", "members": ["h1", "h2"]},
                {
                    "id": 3,
                    "name": "red",
                    "pkey": 0x8003,
                    "mtu": 9000,
                    "subnet": "10.9.3.0/24",
                    "members": ["h2", "h3"],
                },
            ],
            **changes,
        }
    )


def memory_lab(**changes: Any) -> Lab:
    return Lab(model(**changes), netdev="memory", timer_resolution_s=0.0)


async def ping(lab: Lab, host: str, vesw: str, target: str) -> int:
    responder = lab.interface(host, vesw).memory_host
    assert responder is not None
    return await responder.ping(IPv4Address(target), 2)


@pytest.mark.looptime
async def test_members_reach_each_other_and_nobody_else() -> None:
    async with memory_lab() as lab:
        assert await ping(lab, "h1", "blue", "10.9.2.2") == 2
        assert await ping(lab, "h3", "red", "10.9.3.2") == 2
        assert await ping(lab, "h1", "blue", "10.9.2.3") == 0
        assert await ping(lab, "h1", "blue", "10.9.3.2") == 0
        assert lab.world.fabric.balance() == {}


@pytest.mark.looptime
async def test_status_shows_what_the_manager_has_set() -> None:
    async with memory_lab() as lab:
        status = lab.status(counters=True)
        assert [host.name for host in status.hosts] == ["h1", "h2", "h3"]
        vnics = {(host.name, vnic.vesw): vnic for host, vnic in status.vnics()}
        assert {key: vnic.state for key, vnic in vnics.items()} == dict.fromkeys(
            [("h1", "blue"), ("h2", "blue"), ("h2", "red"), ("h3", "red")], "up"
        )
        assert vnics["h2", "red"].vport_num == 2
        assert vnics["h2", "red"].mtu == 9000
        assert vnics["h1", "blue"].mac == f"06:2c:00:{lab.world.hosts['h1'].port.lid:02x}:00:00"
        assert status.balance == {}
        assert status.counters["h1/blue ethtool"]["tx_errors"] == 0
        assert status.counters["h1:1 congestion"]["tx_stops"] == 0
        assert status.engine.as_json() == {
            "name": "python",
            "workers_wanted": "auto",
            "workers": [{"engine": "python", "vnics": 4, "links": 4}],
            "merging": {},
            "steered": 0,
            "missed": 0,
        }


@pytest.mark.looptime
async def test_stopped_lab_has_given_its_netdevs_back() -> None:
    lab = memory_lab()
    async with lab:
        netdevs = [interface.netdev for interface in lab.interfaces]
    assert all(netdev is not None and not netdev.is_up and netdev.ops is None for netdev in netdevs)
    assert (await lab.stop()).namespaces == []


@pytest.mark.looptime
async def test_external_manager_is_waited_for_by_nobody() -> None:
    async with memory_lab(em="external") as lab:
        assert [vnic.state for _, vnic in lab.status().vnics()] == ["not created by the EM"] * 4
        assert lab.world.mads == 0


class BrokenHost(InMemoryHost):
    """A host that has no netdev to give."""

    def _make(self, name: str) -> NoReturn:
        raise NetdevError(f"cannot make TAP {name}: no room")


@pytest.mark.looptime
async def test_host_that_refuses_a_netdev_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opavnic.lab.hosts.machine.InMemoryHost", BrokenHost)
    with pytest.raises(LabError, match=r"^h1: cannot make TAP blue: no room"):
        async with memory_lab():
            pass


@pytest.mark.looptime
async def test_unknown_names_are_answered_with_the_nearest() -> None:
    async with memory_lab() as lab:
        with pytest.raises(LabError, match=r'unknown host "h9" \(known: h1, h2, h3; nearest: h[123]\)'):
            lab.host("h9")
        with pytest.raises(LabError, match=r'host h1 has no VNIC in "red" \(known: blue\)'):
            lab.interface("h1", "red")
        with pytest.raises(LabError, match="hosts in memory run no programs"):
            lab.popen("h1", ["true"])


async def test_demo_in_memory_passes() -> None:
    result = await run_demo("memory", reason="a test")
    data = result.as_json()
    assert data["ok"] is True
    assert data["reason"] == "a test"
    assert all(count["ok"] and count["first"] > 0 for count in data["counts"])


async def test_demo_result_is_not_ok_when_a_count_disagrees() -> None:
    result = await run_demo("memory")
    assert result.ok
    result.counts[3].second += 1
    assert not result.ok


def test_vports_are_numbered_in_the_order_of_the_file() -> None:
    interfaces = plan_interfaces(model(), "h2")
    assert [(item.vport_num, item.name, str(item.address)) for item in interfaces] == [
        (1, "blue", "10.9.2.2/24"),
        (2, "red", "10.9.3.2/24"),
    ]
    host = InMemoryHost("h2", interfaces)
    assert [host.name_for(VnicKey("h2:1", number)) for number in (1, 2, 3)] == ["blue", "red", "vnic3"]
    assert [host.name_of(VnicKey("h2:1", number)) for number in (1, 2, 3)] == ["blue", "red", "vnic3"]


async def test_host_names_the_netdev_of_a_vport_and_keeps_it_where_the_file_asks_for_it() -> None:
    host = InMemoryHost("h2", plan_interfaces(model(), "h2"))
    red, beside = host.make_netdev("h2:1", 2), host.make_netdev("h2:1", 3)
    assert (red.name, beside.name) == ("red", "vnic3")
    assert [item.netdev for item in host.interfaces] == [None, red]
    await asyncio.sleep(0)  # it is set up once the caller is done with it
    assert host.interfaces[1].memory_host is not None
    assert host.trouble == [f"h2/red: cannot be set up (errno {errno.ENODEV})"]  # there is no adapter yet


@pytest.mark.parametrize(
    ("taken", "host", "name"),
    [
        ({"vnic200"}, "h2", "h2-vnic200"),
        ({"vnic200", "h2-vnic200"}, "h2", "vnic200-2"),
        ({"vnic200", "vnic200-2"}, "a-long-name-of-a-host", "vnic200-3"),
    ],
)
def test_vport_that_the_file_does_not_name_takes_a_free_name_and_keeps_it(
    taken: set[str], host: str, name: str
) -> None:
    (planned,) = [item for item in plan_interfaces(model(), "h2") if item.vesw.name == "red"]
    neighbour, owner, vport = InMemoryHost("h3", []), InMemoryHost(host, []), VnicKey("h2:1", 200)
    owner.beside = [neighbour]
    neighbour.interfaces = [replace(planned, name=other) for other in taken]
    assert (owner.name_for(vport), owner.name_of(vport)) == (name, name)
    assert len(name) <= 15
    neighbour.interfaces = []
    assert owner.name_for(vport) == name
    neighbour.interfaces = [replace(planned, name=name)]
    assert owner.name_for(vport) == "vnic200"


def interface_names(taken: set[str], lab: str = "x") -> list[str]:
    interfaces: list[Interface] = plan_interfaces(model(), "h2")
    avoid_taken_names(lab, interfaces, lambda name: name in taken)
    return [item.name for item in interfaces]


def test_name_taken_on_the_machine_gets_the_lab_or_the_host_in_front() -> None:
    assert interface_names(set()) == ["blue", "red"]
    assert interface_names({"blue"}) == ["x-blue", "red"]
    assert interface_names({"blue", "x-blue"}) == ["h2-blue", "red"]
    assert interface_names({"red"}, lab="a-long-lab-name") == ["blue", "h2-red"]
    with pytest.raises(
        LabError, match='an interface "blue" exists on this machine, and x-blue, h2-blue are taken'
    ):
        interface_names({"blue", "x-blue", "h2-blue"})
