"""The ring that captured packets are copied into: what it keeps, what it misses, and the bytes that come out of it.

On every engine that is built, and each time with the same bytes.
"""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_twins import Twins
from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import DirectionId, PortId
from hfi_sim.engine.link.capture import DROP_COMMENTS, CaptureConfig, CaptureRing
from hfi_sim.engine.link.rule import FaultKind, Match
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.wire.captures import CapturedPacket, CaptureReader, PcapngWriter
from unit.hfi_sim.engine.hand_made import PKEY, HandMade, link, packet, rule, two_hosts
from unit.hfi_sim.fabric_pair import make_pair

THERE, BACK = DirectionId(0), DirectionId(1)


def everything(ring: CaptureRing) -> bytes:
    """Take all that is in a ring."""
    data = b""
    while piece := ring.take(True):
        data += piece
    return data


def packets(data: bytes, interfaces: int = 2) -> list[CapturedPacket]:
    """Return the packets in what was taken from a ring; they read back as a file does."""
    writer = PcapngWriter()
    head = writer.head() + b"".join(writer.interface(f"way {number}") for number in range(interfaces))
    return list(CaptureReader(io.BytesIO(head + data)).packets())


def captured(bed: HandMade, **config: object) -> CaptureRing:
    """Return a ring attached to both directions of two hosts."""
    ring = bed.engine.capture_ring(CaptureConfig(2, **config))  # type: ignore[arg-type]
    for way in (THERE, BACK):
        bed.engine.attach(0, way, ring, way)
    return ring


def enter(bed: HandMade, now: int, way: DirectionId, data: bytes) -> None:
    """Let any bytes enter the link, one way or the other."""
    lid, far = (1, 2) if way == THERE else (2, 1)
    bed.now = max(bed.now, now)
    assert bed.engine.inject(now, PortId(lid - 1), data, lid, far, PKEY) is None


@pytest.fixture
def bed() -> HandMade:
    return two_hosts(link())


def check_twins(bed: HandMade) -> None:
    if isinstance(bed.engine, Twins):
        assert bed.engine.difference is None, bed.engine.difference


def test_packets_are_kept_in_order_with_time_link_and_all_their_bytes(bed: HandMade) -> None:
    ring = captured(bed, epoch_ns=1_000_000)
    sent = [packet(1, 2, number, size=64 + 8 * number) for number in range(5)]
    for number, data in enumerate(sent):
        bed.send(100 * number, PortId(0), data)
    bed.run()
    found = packets(everything(ring))
    assert [(each.data, each.time_ns) for each in found] == [
        (data, 1_000_000 + 100 * number) for number, data in enumerate(sent)
    ]
    assert {(each.interface, each.comment) for each in found} == {("way 0", "")}
    assert ring.counts() == [(5, 0), (0, 0)]
    assert ring.take(True) == b""
    check_twins(bed)


def test_snap_keeps_the_beginning_and_says_how_long_the_packet_was(bed: HandMade) -> None:
    ring = captured(bed, snap=21)
    data = packet(1, 2, size=400)
    enter(bed, 0, THERE, data)
    (found,) = packets(everything(ring))
    assert (found.data, found.wire_len) == (data[:21], 400)
    check_twins(bed)


def test_full_ring_misses_and_counts_until_some_is_taken(bed: HandMade) -> None:
    ring = captured(bed, segments=3, segment_bytes=200)  # two packets of 96 bytes each
    for number in range(10):
        enter(bed, number, THERE, packet(1, 2, number))
    assert ring.counts() == [(10, 4), (0, 0)]
    assert [each.time_ns for each in packets(ring.take(False))] == [0, 1]
    enter(bed, 20, BACK, packet(2, 1, 20))
    bed.run()
    assert [(each.time_ns, each.interface) for each in packets(everything(ring))] == [
        *((time, "way 0") for time in range(2, 6)),
        (20, "way 1"),
    ]
    assert ring.counts() == [(10, 4), (1, 0)]
    check_twins(bed)


def test_ring_that_is_emptied_in_time_goes_round_and_round(bed: HandMade) -> None:
    ring = captured(bed, segments=2, segment_bytes=200)
    taken = b""
    for number in range(101):
        enter(bed, number, THERE, packet(1, 2, number))
        taken += ring.take(False)
        assert bed.engine.poll_output() is not None  # observers still get theirs
    taken += everything(ring)
    assert [each.time_ns for each in packets(taken)] == list(range(101))
    assert ring.counts()[0] == (101, 0)
    check_twins(bed)


def test_packet_longer_than_the_ring_is_missed_and_shorter_ones_are_not(bed: HandMade) -> None:
    ring = captured(bed, segments=2, segment_bytes=100)
    for size in (64, 400, 64):
        enter(bed, 0, THERE, packet(1, 2, size=size))
    assert [len(each.data) for each in packets(everything(ring))] == [64, 64]
    assert ring.counts()[0] == (3, 1)
    check_twins(bed)


def test_only_packets_that_fit_are_seen_and_counted(bed: HandMade) -> None:
    ring = captured(bed, match=Match(sc=3))
    for number in range(6):
        enter(bed, number, THERE, packet(1, 2, number, sc=number % 4))
    assert [each.time_ns for each in packets(everything(ring))] == [3]
    assert ring.counts() == [(1, 0), (0, 0)]
    check_twins(bed)


def test_capture_is_complete_with_as_many_packets_as_it_was_to_keep(bed: HandMade) -> None:
    ring = captured(bed, limit=2)
    complete = []
    for number in range(4):
        enter(bed, number, THERE, packet(1, 2, number))
        complete.append(ring.is_complete)
    assert complete == [False, True, True, True]
    assert len(packets(everything(ring))) == 2
    assert ring.counts()[0] == (2, 0)
    check_twins(bed)


def test_reason_of_a_drop_is_the_comment_of_the_packet(bed: HandMade) -> None:
    ring = captured(bed)
    bed.engine.set_rules(0, THERE, [rule(FaultKind.LOSS)])
    enter(bed, 1, THERE, packet(1, 2))
    bed.engine.set_link(2, BACK, link(), False)
    enter(bed, 3, BACK, packet(2, 1))
    assert [(each.interface, each.comment) for each in packets(everything(ring))] == [
        ("way 0", DROP_COMMENTS[Drop.LINK_FAULT].decode()),
        ("way 1", "dropped: link_down"),
    ]
    check_twins(bed)


def test_two_captures_of_one_link_do_not_disturb_each_other(bed: HandMade) -> None:
    first, second = captured(bed), captured(bed, snap=16)
    enter(bed, 0, THERE, packet(1, 2, 1))
    bed.engine.detach(0, THERE, first)
    bed.engine.detach(0, THERE, first)
    enter(bed, 1, THERE, packet(1, 2, 2))
    enter(bed, 1, BACK, packet(2, 1, 3))
    bed.run()
    assert [each.time_ns for each in packets(everything(first))] == [0, 1]
    assert [len(each.data) for each in packets(everything(second))] == [16, 16, 16]
    check_twins(bed)


def test_capture_does_not_change_when_an_engine_wants_to_be_called() -> None:
    """Nothing that a capture does has to be handed out, so links are carried as they are without one."""
    deadlines = []
    for looks in (False, True):
        bed = two_hosts(link())
        for way in (THERE, BACK):
            bed.engine.observe(0, way, False)
        if looks:
            captured(bed)
        enter(bed, 0, THERE, packet(1, 2))
        deadlines.append(bed.engine.deadline)
    assert deadlines[0] == deadlines[1]
    assert deadlines[0]


def test_capture_of_a_fabric_has_an_interface_for_each_direction_and_ends_once() -> None:
    pair = make_pair(Fabric(ManualClock()))
    ways = [way for link in pair.fabric.links for way in link.directions]
    _, end_first = pair.fabric.capture(ways, CaptureConfig(len(ways)))
    ring, end = pair.fabric.capture(ways, CaptureConfig(len(ways), match=Match(l4=0x55)))
    pair.a.send(pair.packet())
    assert isinstance(pair.fabric.clock, ManualClock)
    pair.fabric.clock.advance(1)
    assert [seen for seen, _ in ring.counts()] == [int(way.name in LINKS_OF_A_TO_B) for way in ways]
    end_first()
    end_first()
    end()
    pair.a.send(pair.packet())
    pair.fabric.clock.advance(1)
    assert len(packets(everything(ring), len(ways))) == 2


LINKS_OF_A_TO_B = ("a:1->sw0:1", "sw0:2->b:1")


@given(
    st.lists(st.tuples(st.integers(9, 300), st.integers(0, 2**62), st.booleans(), st.booleans())),
    st.integers(2, 4),
    st.integers(1, 500),
    st.integers(1, 400),
)
def test_any_packets_come_out_alike_of_every_engine(
    steps: list[tuple[int, int, bool, bool]], segments: int, segment_bytes: int, snap: int
) -> None:
    bed = two_hosts(link())
    ring = captured(bed, segments=segments, segment_bytes=segment_bytes, snap=snap)
    data, now = b"", 0
    for size, pause, back, take in steps:
        now = max(now, pause)
        enter(bed, now, BACK if back else THERE, bytes(size))
        if take:
            data += ring.take(back)
    data += everything(ring)
    found = packets(data)
    assert len(found) == sum(seen - missed for seen, missed in ring.counts()) == ring.totals()[0]
    assert len(steps) == sum(seen for seen, _ in ring.counts())
    assert [each.time_ns for each in found] == sorted(each.time_ns for each in found)
    check_twins(bed)
