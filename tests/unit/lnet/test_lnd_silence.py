"""The LND and a peer that says nothing: who is asked when, what is closed, and what a failed route may carry."""

from __future__ import annotations

import pytest

from hfi_sim.base.types import PortEvent
from lnet.o2iblnd.actions import CloseConn, OpenConn, SendMsg
from lnet.objects.objects import RouteState
from lnet.objects.stats import SendDone, SendFailed
from lnet.settings.config import LndConfig
from lnet.wire.codes import MsgType
from unit.lnet.lnd_pair import OWN, PEER, Scene


def test_connection_that_a_get_waits_on_is_asked_after_a_second_of_silence_without_a_credit() -> None:
    scene = Scene()
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 0.0)
    for _ in range(16):
        scene.lnd.get(PEER, 100, 0.0)
    (peer,) = scene.lnd.conns
    assert (len(scene.sent()), peer.credits) == (8, 0)
    assert scene.lnd.deadline() == 1.0
    scene.lnd.on_timer(1.0)
    (noop,) = scene.sent()
    assert noop.type == MsgType.NOOP
    assert scene.lnd.deadline() == 2.0


@pytest.mark.parametrize(("timeout_s", "asked_s"), [(50.0, 1.0), (2.0, 0.5), (0.01, 0.05)])
def test_silence_while_a_message_waits_is_measured_by_its_timeout(timeout_s: float, asked_s: float) -> None:
    scene = Scene()
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 0.0)
    scene.lnd.get(PEER, 100, 0.0, timeout_s=timeout_s)
    (peer,) = scene.lnd.conns
    assert peer.deadline == asked_s


def test_silence_is_long_again_when_nothing_waits_any_more() -> None:
    scene = Scene(LndConfig(keepalive_s=20))
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 0.0)
    scene.sent()
    scene.lnd.get(PEER, 0, 0.0)
    (request,) = scene.sent()
    scene.now = 0.5
    scene.receive(key, scene.message(MsgType.GET_DONE, cookie=request.cookie, status=0))
    assert scene.lnd.deadline() == 20.5


def test_expiry_closes_a_connection_on_which_nothing_moves_and_reports_each_message_once() -> None:
    scene = Scene(LndConfig(timeout_s=5), devices=2)
    key = scene.connect()  # over ib0; the next one takes ib1
    scene.lnd.conns.sent(key, 1, 0.0)
    scene.sent()
    scene.lnd.on_device("ib1", PortEvent.PORT_ERR, 0.0, 0.0)
    overdue = {scene.lnd.get(PEER, 100, 0.0) for _ in range(8)}
    waiting = scene.lnd.get(PEER, 100, 1.0)
    requests = scene.sent()
    scene.lnd.on_device("ib1", PortEvent.PORT_ACTIVE, 100.0, 1.0)
    scene.reports()
    scene.lnd.on_timer(5.0)
    assert {report.msg_id for report in scene.reports() if isinstance(report, SendFailed)} == overdue
    closed = [action for action in scene.actions() if not isinstance(action, SendMsg)]
    assert [type(action) for action in closed] == [CloseConn, OpenConn]
    assert closed[0] == CloseConn(key)
    assert isinstance(closed[1], OpenConn)
    assert closed[1].dev == "ib1"
    scene.receive(key, scene.message(MsgType.GET_DONE, cookie=requests[0].cookie, status=0))
    scene.lnd.conns.established(closed[1].key, scene.connack(), 5.0)
    (again,) = scene.sent()
    scene.receive(closed[1].key, scene.message(MsgType.GET_DONE, cookie=again.cookie, status=0))
    assert scene.report(SendDone).msg_id == waiting


def test_route_that_is_tried_again_carries_nothing_until_it_is_up() -> None:
    scene = Scene(devices=2)
    for _ in range(2):
        scene.lnd.put(PEER, b"x", 0.0)
    first, second = (action for action in scene.actions() if isinstance(action, OpenConn))
    scene.lnd.conns.established(second.key, scene.connack(), 0.0)
    scene.lnd.conns.closed(first.key, "no answer", 0.0)
    scene.sent()
    scene.lnd.on_timer(0.1)
    probe = scene.opened()
    dead, alive = scene.lnd.messages.routes_on(OWN.net)
    assert (dead.state, alive.state) == (RouteState.PROBING, RouteState.UP)
    for _ in range(3):
        scene.lnd.put(PEER, b"y", 0.1)
    assert [message.payload for message in scene.sent()] == [b"y"] * 3
    scene.lnd.conns.established(probe.key, scene.connack(), 0.2)
    assert dead.state is RouteState.UP
    assert scene.actions() == []
    for _ in range(2):
        scene.lnd.put(PEER, b"z", 0.2)
    assert {action.key for action in scene.actions() if isinstance(action, SendMsg)} == {
        probe.key,
        second.key,
    }


def test_message_parked_while_the_only_route_is_tried_again_goes_when_it_is_up() -> None:
    scene = Scene()
    key = scene.connect()
    scene.lnd.conns.sent(key, 1, 0.0)
    scene.lnd.conns.closed(key, "no answer", 0.0)
    scene.actions()
    scene.lnd.on_timer(0.1)
    probe = scene.opened()
    scene.lnd.put(PEER, b"later", 0.1)
    assert scene.actions() == []
    scene.lnd.conns.established(probe.key, scene.connack(), 0.2)
    (message,) = scene.sent()
    assert message.payload == b"later"
