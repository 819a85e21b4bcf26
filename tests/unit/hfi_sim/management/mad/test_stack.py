"""Requests, responses, retries and agents of the MAD stack."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError, MadTimeoutError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.wire.mad.header import MadHeader
from hfi_sim.wire.mad.message import Mad
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


def test_submit_without_agent_retries_then_reports_none_once() -> None:
    clock = ManualClock()
    pair = make_pair(Fabric(clock, timer_resolution_s=1e-3))
    answers = _submit(pair, timeout_s=1.0, retries=2)
    clock.advance(2.5)
    assert answers == []
    clock.advance(10)
    assert answers == [None]
    assert pair.a.mad.sent == 3
    assert pair.b.mad.counters.drops == {Drop.MAD_NO_AGENT: 3}
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
    _submit(pair)
    with pytest.raises(FabricError, match="tid 0x7 of class 0x34 is still open"):
        _submit(pair)


def test_receive_late_response_is_unmatched() -> None:
    pair = make_pair()
    pair.b.mad.send(pair.a.lid, ema_mad(0x81).build())
    assert pair.a.mad.counters.drops == {Drop.MAD_UNMATCHED: 1}


def test_receive_other_oui_has_no_agent() -> None:
    pair = make_pair()
    pair.b.mad.register_agent(0x34, b"\1\2\3", [1], echo)
    _submit(pair)
    assert pair.b.mad.counters.drops == {Drop.MAD_NO_AGENT: 1}


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
    with pytest.raises(
        MadTimeoutError, match=r"no response from LID 0x2 to attribute 0x0001 within 1 s, 4 tries"
    ):
        await pair.a.mad.request(pair.b.lid, ema_mad(1))
