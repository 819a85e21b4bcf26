"""A lossless fabric without credits stops the netdevs of its sender: nothing is lost, nothing grows without bound."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ms
from unit.opavnic.vnic.vnic_bench import netdev_of

FLOW = FlowControl(buffer_bytes=16384)


def frame_for(hosts: Hosts, number: int) -> bytes:
    return (
        bytes.fromhex(hosts["h2"].mac.replace(":", ""))
        + bytes(6)
        + b"\x88\xb5"
        + number.to_bytes(4, "big")
        + bytes(500)
    )


@pytest.mark.fabric_options(link=LinkConfig(flow=FLOW))
async def test_stalled_receiver_stops_the_netdev_of_the_sender_until_it_goes_on(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    netdev = netdev_of(hosts["h1"].vnic().adapter)
    got: list[int] = []
    hosts["h2"].vnic().on_frame = lambda frame: got.append(int.from_bytes(frame[14:18], "big"))
    hosts["h2"].stall()
    taken = [netdev.transmit(frame_for(hosts, number)) for number in range(3000)]
    await asyncio.sleep(ms(1))
    assert 900 < netdev.waiting <= 1024  # what the device holds; the rest was refused to the program
    accepted = taken.index(False)
    assert not any(taken[accepted:])
    link = hosts["h1"].port.link
    assert link is not None
    lanes = link.direction_from(hosts["h1"].port).lanes
    assert lanes is not None
    assert lanes.waiting[0] < 2 * FLOW.buffer_bytes

    hosts["h2"].resume()
    await asyncio.sleep(ms(5))
    assert got == list(range(accepted))
    assert netdev.waiting == 0
    assert netdev.transmit(frame_for(hosts, accepted))
    assert lab.fabric.drops() == {}


@pytest.mark.topology("single-switch", hosts=3)
@pytest.mark.fabric_options(
    link=LinkConfig(flow=FlowControl(vls=2, buffer_bytes=16384, sc_to_vl=(0,) * 31 + (1,)))
)
async def test_program_that_does_not_read_stops_who_sends_to_it_and_loses_nothing(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2, _ = hosts
    vnic = h2.vnic()
    got: list[int] = []
    vnic.on_frame = lambda frame: got.append(int.from_bytes(frame[14:18], "big"))
    vnic.stall()
    netdev = netdev_of(h1.vnic().adapter)
    for _ in range(4):  # so many that neither device nor buffers can hold them
        for number in range(1000):
            netdev.transmit(frame_for(hosts, number))
            await asyncio.sleep(1e-7)
    await asyncio.sleep(ms(1))
    assert h1.port.tx_stopped
    accepted = lab.fabric.attached["h1:1 vport 1 tx"].in_packets + netdev.waiting
    waiting = lab.fabric.attached["h2:1 vport 1 rx"].in_flight
    assert 0 < waiting * 544 <= 16384  # the buffer of one VL, no more
    assert h2.vnic().adapter.netdev.rx_stopped
    await asyncio.sleep(1)
    assert lab.fabric.attached["h2:1 vport 1 rx"].in_flight == waiting
    assert lab.fabric.balance() == {}

    vnic.resume()
    await asyncio.sleep(ms(5))
    assert len(got) == accepted
    assert got[:1000] == list(range(1000))
    assert lab.fabric.drops() == {}


@pytest.mark.fabric_options(link=LinkConfig(flow=FLOW))
async def test_virtual_switch_that_changes_while_a_reader_is_stalled_frees_the_buffers(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    h2.vnic().stall()
    adapter = h2.vnic().adapter
    for number in range(1040):  # the device holds 1024 of them
        h1.send(frame_for(hosts, number))
        await asyncio.sleep(ms(1) / 1000)
    assert adapter.rx.in_flight == 1040 - 1024
    lab.world.vnic_ports["h2:1"].crash()
    assert adapter.rx.in_flight == 0
    assert adapter.rx.drops == {Drop.VNIC_RX_STATE: 1040 - 1024}
    assert adapter.counters.rx_drop_state == 1040 - 1024
    await asyncio.sleep(ms(1))
    link = h2.port.link
    assert link is not None
    lanes = link.direction_from(link.far_end(h2.port)).lanes
    assert lanes is not None
    assert lanes.credits[0] == FLOW.buffer_bytes


async def test_program_that_does_not_read_loses_what_no_credits_hold_back(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    h2.vnic().stall()
    for number in range(1100):
        h1.send(frame_for(hosts, number))
    await asyncio.sleep(ms(1))
    assert lab.fabric.drops() == {"h2:1 vport 1 rx": {Drop.VNIC_RX_HOST: 1100 - 1024}}
    h2.vnic().resume()
    assert h2.vnic().frames == 1024


async def test_fabric_with_room_never_stops_a_netdev(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    netdev = netdev_of(hosts["h1"].vnic().adapter)
    assert all(netdev.transmit(frame_for(hosts, number)) for number in range(100))
    assert netdev.waiting == 0
    await asyncio.sleep(ms(1))
    assert hosts["h2"].vnic().frames == 100
