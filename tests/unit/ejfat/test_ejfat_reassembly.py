from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.events.reassembly import EventKey, Reassembler
from ejfat.events.segmentation import Segmenter
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


class Model:
    """Knows each byte of the events with the header of versions 2 and 3; says what becomes of a packet."""

    def __init__(self) -> None:
        self.bytes: dict[EventKey, dict[int, int]] = {}
        self.of: dict[EventKey, tuple[str, int]] = {}
        self.ended: set[EventKey] = set()

    def receive(self, host: str, header: ReHeader, data: bytes) -> bytes | str:
        key = EventKey(header.event, header.data_id)
        if key in self.ended:
            return "late"
        length = self.of.get(key, (host, header.length))[1]
        if (
            self.of.get(key, (host, 0))[0] != host
            or header.length != length
            or header.offset + len(data) > length
        ):
            return "rejected"
        self.of[key] = host, length
        have = self.bytes.setdefault(key, {})
        part = dict(enumerate(data, start=header.offset))
        if any(have.get(at, value) != value for at, value in part.items()):
            self.ended.add(key)
            return "contradictory"
        is_new = bool(part.keys() - have.keys())
        have.update(part)
        if len(have) == length:
            self.ended.add(key)
            return bytes(have[at] for at in range(length))
        return "kept" if is_new or not data else "duplicates"


@given(seed=st.integers(0, 1 << 32), version=versions)
def test_event_is_handed_over_only_with_each_byte_as_it_was_sent(seed: int, version: int) -> None:
    chance = random.Random(seed)
    sent = {EventKey(n, d): chance.randbytes(chance.randrange(40)) for n in range(2) for d in range(2)}
    reassembler, model = Reassembler(timeout_s=10.0), Model()
    for _ in range(chance.randrange(1, 60)):
        key = chance.choice(list(sent))
        data = sent[key]
        offset = chance.randrange(len(data) + 1)
        part = data[offset : offset + chance.randrange(1, 30)]
        host, length = "sender", len(data)
        match chance.randrange(12):
            case 0:
                host = "stranger"
            case 1:
                length += chance.choice((-1, 1, 7)) if length else 1
            case 2:
                part += b"beyond"
            case 3 if part:
                part = bytes([part[0] ^ 1]) + part[1:]
            case 4:
                part = b""
        header = ReHeader(data_id=key.data_id, offset=offset, length=length, event=key.event)
        before = replace(reassembler.counters)
        event = reassembler.receive(header.build() + part, 0.0, (host, chance.randrange(1024, 1026)))
        expected = model.receive(host, header, part)
        if isinstance(expected, bytes):
            assert event is not None
            assert (event.key, event.data) == (key, expected)
        else:
            assert event is None
            counted = {"late": "late", "rejected": "rejected", "duplicates": "duplicates"}
            for name in counted.values():
                more = name == counted.get(expected) or (name == "rejected" and expected == "contradictory")
                assert getattr(reassembler.counters, name) - getattr(before, name) == more, name
            assert reassembler.counters.events_contradictory - before.events_contradictory == (
                expected == "contradictory"
            )
        assert reassembler.held == sum(pending.cost for pending in reassembler._pending.values())
    lost = {event.key: event for event in reassembler.expire(99.0)}
    for key, have in model.bytes.items():
        if key not in model.ended:
            holes = {at for start, stop in lost[key].missing for at in range(start, stop)}
            assert holes == set(range(model.of[key][1])) - have.keys()
    assert (reassembler.pending, reassembler.held) == (0, 0)


@given(seed=st.integers(0, 1 << 32), ticks=st.booleans())
def test_old_header_events_that_a_tick_or_a_port_tells_apart_are_right(seed: int, ticks: bool) -> None:
    """Law: whatever is lost, late or doubled."""
    chance = random.Random(seed)
    sent, packets = [], []
    for number in range(chance.randrange(1, 6)):
        data = chance.randbytes(chance.randrange(500))
        sent.append(data)
        pieces = cut(data, version=1, event=number, data_id=7, strip=not ticks)
        port = 1 if ticks else number
        packets += [(piece, ("h", port)) for piece in pieces for _ in range(chance.choice((0, 1, 1, 1, 2)))]
    chance.shuffle(packets)
    reassembler = Reassembler(old_headers=True)
    events = [event for piece, source in packets if (event := reassembler.receive(piece, 0.0, source))]
    for event in events:
        assert event.data in sent
        if ticks:
            assert event.data == sent[event.key.event]
    assert len({event.key for event in events}) == len(events)
    counters = reassembler.counters
    assert len(events) + len(reassembler.expire(9.0)) == counters.events_complete + counters.events_lost
    if ticks:
        assert counters.events_complete + counters.events_lost == counters.events_seen


def late_or_lost(chance: random.Random, events: list[list[bytes]]) -> list[bytes]:
    """Return the packets of events as they arrive: some lost, some doubled, and some of every second event late.

    The receiver starts amid the first event; no other first packet is lost. A late packet arrives during the next
    event, after a later packet of its own event has arrived in time.
    """
    arrive: list[bytes] = []
    late: list[bytes] = []
    for number, pieces in enumerate(events):
        here = [pieces[0]]
        last = max((at for at in range(1, len(pieces)) if chance.random() < 0.85), default=0)
        behind = []
        for at in range(1, last + 1):
            if at < last and number % 2 and chance.random() < 0.3:
                behind.append(pieces[at])
            elif at == last or chance.random() < 0.85:
                here += [pieces[at]] * chance.choice((1, 1, 1, 2))
        for piece in late:
            here.insert(chance.randrange(1, len(here) + 1), piece)
        arrive += here if number else here[chance.randrange(len(here)) :]
        late = behind
    return arrive


@given(seed=st.integers(0, 1 << 32), equal=st.booleans())
def test_old_header_late_packet_does_not_end_up_in_the_next_event(seed: int, equal: bool) -> None:
    chance = random.Random(seed)
    size = chance.randrange(101, 700)
    sent = [chance.randbytes(size if equal else chance.randrange(101, 700)) for _ in range(6)]
    reassembler = Reassembler(old_headers=True)
    for piece in late_or_lost(chance, [cut(data, version=1) for data in sent]):
        event = reassembler.receive(piece, 0.0, ("h", 1))
        assert event is None or event.data in sent
    counters = reassembler.counters
    reassembler.expire(9.0)
    assert counters.events_complete + counters.events_lost == counters.events_seen


def test_old_header_receiver_that_starts_amid_an_event_waits_for_the_next() -> None:
    reassembler = Reassembler(old_headers=True)
    sent = [bytes([number]) * 250 for number in range(3)]
    packets = [payload for data in sent for payload in cut(data, version=1)][2:]
    events = [event for payload in packets if (event := reassembler.receive(payload, 0.0))]
    assert [event.data for event in events] == sent[1:]
    assert reassembler.counters.rejected == 1


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
    assert len(reassembler._streams) <= 16384
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


def test_summary_names_what_brought_nothing_and_why_events_were_lost() -> None:
    reassembler = Reassembler(max_event=249)
    for payload in (*cut(bytes(250)), *cut(bytes(249), event=2), cut(bytes(10), event=2)[0], bytes(3)):
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


@pytest.mark.parametrize("version", [0, 1, 2])
def test_reassembly_header_of_each_public_sender_is_taken(version: int) -> None:
    reassembler = Reassembler()
    header = ReHeader(version=version, data_id=3, offset=0, length=5, event=9).build()
    event = reassembler.receive(header + b"hello", 0.0, ("10.0.0.1", 1))
    assert event is not None
    assert (event.key.event, event.data) == (9, b"hello")
    assert reassembler.receive(b"\x30" + header[1:] + b"hello", 0.0, ("10.0.0.1", 1)) is None
