"""A capture sees what enters the links it was told, and nothing else, and nobody waits for it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FaultError
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults import Match, parse_match
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.captures import CaptureReader
from opavnic.observe.capture import Capture
from opavnic.observe.trace_file import TraceReader
from unit.hfi_sim.fabric_pair import TEST_L4, Pair, make_pair


@pytest.fixture
def pair() -> Pair:
    return make_pair(Fabric(ManualClock()))


def send(pair: Pair, payload: bytes = bytes(40)) -> None:
    pair.a.send(pair.packet(payload))
    assert isinstance(pair.fabric.clock, ManualClock)
    pair.fabric.clock.advance(1)


def taken(watch: Capture) -> list[TracedPacket]:
    """Return the packets captured since the last time."""
    data = watch.head
    while piece := watch.take(True):
        data += piece
    return list(TraceReader(io.BytesIO(data)).records())


@pytest.mark.parametrize(
    ("place", "links"),
    [
        ("*", ["a:1->sw0:1", "sw0:2->b:1"]),
        ("a", ["a:1->sw0:1"]),
        ("sw0->b", ["sw0:2->b:1"]),
        ("b->sw0", []),
        ("b--sw0", ["sw0:2->b:1"]),
        ("sw0:2", ["sw0:2->b:1"]),
    ],
)
def test_capture_sees_the_links_it_was_told(pair: Pair, place: str, links: list[str]) -> None:
    watch = Capture(pair.fabric, place, parse_match(["l4=0x55"]), epoch_s=1000)
    send(pair)
    records = taken(watch)
    assert [record.direction for record in records] == links
    assert all(1000 <= record.time_s < 1001 for record in records)
    assert all(record.packet == pair.packet(bytes(40)) for record in records)
    assert watch.take(True) == b""


def test_capture_sees_the_packets_it_was_told(pair: Pair) -> None:
    watch = Capture(pair.fabric, "a", Match(l4=0x77))
    send(pair)
    pair.a.send(pair.packet(l4=0x77))
    assert [record.packet[8] for record in taken(watch)] == [0x77]


def test_capture_direction_is_as_seen_from_the_place(pair: Pair) -> None:
    tx, rx = (Capture(pair.fabric, "a", parse_match([f"direction={way}", "l4=0x55"])) for way in ("tx", "rx"))
    send(pair)
    assert (len(taken(tx)), len(taken(rx))) == (1, 0)


def test_capture_says_why_a_packet_ended_on_the_link(pair: Pair) -> None:
    watch = Capture(pair.fabric, "a->sw0", Match(l4=TEST_L4))
    link = pair.a.link
    assert link is not None
    link.configure(replace(link.planned.up, queue=SizeOrTime(0)))
    pair.a.send(pair.packet())
    pair.a.send(pair.packet())  # while the first is still being sent
    assert [record.drop for record in taken(watch)] == [None, Drop.LINK_OVERFLOW]


def test_capture_that_nobody_reads_misses_and_counts(pair: Pair) -> None:
    watch = Capture(pair.fabric, "a->sw0", Match(l4=TEST_L4), buffer_bytes=200, segment_bytes=100)
    for _ in range(5):
        send(pair)
    assert watch.totals == (2, 3)
    assert len(taken(watch)) == 2
    assert len(pair.received) == 5
    send(pair)
    assert (len(taken(watch)), watch.totals) == (1, (3, 3))


def test_statistics_say_what_was_missed_since_the_last_and_in_the_end_all(pair: Pair) -> None:
    def told(data: bytes) -> tuple[int, int]:
        reader = CaptureReader(io.BytesIO(watch.head + data))
        list(reader.packets())
        return len(data), reader.missed

    watch = Capture(pair.fabric, "a", Match(l4=TEST_L4), buffer_bytes=200, segment_bytes=100)
    assert watch.statistics() == b""
    for _ in range(4):
        send(pair)
    one = len(watch.statistics())
    assert one > 0
    assert watch.statistics() == b""
    send(pair)
    assert told(watch.statistics()) == (one, 3)
    assert told(watch.statistics(final=True)) == (2 * one, 3)


def test_capture_once_keeps_each_packet_where_it_enters_the_fabric(pair: Pair) -> None:
    watch = Capture(pair.fabric, "*", Match(l4=TEST_L4), once=True)
    send(pair)
    assert [record.direction for record in taken(watch)] == ["a:1->sw0:1"]
    with pytest.raises(FaultError, match='no packet enters the fabric on "sw0->b"'):
        Capture(pair.fabric, "sw0->b", Match(), once=True)


def test_capture_is_complete_after_as_many_packets_as_were_wanted(pair: Pair) -> None:
    watch = Capture(pair.fabric, "*", Match(l4=TEST_L4), limit=3, snap=16)
    for _ in range(2):
        assert not watch.is_complete
        send(pair)
    assert watch.is_complete
    assert [len(record.packet) for record in taken(watch)] == [16] * 3


def test_capture_stopped_sees_no_more_and_leaves_others(pair: Pair) -> None:
    first, second = (Capture(pair.fabric, "*", Match(l4=TEST_L4)) for _ in range(2))
    first.stop()
    first.stop()
    send(pair)
    assert (len(taken(first)), len(taken(second))) == (0, 2)
    second.stop()
    send(pair)
    assert len(taken(second)) == 0


def test_capture_of_what_is_not_there_names_the_nearest(pair: Pair) -> None:
    with pytest.raises(FaultError, match=r'unknown link, port or node "sw1" .nearest: "sw0"'):
        Capture(pair.fabric, "sw1", Match())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["vesw"], '"vesw" is not MATCH=VALUE such as vesw=2'),
        (["vsw=2"], 'unknown match "vsw" .nearest: "vesw"'),
        (["vesw=x"], "vesw: 'x' is not a whole number"),
        (["vesw=2", "vesw=3"], "vesw appears twice"),
        (["direction=up"], 'direction "up" is neither tx nor rx'),
        (["l4=ethernt"], 'unknown L4 type "ethernt" .nearest: "ethernet"'),
    ],
)
def test_match_that_is_none_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(FaultError, match=reason):
        parse_match(words)
