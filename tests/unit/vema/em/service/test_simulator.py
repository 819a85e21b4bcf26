"""The MAD simulator: in the place of an EM, and in the place of an agent."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.errors import MadTimeoutError
from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Method
from unit.vema.em.em_fabric import EmFabric, config
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.base.errors import AgentError
from vema.base.types import MadStatus, TrapOpcode
from vema.em.service.simulator import MadSimulator

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def test_simulator_expects_refusals() -> None:
    fabric = EmFabric(1)
    lid = fabric.port(1).lid
    sim = MadSimulator(fabric.em_ports[0].mad)
    await sim.expect_status(MadStatus.INVALID, Method.GET, lid, AttrId.IFACE_UCAST_MACS, vport=9)
    await sim.expect_status(MadStatus.UNSUPPORTED, Method.SET, lid, 0x99)
    with pytest.raises(AssertionError, match="was not refused"):
        await sim.expect_status(MadStatus.INVALID, Method.GET, lid, AttrId.CLASS_PORT_INFO)
    with pytest.raises(AssertionError, match="no trap within 5 s"):
        await sim.expect_trap()
    sim.close()


async def test_simulator_searches_traps_and_leaves_the_others() -> None:
    fabric = EmFabric(1)
    lid, em = fabric.port(1).lid, fabric.em_ports[0]
    service = fabric.em()
    service.start(config())
    assert await service.wait_converged()
    service.stop()
    sim = MadSimulator(em.mad)
    await sim.become_sink(lid, em.lid)
    fabric.netdev(1).stop()
    await asyncio.sleep(2)  # a vport sends five traps in about a second
    fabric.netdev(1).open()
    fabric.netdev(1).set_mac(MacAddr(b"\x02\0\0\0\0\x09"))
    await sim.expect_trap(opcode=TrapOpcode.UCAST_MACS_CHANGED, lid=lid)  # that of the link came first
    with pytest.raises(
        AssertionError, match=r"no trap with opcode 99 within 5 s; \d+ others? came, the last: trap with"
    ):
        await sim.expect_trap(opcode=99)
    await sim.expect_trap(opcode=TrapOpcode.ETH_LINK_STATUS_CHANGED)
    sim.close()


async def test_simulator_as_an_agent_replies_as_scripted() -> None:
    fabric = EmFabric(1, ems=2)
    em, agent = (MadSimulator(fabric.em_ports[0].mad), MadSimulator(fabric.em_ports[1].mad, as_agent=True))
    lid = fabric.em_ports[1].lid
    agent.reply(AttrId.CLASS_PORT_INFO, ClassPortInfo(trap_lid=7), 0x1C, None, ClassPortInfo(trap_lid=9))
    assert (await em.get(lid, AttrId.CLASS_PORT_INFO)).trap_lid == 7
    with pytest.raises(AgentError):
        await em.get(lid, AttrId.CLASS_PORT_INFO)
    asked = asyncio.ensure_future(em.get(lid, AttrId.CLASS_PORT_INFO))
    assert (await asked).trap_lid == 9  # the unanswered one was sent again
    assert len(agent.requests) == 4
    agent.reply(AttrId.CLASS_PORT_INFO, None)
    with pytest.raises(MadTimeoutError):
        await em.get(lid, AttrId.CLASS_PORT_INFO)
    em.close()
    agent.close()


async def test_simulator_as_an_agent_expects_requests_and_says_what_came_instead() -> None:
    fabric = EmFabric(1, ems=2)
    em, agent = (MadSimulator(fabric.em_ports[0].mad), MadSimulator(fabric.em_ports[1].mad, as_agent=True))
    port = fabric.em_ports[1]
    agent.reply(AttrId.CLASS_PORT_INFO, ClassPortInfo(), method=Method.GET)
    agent.reply(AttrId.CLASS_PORT_INFO, ClassPortInfo(), method=Method.SET)
    await em.get(port, AttrId.CLASS_PORT_INFO)  # whatever has a LID can be asked
    await em.become_sink(port, fabric.em_ports[0])
    sink = await agent.expect_request(AttrId.CLASS_PORT_INFO, method=Method.SET)
    assert sink.trap_lid == fabric.em_ports[0].lid
    waiting = asyncio.ensure_future(agent.expect_request(AttrId.VESW_PORT_INFO, vport=3))
    await em.expect_status(MadStatus.UNSUPPORTED, Method.GET, port, AttrId.VESW_PORT_INFO, vport=2)
    await em.expect_status(MadStatus.UNSUPPORTED, Method.GET, port, AttrId.VESW_PORT_INFO, vport=3)
    assert (await waiting).vesw_id == 0
    await em.expect_status(MadStatus.UNSUPPORTED, Method.GET, port, 0x99)
    message = r"no Set of MAC_ENTRIES within 5 s; came instead: Get of attribute 0x0099"
    with pytest.raises(AssertionError, match=message):
        await agent.expect_request(AttrId.MAC_ENTRIES, method=Method.SET)
    em.close()
    agent.close()
