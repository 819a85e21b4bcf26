from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.events.event import EventKey, Loss, ReassemblyCounters, Segmenter
from ejfat.events.reassembly import Reassembler
from ejfat.events.stream import Parts
from ejfat.wire.headers import LbHeaderV2, ReHeader, SegmentHeader

versions = st.sampled_from([2, 3])


def cut(
    data: bytes, *, version: int = 2, event: int = 1, data_id: int = 7, room: int = 100, strip: bool = True
) -> list[bytes]:
    segmenter = Segmenter(version=version, mtu=room + Segmenter(version=version).headers + 28)
    lb = segmenter.headers - (SegmentHeader.SIZE if version == 1 else ReHeader.SIZE)
    payloads = segmenter.payloads(data, tick=event, data_id=data_id, event=event)
    return [payload[lb:] if strip else payload for payload in payloads]


@given(
    data=st.binary(max_size=2000),
    version=versions,
    seed=st.integers(),
    strip=st.booleans(),
    room=st.integers(1, 700),
)
def test_event_cut_shuffled_and_doubled_comes_out_whole(
    data: bytes, version: int, seed: int, strip: bool, room: int
) -> None:
    payloads = cut(data, version=version, room=room, strip=strip)
    rng = random.Random(seed)
    doubled = payloads + rng.sample(payloads, rng.randrange(len(payloads) + 1))
    rng.shuffle(doubled)
    reassembler = Reassembler()
    events = [event for payload in doubled if (event := reassembler.receive(payload, 0.0))]
    assert [(event.key, event.data) for event in events] == [(EventKey(1, 7), data)]
    assert reassembler.pending == 0
    counters = reassembler.counters
    assert counters.duplicates + counters.late == len(doubled) - len(payloads)


def test_old_header_receiver_that_starts_amid_an_event_waits_for_the_next() -> None:
    reassembler = Reassembler(old_headers=True)
    sent = [bytes([number]) * 250 for number in range(3)]
    packets = [payload for data in sent for payload in cut(data, version=1)][2:]
    events = [event for payload in packets if (event := reassembler.receive(payload, 0.0))]
    assert [event.data for event in events] == sent[1:]
    counters = reassembler.counters
    assert (counters.rejected, counters.events_lost, counters.events_headless) == (1, 1, 1)


def test_old_header_events_without_a_beginning_are_told_apart_by_their_last_packets() -> None:
    reassembler = Reassembler(old_headers=True)
    for packet in (part(100, b"a" * 100), part(200, b"a" * 100, last=True), part(300, b"b" * 100, last=True)):
        assert reassembler.receive(packet, 0.0) is None
    assert reassembler.counters.events_headless == 2


def test_old_header_doubled_first_packet_costs_no_event() -> None:
    reassembler = Reassembler(old_headers=True)
    payloads = cut(bytes(250), version=1)
    events = [event for p in (payloads[0], *payloads) if (event := reassembler.receive(p, 0.0))]
    assert [event.data for event in events] == [bytes(250)]
    assert (reassembler.counters.duplicates, reassembler.pending) == (1, 0)


def test_old_header_events_of_several_senders_have_numbers_of_their_own() -> None:
    reassembler = Reassembler(old_headers=True)
    sources = [("h", port) for port in range(4)]
    keys = [
        e.key for s in sources for p in cut(bytes(250), version=1) if (e := reassembler.receive(p, 0.0, s))
    ]
    assert keys == [EventKey(number, 7) for number in range(1, 5)]


@pytest.mark.parametrize("old", [False, True])
def test_pieces_of_events_that_never_complete_take_bounded_memory(old: bool) -> None:
    reassembler = Reassembler(old_headers=old, timeout_s=3600.0, max_held=100_000)
    lost = 0
    for number in range(20_000):
        header = (
            SegmentHeader(data_id=1, offset=0, first=True)
            if old
            else ReHeader(data_id=1, offset=0, length=1000, event=number)
        )
        reassembler.receive(header.build() + bytes([number % 251]), 0.0, ("h", number))
        assert reassembler.held <= 100_000
        lost += len(reassembler.expire(0.0))
    assert lost == reassembler.counters.events_no_room == 20_000 - reassembler.pending
    assert reassembler.kept <= 48 << 20
    whole = cut(bytes(250), version=1 if old else 2, event=99_999)
    assert [e.data for p in whole if (e := reassembler.receive(p, 0.0, "x"))] == [bytes(250)]


def test_interleaved_events_and_data_ids_do_not_mix() -> None:
    reassembler = Reassembler()
    streams = [cut(bytes([n]) * 250, event=n, data_id=n % 2) for n in range(6)]
    events = [
        e for row in zip(*streams, strict=True) for payload in row if (e := reassembler.receive(payload, 0.0))
    ]
    assert [(e.key.event, e.data[0], e.packets) for e in events] == [(n, n, 3) for n in range(6)]


def test_loss_is_reported_once_after_the_timeout() -> None:
    reassembler = Reassembler(timeout_s=0.5)
    payloads = cut(bytes(350))
    for payload in (payloads[0], payloads[2]):
        reassembler.receive(payload, 10.0)
    assert reassembler.deadline == 10.5
    assert reassembler.expire(10.4) == []
    (lost,) = reassembler.expire(10.5)
    assert (lost.key, lost.received, lost.length, lost.missing) == (
        EventKey(1, 7),
        200,
        350,
        ((100, 200), (300, 350)),
    )
    assert reassembler.receive(payloads[1], 11.0) is None
    assert reassembler.expire(99.0) == []
    assert (reassembler.counters.late, reassembler.counters.events_lost, reassembler.pending) == (1, 1, 0)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (ReHeader(data_id=1, offset=90, length=100, event=1), bytes(11)),
        (ReHeader(data_id=1, offset=0, length=101, event=1), bytes(10)),
        (ReHeader(data_id=1, offset=0, length=1 << 31, event=1), bytes(10)),
    ],
)
def test_packet_that_contradicts_its_event_is_rejected(header: ReHeader, data: bytes) -> None:
    reassembler = Reassembler()
    reassembler.receive(ReHeader(data_id=1, offset=0, length=100, event=1).build() + bytes(10), 0.0)
    assert reassembler.receive(header.build() + data, 0.0) is None
    assert reassembler.counters.rejected == 1
    assert reassembler.pending == 1


def test_summary_names_what_brought_nothing_and_why_events_were_lost() -> None:
    reassembler = Reassembler(max_event=249)
    for payload in (*cut(bytes(250)), *cut(bytes(249), event=2), cut(bytes(249), event=2)[0], bytes(3)):
        reassembler.receive(payload, 0.0)
    first = ReHeader(data_id=1, offset=0, length=100, event=3)
    reassembler.receive(first.build() + bytes(10), 0.0)
    reassembler.receive(first.build() + bytes([1] * 10), 0.0)
    reassembler.expire(99.0)
    assert reassembler.counters.summary() == (
        "1 events, 2 lost (1 contradictory, 1 too long), 10 packets (1 malformed, 4 rejected, 1 late)"
    )
    assert Reassembler().counters.summary() == "0 events, 0 lost, 0 packets"


def test_event_that_is_too_long_is_reported_once_with_its_length() -> None:
    reassembler = Reassembler(max_event=249)
    payloads = cut(bytes(250))
    for payload in payloads:
        assert reassembler.receive(payload, 3.0) is None
    assert reassembler.deadline == 3.0
    (lost,) = reassembler.expire(3.0)
    assert (lost.key, lost.length) == (EventKey(1, 7), 250)
    assert lost.reason == "of 250 bytes, more than the 249 that are accepted"
    assert (reassembler.deadline, reassembler.expire(99.0)) == (None, [])
    counters = reassembler.counters
    assert (counters.events_lost, counters.events_too_long, counters.rejected) == (1, 1, 3)
    whole = [event for payload in cut(bytes(249), event=2) if (event := reassembler.receive(payload, 4.0))]
    assert len(whole) == 1


def test_old_header_event_that_grows_too_long_is_given_up_with_what_was_kept() -> None:
    reassembler = Reassembler(old_headers=True, max_event=249)
    for payload in cut(bytes(350), version=1):
        assert reassembler.receive(payload, 0.0) is None
    (lost,) = reassembler.expire(0.0)
    assert (lost.received, lost.length, reassembler.pending) == (200, None, 0)
    assert lost.reason == "of an unknown length, more than the 249 that are accepted"
    assert (reassembler.counters.events_too_long, reassembler.counters.rejected) == (1, 2)
    whole = [event for payload in cut(bytes(249), version=1) if (event := reassembler.receive(payload, 0.0))]
    assert [len(event.data) for event in whole] == [249]


def test_forged_lengths_cost_no_memory_without_bound() -> None:
    reassembler = Reassembler(max_event=100)
    for number in range(20_000):
        reassembler.receive(ReHeader(data_id=1, offset=0, length=101, event=number).build(), 0.0)
    assert len(reassembler.expire(0.0)) == reassembler.counters.events_too_long == 20_000
    assert reassembler.pending == 0
    assert reassembler.kept <= 48 << 20


@given(raw=st.binary(max_size=60), old=st.booleans())
def test_any_bytes_are_counted_never_an_exception(raw: bytes, old: bool) -> None:
    reassembler = Reassembler(old_headers=old)
    reassembler.receive(raw, 0.0)
    counters = reassembler.counters
    assert counters.packets == 1
    assert counters.malformed + (counters.rejected and not counters.events_seen) + counters.events_seen == 1


def test_old_header_first_and_last_delimit_events() -> None:
    reassembler = Reassembler(old_headers=True)
    for number in range(3):
        payloads = cut(bytes([number]) * 250, version=1)
        payloads[1], payloads[2] = payloads[2], payloads[1]  # the last before the middle
        events = [event for payload in payloads if (event := reassembler.receive(payload, 0.0, "ten"))]
        assert [(e.key, e.data) for e in events] == [(EventKey(number + 1, 7), bytes([number]) * 250)]


def test_old_header_event_without_its_middle_is_lost() -> None:
    reassembler = Reassembler(old_headers=True)
    payloads = cut(bytes(250), version=1)
    for payload in (payloads[0], payloads[2]):
        reassembler.receive(payload, 0.0)
    (lost,) = reassembler.expire(1.0)
    assert (lost.length, lost.missing) == (250, ((100, 200),))


def test_old_header_a_new_first_packet_begins_a_new_event() -> None:
    reassembler = Reassembler(old_headers=True)
    first, second = cut(b"a" * 250, version=1), cut(b"b" * 250, version=1)
    reassembler.receive(first[0], 0.0)
    events = [event for payload in second if (event := reassembler.receive(payload, 0.0))]
    assert [event.data for event in events] == [b"b" * 250]
    assert reassembler.expire(1.0)[0].length is None


def test_old_header_behind_a_tick_belongs_to_the_event_of_that_tick() -> None:
    reassembler = Reassembler(old_headers=True)
    streams = [cut(bytes([tick]) * 250, version=1, event=tick, strip=False) for tick in (5, 6)]
    mixed = [payload for row in zip(*streams, strict=True) for payload in row]
    events = [event for payload in mixed if (event := reassembler.receive(payload, 0.0, "ten"))]
    assert [(e.key, e.data) for e in events] == [(EventKey(t, 7), bytes([t]) * 250) for t in (5, 6)]
    assert reassembler.receive(mixed[0], 0.0, "ten") is None
    assert (reassembler.counters.late, reassembler.pending) == (1, 0)


def test_segmenter_fills_packets_to_the_mtu_and_flags_the_ends() -> None:
    for version in (1, 2, 3):
        segmenter = Segmenter(version=version)
        payloads = list(segmenter.payloads(bytes(4000), tick=5, data_id=1, event=5))
        assert len(payloads[0]) == 1500 - 28
        assert sum(len(p) - segmenter.headers for p in payloads) == 4000
    flags = [
        SegmentHeader.parse(p[12:])
        for p in Segmenter(version=1, mtu=148).payloads(bytes(200), tick=1, data_id=1, event=1)
    ]
    assert [(f.first, f.last) for f in flags] == [(True, False), (False, True)]
    (empty,) = Segmenter().payloads(b"", tick=1, data_id=2, event=3, entropy=9)
    assert LbHeaderV2.parse(empty).entropy == 9


@pytest.mark.parametrize(("values", "message"), [({"version": 4}, "version 4"), ({"mtu": 50}, "MTU of 50")])
def test_segmenter_that_cannot_cut_is_refused(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Segmenter(**values)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_reassembly_header_of_each_public_sender_is_taken(version: int) -> None:
    reassembler = Reassembler()
    header = ReHeader(version=version, data_id=3, offset=0, length=5, event=9).build()
    event = reassembler.receive(header + b"hello", 0.0, ("10.0.0.1", 1))
    assert event is not None
    assert (event.key.event, event.data) == (9, b"hello")
    assert reassembler.receive(b"\x30" + header[1:] + b"hello", 0.0, ("10.0.0.1", 1)) is None


def run_of(events: int, seed: int, *, size: int = 250) -> list[bytes]:
    chance = random.Random(seed)
    return [piece for n in range(events) for piece in cut(chance.randbytes(size), event=n)]


def handed(reassembler: Reassembler, pieces: list[bytes], now: float, source: tuple[str, int]) -> int:
    return sum(reassembler.receive(piece, now, source) is not None for piece in pieces)


def test_two_senders_behind_the_balancer_are_told_apart_by_their_ports() -> None:
    reassembler = Reassembler()
    first, second = cut(b"a" * 250), cut(b"b" * 250)
    arrive = [(second[2], 5001), (first[0], 5000), (second[1], 5001), (first[1], 5000)]
    arrive += [(second[0], 5001), (first[2], 5000)]
    events = [e for piece, port in arrive if (e := reassembler.receive(piece, 0.0, ("10.0.0.9", port)))]
    assert [(event.data[0], event.source) for event in events] == [
        (ord("b"), ("10.0.0.9", 5001)),
        (ord("a"), ("10.0.0.9", 5000)),
    ]


@pytest.mark.parametrize(
    ("events", "pause", "same"),
    [(100, 0.0, True), (100, 0.0, False), (3, 0.0, False), (1, 0.0, False), (3, 0.6, True), (1, 0.6, True)],
)
def test_sender_that_starts_again_from_0_is_received_again(events: int, pause: float, same: bool) -> None:
    """By distance, by other bytes, and by time; with the receiver of E2SAR, both runs arrive whole, too."""
    reassembler, source = Reassembler(), ("10.0.0.1", 5000)
    assert handed(reassembler, run_of(events, 1), 0.0, source) == events
    assert handed(reassembler, run_of(events, 1 if same else 2), pause, source) == events
    assert reassembler.counters.events_lost == reassembler.counters.late == 0


def test_event_whose_number_begins_again_before_it_is_complete_counts_as_lost() -> None:
    reassembler, source = Reassembler(), ("10.0.0.1", 5000)
    handed(reassembler, run_of(100, 1)[1:], 0.0, source)
    assert handed(reassembler, run_of(100, 2), 0.0, source) == 100
    (lost,) = reassembler.expire(0.0)
    assert (lost.key.event, lost.loss, lost.source) == (0, Loss.RESTART, source)
    assert reassembler.counters.events_restarted == 1
    assert "restarted" in reassembler.counters.summary()


def test_event_with_the_number_of_one_that_is_under_way_and_of_another_length_counts_as_lost() -> None:
    reassembler = Reassembler()
    first, second = cut(bytes(250)), cut(bytes(350))
    for piece in (*first[:2], *second):
        assert reassembler.receive(piece, 0.0) is None
    assert reassembler.receive(first[2], 0.0) is not None
    counters = reassembler.counters
    assert (counters.rejected, counters.events_lost, counters.events_restarted) == (4, 1, 1)
    assert counters.events_seen == counters.events_complete + counters.events_lost


@pytest.mark.parametrize("distance", [63, 64])
def test_copy_of_a_whole_event_is_late_for_63_later_events(distance: int) -> None:
    reassembler = Reassembler()
    pieces = [cut(bytes([n]), event=n)[0] for n in range(1 + distance)]
    assert handed(reassembler, [*pieces, pieces[0]], 0.0, ("a", 1)) == 1 + distance + (distance == 64)
    assert reassembler.counters.late == (distance == 63)


def test_old_header_late_copy_of_the_event_before_does_not_become_part_of_the_next() -> None:
    reassembler = Reassembler(old_headers=True)
    first, second = cut(b"a" * 250, version=1), cut(b"b" * 250, version=1)
    for piece in (*first, second[0], first[1], second[2]):
        event = reassembler.receive(piece, 0.0)
        assert event is None or event.data == b"a" * 250
    assert reassembler.receive(second[1], 0.1) is not None
    assert (reassembler.counters.events_complete, reassembler.counters.duplicates) == (2, 1)


def test_old_header_event_amid_which_another_may_have_begun_is_lost_where_its_parts_change_order() -> None:
    reassembler = Reassembler(old_headers=True)
    first, second = cut(b"a" * 250, version=1), cut(b"b" * 250, version=1)
    assert handed(reassembler, [*first, second[0], first[0], second[2], second[1]], 0.0, ("a", 1)) == 1
    assert [event.loss for event in reassembler.expire(0.0)] == [Loss.CONTRADICTION]


@pytest.mark.parametrize("sizes", [(250, 250, 250, 250), (250, 149, 350, 80, 250), (80, 80, 80, 80)])
def test_old_header_events_of_zeros_are_told_from_copies_of_each_other(sizes: tuple[int, ...]) -> None:
    reassembler = Reassembler(old_headers=True)
    pieces = [piece for size in sizes for piece in cut(bytes(size), version=1)]
    assert handed(reassembler, pieces, 0.0, ("a", 1)) == len(sizes)


def test_old_header_content_that_repeats_is_recognised_after_some_events() -> None:
    reassembler = Reassembler(old_headers=True, timeout_s=0.5)
    chance = random.Random(1)
    padding, complete = b"x" * 100, []
    for number in range(8):
        data = chance.randbytes(100) + padding + chance.randbytes(50)
        got = handed(reassembler, cut(data, version=1), 0.01 * number, ("a", 1))
        complete.append(got)
    assert complete == [1, 0, 0, 0, 1, 1, 1, 1]
    reassembler.expire(9.0)
    assert reassembler.counters.events_lost == 3


def test_old_header_event_whose_first_packet_is_lost_counts_as_lost() -> None:
    reassembler = Reassembler(old_headers=True)
    sent = [cut(bytes([n]) * 250, version=1) for n in range(3)]
    assert handed(reassembler, [*sent[0], *sent[1][1:], *sent[2]], 0.0, ("a", 1)) == 2
    (lost,) = reassembler.expire(0.0)
    assert (lost.loss, lost.reason) == (Loss.NO_BEGINNING, "its first packet did not arrive")
    assert reassembler.counters.rejected == 2


def test_old_header_packet_is_no_late_one_of_an_event_that_was_lost_long_before() -> None:
    reassembler = Reassembler(old_headers=True, timeout_s=0.5)
    lost, whole, headless = (cut(bytes([n]) * 250, version=1) for n in range(3))
    handed(reassembler, lost[:2], 0.0, ("a", 1))
    assert [event.loss for event in reassembler.expire(0.6)] == [Loss.TIMEOUT]
    assert handed(reassembler, whole, 0.9, ("a", 1)) == 1
    assert handed(reassembler, headless[2:], 1.2, ("a", 1)) == 0
    assert [event.loss for event in reassembler.expire(1.2)] == [Loss.NO_BEGINNING]


def part(offset: int, data: bytes, *, last: bool = False) -> bytes:
    """Return a packet of header version 1."""
    return SegmentHeader(data_id=7, offset=offset, first=offset == 0, last=last).build() + data


def test_old_header_last_part_that_another_event_overtook_ends_no_event_of_others() -> None:
    reassembler = Reassembler(old_headers=True)
    overtaken = [
        part(0, b"a" * 100),
        part(0, b"b" * 50),
        part(100, b"a" * 100, last=True),
        part(50, b"b" * 50),
    ]
    assert handed(reassembler, overtaken, 0.0, ("a", 1)) == 0


def test_old_header_event_with_a_doubtful_part_is_lost_once() -> None:
    reassembler = Reassembler(old_headers=True)
    before = [part(0, b"a" * 100), part(200, b"a" * 100, last=True)]
    doubtful = [part(0, b"b" * 50), part(100, b"a" * 100)]
    others = [part(50, b"b" * 70), part(120, b"b" * 280, last=True)]
    assert handed(reassembler, [*before, *doubtful, *others], 0.0, ("a", 1)) == 0
    assert [event.loss for event in reassembler.expire(0.0)] == [Loss.CONTRADICTION]
    assert [event.loss for event in reassembler.expire(9.0)] == [Loss.TIMEOUT]


def test_what_came_is_counted_in_packets_and_bytes() -> None:
    reassembler = Reassembler()
    pieces = [*cut(b"a" * 250), b"malformed"]
    handed(reassembler, pieces, 0.0, ("a", 1))
    counters = reassembler.counters
    assert (counters.packets, counters.bytes) == (4, sum(map(len, pieces)))


def test_bytes_of_ended_events_take_bounded_memory_and_their_numbers_are_remembered_longer() -> None:
    reassembler = Reassembler()
    big = [cut(bytes(1 << 20), event=n, room=60_000) for n in range(39)]
    for run in range(2):
        now = 10.0 * run
        assert handed(reassembler, [piece for pieces in big for piece in pieces], now, ("a", 1)) == 39
        assert 15 << 20 < reassembler.kept < 17 << 20
        assert handed(reassembler, big[0], now + 0.1, ("a", 1)) == 0
        assert reassembler.counters.late == len(big[0]) * (run + 1)
        reassembler.expire(now + 9.0)
        assert (reassembler.kept, reassembler.held) == (0, 0)


def test_first_bytes_that_are_missing_are_reported_too() -> None:
    reassembler = Reassembler()
    reassembler.receive(cut(bytes(250))[1], 0.0)
    (lost,) = reassembler.expire(9.0)
    assert lost.missing == ((0, 100), (200, 250))


@given(pieces=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=12))
def test_parts_in_any_order_and_overlap_are_the_bytes_that_came(pieces: list[tuple[int, int]]) -> None:
    whole, came, parts = bytes(range(60)), set[int](), Parts()
    for offset, length in pieces:
        data = whole[offset : offset + length]
        assert parts.known(offset, data) == len(came & {*range(offset, offset + length)})
        parts.add(offset, data)
        came |= {*range(offset, offset + length)}
    assert parts.joined == bytes(sorted(came))
    assert (parts.received, parts.end) == (len(came), max(came, default=-1) + 1)
    missing = {at for start, end in parts.missing(60) for at in range(start, end)}
    assert missing == {*range(60)} - came


def test_counters_of_several_receivers_add_up() -> None:
    total = ReassemblyCounters(packets=1, events_lost=2)
    total.add(ReassemblyCounters(packets=3, events_lost=4))
    assert (total.packets, total.events_lost) == (4, 6)


def test_packet_over_ipv6_has_20_bytes_less_for_an_event() -> None:
    assert Segmenter(ip_version=6).room == Segmenter(ip_version=4).room - 20
