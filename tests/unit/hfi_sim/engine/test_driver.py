"""The shell around an engine: what it makes of clocks."""

from __future__ import annotations

from typing import Any

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from unit.hfi_sim.fabric_pair import TEST_L4, Pair, make_pair


class _JumpingClock(ManualClock):
    """A manual clock that tells another time than it keeps."""

    offset = 0.0

    def time(self) -> float:
        return super().time() + self.offset

    def call_at(self, when: float, *args: Any) -> Any:
        return super().call_at(when - self.offset, *args)

    def skip_to(self, when: float) -> bool:
        return super().skip_to(when - self.offset)


def test_clock_that_goes_back_delays_packets_and_drops_none() -> None:
    clock = _JumpingClock()
    pair = make_pair(Fabric(clock))
    clock.advance(100)
    pair.a.send(pair.packet())
    clock.offset = -50
    for _ in range(5):
        pair.a.send(pair.packet())
    clock.advance(49)
    assert len(pair.received) == 0
    clock.advance(2)
    assert len(pair.received) == 6
    assert pair.fabric.drops() == {}
    assert pair.fabric.balance() == {}


def test_clock_that_goes_a_day_ahead_delivers_what_was_on_its_way() -> None:
    clock = _JumpingClock()
    pair = make_pair(Fabric(clock))
    pair.a.send(pair.packet())
    clock.offset = 86400
    pair.a.send(pair.packet())
    clock.advance(1)
    assert len(pair.received) == 2
    assert pair.fabric.balance() == {}


def back(pair: Pair) -> bytes:
    return pair.packet(slid=pair.b.lid, dlid=pair.a.lid, pkey=0x7FFF)


def send_until_it_ends(pair: Pair) -> None:
    packets = iter([pair.packet()])
    with pair.a.burst():
        while True:
            pair.a.send(next(packets))


@pytest.mark.parametrize("clock", [None, ManualClock()])
def test_packets_of_a_burst_are_received_together_when_it_ends(clock: ManualClock | None) -> None:
    pair = make_pair(Fabric(clock) if clock is not None else Fabric())
    with pair.a.burst():
        for _ in range(3):
            assert pair.a.send(pair.packet()) is None
        with pair.b.burst():
            assert pair.b.send(back(pair)) is None
        assert pair.received == []
    if clock is not None:
        clock.advance(1)
    assert len(pair.received) == 3
    assert pair.fabric.balance() == {}


def test_packets_of_a_burst_that_ends_with_an_error_are_received() -> None:
    pair = make_pair(Fabric())
    with pytest.raises(StopIteration):
        send_until_it_ends(pair)
    assert len(pair.received) == 1


def test_answers_to_a_burst_are_received_with_it() -> None:
    pair = make_pair(Fabric())
    answers: list[bytes] = []
    pair.a.register_l4(TEST_L4, lambda _port, packet, _token: answers.append(packet))
    pair.b.unregister_l4(TEST_L4)

    def answer(*_: object) -> None:
        with pair.b.burst():
            pair.b.send(back(pair))

    pair.b.register_l4(TEST_L4, answer)
    with pair.a.burst():
        for _ in range(3):
            pair.a.send(pair.packet())
    assert len(answers) == 3


def test_fabric_without_a_clock_delivers_any_number_of_packets_at_once() -> None:
    pair = make_pair(Fabric())
    packet = pair.packet(bytes(8000))
    for count in range(3000):
        assert pair.a.send(packet) is None
        assert len(pair.received) == count + 1
    assert pair.fabric.drops() == {}


def test_each_packet_of_a_burst_is_received_at_its_own_time_and_in_turn_with_timers() -> None:
    clock = ManualClock()
    pair = make_pair(Fabric(clock))
    seen: list[tuple[str, float]] = []
    pair.b.unregister_l4(TEST_L4)
    pair.b.register_l4(TEST_L4, lambda *_: seen.append(("packet", clock.time())))
    for _ in range(3):
        pair.a.send(pair.packet())
    clock.advance(1)
    times = [time for _, time in seen]
    assert 0 < times[0] < times[1] < times[2]

    seen.clear()
    for _ in range(3):
        pair.a.send(pair.packet())
    between = 1 + (times[1] + times[2]) / 2
    clock.call_at(between, lambda: seen.append(("timer", clock.time())))
    clock.advance((times[0] + times[1]) / 2)
    assert [what for what, _ in seen] == ["packet"]
    clock.advance(1)
    assert [what for what, _ in seen] == ["packet", "packet", "timer", "packet"]
    assert [time for _, time in seen] == pytest.approx([1 + times[0], 1 + times[1], between, 1 + times[2]])
