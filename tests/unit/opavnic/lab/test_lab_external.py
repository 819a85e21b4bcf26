"""A lab that leaves its fabric to a fabric manager; a built-in one on a host plays its part here, after `up`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hfi_sim.base.types import PortState
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.subnet_manager.administration.service import AdministrationService
from lab_in_memory import lab_in_memory, served
from opavnic.base.errors import OpavnicError
from opavnic.lab.change.live import LivingLab
from opavnic.lab.run.lab import Lab
from vema.em.desired.desired import EmConfig
from vema.em.desired.election import Role

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

LAB = """
name: managed
hosts: {h1: {}, h2: {may_manage: false}}
vesws: [{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}]
subnet_manager: external
"""


@contextmanager
def fabric_manager(lab: Lab, host: str, pkeys: tuple[int, ...] = (0x8002,)) -> Iterator[SubnetManager]:
    """Manage the fabric from a host."""
    world = lab.world
    manager = SubnetManager(world.fabric, world.hosts[host].port)
    manager.set_management(world.em_port, True)
    for port in world.fabric.hfi_ports():
        manager.set_pkeys(port, pkeys)
    administration = AdministrationService(manager, world.hosts[host].port, world.clock)
    manager.sweep()
    yield manager
    administration.stop()
    manager.stop()


def states(lab: Lab) -> list[str]:
    return [vnic.state for _, vnic in lab.status().vnics()]


async def test_lab_is_ready_without_a_fabric_manager_and_says_that_it_waits() -> None:
    said: list[str] = []
    lab = lab_in_memory(LAB)
    lab.progress = said.append
    async with lab:
        await asyncio.sleep(60.0)
        assert states(lab) == ["not created by the EM"] * 2
        status = lab.status()
        assert status.subnet_manager == "external"
        assert str(status.parts["fabric manager"]["state"]).startswith("awaited: start one on a host")
        assert any("fabric manager is awaited" in line for line in said)
        assert {port.state for port in lab.world.fabric.hfi_ports()} == {PortState.INIT}
        assert lab.world.mads == 0


async def test_ports_begin_with_the_partitions_of_hfi1() -> None:
    async with lab_in_memory(LAB) as lab:
        tables = {name: set(host.port.pkeys.entries) for name, host in lab.world.hosts.items()}
        assert 0xFFFF in tables["h1"]
        assert 0xFFFF not in tables["h2"]
        assert all(0x7FFF in table for table in tables.values())


async def test_vnics_come_up_once_somebody_manages_the_fabric() -> None:
    async with lab_in_memory(LAB) as lab:
        await asyncio.sleep(20.0)
        with fabric_manager(lab, "h1"):
            await asyncio.sleep(20.0)
            assert states(lab) == ["up"] * 2
            part = lab.status().parts["fabric manager"]
            assert (part["state"], part["host"]) == ("active", "h1")
            assert lab.manager is not None
            assert lab.manager.trouble == []
            assert await lab.manager.em.verify() == []


async def test_fabric_manager_that_has_ended_is_said() -> None:
    async with lab_in_memory(LAB) as lab:
        port = lab.world.hosts["h1"].port
        port.set_sm(True)  # as opafmd does: it opens issm0
        with fabric_manager(lab, "h1"):
            await asyncio.sleep(20.0)
            assert lab.status().parts["fabric manager"]["state"] == "active"
        port.set_sm(False)
        part = lab.status().parts["fabric manager"]
        assert part["state"] == "gone: the fabric manager on h1 has ended; what it has set stays"
        assert part["host"] == "h1"
        port.set_sm(True)
        assert lab.status().parts["fabric manager"]["state"] == "active", "it has been started again"


async def test_settings_that_contradict_the_lab_file_are_said() -> None:
    async with lab_in_memory(LAB) as lab:
        with fabric_manager(lab, "h1", pkeys=(0x8003,)) as manager:
            await asyncio.sleep(20.0)
            trouble = str(lab.status().parts["Ethernet Manager"]["trouble"])
            assert trouble.startswith("the fabric manager has no virtual fabric with P_Key 0x8002 (blue): ")
            assert "is not in the table" not in trouble, "one line says it of all members"
            (vnic,) = lab.status().hosts[0].vnics[:1]
            assert vnic.reason.startswith("pkey 0x8002 is not in the table of h1:1 (")
            assert lab.manager is not None
            differences = {difference.what for difference in await lab.manager.em.verify()}
            assert "the group of virtual switch 'blue' (2) has 0 members, 2 are wanted" in differences
            for port in lab.world.fabric.hfi_ports():
                manager.set_pkeys(port, (0x8002,))
            await asyncio.sleep(20.0)
            assert lab.status().parts["Ethernet Manager"]["trouble"] == ""
            assert states(lab) == ["up"] * 2


async def test_topology_and_routes_are_those_of_the_tables(tmp_path: Path) -> None:
    async with lab_in_memory(LAB) as lab, served(lab.routes(), tmp_path) as session:
        for managed, path in ((False, ["h1:1", "sw0: no route"]), (True, ["h1:1", "sw0:3", "h2:1"])):
            with fabric_manager(lab, "h1") if managed else contextmanager(lambda: iter([None]))():
                async with session.get("/routes?from=h1&to=h2") as answer:
                    assert (await answer.json())["paths"] == [path]
                async with session.get("/topology") as answer:
                    topology = await answer.json()
                    assert (topology["engine"], topology["cycle"]) == ("of the fabric manager", [])


async def test_election_in_an_em_file_is_taken() -> None:
    async with lab_in_memory(LAB) as lab:
        assert lab.manager is not None
        core = lab.manager.em.core
        assert core is not None
        config = EmConfig.model_validate({**core.config.model_dump(), "election": {"priority": 3}})
        lab.manager.em.apply(config)
        assert lab.manager.em.role is Role.STANDBY, "no fabric manager has spoken: no other EM can be heard"


async def test_member_that_joins_is_told_to_the_manager_and_keeps_the_partitions_that_it_was_given() -> None:
    async with lab_in_memory(LAB.replace("hosts: {", "hosts: {h3: {}, ")) as lab:
        with fabric_manager(lab, "h1"):
            await asyncio.sleep(20.0)
            live = LivingLab(lab)
            tables = [port.pkeys for port in lab.world.fabric.hfi_ports()]
            await live.join("blue", ["h3"])
            await live.leave("blue", ["h2"])
            await asyncio.sleep(20.0)
            assert states(lab) == ["up"] * 2
            assert [port.pkeys for port in lab.world.fabric.hfi_ports()] == tables


async def test_world_says_who_gives_partitions() -> None:
    async with lab_in_memory(LAB) as lab:
        with pytest.raises(OpavnicError, match="its fabric manager gives LIDs, P_Keys and routes"):
            lab.world.add_pkey(lab.world.hosts["h1"].port, 0x8009)
