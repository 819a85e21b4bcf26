"""Versions 0x11 and 0x12 of the protocol of o2iblnd: which one two nodes speak, and what differs on the connection.

Source: the public kiblnd_passive_connect(), kiblnd_rejected(), kiblnd_check_reconnect() and kiblnd_post_tx_locked().
"""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from lnet.host.rig import LnetRig, RigHost
from lnet.o2iblnd.actions import AcceptConn, OpenConn, RejectConn
from lnet.settings.config import LndConfig
from lnet.wire.codes import MsgType, RejectReason
from lnet.wire.msg import ConnParams, KibMsg, KibRej
from unit.lnet.lnd_pair import PARAMS, PEER, PEER_STAMP, STAMP, Scene

OLD = LndConfig(version=0x11)


def refusal(scene: Scene, request: bytes) -> KibRej:
    action = scene.request(request)
    assert isinstance(action, RejectConn)
    return KibRej.parse(action.private)


def asked_again(scene: Scene) -> KibMsg:
    """The request that follows a refusal."""
    scene.actions()
    scene.now += 1
    scene.lnd.on_timer(scene.now)
    return KibMsg.parse(scene.opened().private)


def test_request_of_an_old_peer_is_accepted_and_answered_in_its_version() -> None:
    scene = Scene()
    accepted = scene.request(scene.connreq(version=0x11))
    assert isinstance(accepted, AcceptConn)
    reply = KibMsg.parse(accepted.private)
    assert (reply.version, reply.type, reply.connparams) == (0x11, MsgType.CONNACK, PARAMS)


@pytest.mark.parametrize("version", [0x10, 0x13, 0xFFFF])
def test_unknown_version_is_refused_as_fatal_with_the_version_spoken_here(version: int) -> None:
    rej = refusal(Scene(), Scene().connreq(version=version))
    assert (rej.why, rej.version, rej.incarnation) == (RejectReason.FATAL, 0x12, STAMP)


def test_old_node_refuses_with_a_rejection_that_ends_with_the_reason() -> None:
    scene = Scene(OLD)
    action = scene.request(scene.connreq())
    assert isinstance(action, RejectConn)
    assert action.private.hex() == "911be90b110003"
    assert KibRej.parse(action.private) == KibRej(RejectReason.FATAL, version=0x11)


@pytest.mark.parametrize("params", [ConnParams(9, 256, 4096), ConnParams(8, 257, 4096)])
def test_parameters_that_do_not_fit_are_fatal_in_the_old_version(params: ConnParams) -> None:
    rej = refusal(Scene(LndConfig(peer_credits=32)), Scene().connreq(version=0x11, connparams=params))
    assert (rej.why, rej.version) == (RejectReason.FATAL, 0x11)


@pytest.mark.parametrize("rej", [KibRej(RejectReason.FATAL, 0x11), KibRej(RejectReason.CONN_UNCOMPAT, 0x11)])
def test_refused_by_an_old_peer_a_node_asks_again_in_its_version(rej: KibRej) -> None:
    scene = Scene(LndConfig(peer_credits=32))
    scene.lnd.put(PEER, b"x", 0.0)
    opened = scene.opened()
    assert KibMsg.parse(opened.private).version == 0x12
    scene.lnd.conns.rejected(opened.key, rej.build(), 0.0)
    assert scene.route().counters.rejected == {"CONN_UNCOMPAT": 1}
    request = asked_again(scene)
    assert (request.version, request.dststamp, request.connparams) == (0x11, (1 << 64) - 1, PARAMS)


def test_refused_in_the_old_version_too_a_node_does_not_ask_in_another() -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"x", 0.0)
    scene.lnd.conns.rejected(scene.opened().key, KibRej(RejectReason.FATAL, 0x11).build(), 0.0)
    asked_again(scene)
    key = scene.lnd.conns.on_route(scene.route()).key  # type: ignore[union-attr]
    scene.lnd.conns.rejected(key, KibRej(RejectReason.FATAL, 0x11).build(), scene.now)
    assert scene.route().last_error == "refused by the peer: FATAL"


def test_peer_that_has_learned_the_new_version_is_asked_in_it_again() -> None:
    scene = Scene()
    scene.lnd.put(PEER, b"x", 0.0)
    scene.lnd.conns.rejected(scene.opened().key, KibRej(RejectReason.FATAL, 0x11).build(), 0.0)
    assert asked_again(scene).version == 0x11
    key = scene.lnd.conns.on_route(scene.route()).key  # type: ignore[union-attr]
    stale = refusal(Scene(), scene.connreq(version=0x11, dststamp=(1 << 64) - 1))
    assert (stale.why, stale.version) == (RejectReason.CONN_STALE, 0x12)
    scene.lnd.conns.rejected(key, KibRej(stale.why, 0x12, PEER_STAMP, PARAMS).build(), scene.now)
    request = asked_again(scene)
    assert (request.version, request.dststamp) == (0x12, PEER_STAMP)


def test_last_credit_of_an_old_connection_is_kept_for_a_noop() -> None:
    scene = Scene(OLD)
    for _ in range(9):
        scene.lnd.put(PEER, b"x", 0.0)
    opened = scene.opened()
    assert isinstance(opened, OpenConn)
    scene.lnd.conns.established(opened.key, scene.connack(version=0x11), 0.0)
    sent = scene.sent()
    assert [(message.version, message.type) for message in sent] == [(0x11, MsgType.IMMEDIATE)] * 7
    scene.receive(opened.key, scene.message(MsgType.NOOP, version=0x11, credits=7))
    assert [(message.type, message.credits) for message in scene.sent()] == [
        (MsgType.IMMEDIATE, 1),  # the NOOP of the peer took a credit, which goes back with the next message
        (MsgType.IMMEDIATE, 0),
    ]


def test_old_connection_returns_credits_with_a_noop_when_seven_are_owed() -> None:
    scene = Scene()
    key = scene.request(scene.connreq(version=0x11)).key
    for number in range(1, 8):
        assert scene.sent() == []
        message = scene.message(MsgType.IMMEDIATE, version=0x11, hdr=scene.hdr(number, 1), payload=b"x")
        scene.receive(key, message)
    (noop,) = scene.sent()
    assert (noop.type, noop.version, noop.credits) == (MsgType.NOOP, 0x11, 7)


@pytest.mark.parametrize(("here", "there"), [(0x12, 0x11), (0x11, 0x12), (0x11, 0x11)])
def test_nodes_of_unequal_versions_exchange_messages_in_the_older_one(here: int, there: int) -> None:
    clock = ManualClock()
    rig = LnetRig(clock)

    def host(name: str, net: int, version: int) -> RigHost:
        return rig.add_host(
            name,
            [f"10.1.{net}.2", f"10.1.{net}.3"],
            config=LndConfig(version=version, keepalive_s=1.0),
            get_handler=lambda nid, hdr: bytes(hdr.sink_length),
        )

    a, b = host("a", 1, here), host("b", 2, there)
    for size in (100, 100_000) * 20:
        a.node.put(b.nid, bytes(size))
        a.node.get(b.nid, size)
    clock.advance(2)
    assert (len(a.done), len(a.failed), len(b.received)) == (80, 0, 40)
    assert {peer.version for peer in a.node.lnd.conns} == {0x11}
    clock.advance(60)  # keepalives take credits, too, and give them back
    a.node.put(b.nid, b"last")
    clock.advance(0.1)
    assert b.received[-1].data == b"last"
    assert a.node.lnd.traffic.counters["errors"] == b.node.lnd.traffic.counters["errors"] == 0
