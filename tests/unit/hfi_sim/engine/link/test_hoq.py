"""The head-of-queue lifetime: a switch drops what has been the first of its VL for too long, on both engines."""

from __future__ import annotations

import pytest

from engine_twins import built_engines
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.fabric.topology import generate, single_switch
from hfi_sim.fabric.waits import find_deadlock
from hfi_sim.management.pma.ports import CountedPort
from hfi_sim.nodes.cable import LinkDirection
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from unit.hfi_sim.routing.lossless import L4, Lossless

BUILT = built_engines()
every_engine = pytest.mark.parametrize("engine", BUILT)
LIFE_NS = 4096 << 6
"""A step that a port can express: 262.144 us."""


def way_to(port: HfiPort) -> LinkDirection:
    assert port.link is not None
    return port.link.direction_to(port)


def hoq_drops(bed: Lossless) -> int:
    return sum(
        way.counters.drops.get(Drop.LINK_HOQ, 0) for link in bed.fabric.links for way in link.directions
    )


def pair(engine: str, hoq_life_ns: int | None = LIFE_NS, vls: int = 1) -> Lossless:
    """Two hosts at one switch, of which the second reads nothing."""
    bed = Lossless(single_switch(2), "min-hop", vls=vls, made_by=BUILT[engine], hoq_life_ns=hoq_life_ns)
    bed.ports[1].stall()
    return bed


def send(bed: Lossless, packets: int, *, sc: int = 0) -> None:
    source, target = bed.ports
    for _ in range(packets):
        lrh = Lrh16B(source.lid, target.lid, sc=sc, l4=L4, pkey=0x8002)
        assert source.send(build_packet(lrh, bytes(4000), bed.fabric.icrc)) is None


@every_engine
def test_the_first_packet_of_a_lane_is_dropped_when_its_lifetime_is_over_one_after_the_other(
    engine: str,
) -> None:
    bed = pair(engine)
    send(bed, 7)  # four fill the buffer of the host, three wait at the switch
    bed.clock.advance(LIFE_NS / 1e9)
    way = way_to(bed.ports[1])
    assert way.counters.drops == {}, "they came a little later than now"
    for dropped in (1, 2, 3):
        bed.clock.advance(LIFE_NS / 1e9)
        assert way.counters.drops == {Drop.LINK_HOQ: dropped}
    bed.clock.advance(3600)
    assert hoq_drops(bed) == 3, "what has credits is not dropped"
    bed.ports[1].resume()
    bed.clock.advance(1)
    assert bed.got == 4
    assert bed.fabric.balance() == {}
    lanes = way.lanes
    assert lanes is not None
    assert lanes.credits == (16384,)


@every_engine
def test_without_a_lifetime_packets_wait_for_ever(engine: str) -> None:
    bed = pair(engine, None)
    send(bed, 7)
    bed.clock.advance(24 * 3600)
    bed.ports[1].resume()
    bed.clock.advance(1)
    assert (bed.got, bed.fabric.drops()) == (7, {})


@every_engine
def test_a_lane_that_moves_loses_nothing_while_another_does(engine: str) -> None:
    bed = pair(engine, vls=2)
    send(bed, 7, sc=1)
    bed.clock.advance(0.01)
    assert hoq_drops(bed) == 3
    counters = way_to(bed.ports[1]).vl_counters()
    assert [vl.discards for vl in counters] == [0, 3]


@every_engine
def test_a_discard_is_counted_by_the_switch_that_sends(engine: str) -> None:
    bed = pair(engine)
    send(bed, 7)
    bed.clock.advance(1)
    far = way_to(bed.ports[1]).source
    assert isinstance(far, SwitchPort)
    assert CountedPort(far).counts()["xmit_discards"] == 3


@every_engine
def test_hosts_have_no_such_limit(engine: str) -> None:
    bed = pair(engine)
    send(bed, 12)  # four at the host, four at the switch, four wait at their sender
    bed.clock.advance(LIFE_NS / 1e9 * 1.5)
    assert bed.ports[0].link is not None
    assert bed.ports[0].link.direction_from(bed.ports[0]).counters.drops == {}


@every_engine
def test_what_a_port_is_told_counts_instead_of_the_links_own(engine: str) -> None:
    bed = pair(engine)
    far = way_to(bed.ports[1]).source
    assert isinstance(far, SwitchPort)
    far.set_hoq_codes((20,) * 16)
    send(bed, 7)
    bed.clock.advance(3600)
    assert hoq_drops(bed) == 0
    far.set_hoq_codes((0,) * 16)  # what waits has had its time
    bed.clock.advance(4096e-9 * 3)
    assert hoq_drops(bed) == 3
    assert bed.fabric.balance() == {}


@every_engine
def test_a_link_that_goes_down_meanwhile_leaves_no_lifetime_behind(engine: str) -> None:
    bed = pair(engine)
    send(bed, 7)
    bed.clock.advance(LIFE_NS / 2e9)
    bed.fabric.set_link(way_to(bed.ports[1]).link, False)
    bed.clock.advance(1)
    assert hoq_drops(bed) == 0
    assert bed.fabric.balance() == {}


@every_engine
def test_a_ring_that_deadlocks_recovers_and_every_packet_arrives_or_is_counted(engine: str) -> None:
    bed = Lossless(
        generate("torus", dims=(8,)),
        "min-hop",
        may_deadlock=True,
        made_by=BUILT[engine],
        hoq_life_ns=8_000_000,
    )
    sent = bed.load(20)
    found = None
    while found is None:
        bed.clock.advance(0.0005)
        found = find_deadlock(bed.fabric)
    bed.clock.advance(600)
    assert find_deadlock(bed.fabric) is None
    assert 0 < hoq_drops(bed) < sent / 4
    assert bed.got + hoq_drops(bed) == sent
    assert bed.fabric.balance() == {}


def test_a_lifetime_is_rounded_up_to_what_ports_can_express() -> None:
    codes = {4096: 0, 4097: 1, 8192: 1, 8_000_000: 11, 4096 << 19: 19}
    assert {life: FlowControl(hoq_life_ns=life).hoq_code for life in codes} == codes
    assert FlowControl().hoq_code == 20


@pytest.mark.parametrize("life", [0, 4095, (4096 << 19) + 1])
def test_a_lifetime_that_no_port_can_express_is_refused(life: int) -> None:
    with pytest.raises(FabricError, match=r"hoq_life is .*, not 4\.096us to 2\.14748"):
        FlowControl(hoq_life_ns=life)


def test_an_option_of_links_reads_it() -> None:
    assert LinkConfig(flow=FlowControl(hoq_life_ns=8_000_000)).flow == FlowControl(hoq_life_ns=8_000_000)
