"""A lossless fabric without credits stops the netdevs of its sender: nothing is lost, nothing grows without bound."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.lanes import FlowControl
from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ms

FLOW = FlowControl(buffer_bytes=16384)


def frame_for(hosts: Hosts, number: int) -> bytes:
    return (
        bytes.fromhex(hosts["h2"].mac.replace(":", ""))
        + bytes(6)
        + b"\x88\xb5"
        + number.to_bytes(4, "big")
        + bytes(500)
    )


@pytest.mark.fabric_options(flow=FLOW)
async def test_stalled_receiver_stops_the_netdev_of_the_sender_until_it_goes_on(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    netdev = hosts["h1"].vnic().adapter.netdev
    assert isinstance(netdev, MemoryNetdev)
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
    assert lanes.waiting(0) < 2 * FLOW.buffer_bytes

    hosts["h2"].resume()
    await asyncio.sleep(ms(5))
    assert got == list(range(accepted))
    assert netdev.waiting == 0
    assert netdev.transmit(frame_for(hosts, accepted))
    assert lab.fabric.drops() == {}


async def test_fabric_with_room_never_stops_a_netdev(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    netdev = hosts["h1"].vnic().adapter.netdev
    assert isinstance(netdev, MemoryNetdev)
    assert all(netdev.transmit(frame_for(hosts, number)) for number in range(100))
    assert netdev.waiting == 0
    await asyncio.sleep(ms(1))
    assert hosts["h2"].vnic().frames == 100
