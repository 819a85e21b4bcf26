"""Two endpoints back to back: what is sent arrives once and in order, or the connection closes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.management.reliable.config import (
    Closed,
    CloseReason,
    ConnectRequest,
    Established,
    MessageReceived,
    MessageSent,
    RcConfig,
    RcEvent,
    Rejected,
)
from hfi_sim.management.reliable.endpoint import MessageReceiver, RcEndpoint
from hfi_sim.management.reliable.sender import Sender
from hfi_sim.wire.reliable_header import SACK_BITS, RcFlags, RcHeader, RcOpcode

SERVICE = 7
LATENCY_S = 1e-5


class Pair:
    """Endpoints with LIDs 1 and 2 on a wire that may lose, double or hold back packets."""

    def __init__(self, config: RcConfig | None = None, seed: int = 1) -> None:
        self.clock = ManualClock()
        self.ends = {lid: RcEndpoint(random.Random(seed * 2 + lid).getrandbits, config) for lid in (1, 2)}
        self.events: dict[int, list[RcEvent]] = {1: [], 2: []}
        self.deliver: Callable[[int, bytes], list[float]] = lambda lid, packet: [LATENCY_S]
        self.packets: list[tuple[int, RcHeader]] = []
        self.auto_accept = True

    def run(self, until: float) -> None:
        """Let everything happen that is due up to `until` seconds."""
        for lid in self.ends:
            self._flush(lid)
        self.clock.advance(max(0.0, until - self.clock.time()))

    def _flush(self, lid: int) -> None:
        end = self.ends[lid]
        for event in end.events():
            self.events[lid].append(event)
            if isinstance(event, ConnectRequest) and self.auto_accept:
                end.accept(event.conn_id, b"yes")
        for dlid, packet in end.flush(self.clock.time()):
            self.packets.append((lid, RcHeader.parse(packet)))
            for delay in self.deliver(lid, packet):
                self.clock.call_later(delay, self._arrive, lid, dlid, packet)
        deadline = end.deadline()
        if deadline is not None:
            self.clock.call_at(deadline, self._timer, lid)

    def _arrive(self, source: int, target: int, packet: bytes) -> None:
        self.ends[target].receive(source, packet, self.clock.time())
        self._flush(target)

    def _timer(self, lid: int) -> None:
        self.ends[lid].on_timer(self.clock.time())
        self._flush(lid)

    def connect(self) -> tuple[int, int]:
        """Make a connection from 1 to 2; return its number at either end."""
        conn = self.ends[1].connect(2, SERVICE, b"may I")
        self.run(self.clock.time() + 1)
        (request,) = [e for e in self.events[2] if isinstance(e, ConnectRequest)]
        return conn, request.conn_id

    def received(self, lid: int) -> list[bytes]:
        return [event.data for event in self.events[lid] if isinstance(event, MessageReceived)]

    def sent(self, lid: int) -> list[int]:
        return [event.message_id for event in self.events[lid] if isinstance(event, MessageSent)]


def test_connect_accepted_carries_private_data_both_ways() -> None:
    pair = Pair()
    conn, peer = pair.connect()
    assert pair.events[1] == [Established(conn, b"yes")]
    assert pair.events[2] == [ConnectRequest(peer, 1, SERVICE, b"may I")]


def test_connect_rejected_tells_why_and_leaves_nothing() -> None:
    pair = Pair()
    pair.auto_accept = False
    conn = pair.ends[1].connect(2, SERVICE)
    pair.run(0.001)
    request = pair.events[2][0]
    assert isinstance(request, ConnectRequest)
    pair.ends[2].reject(request.conn_id, b"no room")
    pair.run(0.002)
    assert pair.events[1] == [Rejected(conn, b"no room")]
    assert pair.ends[1].connections == pair.ends[2].connections == 0


def test_connect_without_an_answer_fails_after_bounded_retries() -> None:
    pair = Pair(RcConfig(max_retries=3))
    pair.deliver = lambda lid, packet: []
    conn = pair.ends[1].connect(2, SERVICE)
    pair.run(60)
    assert [header.opcode for _, header in pair.packets] == [RcOpcode.REQ] * 4
    assert pair.events[1] == [Closed(conn, CloseReason.RETRIES)]


def test_connect_whose_answer_is_lost_is_accepted_only_once() -> None:
    pair = Pair()
    replies = iter([[], [LATENCY_S]])
    pair.deliver = lambda lid, packet: (
        next(replies, [LATENCY_S]) if packet[0] == RcOpcode.REP else [LATENCY_S]
    )
    conn, _ = pair.connect()
    assert pair.events[1] == [Established(conn, b"yes")]
    assert len(pair.events[2]) == 1
    assert pair.ends[2].connections == 1


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 100_000, 4 << 20])
def test_message_of_any_size_arrives_whole_and_is_reported_sent(size: int) -> None:
    pair = Pair()
    conn, _ = pair.connect()
    data = random.Random(size).randbytes(size)
    number = pair.ends[1].send(conn, 5, data)
    pair.run(10)
    assert pair.received(2) == [data]
    assert pair.sent(1) == [number]
    assert pair.ends[1].deadline() is None


def test_message_too_long_is_refused_to_the_caller() -> None:
    pair = Pair(RcConfig(max_message=10))
    conn, _ = pair.connect()
    with pytest.raises(ValueError, match="11 bytes; 10 are allowed"):
        pair.ends[1].send(conn, 0, bytes(11))


def test_message_too_long_from_a_peer_closes_the_connection_as_protocol_error() -> None:
    pair = Pair()
    pair.ends[2] = RcEndpoint(random.Random(9).getrandbits, RcConfig(max_message=100_000))
    conn, peer = pair.connect()
    pair.ends[1].send(conn, 0, bytes(200_000))
    pair.run(10)
    assert pair.events[2][-1] == Closed(peer, CloseReason.PROTOCOL)
    assert pair.events[1][-1] == Closed(conn, CloseReason.PEER)
    assert pair.received(2) == []


def test_window_is_never_exceeded() -> None:
    pair = Pair(RcConfig(window=4, max_payload=100))
    conn, _ = pair.connect()
    pair.packets.clear()
    pair.ends[1].send(conn, 0, bytes(10_000))
    pair.run(2)
    acked = worst = 0
    for lid, header in pair.packets:
        if lid == 2:
            acked = header.ack - 1
        else:
            worst = max(worst, header.psn - acked)
    assert pair.received(2) == [bytes(10_000)]
    assert worst <= 4


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32), loss=st.sampled_from([0.0, 0.05, 0.3]), sizes=st.lists(st.integers(0, 3000))
)
def test_messages_over_a_bad_wire_arrive_once_and_in_order(seed: int, loss: float, sizes: list[int]) -> None:
    rng = random.Random(seed)
    pair = Pair(RcConfig(max_payload=200, max_retries=50), seed)

    def deliver(lid: int, packet: bytes) -> list[float]:
        copies = 2 if rng.random() < 0.05 else 1
        return [LATENCY_S * rng.choice([1, 1, 1, 9]) for _ in range(copies) if rng.random() >= loss]

    pair.deliver = deliver
    conn = pair.ends[1].connect(2, SERVICE)
    pair.run(200)
    pair.deliver = deliver
    messages = [rng.randbytes(size) for size in sizes]
    numbers = [pair.ends[1].send(conn, 0, message) for message in messages]
    pair.run(2000)
    assert pair.received(2) == messages
    assert pair.sent(1) == numbers


def test_lost_packet_among_many_is_repeated_alone_and_without_waiting_for_the_timer() -> None:
    pair = Pair(RcConfig(max_payload=100))
    conn, _ = pair.connect()
    start = pair.clock.time()
    lose = iter([True])
    pair.deliver = lambda lid, packet: (
        []
        if packet[0] == RcOpcode.DATA and RcHeader.parse(packet).psn == 3 and next(lose, False)
        else [LATENCY_S]
    )
    pair.packets.clear()
    pair.ends[1].send(conn, 0, bytes(3000))
    pair.run(start + RcConfig().min_rto_s / 2)
    assert pair.received(2) == [bytes(3000)]
    data = [header.psn for lid, header in pair.packets if lid == 1]
    assert sorted(data) == sorted([*range(1, 31), 3])


def test_silent_peer_closes_the_connection_after_bounded_retries() -> None:
    pair = Pair()
    conn, _ = pair.connect()
    pair.deliver = lambda lid, packet: []
    pair.ends[1].send(conn, 0, b"anyone?")
    pair.run(pair.clock.time() + 10)
    assert pair.events[1][-1] == Closed(conn, CloseReason.RETRIES)
    assert pair.sent(1) == []
    repeats = [header for _, header in pair.packets if header.opcode == RcOpcode.DATA]
    assert len(repeats) == 1 + RcConfig().max_retries


def test_outage_shorter_than_the_retries_is_survived() -> None:
    pair = Pair()
    conn, _ = pair.connect()
    pair.deliver = lambda lid, packet: []
    pair.ends[1].send(conn, 0, bytes(1 << 20))
    pair.run(pair.clock.time() + 0.2)
    pair.deliver = lambda lid, packet: [LATENCY_S]
    pair.run(pair.clock.time() + 10)
    assert pair.received(2) == [bytes(1 << 20)]


def test_close_tells_the_peer() -> None:
    pair = Pair()
    conn, peer = pair.connect()
    pair.ends[1].close(conn)
    pair.run(2)
    assert pair.events[2][-1] == Closed(peer, CloseReason.PEER)
    assert pair.ends[1].connections == pair.ends[2].connections == 0


def test_data_for_a_forgotten_connection_is_answered_with_reset() -> None:
    pair = Pair()
    conn, peer = pair.connect()
    pair.deliver = lambda lid, packet: []
    pair.ends[2].close(peer)
    pair.run(1.1)
    pair.deliver = lambda lid, packet: [LATENCY_S]
    pair.ends[1].send(conn, 0, b"still there?")
    pair.run(2)
    assert pair.events[1][-1] == Closed(conn, CloseReason.RESET)


def test_packet_of_a_stranger_does_not_touch_a_connection() -> None:
    pair = Pair()
    conn, peer = pair.connect()
    forged = RcHeader(RcOpcode.CLOSE, dst_conn=peer, src_conn=conn).build()
    pair.ends[2].receive(99, forged, pair.clock.time())
    assert pair.ends[2].connections == 1


@given(st.lists(st.binary(max_size=80), max_size=20))
def test_any_packets_are_counted_never_raised(packets: list[bytes]) -> None:
    pair = Pair()
    conn, _ = pair.connect()
    for packet in packets:
        pair.ends[2].receive(1, packet, 1.0)
        pair.ends[2].flush(1.0)
    pair.ends[1].send(conn, 0, b"still works")
    pair.run(20)
    assert b"still works" in pair.received(2)


def test_acknowledgement_of_what_was_never_sent_is_ignored() -> None:
    pair = Pair()
    conn, peer = pair.connect()
    ack = RcHeader(RcOpcode.ACK, dst_conn=conn, src_conn=peer, ack=500, sack=(1 << 64) - 1).build()
    pair.ends[1].receive(2, ack, 1.0)
    number = pair.ends[1].send(conn, 0, b"x")
    pair.run(3)
    assert pair.sent(1) == [number]


def test_window_outside_what_an_acknowledgement_can_name_is_refused() -> None:
    with pytest.raises(ValueError, match="window 65 is not in 1 to 64"):
        RcConfig(window=65)


@given(seed=st.integers(0, 2**32))
def test_message_is_what_its_parts_were_in_order_whatever_comes_between(seed: int) -> None:
    """Law: for empty parts, too, and whatever is lost, late, doubled, or has a number out of reach."""
    rng = random.Random(seed)
    first = rng.choice((1, 0xFFFFFFF0))
    sent = [rng.randbytes(rng.randrange(50)) for _ in range(rng.randrange(1, 6))]
    packets: list[tuple[int, int, bytes]] = []
    for message in sent:
        at = 0
        while True:
            step = rng.choice((0, 1, 20))
            is_last = at + step >= len(message) and rng.random() < 0.7
            packets.append((len(packets), RcFlags.LAST if is_last else 0, message[at : at + step]))
            at += step
            if is_last:
                break
    receiver = MessageReceiver(first, 1 << 20)
    got: list[bytes] = []
    while (received := (receiver.ack - first) & 0xFFFFFFFF) < len(packets):
        for _ in range(20):
            number, flags, payload = rng.choice(packets[max(0, received - 3) : received + SACK_BITS])
            stray = rng.random() < 0.1
            psn = (first + number + (rng.randrange(1 << 16, 1 << 31) if stray else 0)) & 0xFFFFFFFF
            got += [data for _, data in receiver.receive(psn, flags, 0, b"stray" if stray else payload)]
    assert got == sent


def test_parts_without_bytes_take_no_memory() -> None:
    receiver = MessageReceiver(0, 100)
    for psn in range(10_000):
        assert list(receiver.receive(psn, 0, 0, b"")) == []
    assert len(receiver._parts) == 0
    assert list(receiver.receive(10_000, RcFlags.LAST, 3, b"end")) == [(3, b"end")]


def test_sequence_numbers_go_round() -> None:
    config = RcConfig(max_payload=1, window=8)
    sender, receiver = Sender(config, 0xFFFFFFF0), MessageReceiver(0xFFFFFFF0, 1 << 20)
    message = bytes(range(100))
    sender.push(1, 0, message)
    received: list[bytes] = []
    done: list[int] = []
    now = 0.0
    while not done:
        packets = sender.pull(now)
        for packet, flags in reversed(packets):
            for _, data in receiver.receive(packet.psn, flags, packet.tag, bytes(packet.payload)):
                received.append(data)
        now += 0.001
        done += sender.acknowledge(receiver.ack, receiver.sack, now)
    assert received == [message]
    assert done == [1]
    assert receiver.ack == 0xFFFFFFF0 + 100 - (1 << 32)
