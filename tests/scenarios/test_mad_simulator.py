"""The test in the place of the Ethernet Manager, and in the place of an agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.base.errors import MadTimeoutError
from hfi_sim.wire.mad.header import Method
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioError, ScenarioSimulator
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.base.types import ConfigState, MadStatus, TrapOpcode


async def test_smoke_virtual_switch_by_hand_carries_frames(
    hosts: Hosts, mad_simulator: ScenarioSimulator
) -> None:
    h1, h2 = hosts
    everybody = mad_simulator.group(hosts)
    for host in hosts:
        info = await mad_simulator.configure(host, vesw_id=2, u_mcast_dlid=everybody)
        assert (info.vesw_id, info.config_state) == (2, ConfigState.FORWARDING)
    assert await h1.ping(h2, count=2) == 2


async def test_traps_of_a_host_come_to_the_simulator_once_it_is_the_sink(
    hosts: Hosts, mad_simulator: ScenarioSimulator
) -> None:
    h1, h2 = hosts
    await mad_simulator.become_sink(h1, mad_simulator.port)
    for host in hosts:  # h2 tells nobody
        await mad_simulator.configure(host, vesw_id=2)
    for opcode in (
        TrapOpcode.ETH_LINK_STATUS_CHANGED,
        TrapOpcode.UCAST_MACS_CHANGED,
        TrapOpcode.MCAST_MACS_CHANGED,
    ):
        notice = await mad_simulator.expect_trap(opcode=opcode, lid=h1)
        assert (notice.vesw_id, notice.vport_num) == (2, 1)
    h1.vnic().set_mac("02:00:00:00:00:77")
    await mad_simulator.expect_trap(opcode=TrapOpcode.UCAST_MACS_CHANGED)
    h2.vnic().set_mac("02:00:00:00:00:78")
    macs = await mad_simulator.get(h1, AttrId.IFACE_UCAST_MACS, vport=1)
    assert macs.macs == (bytes.fromhex("020000000077"),)
    mad_simulator.expect_no_trap()


async def test_mac_table_by_hand_leads_frames_to_an_address_of_the_hosts_choice(
    hosts: Hosts, mad_simulator: ScenarioSimulator
) -> None:
    h1, h2 = hosts
    for host in hosts:
        await mad_simulator.configure(host, u_mcast_dlid=mad_simulator.group(hosts))
    h2.vnic().set_mac("02:00:00:00:00:77")
    frame = bytes.fromhex("020000000077") + bytes(6) + b"\x88\xb5" + bytes(46)
    h1.send(frame)  # no table, and an address that says nothing of a LID
    await h2.expect_none(frame)
    entry = MacEntry(bytes.fromhex("020000000077"), b"\xff" * 6, h2.lid << 8)
    table = MacEntries(offset=0, entries=(entry,), digest=5)
    await mad_simulator.set(h1, AttrId.MAC_ENTRIES, table, vport=1)
    h1.send(frame)
    await h2.expect(frame)
    assert (await mad_simulator.get(h1, AttrId.VESW_PORT_INFO, vport=1)).mac_tbl_digest == 5


async def test_agent_refuses_what_the_simulator_asks_wrongly(
    lab: Scenario, hosts: Hosts, mad_simulator: ScenarioSimulator
) -> None:
    h1 = hosts["h1"]
    await mad_simulator.expect_status(MadStatus.UNSUPPORTED, Method.SET, h1, AttrId.SUMMARY_COUNTERS)
    lab.faults.add("loss on h1 l4=mad")
    with pytest.raises(MadTimeoutError):
        await mad_simulator.get(h1, AttrId.CLASS_PORT_INFO)
    with pytest.raises(ScenarioError, match="uses mad_simulator instead"):
        _ = lab.em


async def test_manager_finds_a_simulated_agent_and_configures_it(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    agent = lab.stand_in(hosts["h2"])
    new = ClassPortInfo(base_version=0x80, class_version=0x80, cap_mask=0xFF01)
    told = replace(new, trap_lid=lab.world.em_port.lid)
    agent.reply(AttrId.CLASS_PORT_INFO, new)
    agent.reply(AttrId.CLASS_PORT_INFO, told, method=Method.SET)
    agent.reply(AttrId.VESW_PORT_INFO, MadStatus.INVALID)  # it has no vport, and will have none
    await agent.expect_request(AttrId.CLASS_PORT_INFO, method=Method.GET)
    wanted = await agent.expect_request(AttrId.CLASS_PORT_INFO, method=Method.SET)
    assert wanted == told


async def test_manager_leaves_an_agent_alone_that_refuses_everything_and_serves_the_others(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    agent = lab.stand_in(hosts["h2"])
    agent.reply(AttrId.CLASS_PORT_INFO, MadStatus.INVALID)
    await em.vesw("blue", members=hosts, wait=["h1"])
    assert hosts["h1"].vnic().adapter.is_passing
    isolated = [port.isolated for port in em.core.ports.values() if port.isolated]
    assert len(isolated) == 1
    assert "0x001c" in isolated[0]
    with pytest.raises(ScenarioError, match="h2"):
        hosts["h2"].send(bytes(60))


def test_simulated_agent_needs_a_running_scenario(lab: Scenario, hosts: Hosts) -> None:
    with pytest.raises(ScenarioError, match="agents run only in coroutine tests"):
        lab.stand_in(hosts["h1"])
