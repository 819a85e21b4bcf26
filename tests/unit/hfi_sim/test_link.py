"""Rate, latency, order and loss on a cable."""

from __future__ import annotations

import pytest

from hfi_sim.clock import ManualClock
from hfi_sim.counters import Drop
from hfi_sim.errors import FabricError
from hfi_sim.fabric import Fabric
from unit.hfi_sim.fabric_pair import TEST_L4, make_pair


def test_transmit_with_latency_arrives_at_its_time() -> None:
    clock = ManualClock()
    fabric = Fabric(clock)
    a, b = fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1]
    link = fabric.connect(a, b, rate_bps=8e6, latency_s=0.5)  # one byte a microsecond
    seen: list[float] = []
    b.receive = lambda packet, _hops: seen.append(clock.time())  # type: ignore[method-assign]
    direction = link.direction_from(a)
    direction.transmit(bytes(100))
    direction.transmit(bytes(200))
    assert direction.counters.in_flight == 2
    clock.advance(1)
    assert seen == [pytest.approx(0.5001), pytest.approx(0.5003)]
    assert direction.counters.balance == 0


def test_transmit_nothing_arrives_early_where_timers_are_coarse() -> None:
    clock = ManualClock()
    fabric = Fabric(clock, timer_resolution_s=0.001)
    a, b = fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1]
    link = fabric.connect(a, b, rate_bps=1e12, latency_s=0.002)
    seen: list[float] = []
    b.receive = lambda packet, _hops: seen.append(clock.time())  # type: ignore[method-assign]
    for _ in range(5):
        link.direction_from(a).transmit(bytes(100))
        clock.advance(0.0005)
    clock.advance(1)
    assert [when - 0.0005 * number for number, when in enumerate(seen)] == pytest.approx([0.002] * 5)


def test_transmit_full_queue_overflows() -> None:
    fabric = Fabric(ManualClock())
    a, b = fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1]
    link = fabric.connect(a, b, rate_bps=1e3, queue_bytes=250)
    direction = link.direction_from(a)
    assert [direction.transmit(bytes(100)) for _ in range(3)] == [None, None, Drop.LINK_OVERFLOW]
    assert direction.counters.balance == 0


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
        fabric.connect(fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1], rate_bps=rate)


def test_conveyor_answers_from_within_receipt_do_not_recurse() -> None:
    pair = make_pair()
    rounds = 5000

    def echo(_: object, packet: bytes) -> None:
        nonlocal rounds
        rounds -= 1
        if rounds:
            pair.b.send(pair.packet(slid=pair.b.lid, dlid=pair.a.lid, pkey=0x7FFF))

    def back(_: object, packet: bytes) -> None:
        pair.a.send(pair.packet())

    pair.b.unregister_l4(TEST_L4)
    pair.b.register_l4(TEST_L4, echo)
    pair.a.register_l4(TEST_L4, back)
    pair.a.send(pair.packet())
    assert rounds == 0
    assert pair.fabric.balance() == {}


def test_jitter_varies_the_latency_and_keeps_the_order() -> None:
    clock = ManualClock()
    fabric = Fabric(clock, seed=5)
    a, b = fabric.add_hfi("a").ports[1], fabric.add_hfi("b").ports[1]
    link = fabric.connect(a, b, rate_bps=1e12, latency_s=0.001, jitter_s=0.004)
    seen: list[tuple[float, int]] = []
    b.receive = lambda packet, _hops: seen.append((clock.time(), packet[0]))  # type: ignore[method-assign]
    for number in range(50):
        clock.advance(0.0005)
        link.direction_from(a).transmit(bytes([number]))
    clock.advance(1)
    assert [number for _, number in seen] == list(range(50))
    delays = [when - 0.0005 * (number + 1) for when, number in seen]
    assert min(delays) >= 0.001
    assert max(delays) <= 0.0051
    assert max(delays) - min(delays) > 0.001
