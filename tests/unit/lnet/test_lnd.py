"""The LND with a peer played by hand: the handshake, credits, PUT and GET step by step, and peers that misbehave."""

from __future__ import annotations

import errno
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.types import PortEvent
from lnet.base.nid import Nid
from lnet.node.deliveries import DuplicateFilter
from lnet.o2iblnd.actions import AcceptConn, CloseConn, MsgTag, OpenConn, RejectConn, SendMsg
from lnet.o2iblnd.rdma import rdma_writes
from lnet.objects.objects import RouteState
from lnet.objects.peers import DELIVERIES_KEPT, MESSAGE_WINDOW
from lnet.objects.stats import Received, SendDone, SendFailed
from lnet.settings.config import LndConfig
from lnet.wire.codes import LnetMsgType, MsgType, RejectReason
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.msg import ConnParams, KibMsg, KibRej, RdmaDesc, RdmaFrag
from unit.lnet.lnd_pair import OWN, PARAMS, PEER, PEER_STAMP, STAMP, Scene

# --- the handshake ---------------------------------------------------------------------------------------------


def test_first_message_connects_and_waits_for_the_answer() -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"first", 0.0)
    opened = scene.opened()
    request = KibMsg.parse(opened.private)
    assert (str(opened.addr), opened.dev) == ("10.1.1.5", "ib0")
    assert (request.type, request.srcnid, request.dstnid) == (MsgType.CONNREQ, OWN.wire, PEER.wire)
    assert (request.srcstamp, request.dststamp, request.connparams) == (STAMP, 0, PARAMS)
    scene.lnd.conns.established(opened.key, scene.connack(), 0.0)
    (sent,) = scene.sent()
    assert (sent.type, sent.payload, sent.dststamp) == (MsgType.IMMEDIATE, b"first", PEER_STAMP)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"srcnid": Nid.parse("10.1.1.6@o2ib").wire}, "answers as NID"),
        ({"version": 0x11}, "version 0x11, not 0x12"),
        ({"dstnid": PEER.wire}, "another incarnation or NID"),
        ({"dststamp": STAMP - 1}, "another incarnation or NID"),
        ({"connparams": ConnParams(9, 256, 4096)}, "queue depth 9, expected 1 to 8"),
        ({"connparams": ConnParams(0, 256, 4096)}, "queue depth 0"),
        ({"connparams": ConnParams(8, 257, 4096)}, "257 RDMA fragments"),
        ({"connparams": ConnParams(8, 256, 8192)}, "message size 8192"),
        ({"connparams": ConnParams(8, 256, 100)}, "message size 100"),
    ],
)
def test_peer_that_answers_otherwise_than_asked_is_closed_with_the_reason(
    changes: dict[str, Any], reason: str
) -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"x", 0.0)
    opened = scene.opened()
    scene.lnd.conns.established(opened.key, scene.connack(**changes), 0.0)
    assert scene.closed() == opened.key
    assert scene.route().state is RouteState.DISCONNECTED
    assert reason in scene.route().last_error


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 0x13}, RejectReason.FATAL),
        ({"dstnid": Nid.parse("10.1.1.9@o2ib").wire}, RejectReason.FATAL),
        ({"dstnid": Nid.parse("10.1.1.2@o2ib1").wire}, RejectReason.FATAL),
        ({"srcnid": 99 << 48}, RejectReason.FATAL),
        ({"srcnid": Nid.parse("10.1.1.5@o2ib1").wire}, RejectReason.FATAL),
        ({"dststamp": STAMP - 1}, RejectReason.CONN_STALE),
        ({"srcstamp": 0}, RejectReason.CONN_STALE),
        ({"connparams": ConnParams(9, 256, 4096)}, RejectReason.MSG_QUEUE_SIZE),
        ({"connparams": ConnParams(0, 256, 4096)}, RejectReason.MSG_QUEUE_SIZE),
        ({"connparams": ConnParams(8, 257, 4096)}, RejectReason.RDMA_FRAGS),
        ({"connparams": ConnParams(8, 256, 4097)}, RejectReason.FATAL),
        ({"connparams": ConnParams(8, 256, 147)}, RejectReason.FATAL),
    ],
)
def test_request_that_does_not_fit_is_refused_with_the_reason(
    changes: dict[str, Any], reason: RejectReason
) -> None:
    scene = Scene()
    assert scene.refused(scene.connreq(**changes)) is reason


def test_smaller_message_size_of_the_peer_is_taken_and_kept_to() -> None:
    scene = Scene()
    scene.lnd.put(PEER, bytes(81), 0.0)
    opened = scene.opened()
    scene.lnd.conns.established(opened.key, scene.connack(connparams=ConnParams(8, 256, 200)), 0.0)
    scene.lnd.put(PEER, bytes(80), 0.0)
    scene.lnd.get(PEER, 1 << 20, 0.0)
    sent = scene.sent()
    assert [message.type for message in sent] == [MsgType.PUT_REQ, MsgType.IMMEDIATE, MsgType.GET_REQ]
    assert all(len(message.build()) <= 200 for message in sent)
    assert sent[2].desc is not None
    assert sent[2].desc.nob == 1 << 20


@pytest.mark.parametrize("size", [148, 1024, 4096])
def test_request_with_a_smaller_message_size_is_accepted_with_it(size: int) -> None:
    scene = Scene()
    params = ConnParams(8, 256, size)
    accepted = scene.request(scene.connreq(connparams=params))
    assert isinstance(accepted, AcceptConn)
    assert KibMsg.parse(accepted.private).connparams == params


def test_request_in_the_byte_order_of_a_big_endian_peer_is_accepted() -> None:
    scene = Scene()
    assert isinstance(scene.request(KibMsg.parse(scene.connreq()).build(">")), AcceptConn)


@pytest.mark.parametrize(
    ("rej", "reason"),
    [
        (KibRej(9), "refused by the peer: EARLY"),
        (KibRej(4, version=0x13), "CONN_UNCOMPAT, it speaks version 0x13, not 0x12"),
        (KibRej(3, version=0x13), "refused by the peer: FATAL"),
        (KibRej(77), "refused by the peer: reason 77"),
    ],
)
def test_refusal_is_named_and_the_peer_is_tried_again(rej: KibRej, reason: str) -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"x", 0.0)
    scene.lnd.conns.rejected(scene.opened().key, rej.build(), 0.0)
    assert reason in scene.route().last_error
    scene.lnd.on_timer(1.0)
    again = scene.opened()
    scene.lnd.conns.established(again.key, scene.connack(), 1.0)
    (sent,) = scene.sent()
    assert sent.payload == b"x"


def test_request_that_is_no_request_is_refused() -> None:
    scene = Scene()
    assert scene.refused(b"") is RejectReason.FATAL
    assert scene.refused(scene.message(MsgType.NOOP)) is RejectReason.FATAL
    assert scene.refused(scene.connreq(), dev="ib7") is RejectReason.FATAL


def test_request_of_an_earlier_incarnation_is_refused_as_stale() -> None:
    scene = Scene()
    scene.accept()
    assert scene.refused(scene.connreq(srcstamp=PEER_STAMP - 1)) is RejectReason.CONN_STALE


def test_request_of_a_later_incarnation_closes_the_connections_of_the_earlier_one() -> None:
    scene = Scene()
    key = scene.connect()
    scene.actions()
    scene.lnd.conns.requested(99, "ib0", 7, scene.connreq(srcstamp=PEER_STAMP + 1), 0.0)
    actions = scene.actions()
    assert CloseConn(key) in actions
    assert any(isinstance(action, AcceptConn) for action in actions)


def test_second_request_over_the_same_way_replaces_the_first_connection() -> None:
    scene = Scene()
    key = scene.accept()
    scene.lnd.conns.requested(99, "ib0", 7, scene.connreq(), 0.0)
    assert [type(action) for action in scene.actions()] == [CloseConn, AcceptConn]
    assert key != 99


def test_refusal_for_queue_size_is_answered_with_what_the_peer_allows() -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"x", 0.0)
    opened = scene.opened()
    rej = KibRej(RejectReason.MSG_QUEUE_SIZE, connparams=ConnParams(4, 32, 4096))
    scene.lnd.conns.rejected(opened.key, rej.build(">"), 0.0)
    scene.lnd.on_timer(1.0)
    again = KibMsg.parse(scene.opened().private)
    assert again.connparams == ConnParams(4, 32, 4096)


def test_refusal_that_is_no_refusal_disconnects_the_route() -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"x", 0.0)
    scene.lnd.conns.rejected(scene.opened().key, b"no", 0.0)
    assert scene.route().state is RouteState.DISCONNECTED


# --- credits ---------------------------------------------------------------------------------------------------


def test_no_more_messages_than_credits_until_the_peer_returns_some() -> None:
    scene = Scene()
    key = scene.connect()
    for _ in range(20):
        scene.lnd.put(PEER, b"x", 0.0)
    assert len(scene.sent()) == 8
    scene.receive(key, scene.message(MsgType.NOOP, credits=3))
    assert len(scene.sent()) == 3


def test_credits_are_returned_with_a_noop_when_half_of_them_are_owed() -> None:
    scene = Scene()
    key = scene.accept()
    for number in range(1, 4):
        scene.receive(key, scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(number)))
    assert scene.sent() == []
    scene.receive(key, scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(4)))
    (noop,) = scene.sent()
    assert (noop.type, noop.credits) == (MsgType.NOOP, 4)


def test_peer_that_sends_beyond_its_credits_is_closed() -> None:
    scene = Scene(LndConfig(peer_credits=8))
    key = scene.request(scene.connreq(connparams=ConnParams(1, 256, 4096))).key
    peer = next(iter(scene.lnd.conns))
    first = scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(1))
    peer.receive(MsgTag.KIB_MSG, first, 0.0)  # its credit has not been returned yet
    scene.receive(key, scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(2)))
    assert scene.closed() == key
    assert scene.lnd.traffic.counters["errors"] == 1
    assert len(scene.reports()) == 1


def test_peer_that_returns_more_credits_than_there_are_is_closed() -> None:
    scene = Scene()
    key = scene.connect()
    scene.sent()
    scene.receive(key, scene.message(MsgType.NOOP, credits=2))
    assert scene.closed() == key


# --- PUT and GET step by step ----------------------------------------------------------------------------------

BIG = bytes(range(256)) * 40


def test_large_put_asks_for_memory_writes_it_and_says_done() -> None:
    scene = Scene(LndConfig(frag_bytes=4096))
    key = scene.connect()
    scene.sent()
    msg_id = scene.lnd.put(PEER, BIG, 0.0)
    (request,) = scene.sent()
    assert request.type == MsgType.PUT_REQ
    assert LnetHdr.parse(request.hdr).payload_length == len(BIG)
    desc = RdmaDesc(9, (RdmaFrag(8192, 0x1000), RdmaFrag(8192, 0x8000)))
    scene.receive(key, scene.message(MsgType.PUT_ACK, cookie=request.cookie, dst_cookie=77, desc=desc))
    *writes, done = scene.actions()
    assert [w.data for w in writes if isinstance(w, SendMsg)] == list(rdma_writes(desc, BIG))
    assert isinstance(done, SendMsg)
    message = KibMsg.parse(done.data)
    assert (message.type, message.cookie, message.status) == (MsgType.PUT_DONE, 77, 0)
    assert scene.reports() == []
    number = 1 + 1 + len(writes) + 1  # the first message, the request, the writes, and this one
    scene.lnd.conns.sent(key, number, 0.0)
    assert scene.report(SendDone).msg_id == msg_id


def put_req(scene: Scene, number: int, length: int) -> bytes:
    return scene.message(MsgType.PUT_REQ, hdr=scene.hdr(number, length), cookie=5)


def test_large_put_of_the_peer_is_delivered_when_it_is_done() -> None:
    scene = Scene()
    key = scene.accept()
    scene.receive(key, put_req(scene, 1, len(BIG)))
    (ack,) = scene.sent()
    assert (ack.type, ack.cookie) == (MsgType.PUT_ACK, 5)
    assert ack.desc is not None
    for write in rdma_writes(ack.desc, BIG):
        scene.receive(key, write, MsgTag.RDMA_WRITE)
    assert scene.reports() == []
    scene.receive(key, scene.message(MsgType.PUT_DONE, cookie=ack.dst_cookie, status=0))
    assert scene.report(Received).data == BIG


@given(seed=st.integers(0, 1 << 32), get=st.booleans())
def test_data_is_handed_over_only_if_each_byte_was_written_and_as_it_was_written(
    seed: int, get: bool
) -> None:
    """Law: for writes that come twice, overlap, or leave holes, in any order."""
    chance = random.Random(seed)
    length = chance.randrange(5000, 6000)
    scene = Scene(LndConfig(frag_bytes=1000))
    if get:
        key = scene.connect()
        scene.lnd.get(PEER, length, 0.0)
        asked = scene.sent()[-1]
        desc = asked.desc
    else:
        key = scene.accept()
        scene.receive(key, put_req(scene, 1, length))
        (asked,) = scene.sent()
        desc = asked.desc
    assert desc is not None
    base = desc.frags[0].addr
    starts = list(range(0, length, 1000))
    chance.shuffle(starts)
    model: dict[int, int] = {}
    if chance.random() < 0.5:
        starts.append(starts.pop() + 1000 if chance.random() < 0.2 else 0)
    for start in starts:
        size = min(chance.choice((1000, 1000, 1000, 1200, 500)), length - start)
        data = chance.randbytes(max(0, size))
        if start < length:
            scene.receive(key, struct.pack(">IQ", desc.key, base + start) + data, MsgTag.RDMA_WRITE)
            model |= enumerate(data, start=start)
    kind = MsgType.GET_DONE if get else MsgType.PUT_DONE
    said = len(model) if get else 0
    cookie = asked.cookie if get else asked.dst_cookie
    scene.receive(key, scene.message(kind, cookie=cookie, status=said))
    reports = [r for r in scene.reports() if isinstance(r, Received | SendDone)]
    if set(model) == set(range(len(model) if get else length)):
        (report,) = reports
        assert report.data == bytes(model[at] for at in sorted(model))
    else:
        assert scene.closed() == key
        assert reports == []


def test_put_that_the_sender_gave_up_is_not_delivered() -> None:
    scene = Scene()
    key = scene.accept()
    scene.receive(key, put_req(scene, 1, len(BIG)))
    (ack,) = scene.sent()
    scene.receive(key, scene.message(MsgType.PUT_DONE, cookie=ack.dst_cookie, status=-errno.ECANCELED))
    assert scene.reports() == scene.actions() == []


def test_put_longer_than_allowed_is_refused_with_emsgsize() -> None:
    scene = Scene(LndConfig(max_message=10_000))
    key = scene.accept()
    scene.receive(key, put_req(scene, 1, 10_001))
    (nak,) = scene.sent()
    assert (nak.type, nak.status) == (MsgType.PUT_NAK, -errno.EMSGSIZE)


def test_message_longer_than_allowed_fails_whichever_way_its_data_go() -> None:
    scene = Scene(LndConfig(max_message=10))
    scene.lnd.get(PEER, 11, 0.0)
    scene.lnd.put(PEER, bytes(11), 0.0)
    assert [report.errno for report in scene.reports() if isinstance(report, SendFailed)] == [
        -errno.EMSGSIZE
    ] * 2


def test_put_refused_by_the_peer_fails_with_its_errno() -> None:
    scene = Scene()
    key = scene.connect()
    scene.sent()
    scene.lnd.put(PEER, BIG, 0.0)
    (request,) = scene.sent()
    scene.receive(key, scene.message(MsgType.PUT_NAK, cookie=request.cookie, status=-errno.EMSGSIZE))
    report = scene.report(SendFailed)
    assert report.errno == -errno.EMSGSIZE


def test_put_answered_after_its_deadline_is_called_off_and_failed_once() -> None:
    scene = Scene(LndConfig(timeout_s=5))
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 0.0)
    scene.sent()
    scene.reports()
    scene.lnd.put(PEER, BIG, 0.0)
    (request,) = scene.sent()
    scene.now = 4.9
    scene.receive(key, put_req(scene, 1, len(BIG)))  # the connection is slow, not stuck
    scene.sent()
    scene.lnd.on_timer(5.0)
    scene.report(SendFailed)
    desc = RdmaDesc(9, (RdmaFrag(len(BIG), 0),))
    scene.receive(key, scene.message(MsgType.PUT_ACK, cookie=request.cookie, dst_cookie=77, desc=desc))
    (done,) = scene.sent()
    assert (done.type, done.cookie, done.status) == (MsgType.PUT_DONE, 77, -errno.ECANCELED)
    assert scene.reports() == []


def test_get_of_the_peer_is_answered_with_writes_and_done() -> None:
    scene = Scene(get_handler=lambda nid, hdr: BIG)
    key = scene.accept()
    hdr = scene.hdr(1, type=LnetMsgType.GET, sink_length=100)
    desc = RdmaDesc(3, (RdmaFrag(60, 0x1000), RdmaFrag(60, 0x2000)))
    scene.receive(key, scene.message(MsgType.GET_REQ, hdr=hdr, cookie=8, desc=desc))
    *writes, done = [action.data for action in scene.actions() if isinstance(action, SendMsg)]
    assert writes == list(rdma_writes(desc, BIG[:100]))
    assert (KibMsg.parse(done).cookie, KibMsg.parse(done).status) == (8, 100)


def test_get_of_more_than_allowed_is_refused() -> None:
    scene = Scene(LndConfig(max_message=10), get_handler=lambda nid, hdr: b"x")
    key = scene.accept()
    hdr = scene.hdr(1, type=LnetMsgType.GET, sink_length=11)
    scene.receive(key, scene.message(MsgType.GET_REQ, hdr=hdr, cookie=8, desc=RdmaDesc(3, ())))
    (done,) = scene.sent()
    assert done.status == -errno.EMSGSIZE


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda s: s.message(MsgType.PUT_ACK, cookie=99, desc=RdmaDesc(1, ())), id="ack of nothing"
        ),
        pytest.param(lambda s: s.message(MsgType.PUT_NAK, cookie=99), id="nak of nothing"),
        pytest.param(lambda s: s.message(MsgType.PUT_DONE, cookie=99), id="done of nothing"),
        pytest.param(lambda s: s.message(MsgType.GET_DONE, cookie=99), id="get done of nothing"),
        pytest.param(lambda s: s.connreq(), id="request on a connection"),
        pytest.param(lambda s: s.message(MsgType.NOOP, version=0x11), id="other version"),
        pytest.param(lambda s: s.message(MsgType.NOOP, srcstamp=1), id="other incarnation"),
        pytest.param(lambda s: s.message(MsgType.NOOP, srcnid=OWN.wire), id="other source"),
        pytest.param(lambda s: s.message(MsgType.NOOP, dstnid=PEER.wire), id="other destination"),
        pytest.param(lambda s: s.message(MsgType.IMMEDIATE, hdr=s.hdr(1, 5)), id="payload length"),
        pytest.param(lambda s: s.message(MsgType.IMMEDIATE, hdr=bytes(72)), id="no lnet header"),
        pytest.param(lambda s: s.message(MsgType.IMMEDIATE, hdr=s.hdr(1, src_nid=OWN.wire)), id="hdr source"),
        pytest.param(lambda s: b"\0" * 48, id="no magic"),
        pytest.param(lambda s: b"", id="nothing"),
    ],
)
def test_message_that_breaks_the_protocol_closes_the_connection_and_nothing_else(make: Any) -> None:
    scene = Scene()
    key = scene.accept()
    scene.receive(key, make(scene))
    assert scene.closed() == key
    assert scene.reports() == []
    scene.accept()


@pytest.mark.parametrize(
    "write",
    [b"", bytes(11), bytes(12) + b"x", (1).to_bytes(4, "big") + bytes(8) + b"x"],
)
def test_rdma_write_outside_registered_memory_closes_the_connection(write: bytes) -> None:
    scene = Scene()
    key = scene.accept()
    scene.receive(key, put_req(scene, 1, len(BIG)))
    scene.sent()
    scene.receive(key, write, MsgTag.RDMA_WRITE)
    assert scene.closed() == key


def test_message_of_an_unknown_kind_closes_the_connection() -> None:
    scene = Scene()
    key = scene.accept()
    scene.lnd.conns.message(key, 9, b"", 0.0)
    assert scene.closed() == key


# --- once and only once ----------------------------------------------------------------------------------------


def test_message_that_comes_again_over_another_connection_is_not_delivered_again() -> None:
    scene = Scene(devices=2)
    first = scene.accept()
    scene.receive(first, scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(1)))
    second = scene.request(scene.connreq(), "ib1", 8).key
    scene.receive(second, scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(1)))
    scene.receive(second, put_req(scene, 1, len(BIG)))
    (nak,) = scene.sent()
    assert (nak.type, nak.status) == (MsgType.PUT_NAK, -errno.EALREADY)
    assert len(scene.reports()) == 1
    assert scene.lnd.traffic.counters["drop_count"] == scene.lnd.duplicates == 2


def test_peer_says_it_has_the_message_already_means_done() -> None:
    scene = Scene()
    key = scene.connect()
    scene.sent()
    msg_id = scene.lnd.put(PEER, BIG, 0.0)
    (request,) = scene.sent()
    scene.receive(key, scene.message(MsgType.PUT_NAK, cookie=request.cookie, status=-errno.EALREADY))
    assert scene.report(SendDone).msg_id == msg_id


def lose_in_doubt(scene: Scene) -> int:
    """Send a message and lose the connection before the peer has acknowledged it."""
    key = scene.connect()
    (message,) = scene.sent()
    assert message.type == MsgType.IMMEDIATE
    scene.lnd.conns.closed(key, "no answer", 0.0)
    assert scene.reports() == []
    return LnetHdr.parse(message.hdr).object_cookie


def test_message_in_doubt_outlives_its_deadline_and_is_sent_again_with_its_number() -> None:
    scene = Scene(LndConfig(timeout_s=5))
    number = lose_in_doubt(scene)
    scene.lnd.on_timer(5.0)
    assert scene.reports() == []
    (opened,) = [action for action in scene.actions() if isinstance(action, OpenConn)]
    scene.lnd.conns.established(opened.key, scene.connack(), 6.0)
    (again,) = scene.sent()
    assert LnetHdr.parse(again.hdr).object_cookie == number
    scene.lnd.conns.sent(opened.key, 1, 6.0)
    assert [type(report) for report in scene.reports()] == [SendDone]


def test_message_in_doubt_is_reported_so_when_nothing_settles_it() -> None:
    scene = Scene(LndConfig(timeout_s=5, doubt_timeout_s=100))
    lose_in_doubt(scene)
    scene.lnd.on_timer(5.0)
    scene.lnd.on_timer(104.9)
    assert scene.reports() == []
    scene.lnd.on_timer(105.0)
    report = scene.report(SendFailed)
    assert (report.errno, report.in_doubt) == (-errno.ETIMEDOUT, True)


@pytest.mark.parametrize(("timeout_s", "end_s"), [(50.0, 350.0), (5.0, 35.0), (0.5, 20.5)])
def test_message_in_doubt_is_tried_six_times_its_timeout_longer_and_twenty_seconds_at_least(
    timeout_s: float, end_s: float
) -> None:
    scene = Scene(LndConfig(timeout_s=timeout_s))
    lose_in_doubt(scene)
    scene.lnd.on_timer(timeout_s)
    scene.lnd.on_timer(end_s - 0.1)
    assert scene.reports() == []
    scene.lnd.on_timer(end_s)
    assert [type(report) for report in scene.reports()] == [SendFailed]


def test_message_in_doubt_fails_when_the_peer_has_restarted_meanwhile() -> None:
    scene = Scene()
    lose_in_doubt(scene)
    scene.lnd.on_timer(1.0)
    opened = scene.opened()
    scene.lnd.conns.established(opened.key, scene.connack(srcstamp=PEER_STAMP + 1), 1.0)
    report = scene.report(SendFailed)
    assert (report.errno, report.in_doubt) == (-errno.ECONNRESET, True)


def test_memory_of_delivered_messages_is_bounded_and_right() -> None:
    memory = DuplicateFilter()
    for number in range(1, DELIVERIES_KEPT + 101):
        assert memory.add(PEER, 1, number)
        assert not memory.add(PEER, 1, number)
    assert not memory.has(1, 100), "so many have overtaken it that it has ended"
    assert memory.has(1, 101)
    assert not memory.has(1, DELIVERIES_KEPT + 101)
    assert not memory.add(OWN, 1, 101), "from whichever NID it comes"


def test_memory_of_a_restarted_node_goes_with_its_last_nid() -> None:
    memory = DuplicateFilter()
    assert memory.add(PEER, 1, 5)
    assert memory.add(OWN, 1, 6)
    assert memory.add(PEER, 2, 5), "a restarted node counts from the start"
    assert memory.has(1, 5), "what its earlier life still sends from its other NID is not delivered again"
    assert memory.add(OWN, 2, 6)
    assert not memory.has(1, 5)


def test_numbers_on_the_way_never_span_more_than_the_peer_remembers() -> None:
    scene = Scene()
    key = scene.connect()
    for _ in range(3 * MESSAGE_WINDOW):
        scene.lnd.put(PEER, b"x", 0.0)
    sent = 0
    highest = 0
    while True:
        messages = [LnetHdr.parse(message.hdr).object_cookie for message in scene.sent()]
        highest = max([highest, *messages])
        if not messages:
            break
        for _ in messages:
            sent += 1
            if sent > 1:  # the first one is never acknowledged
                scene.lnd.conns.sent(key, sent, 0.0)
        scene.receive(key, scene.message(MsgType.NOOP, credits=len(messages)))
    assert highest == MESSAGE_WINDOW, "the first one is still in flight"
    scene.lnd.conns.sent(key, 1, 0.0)
    assert scene.sent() != [], "the window has moved on"


# --- routes and devices ----------------------------------------------------------------------------------------


def test_device_down_moves_its_messages_to_the_other_route() -> None:
    scene = Scene(devices=2)
    scene.lnd.put(PEER, b"x", 0.0)
    assert scene.opened().dev == "ib0"
    scene.lnd.on_device("ib0", PortEvent.PORT_ERR, 0.0, 0.0)
    closed, opened = scene.actions()
    assert isinstance(closed, CloseConn)
    assert isinstance(opened, OpenConn)
    assert opened.dev == "ib1"


def test_port_with_a_new_lid_connects_its_routes_anew_at_once() -> None:
    scene = Scene()
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 1.0)
    scene.actions()
    scene.lnd.on_device("ib0", PortEvent.LID_CHANGE, 100.0, 2.0)
    assert scene.closed() == key
    assert scene.lnd.deadline() == 2.0
    scene.lnd.on_timer(2.0)
    assert scene.opened().dev == "ib0"


def test_message_without_a_usable_route_goes_when_the_port_is_back() -> None:
    scene = Scene()
    scene.lnd.on_device("ib0", PortEvent.PORT_ERR, 0.0, 0.0)
    scene.lnd.put(PEER, b"x", 0.0)
    assert scene.actions() == []
    scene.lnd.on_device("ib0", PortEvent.PORT_ACTIVE, 100.0, 1.0)
    assert scene.opened().dev == "ib0"


def test_message_without_a_usable_route_fails_at_its_deadline() -> None:
    scene = Scene(LndConfig(timeout_s=5))
    scene.lnd.on_device("ib0", PortEvent.DEVICE_FATAL, 0.0, 0.0)
    scene.lnd.put(PEER, b"x", 0.0)
    assert scene.lnd.deadline() == 5.0
    scene.lnd.on_timer(5.0)
    report = scene.report(SendFailed)
    assert (report.errno, report.in_doubt) == (-errno.EHOSTUNREACH, False)
    assert "EHOSTUNREACH" in str(report)


def test_idle_connection_is_closed_and_the_route_is_as_new() -> None:
    scene = Scene(LndConfig(idle_timeout_s=10))
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 1.0)
    scene.actions()
    assert scene.lnd.deadline() == 11.0
    scene.lnd.on_timer(11.0)
    assert scene.closed() == key
    assert scene.route().state is RouteState.NEW


def test_connection_without_a_word_is_asked_whether_it_stands() -> None:
    scene = Scene(LndConfig(keepalive_s=20))
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 1.0)
    scene.actions()
    scene.lnd.on_timer(21.0)
    (noop,) = scene.sent()
    assert noop.type == MsgType.NOOP
    assert scene.lnd.deadline() == 41.0


def test_connection_that_a_peer_made_and_forgot_is_closed_after_a_long_silence() -> None:
    scene = Scene(LndConfig(keepalive_s=20))
    key = scene.accept()
    scene.now = 50.0
    scene.receive(key, scene.message(MsgType.NOOP))
    assert scene.lnd.deadline() == 110.0
    scene.lnd.on_timer(109.0)
    assert scene.actions() == []
    scene.lnd.on_timer(110.0)
    assert scene.closed() == key


def test_announced_addresses_replace_nothing_a_person_said() -> None:
    scene = Scene(LndConfig(announce=True))
    other = Nid.parse("10.1.1.9@o2ib")
    extra = b"ADDR\x02" + bytes([10, 1, 1, 9, 10, 1, 1, 10])
    scene.lnd.conns.requested(1, "ib0", 7, scene.connreq(extra=extra), 0.0)
    scene.lnd.conns.requested(2, "ib0", 8, scene.connreq(srcnid=other.wire, extra=extra), 0.0)
    assert str(scene.lnd.targets.get(PEER)) == "10.1.1.5@o2ib 10.1.1.5"
    learned = scene.lnd.targets.get(other)
    assert learned is not None
    assert (str(learned), learned.learned) == ("10.1.1.9@o2ib 10.1.1.9 10.1.1.10", True)


@pytest.mark.parametrize(
    "extra", [b"ADDR\x11" + bytes(68), b"ADDR\x02" + bytes(8), b"ADDR\x02\x0a", b"XXXX\x01" + bytes(4)]
)
def test_announcement_that_makes_no_sense_is_ignored(extra: bytes) -> None:
    scene = Scene(LndConfig(announce=True))
    other = Nid.parse("10.1.1.9@o2ib")
    scene.lnd.conns.requested(1, "ib0", 7, scene.connreq(srcnid=other.wire, extra=extra), 0.0)
    assert scene.lnd.targets.get(other) is None


# --- anything at all -------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_any_request_is_accepted_or_refused(private: bytes) -> None:
    scene = Scene()
    for request in (private, scene.connreq()[: len(private)] + private, scene.connreq() + private):
        scene.lnd.conns.requested(scene.lnd.conns.new_key(), "ib0", 7, request, 0.0)
        assert [type(a) for a in scene.actions() if not isinstance(a, CloseConn)] in (
            [AcceptConn],
            [RejectConn],
        )


@given(
    st.integers(0, 9), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_any_damage_to_a_message_is_taken_or_closes_the_connection(
    which: int, damage: list[tuple[int, int]]
) -> None:
    scene = Scene(get_handler=lambda nid, hdr: BIG)
    key = scene.connect()
    scene.lnd.put(PEER, BIG, 0.0)
    scene.lnd.get(PEER, 100, 0.0)
    scene.sent()
    desc = RdmaDesc(1, (RdmaFrag(20_000, 4096),))
    get = scene.hdr(1, type=LnetMsgType.GET, sink_length=10)
    message = bytearray(
        [
            scene.message(MsgType.NOOP, credits=1),
            scene.message(MsgType.IMMEDIATE, hdr=scene.hdr(1, 5), payload=b"hello"),
            scene.message(MsgType.PUT_REQ, hdr=scene.hdr(2, 9000), cookie=1),
            scene.message(MsgType.PUT_NAK, cookie=1, status=-5),
            scene.message(MsgType.PUT_ACK, cookie=1, dst_cookie=4, desc=desc),
            scene.message(MsgType.PUT_DONE, cookie=1),
            scene.message(MsgType.GET_REQ, hdr=get, cookie=3, desc=desc),
            scene.message(MsgType.GET_DONE, cookie=2, status=0),
            scene.message(MsgType.CONNACK, connparams=PARAMS),
            scene.connreq(),
        ][which]
    )
    for at, value in damage:
        message[at % len(message)] = value
    scene.receive(key, bytes(message))
    peers = list(scene.lnd.conns)
    assert len(peers) <= 1 or any(isinstance(action, OpenConn) for action in scene.actions())


@given(st.integers(0, 3), st.binary(max_size=60))
def test_any_message_is_taken_or_closes_the_connection(tag: int, data: bytes) -> None:
    scene = Scene()
    key = scene.accept()
    scene.lnd.conns.message(key, tag, data, 0.0)
    assert scene.lnd.traffic.counters["errors"] == 1
