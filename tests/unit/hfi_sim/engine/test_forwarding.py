"""Forwarding tables that lead in a circle end a packet, whatever the links are like."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.types import SC_MANAGEMENT
from hfi_sim.engine.forwarding import is_astray, sc_leaving
from hfi_sim.engine.link.config import PLAIN_LINK, FlowControl, LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from unit.hfi_sim.rings import LOST_LID, lead_around, make_ring

GROUP = 0xF00001
LINKS: dict[str, LinkConfig] = {
    "at once": PLAIN_LINK,
    "slow": LinkConfig(1e9, latency_ns=1_000_000),
    "jitter": LinkConfig(latency_ns=1_000_000, jitter_ns=1_000_000),
    "credits": LinkConfig(flow=FlowControl(), latency_ns=1000),
    "lanes": LinkConfig(1e8, flow=FlowControl(vls=4, weights=(1, 2, 3, 4))),
}


def make(switches: int, link: LinkConfig) -> tuple[Fabric, HfiPort]:
    clock = ManualClock()
    fabric = Fabric(clock, timer_resolution_s=0.0 if link != PLAIN_LINK else float("inf"))
    ports = make_ring(fabric, switches, link)
    lead_around(list(fabric.switches.values()), groups=(GROUP,))
    passed = 0

    def give_up(seen: TracedPacket) -> None:
        nonlocal passed
        passed += 1
        assert passed < 5000, f"a packet goes around for ever, now on {seen.direction}"

    fabric.observe(give_up)
    return fabric, ports[0]


def send(fabric: Fabric, port: HfiPort, dlid: int) -> None:
    lrh = Lrh16B(slid=port.lid, dlid=dlid, l4=0x55, pkey=0xFFFF, sc=3)
    port.set_pkeys([0xFFFF])
    port.send(build_packet(lrh, bytes(60), fabric.icrc))
    assert isinstance(fabric.clock, ManualClock)
    fabric.clock.advance(1000)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("switches", [1, 2, 5])
def test_packet_in_a_circle_ends_as_no_route_after_as_many_switches_as_there_are(
    switches: int, link: LinkConfig
) -> None:
    fabric, port = make(switches, link)
    send(fabric, port, LOST_LID)
    visits = [switch.counters.in_packets for switch in fabric.switches.values()]
    assert visits == [2] + [1] * (switches - 1)
    assert fabric.drops() == {"sw0": {Drop.SW_NO_ROUTE: 1}}
    assert fabric.balance() == {}
    assert not any(way.counters.in_flight for item in fabric.links for way in item.directions)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("switches", [1, 2, 5])
def test_group_packet_in_a_circle_ends_as_no_group(switches: int, link: LinkConfig) -> None:
    fabric, port = make(switches, link)
    send(fabric, port, GROUP)
    drops = fabric.drops()
    assert {name for name in drops if name.startswith("sw")} == {"sw0"}
    assert drops["sw0"] == {Drop.SW_NO_GROUP: 2}  # one went either way
    assert fabric.balance() == {}
    assert not any(way.counters.in_flight for item in fabric.links for way in item.directions)


@pytest.mark.parametrize(
    "fault", ["delay on * delay=1ms", "reorder on * behind=1 hold=1ms", "corrupt on * bits=2"]
)
def test_packet_that_a_fault_holds_or_changes_keeps_its_hops(fault: str) -> None:
    fabric, port = make(4, LINKS["slow"])
    Faults(fabric).add(fault)
    send(fabric, port, LOST_LID)
    assert fabric.drops() == {"sw0": {Drop.SW_NO_ROUTE: 1}}
    assert fabric.balance() == {}


def test_packet_on_the_longest_way_there_is_arrives() -> None:
    fabric, port = make(6, PLAIN_LINK)
    for switch in fabric.switches.values():
        lft = dict(switch.lft) | {LOST_LID: 2}
        if switch.name == "sw5":
            lft[LOST_LID] = 1
        switch.program(lft, {})
    send(fabric, port, LOST_LID)
    assert fabric.drops() == {"h5:1 rx": {Drop.RX_DLID: 1}}


def test_is_astray_begins_beyond_the_number_of_switches() -> None:
    assert [is_astray(hops, 3) for hops in (1, 3, 4)] == [False, False, True]


def test_subnet_management_stays_on_its_service_channel_and_no_other_packet_gets_there() -> None:
    table = [*range(1, 16), 3, *range(16, 32)]  # SC14 to SC15, SC15 to SC3
    assert sc_leaving(SC_MANAGEMENT, table) == SC_MANAGEMENT
    assert (sc_leaving(13, table), sc_leaving(14, table), sc_leaving(20, table)) == (14, None, 20)
