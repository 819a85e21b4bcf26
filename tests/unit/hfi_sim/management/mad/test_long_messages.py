"""Messages longer than a MAD between the MAD stacks of two ports: both ways, with losses, abandoned, hostile."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.sends import ACK_S, MAX_LEAVING_BYTES, MAX_TO_ONE, Send, SendEnd, Sends, Where
from hfi_sim.management.mad.transfers import MAX_ARRIVING_BYTES, MAX_MESSAGE, Arrivals, MessageKey
from hfi_sim.wire.mad.header import MAD_SIZE, Mad, MadHeader, MadStatus, RmppHeader
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, RmppFlag, RmppType, Segmented
from unit.hfi_sim.fabric_pair import Pair, make_pair

SA = 0x03
HEAD = 56
WHERE = Where(1, 0, 1, None)
RMPP = RmppHeader(RMPP_VERSION, RmppType.DATA, RmppFlag.ACTIVE).build()


def sa_mad(method: int, data: bytes = b"", *, tid: int = 5, active: bool = True, base: int = 0x80) -> Mad:
    header = MadHeader(
        base_version=base, mgmt_class=SA, class_version=base, method=method, tid=tid, attr_id=0x11
    )
    return Mad(header, (RMPP if active else bytes(12)) + bytes(20) + data)


def clock_and_pair(seed: int = 0) -> tuple[ManualClock, Pair]:
    clock = ManualClock()
    return clock, make_pair(Fabric(clock, seed=seed))


def ask(pair: Pair, mad: Mad | None = None, **options: float) -> list[Mad | None]:
    """Ask `b` for a table, or what is given; return where the answer will be."""
    answers: list[Mad | None] = []
    pair.a.mad.submit(pair.b.lid, mad or sa_mad(0x12, active=False), answers.append, **options)  # type: ignore[arg-type]
    return answers


def table(size: int) -> bytes:
    return bytes(n % 251 for n in range(size))


def answer_with(pair: Pair, data: bytes, base: int = 0x80) -> list[MadRequest]:
    """Let an agent on `b` answer every GetTable with `data`; return what it is asked."""
    asked: list[MadRequest] = []

    def answer(request: MadRequest) -> bytes:
        asked.append(request)
        return sa_mad(0x92, data, tid=request.header.tid, base=base).build()

    pair.b.mad.register_agent(SA, None, [0x12], answer)
    return asked


@pytest.mark.parametrize("base", [1, 0x80])
@pytest.mark.parametrize("size", [0, 1, 199, 200, 201, 1992, 1993, 100_000])
def test_a_long_response_arrives_whole_and_exact(size: int, base: int) -> None:
    clock, pair = clock_and_pair()
    answer_with(pair, table(size), base)
    answers = ask(pair, sa_mad(0x12, active=False, base=base))
    clock.advance(1)
    assert [answer and answer.data[HEAD - 24 :] for answer in answers] == [table(size)]
    assert pair.fabric.balance() == {}


@pytest.mark.parametrize("size", [1992, 1993, 50_000])
def test_a_long_request_arrives_whole_and_exact(size: int) -> None:
    clock, pair = clock_and_pair()
    asked = answer_with(pair, b"thanks")
    answers = ask(pair, sa_mad(0x12, table(size)))
    clock.advance(1)
    assert [request.mad[HEAD:] for request in asked] == [table(size).ljust(1992, b"\0")]
    assert [answer and answer.data[HEAD - 24 :] for answer in answers] == [b"thanks"]


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(0, 40_000))
@settings(max_examples=25)
def test_losses_delay_a_message_and_never_spoil_it(seed: int, size: int) -> None:
    clock, pair = clock_and_pair(seed)
    answer_with(pair, table(size))
    faults = Faults(pair.fabric)
    faults.add("loss on b 10%")
    answers = ask(pair, timeout_s=30, retries=10)
    clock.advance(600)
    assert len(answers) == 1
    assert answers[0] is None or answers[0].data[HEAD - 24 :] == table(size)
    assert pair.fabric.balance() == {}


def test_a_receiver_that_never_acknowledges_is_given_up() -> None:
    clock, pair = clock_and_pair()
    answer_with(pair, table(10_000))
    pair.a.mad.send(pair.b.lid, sa_mad(0x12, active=False).build())  # nobody waits for the response
    clock.advance(60)
    assert pair.a.mad.counters.drops == {Drop.MAD_UNMATCHED: 4}, "the first segment, and three times again"
    assert pair.fabric.balance() == {}


def test_a_port_that_asks_too_much_at_once_is_told_to_wait() -> None:
    clock, pair = clock_and_pair()
    answer_with(pair, table(10_000))
    for tid in range(1, MAX_TO_ONE + 1):
        pair.a.mad.send(pair.b.lid, sa_mad(0x12, tid=tid, active=False).build())
    answers = ask(pair, sa_mad(0x12, tid=99, active=False))
    clock.advance(1e-4)
    assert [answer and answer.header.status for answer in answers] == [MadStatus.BUSY]


def test_a_message_that_is_too_long_is_stopped() -> None:
    clock, pair = clock_and_pair()
    asked = answer_with(pair, b"")
    with pytest.raises(FabricError, match="too many long messages"):
        pair.a.mad.submit(pair.b.lid, sa_mad(0x12, bytes(MAX_MESSAGE)), lambda _answer: None)
    segment = bytearray(sa_mad(0x12).build().ljust(MAD_SIZE, b"\0"))
    for number in range(1, MAX_MESSAGE // MAD_SIZE + 3):
        segment[24:36] = RmppHeader(1, RmppType.DATA, RmppFlag.ACTIVE, 0, number).build()
        pair.a.mad.send(pair.b.lid, bytes(segment))
        clock.advance(1e-3)
    assert pair.b.mad.counters.drops[Drop.MAD_UNMATCHED] >= 1
    assert asked == []


def test_a_requester_whose_response_is_never_complete_hears_so() -> None:
    clock, pair = clock_and_pair()

    def half(request: MadRequest) -> None:
        segment = bytearray(sa_mad(0x92, tid=request.header.tid).build().ljust(MAD_SIZE, b"\0"))
        segment[24:36] = RmppHeader(1, RmppType.DATA, RmppFlag.ACTIVE | RmppFlag.FIRST, 0, 1, 99_999).build()
        pair.b.mad.send(request.slid, bytes(segment))

    pair.b.mad.register_agent(SA, None, [0x12], half)
    answers = ask(pair, timeout_s=1, retries=1)
    clock.advance(5 * ACK_S)
    assert answers == [None]


@given(wire=st.binary(min_size=33, max_size=80), method=st.sampled_from([0x12, 0x92, 0x81, 0x86]))
def test_any_bytes_after_the_header_are_taken_or_counted(wire: bytes, method: int) -> None:
    clock, pair = clock_and_pair()
    answer_with(pair, table(5_000))
    answers: list[Mad | None] = []
    pair.b.mad.submit(pair.a.lid, sa_mad(0x12, active=False), answers.append, timeout_s=1, retries=0)
    header = sa_mad(method).header.build()
    pair.a.mad.send(pair.b.lid, header + wire)
    clock.advance(100)
    assert len(answers) == 1
    assert pair.fabric.balance() == {}


def test_messages_that_arrive_do_not_fill_the_memory() -> None:
    arrivals = Arrivals()
    keys = [MessageKey(1, tid, SA, 0x12) for tid in range(8)]
    heads = {key: sa_mad(0x12, tid=key.tid).build() for key in keys}
    for number in range(1, 2 + MAX_ARRIVING_BYTES // len(keys) // MAD_SIZE):
        rmpp = RmppHeader(RMPP_VERSION, RmppType.DATA, RmppFlag.ACTIVE, 0, number).build()
        for key, head in heads.items():
            arrivals.receive(0.0, key, (head[:24] + rmpp + head[36:]).ljust(MAD_SIZE, b"\0"))
    assert 0 < arrivals.size <= MAX_ARRIVING_BYTES
    assert len(arrivals) == len(keys) - 1, "the oldest has given way"
    arrivals.expire(1e6)
    assert (len(arrivals), arrivals.size) == (0, 0)


def test_messages_that_leave_do_not_fill_the_memory() -> None:
    sends, ends = Sends(), []
    message = sa_mad(0x92, bytes(MAX_MESSAGE - 200)).build()
    room = MAX_LEAVING_BYTES // len(message)
    for lid in range(room):
        assert sends.has_room(lid, len(message))
        sends.begin(0.0, Send((lid, 5, SA, True), WHERE, Segmented(message), ends.append, size=len(message)))
    assert not sends.has_room(room, len(message))
    while (due := sends.next_deadline()) is not None:
        sends.expire(due)
    while (ended := sends.next_given_up()) is not None:
        ended(SendEnd.TIMED_OUT)
    assert ends == [SendEnd.TIMED_OUT] * room
    assert sends.has_room(room, len(message)), "once nobody has acknowledged the others"
