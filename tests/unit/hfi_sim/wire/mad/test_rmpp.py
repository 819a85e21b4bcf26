"""RMPP between programs: one end does its segments itself or leaves them to the device, any message arrives."""

from __future__ import annotations

import contextlib
import errno
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.transfers import MAX_MESSAGE, Arrivals, MessageKey
from hfi_sim.management.umad.abi import UmadError
from hfi_sim.management.umad.file import UmadFile
from hfi_sim.management.umad.service import UmadService
from hfi_sim.wire.mad.header import RmppHeader
from hfi_sim.wire.mad.rmpp import Reassembly, RmppType, Segmented, rmpp_of
from unit.hfi_sim.fabric_pair import make_pair
from unit.hfi_sim.management.umad.umad_program import OUI, agent_on, ema, message, received

BIG = 1 << 20
ACTIVE = struct.pack(">4B2I", 1, 1, 1, 0, 0, 0)


def table(data: bytes, method: int = 0x92, tid: int = 5, mgmt_class: int = 3) -> bytes:
    """Return a message of subnet administration, or of a vendor class, as a program writes it."""
    head = struct.pack(">4BHHQHHI", 0x80, mgmt_class, 0x80, method, 0, 0, tid, 0x11, 0, 0) + ACTIVE
    return head + (bytes(20) if mgmt_class == 3 else b"\0" + OUI) + data


@given(st.integers(0, 70_000), st.integers(0, 1 << 32), st.booleans())
def test_message_survives_loss_and_disorder(length: int, seed: int, vendor: bool) -> None:
    chance = random.Random(seed)
    whole = table(bytes(i * 7 & 0xFF for i in range(length)), mgmt_class=0x32 if vendor else 3)
    sender, receiver = Segmented(whole), Reassembly()
    for _ in range(1000):
        segments = list(sender.due())
        chance.shuffle(segments)
        for segment in segments:
            ack = receiver.add(segment) if chance.random() > 0.2 else None
            if ack is not None and chance.random() > 0.2:
                sender.acknowledge(rmpp_of(ack))
        if sender.complete:
            break
        sender.repeat()
    assert receiver.complete
    got = receiver.take()
    head = 40 if vendor else 56
    assert got[head : head + length] == whole[head:]
    surplus = len(got) - len(whole)
    assert surplus == 0 or (surplus > 0 and not any(got[len(whole) :]) and surplus <= head - 36), (
        "as from the kernel"
    )


def segments_of(whole: bytes) -> list[bytes]:
    """Return the segments of a message."""
    sender = Segmented(whole)
    sender.acknowledge(RmppHeader(1, RmppType.ACK, 1, 0, 0, 1 << 16))
    return list(sender.due())


@given(seed=st.integers(0, 1 << 32))
def test_message_is_handed_over_as_it_was_sent_or_refused(seed: int) -> None:
    """Law: whatever segments of several messages are lost, late, doubled, changed, or behind the last one."""
    chance = random.Random(seed)
    arrivals = Arrivals()
    sent: dict[MessageKey, bytes] = {}
    packets: list[tuple[MessageKey, bytes]] = []
    changed: set[MessageKey] = set()
    for lid, tid, method in ((1, 5, 0x92), (2, 5, 0x92), (1, 6, 0x92), (1, 5, 0x12)):
        whole = table(chance.randbytes(chance.randrange(9000)), method=method, tid=tid)
        key = MessageKey(lid, tid, 3, method)
        sent[key] = whole
        segments = segments_of(whole)
        for number, segment in enumerate(segments):
            packets += [(key, segment)] * chance.choice((0, 1, 1, 1, 1, 1, 2))
            if chance.random() < 0.1:
                other = bytearray(segment)
                if number == len(segments) - 1 and chance.random() < 0.5:  # the number behind the last
                    other[28:32] = (number + 2).to_bytes(4)
                else:
                    other[-1 - chance.randrange(1000)] ^= 1
                packets.append((key, bytes(other)))
                changed.add(key)
    chance.shuffle(packets)
    seen: dict[tuple[MessageKey, int], set[bytes]] = {}
    done: dict[MessageKey, bytes] = {}
    for _ in range(3):  # as the sender repeats what is not acknowledged
        for key, segment in packets:
            arrival = arrivals.receive(0.0, key, segment)
            if key in done:
                assert arrival.message is None
                continue
            seen.setdefault((key, rmpp_of(segment).segment), set()).add(segment)
            if arrival.message is not None:
                done[key] = arrival.message
                if key not in changed:
                    assert arrival.message[56:] == sent[key][56:]
            assert not arrival.refused or arrival.answer is None or key in changed
            if arrival.refused:
                seen = {at: known for at, known in seen.items() if at[0] != key}
                assert key not in arrivals
    for key, got in done.items():
        parts = [known for (of, _), known in sorted(seen.items()) if of == key]
        assert all(len(known) == 1 for known in parts), "nothing that contradicts itself is handed over"
        assert b"".join(part[56:] for (part,) in parts).startswith(got[56:])
    whole = {key for key in sent if all((key, one) in packets for one in segments_of(sent[key]))}
    assert whole - changed <= done.keys()
    arrivals.expire(1e6)
    assert (len(arrivals), arrivals.size) == (0, 0)


class Talk:
    """A program at each of two ports; both leave RMPP to the device."""

    def __init__(self, flags: int = 0, faults: str = "") -> None:
        self.clock = ManualClock()
        self.pair = make_pair(Fabric(self.clock, timer_resolution_s=1e-3))
        self.client = UmadService(self.pair.a).open()
        self.server = UmadService(self.pair.b).open()
        self.asking = agent_on(self.client, mgmt_class=3, rmpp=1)
        self.serving = agent_on(self.server, 0x12, 0x14, mgmt_class=3, rmpp=1, flags=flags)

    def ask(self, timeout_ms: int = 1000) -> bytes:
        """Send a GetTable; return it as the server reads it."""
        plain = struct.pack(">4BHHQHHI", 0x80, 3, 0x80, 0x12, 0, 0, 5, 0x11, 0, 0).ljust(2048, b"\0")
        self.client.write(message(self.asking, plain, self.pair.b.lid, timeout_ms=timeout_ms))
        self.clock.advance()
        return received(self.server.read(BIG) or b"").mad

    def answer(self, asked: bytes, data: bytes) -> None:
        whole = table(data, tid=int.from_bytes(asked[8:16]))
        self.server.write(message(self.serving, whole, self.pair.a.lid))
        self.clock.advance(0.1)


def test_table_of_many_segments_is_read_as_one_message() -> None:
    talk = Talk()
    data = bytes(range(256)) * 1200  # 155 segments, three windows
    talk.answer(talk.ask(), data)
    got = received(talk.client.read(BIG) or b"")
    assert got.mad[56 : 56 + len(data)] == data
    assert got.length == 64 + len(got.mad)
    assert talk.client.read(BIG) is None
    assert talk.pair.fabric.balance() == {}


def test_port_answers_itself_and_others_under_one_transaction_id() -> None:
    talk = Talk()
    port, other = talk.pair.a, talk.pair.b  # `a` may talk to itself: it is a full member
    own = UmadService(port)
    server, client = own.open(), own.open()
    serving, asking = agent_on(server, 0x12, mgmt_class=3, rmpp=1), agent_on(client, mgmt_class=3, rmpp=1)
    plain = struct.pack(">4BHHQHHI", 0x80, 3, 0x80, 0x12, 0, 0, 5, 0x11, 0, 0).ljust(2048, b"\0")
    client.write(message(asking, plain, port.lid, timeout_ms=1000))
    talk.clock.advance()
    tid = int.from_bytes(received(server.read(BIG) or b"").mad[8:16])
    for lid in (other.lid, port.lid):  # as if a program at the other port had chosen the same id
        server.write(message(serving, table(bytes(9000), tid=tid), lid))
    talk.clock.advance(0.1)
    assert len(received(client.read(BIG) or b"").mad) == 56 + 9000
    assert talk.pair.fabric.balance() == {}


def test_small_buffer_gets_the_first_segment_and_enospc_and_the_message_stays() -> None:
    talk = Talk()
    talk.answer(talk.ask(), bytes(5000))
    for size, number, head in ((64 + 2047, errno.EINVAL, 0), (64 + 2048, errno.ENOSPC, 64 + 2048)):
        with pytest.raises(UmadError) as info:
            talk.client.read(size)
        assert (info.value.errno, len(info.value.head)) == (number, head)
    assert struct.unpack_from("<I", info.value.head, 16)[0] == 64 + 56 + 5000 + 0, (
        "libibumad reads the length there"
    )
    assert talk.client.read(BIG) is not None


@given(length=st.integers(0, 9000), sizes=st.lists(st.integers(0, 12_000), max_size=8))
def test_read_of_any_size_gives_the_whole_message_or_leaves_it(length: int, sizes: list[int]) -> None:
    talk = Talk()
    data = bytes(at * 7 & 0xFF for at in range(length))
    talk.answer(talk.ask(), data)
    got: bytes | None = None
    for size in (*sizes, BIG):
        with contextlib.suppress(UmadError):
            got = got or talk.client.read(size)
    assert got is not None
    assert received(got).mad[56 : 56 + length] == data
    assert talk.client.read(BIG) is None


def test_lost_segments_are_sent_again() -> None:
    talk = Talk()
    asked = talk.ask(timeout_ms=60_000)
    link = talk.pair.b.link
    assert link is not None
    whole = table(bytes(9000), tid=int.from_bytes(asked[8:16]))
    link.hold_down("test", True)
    data = message(talk.serving, whole, talk.pair.a.lid, retries=5)
    talk.server.write(data)
    talk.clock.advance(1.0)
    link.hold_down("test", False)
    talk.pair.sm.sweep()
    talk.clock.advance(10.0)
    assert len(received(talk.client.read(BIG) or b"").mad) == 56 + 9000


def test_message_that_nobody_acknowledges_comes_back() -> None:
    talk = Talk()
    whole = table(bytes(9000), tid=77)
    talk.server.write(message(talk.serving, whole, 0x77, retries=1))
    talk.clock.advance(3.9)
    assert talk.server.read(BIG) is None
    talk.clock.advance(0.2)
    assert received(talk.server.read(BIG) or b"").status == errno.ETIMEDOUT


def test_message_longer_than_any_is_refused_and_does_not_fill_the_memory() -> None:
    talk = Talk()
    with pytest.raises(UmadError) as info:
        talk.server.write(message(talk.serving, table(bytes(MAX_MESSAGE)), talk.pair.a.lid))
    assert info.value.errno == errno.EINVAL


def test_program_that_does_rmpp_itself_gets_every_segment() -> None:
    talk = Talk()
    own: UmadFile = UmadService(talk.pair.a).open()  # it takes the place of the client's
    agent = agent_on(own, mgmt_class=3, rmpp=1, flags=1)
    plain = struct.pack(">4BHHQHHI", 0x80, 3, 0x80, 0x12, 0, 0, 5, 0x11, 0, 0).ljust(2048, b"\0")
    own.write(message(agent, plain, talk.pair.b.lid, timeout_ms=100))
    talk.clock.advance()
    talk.answer(received(talk.server.read(BIG) or b"").mad, bytes(5000))
    first = received(own.read(BIG) or b"").mad
    assert rmpp_of(first).segment == 1
    assert own.read(BIG) is None, "the second one leaves when the program has acknowledged the first"
    ack = first[:3] + b"\x12" + first[4:24] + struct.pack(">4B2I", 1, 2, 1, 0, 1, 64)
    own.write(message(agent, ack.ljust(2048, b"\0"), talk.pair.b.lid))
    talk.clock.advance()
    assert [rmpp_of(received(own.read(BIG) or b"").mad).segment for _ in range(2)] == [2, 3]


def test_segments_of_strangers_are_dropped_and_forgotten() -> None:
    talk = Talk()
    segment = bytearray(table(bytes(1992), method=0x92, tid=1 << 32 | 99))
    segment[24:36] = struct.pack(">4B2I", 1, 1, 3, 0, 1, 0)
    talk.pair.b.mad.send(talk.pair.a.lid, bytes(segment))
    for tid in range(200):  # and a program's own service cannot be filled up
        half = bytearray(table(bytes(1992), method=0x14, tid=tid))
        half[24:36] = struct.pack(">4B2I", 1, 1, 3, 0, 1, 0)
        talk.pair.a.mad.send(talk.pair.b.lid, bytes(half))
    talk.clock.advance(100.0)
    assert talk.client.read(BIG) is None
    assert talk.server.read(BIG) is None
    assert talk.pair.fabric.balance() == {}


@pytest.mark.parametrize(
    ("rmpp", "status"), [((2, 1, 3, 0, 1, 0), 125), ((1, 1, 1, 0, 1, 0), 120), ((1, 9, 1, 0, 1, 0), 121)]
)
def test_segment_that_is_wrong_is_aborted_and_does_not_reach_the_program(
    rmpp: tuple[int, ...], status: int
) -> None:
    talk = Talk()
    heard: list[MadRequest] = []
    talk.pair.a.mad.give_rest_to(heard.append)
    segment = bytearray(table(bytes(1992), method=0x14, tid=5))
    segment[24:36] = struct.pack(">4B2I", *rmpp)
    talk.pair.a.mad.send(talk.pair.b.lid, bytes(segment))
    talk.clock.advance()
    assert talk.server.read(BIG) is None
    assert [request.mad[24:36] for request in heard] == [struct.pack(">4B2I", 1, 4, 1, status, 0, 0)]
    assert talk.pair.b.mad.counters.drops == {Drop.MAD_UNMATCHED: 1}


def test_message_that_its_receiver_aborts_is_not_heard_of_again() -> None:
    talk = Talk()
    whole = table(bytes(9000), tid=77)
    talk.server.write(message(talk.serving, whole, talk.pair.a.lid, retries=5))
    assert talk.server.waiting_bytes == len(whole)
    abort = whole[:3] + b"\x12" + whole[4:24] + struct.pack(">4B2I", 1, 4, 1, 120, 0, 0)
    talk.pair.a.mad.send(talk.pair.b.lid, abort.ljust(256, b"\0"))
    talk.clock.advance()
    assert talk.server.waiting_bytes == 0
    talk.clock.advance(60)
    assert talk.server.read(BIG) is None


def test_ema_mads_without_rmpp_pass_an_agent_with_rmpp() -> None:
    talk = Talk()
    file = talk.client
    agent = agent_on(file, rmpp=1)
    talk.pair.b.mad.register_agent(
        0x34, OUI, [1], lambda request: request.mad[:3] + b"\x81" + request.mad[4:]
    )
    file.write(message(agent, ema(), talk.pair.b.lid, timeout_ms=100))
    talk.clock.advance()
    assert received(file.read(BIG) or b"").mad[3] == 0x81
