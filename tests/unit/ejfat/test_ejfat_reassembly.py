from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.reassembly import EventKey, Reassembler
from ejfat.segmentation import Segmenter
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


@given(
    length=st.integers(1, 300),
    cuts=st.lists(st.tuples(st.integers(0, 299), st.integers(1, 80)), max_size=40),
    seed=st.integers(),
)
def test_overlapping_pieces_are_complete_only_when_they_cover_the_event(
    length: int, cuts: list[tuple[int, int]], seed: int
) -> None:
    data = random.Random(seed).randbytes(length)
    reassembler = Reassembler()
    have: set[int] = set()
    for offset, size in cuts:
        part = data[offset : offset + size]
        if offset >= length or not part:
            continue
        payload = ReHeader(data_id=1, offset=offset, length=length, event=1).build() + part
        was_whole = len(have) == length
        event = reassembler.receive(payload, 0.0)
        have |= set(range(offset, offset + len(part)))
        assert (event is not None) == (len(have) == length and not was_whole)
        if event is not None:
            assert event.data == data
            return
    lost = reassembler.expire(1.0)
    if have:
        assert {i for a, b in lost[0].missing for i in range(a, b)} == set(range(length)) - have


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
    assert reassembler.expire(99.0) == []
    assert reassembler.receive(payloads[1], 11.0) is None
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
    assert len(reassembler._done) < 20_000
    assert reassembler.pending == 0


@given(raw=st.binary(max_size=60), old=st.booleans())
def test_any_bytes_are_counted_never_an_exception(raw: bytes, old: bool) -> None:
    reassembler = Reassembler(old_headers=old)
    reassembler.receive(raw, 0.0)
    counters = reassembler.counters
    assert counters.packets == 1
    assert counters.malformed + counters.rejected + counters.late + counters.events_seen == 1


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
        segmenter = Segmenter(version=version, mtu=1500)
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
