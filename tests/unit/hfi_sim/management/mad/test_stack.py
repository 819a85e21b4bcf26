"""Requests, responses, retries and agents of the MAD stack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError, MadTimeoutError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.wire.mad.header import Mad, MadHeader
from unit.hfi_sim.fabric_pair import Pair, make_pair

OUI = bytes.fromhex("00066a")


def ema_mad(method: int, tid: int = 7, attr_id: int = 1) -> Mad:
    header = MadHeader(mgmt_class=0x34, method=method, tid=tid, attr_id=attr_id)
    return Mad(header, bytes(13) + OUI + bytes(2008))


def echo(request: MadRequest) -> bytes:
    return request.mad[:3] + b"\x81" + request.mad[4:]


def _submit(pair: Pair, tid: int = 7, **options: float) -> list[Mad | None]:
    answers: list[Mad | None] = []
    pair.a.mad.submit(pair.b.lid, ema_mad(1, tid), answers.append, **options)  # type: ignore[arg-type]
    return answers


def test_submit_to_agent_gets_one_response_of_same_tid() -> None:
    pair = make_pair()
    pair.b.mad.register_agent(0x34, OUI, [1, 2], echo)
    answers = _submit(pair)
    assert [answer and answer.header.tid for answer in answers] == [7]
    assert pair.fabric.balance() == {}


def test_submit_tid_zero_gets_a_fresh_one() -> None:
    pair = make_pair()
    pair.b.mad.register_agent(0x34, OUI, [1], echo)
    answers = _submit(pair, tid=0)
    assert answers[0] is not None
    assert answers[0].header.tid != 0


def deaf(_request: MadRequest) -> None:
    """Hear a request and say nothing."""


def test_submit_without_answer_retries_then_reports_none_once() -> None:
    clock = ManualClock()
    pair = make_pair(Fabric(clock, timer_resolution_s=1e-3))
    pair.b.mad.register_agent(0x34, OUI, [1], deaf)
    answers = _submit(pair, timeout_s=1.0, retries=2)
    clock.advance(2.5)
    assert answers == []
    clock.advance(10)
    assert answers == [None]
    assert pair.a.mad.sent == 3
    assert pair.fabric.balance() == {}


def test_submit_response_lost_once_is_answered_after_retry() -> None:
    clock = ManualClock()
    pair = make_pair(Fabric(clock, timer_resolution_s=1e-3))
    dropped = []

    def deaf_once(request: MadRequest) -> bytes | None:
        if not dropped:
            dropped.append(request)
            return None
        return echo(request)

    pair.b.mad.register_agent(0x34, OUI, [1], deaf_once)
    answers = _submit(pair, timeout_s=0.1)
    clock.advance(0.2)
    assert len(answers) == 1
    assert answers[0] is not None


def test_submit_same_tid_while_open_raises() -> None:
    pair = make_pair()
    pair.b.mad.register_agent(0x34, OUI, [1], deaf)
    _submit(pair)
    with pytest.raises(FabricError, match="tid 0x7 of class 0x34 is still open"):
        _submit(pair)


def test_receive_late_response_is_unmatched() -> None:
    pair = make_pair()
    pair.b.mad.send(pair.a.lid, ema_mad(0x81).build())
    assert pair.a.mad.counters.drops == {Drop.MAD_UNMATCHED: 1}


@pytest.mark.parametrize("method", [1, 2])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"class_version": 1},
        {"class_version": 0x81},
        {"mgmt_class": 0x35},
        {"mgmt_class": 0x06, "class_version": 1},
        {"mgmt_class": 0x20},
        {"mgmt_class": 0x50},
    ],
    ids=str,
)
def test_a_get_or_set_without_agent_is_answered_at_once(method: int, fields: dict[str, int]) -> None:
    pair = make_pair()
    pair.b.mad.register_agent(0x34, b"\1\2\3", [1, 2], echo, class_version=0x80)
    asked = ema_mad(method)
    header = replace(asked.header, class_specific=0x1234, reserved=0x5678, attr_mod=9, **fields)
    answers: list[Mad | None] = []
    pair.a.mad.submit(pair.b.lid, Mad(header, asked.data), answers.append)
    assert answers == [Mad(replace(header, method=0x81, status=0x000C), b"")], "the header alone, 24 bytes"
    assert pair.b.mad.counters.drops == {Drop.MAD_NO_AGENT: 1}
    assert pair.fabric.balance() == {}


def test_the_answer_without_agent_has_the_limited_pkey() -> None:
    pair = make_pair()
    pair.b.set_pkeys([0x7FFF, 0xFFFF])
    heard: list[MadRequest] = []
    pair.a.mad.give_rest_to(heard.append)
    pair.a.mad.send(pair.b.lid, ema_mad(1).build())
    assert [(hex(request.pkey), len(request.mad)) for request in heard] == [("0x7fff", 24)]


def test_a_get_of_base_version_1_without_agent_is_answered_with_all_its_bytes() -> None:
    pair = make_pair()
    header = MadHeader(base_version=1, mgmt_class=0x0A, class_version=1, method=1, tid=7, attr_id=1)
    answers: list[Mad | None] = []
    pair.a.mad.submit(pair.b.lid, Mad(header, b"\x5a" * 200), answers.append)
    assert answers == [Mad(replace(header, method=0x81, status=0x000C), (b"\x5a" * 200).ljust(232, b"\0"))]


@pytest.mark.parametrize("method", [3, 5, 6, 7, 0x12, 0x15, 0x33])
def test_other_methods_without_agent_are_dropped(method: int) -> None:
    pair = make_pair()
    pair.a.mad.send(pair.b.lid, ema_mad(method).build())
    assert pair.b.mad.counters.drops == {Drop.MAD_NO_AGENT: 1}
    assert pair.a.mad.counters.in_packets == 0


@pytest.mark.parametrize("size", [40, 112, 320, 2047])
def test_a_short_mad_reaches_its_agent_as_in_a_receive_buffer(size: int) -> None:
    pair = make_pair()
    heard: list[MadRequest] = []
    pair.b.mad.register_agent(0x34, OUI, [1], heard.append)
    sent = (ema_mad(1).build()[:40] + b"\x5a" * 2008)[:size]
    pair.a.mad.send(pair.b.lid, sent)
    assert [request.mad for request in heard] == [sent.ljust(2048, b"\0")]


def test_a_mad_that_ends_before_its_oui_has_no_agent() -> None:
    pair = make_pair()
    pair.b.mad.register_agent(0x34, OUI, [1], echo)
    answers: list[Mad | None] = []
    pair.a.mad.submit(pair.b.lid, Mad(ema_mad(1).header, b""), answers.append)
    assert [answer and answer.header.status for answer in answers] == [0x000C]


def test_receive_unknown_base_version_is_malformed() -> None:
    pair = make_pair()
    pair.a.mad.send(pair.b.lid, b"\x05" + ema_mad(1).build()[1:])
    assert pair.b.mad.counters.drops == {Drop.MAD_MALFORMED: 1}


def test_receive_other_qp_is_counted() -> None:
    pair = make_pair()
    pair.a.mad.send(pair.b.lid, ema_mad(1).build(), dest_qp=9)
    assert pair.b.mad.counters.drops == {Drop.MAD_QP: 1}


def test_register_agent_twice_raises_and_unregister_frees() -> None:
    pair = make_pair()
    registration = pair.b.mad.register_agent(0x34, OUI, [1], echo)
    with pytest.raises(FabricError, match="method 0x01 of class 0x34 already has an agent"):
        pair.b.mad.register_agent(0x34, OUI, [1, 2], echo)
    pair.b.mad.unregister_agent(registration)
    pair.b.mad.register_agent(0x34, OUI, [1, 2], echo)


@pytest.mark.looptime
async def test_request_without_answer_raises_mad_timeout() -> None:
    import asyncio

    pair = make_pair(Fabric(asyncio.get_running_loop(), timer_resolution_s=1e-3))
    pair.b.mad.register_agent(0x34, OUI, [1], deaf)
    with pytest.raises(
        MadTimeoutError, match=r"no response from LID 0x2 to attribute 0x0001 within 1 s, 4 tries"
    ):
        await pair.a.mad.request(pair.b.lid, ema_mad(1))
