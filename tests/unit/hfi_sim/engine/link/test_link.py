"""Rate, latency, order and loss on a cable."""

from __future__ import annotations

from typing import Any

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError, QuantityError
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import LinkDirection
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import MAX_PACKET, build_packet
from unit.hfi_sim.fabric_pair import TEST_L4, make_pair


class Watch:
    """Two HFIs on one cable; keeps when packets reach the far end, and their first byte."""

    def __init__(self, fabric: Fabric, **link: Any) -> None:
        self.fabric = fabric
        a, b = fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1]
        self.way: LinkDirection = fabric.connect(a, b, LinkConfig(**link)).direction_from(a)
        self.manager = SubnetManager(fabric, a)
        self.manager.sweep()
        self.seen: list[tuple[float, int]] = []
        self._ports = a, b
        b.register_l4(TEST_L4, self._take)

    def _take(self, _port: HfiPort, packet: bytes, _token: object) -> None:
        self.seen.append((self.fabric.clock.time(), packet[16]))

    def send(self, size: int, number: int = 0) -> None:
        """Send a packet of `size` bytes, a multiple of 8."""
        a, b = self._ports
        lrh = Lrh16B(slid=a.lid, dlid=b.lid, l4=TEST_L4, pkey=0xFFFF)
        packet = build_packet(lrh, bytes([number]) + bytes(size - 22), self.fabric.icrc)
        assert len(packet) == size
        assert a.send(packet) is None


def test_packets_arrive_after_their_turn_on_the_wire_and_the_latency() -> None:
    clock = ManualClock()
    watch = Watch(Fabric(clock), rate_bps=8e6, latency_ns=500_000_000)  # one byte a microsecond
    watch.send(104)
    watch.send(208)
    assert watch.way.counters.in_flight == 2
    clock.advance(1)
    assert [when for when, _ in watch.seen] == [pytest.approx(0.500104), pytest.approx(0.500312)]
    assert watch.way.counters.balance == 0


def test_no_packet_arrives_early_where_timers_are_coarse() -> None:
    clock = ManualClock()
    watch = Watch(Fabric(clock, timer_resolution_s=0.001), rate_bps=1e12, latency_ns=2_000_000)
    for _ in range(5):
        watch.send(104)
        clock.advance(0.0005)
    clock.advance(1)
    late = [when - 0.0005 * number for number, (when, _) in enumerate(watch.seen)]
    assert late == pytest.approx([0.002] * 5, abs=0.001)


def test_queue_takes_what_waits_and_what_is_left_of_the_packet_being_sent() -> None:
    clock = ManualClock()
    watch = Watch(Fabric(clock), rate_bps=8e3, queue=SizeOrTime(250))  # one byte a millisecond
    for number in range(4):
        watch.send(104, number)  # the first is being sent: 104 + 104 fit, 104 more do not
    assert watch.way.counters.drops == {Drop.LINK_OVERFLOW: 2}
    clock.advance(0.063)  # 41 bytes of the first are left
    watch.send(104, 9)
    clock.advance(1)
    assert [number for _, number in watch.seen] == [0, 1, 9]
    assert watch.fabric.balance() == {}


def test_free_wire_takes_a_packet_that_no_queue_could_hold() -> None:
    clock = ManualClock()
    watch = Watch(Fabric(clock), rate_bps=8e3, queue=SizeOrTime(0))
    watch.send(1000, 1)
    watch.send(104, 2)
    clock.advance(2)
    assert [number for _, number in watch.seen] == [1]
    assert watch.way.counters.drops == {Drop.LINK_OVERFLOW: 1}


def test_latency_takes_nothing_from_the_queue() -> None:
    """A long cable holds many packets; only those that wait for it need a queue."""
    clock = ManualClock()
    watch = Watch(Fabric(clock), rate_bps=8e9, latency_ns=100_000_000, queue=SizeOrTime(250))
    for number in range(100):
        watch.send(104, number)
        clock.advance(1e-6)
    clock.advance(1)
    assert len(watch.seen) == 100


def test_slowest_link_with_the_longest_queue_has_a_time_for_each_packet() -> None:
    clock = ManualClock()
    watch = Watch(Fabric(clock), rate_bps=1.0, queue=SizeOrTime(16 << 20))
    for _ in range(2000):
        watch.send(16000)
    assert watch.way.counters.drops == {Drop.LINK_OVERFLOW: 2000 - (16 << 20) // 16000}
    assert watch.seen == []
    clock.advance(16000 * 8 * 3 + 1)
    assert len(watch.seen) == 3


@pytest.mark.parametrize(
    ("rate_bps", "length", "queue_bytes"),
    [
        (1.0, {}, 64 << 10),
        (10e6, {}, 64 << 10),
        (100e6, {}, 625_000),
        (1e9, {}, 6_250_000),
        (100e9, {}, 16 << 20),
        (100e9, {"time_s": 0.05}, 625_000_000),
        (1e9, {"time_s": 0.02}, 2_500_000),
        (1e6, {"time_s": 0.02}, MAX_PACKET),
        (1e6, {"size": 40_000}, 40_000),
    ],
)
def test_queue_is_as_long_as_its_rate_makes_sense(
    rate_bps: float, length: dict[str, Any], queue_bytes: int
) -> None:
    watch = Watch(Fabric(ManualClock()), rate_bps=rate_bps, queue=SizeOrTime(**length))
    assert watch.way.config.queue_bytes == queue_bytes


def test_queue_of_a_link_that_slows_down_keeps_its_time() -> None:
    """A queue of so many bytes keeps those, and what waits when the rate changes is not dropped."""
    clock = ManualClock()
    watch = Watch(Fabric(clock), rate_bps=1e9)
    for _ in range(700):
        watch.send(10_000)
    assert watch.way.counters.drops == {Drop.LINK_OVERFLOW: 700 - 625}
    watch.way.link.configure(LinkConfig(1e8))
    assert watch.way.config.queue_bytes == 625_000
    clock.advance(0.46)  # all but 500,000 bytes have left at the new rate
    for _ in range(20):
        watch.send(10_000)
    clock.advance(0.06)
    assert len(watch.seen) == 625 + 12
    watch.way.link.configure(LinkConfig(1e9, queue=SizeOrTime(100_000)))
    assert watch.way.config.queue_bytes == 100_000
    assert watch.fabric.balance() == {}


def test_queue_that_is_no_length_is_refused() -> None:
    for length in ({"size": 65536, "time_s": 0.02}, {"time_s": 0.0}, {"size": -1}):
        with pytest.raises(QuantityError, match=r"a length .*(not both|not a time above 0|below 0)"):
            SizeOrTime(**length)


def test_set_up_false_loses_what_is_on_the_wire() -> None:
    clock = ManualClock()
    pair = make_pair(Fabric(clock))
    pair.a.send(pair.packet())
    link = pair.a.link
    assert link is not None
    pair.fabric.set_link(link, False)
    clock.advance(1)
    assert link.direction_from(pair.a).counters.drops == {Drop.LINK_DOWN: 1}
    assert pair.received == []
    assert pair.fabric.balance() == {}


@pytest.mark.parametrize("rate", [0, -1])
def test_connect_without_rate_raises(rate: float) -> None:
    fabric = Fabric()
    with pytest.raises(FabricError, match=r"link a:1--b:1: rate .* is not above 0"):
        fabric.connect(fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1], LinkConfig(rate_bps=rate))


def test_answers_from_within_receipt_do_not_recurse() -> None:
    pair = make_pair()
    rounds = 5000

    def echo(_port: object, _packet: bytes, _token: object) -> None:
        nonlocal rounds
        rounds -= 1
        if rounds:
            pair.b.send(pair.packet(slid=pair.b.lid, dlid=pair.a.lid, pkey=0x7FFF))

    def back(_port: object, _packet: bytes, _token: object) -> None:
        pair.a.send(pair.packet())

    pair.b.unregister_l4(TEST_L4)
    pair.b.register_l4(TEST_L4, echo)
    pair.a.register_l4(TEST_L4, back)
    pair.a.send(pair.packet())
    assert rounds == 0
    assert pair.fabric.balance() == {}


def test_jitter_varies_the_latency_and_keeps_the_order() -> None:
    clock = ManualClock()
    watch = Watch(Fabric(clock, seed=5), rate_bps=1e12, latency_ns=1_000_000, jitter_ns=4_000_000)
    for number in range(50):
        clock.advance(0.0005)
        watch.send(104, number)
    clock.advance(1)
    assert [number for _, number in watch.seen] == list(range(50))
    delays = [when - 0.0005 * (number + 1) for when, number in watch.seen]
    assert min(delays) >= 0.001
    assert max(delays) <= 0.0051
    assert max(delays) - min(delays) > 0.001
