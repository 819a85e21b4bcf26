"""A node on the fabric: what it hands on before peers are told, joins of peers, and how it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.lnetctl import Lnetctl
from lnet.objects.stats import Received, Report
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding

A, B, C = ["10.1.1.2", "10.1.1.3"], ["10.1.1.5", "10.1.1.6"], ["10.1.1.8", "10.1.1.9"]
B_NIDS = [Nid.parse(f"{address}@o2ib") for address in B]
LONG_S = 700.0


class Pair:
    """Two hosts with two HFIs each."""

    def __init__(self, bonding: Bonding, **config: Any) -> None:
        self.clock = ManualClock()
        self.rig = LnetRig(self.clock, bonding=bonding, config=LndConfig(**config))
        self.a, self.b = self.rig.add_host("a", A), self.rig.add_host("b", B)

    def ctl(self, host: RigHost, bonding: Bonding) -> Lnetctl:
        return Lnetctl(host.node, bonding_of=lambda net: bonding)

    def intercept(self, on_report: Callable[[Report], None]) -> None:
        """Let b hand on its reports to another user."""
        self.b.node.on_report = on_report


@pytest.fixture(params=list(Bonding), ids=str)
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


# --- handed on, then acknowledged ---------------------------------------------------------------------------


def test_message_is_done_only_after_its_receiver_has_handed_it_on(pair: Pair) -> None:
    done_then: list[int] = []

    def on_report(report: Report) -> None:
        if isinstance(report, Received):
            done_then.append(len(pair.a.done))

    pair.intercept(on_report)
    for size in (10, 100_000):
        pair.a.node.put(B_NIDS[0], bytes(size))
        pair.clock.advance(1)
    assert (done_then, len(pair.a.done)) == ([0, 1], 2)


@pytest.mark.breaks_core
def test_message_whose_receiver_fails_while_it_hands_it_on_is_not_done(pair: Pair) -> None:
    def on_report(report: Report) -> None:
        raise RuntimeError("no room")

    pair.intercept(on_report)
    pair.a.node.put(B_NIDS[0], b"lost?")
    pair.clock.advance(LONG_S)
    assert [failed.in_doubt for failed in pair.a.failed] == [True]
    assert isinstance(pair.b.node.failure, RuntimeError)


def test_message_on_a_connection_that_the_receiver_is_closing_is_not_lost(pair: Pair) -> None:
    pair.a.node.put(B_NIDS[0], b"first")
    pair.clock.advance(1)
    pair.b.node.put(Nid.parse(f"{A[0]}@o2ib"), b"back")
    pair.clock.advance(1)
    for _ in range(3):  # over each route
        pair.a.node.put(B_NIDS[0], b"second")
    pair.clock.advance(0.2e-6)  # they are on the wire
    lnd, now = pair.b.node.lnd, pair.clock.time()
    for _ in range(20):  # what is to be done before the transport is told
        lnd.put(Nid.parse(f"{A[0]}@o2ib"), b"back", now)
    for conn in lnd.conns:
        if conn.route is None:
            lnd.conns.fail(conn.key, "a test", now)
    pair.clock.advance(LONG_S)
    assert Counter(received.data for received in pair.b.received)[b"second"] == len(pair.a.done) - 1
    assert len(pair.a.done) + len(pair.a.failed) == 4


# --- one node with several NIDs -----------------------------------------------------------------------------


def test_messages_to_two_nids_before_discovery_all_arrive_and_the_peers_are_joined() -> None:
    pair = Pair(Bonding.MULTI_RAIL)
    for number in range(6):
        pair.a.node.put(B_NIDS[number % 2], b"%d" % number)
    pair.clock.advance(1)
    assert sorted(received.data for received in pair.b.received) == [b"%d" % number for number in range(6)]
    (peer,) = Lnetctl(pair.a.node).peer_show()["peer"]
    assert [ni["nid"] for ni in peer["peer ni"]] == list(map(str, B_NIDS))


def test_peers_in_use_without_discovery_are_joined_when_it_is_switched_on() -> None:
    pair = Pair(Bonding.MULTI_RAIL, discovery=False)
    for number in range(10):
        pair.a.node.put(B_NIDS[number % 2], b"%d" % number)
    pair.clock.advance(1)
    assert len(Lnetctl(pair.a.node).peer_show()["peer"]) == 2
    Lnetctl(pair.a.node).set_value("discovery", "1")
    for number in range(10, 25):
        pair.a.node.put(B_NIDS[number % 2], b"%d" % number)
    pair.clock.advance(1)
    assert len(pair.b.received) == len(pair.a.done) == 25
    (peer,) = Lnetctl(pair.a.node).peer_show()["peer"]
    (net,) = Lnetctl(pair.a.node).net_status()["net_status"]
    pairs = Counter((route["dev"], route["remote ip"]) for route in net["routes"])
    assert set(pairs.values()) == {1}, "a pair is one route, with all that it has carried"
    Lnetctl(pair.a.node).peer_del(peer["primary nid"])
    pair.clock.advance(1)
    assert [conn for conn in pair.a.node.lnd.conns if conn.route is not None] == [], "each went with the peer"


def test_peer_that_was_configured_only_is_discovered_when_it_is_asked_for() -> None:
    pair = Pair(Bonding.MULTI_RAIL)
    Lnetctl(pair.a.node).peer_add(str(B_NIDS[0]))
    told: list[object] = []
    pair.a.node.lnd.rails.ask(B_NIDS[0], told.append, force=False)
    assert told == [], "it has to be asked"
    pair.a.node.poll()
    pair.clock.advance(1)
    assert told == [None]
    (peer,) = Lnetctl(pair.a.node).peer_show()["peer"]
    assert [ni["nid"] for ni in peer["peer ni"]] == list(map(str, B_NIDS))


def test_peer_that_has_restarted_with_fewer_interfaces_is_discovered_again() -> None:
    pair = Pair(Bonding.MULTI_RAIL)
    pair.a.node.put(B_NIDS[0], b"before")
    pair.clock.advance(1)
    pair.rig.restart("b", stamp=2)
    Lnetctl(pair.rig.hosts["b"].node).net_del(nid=str(B_NIDS[1]))
    pair.clock.advance(1)
    for _ in range(4):
        pair.a.node.put(B_NIDS[0], b"after")
        pair.clock.advance(200)
    (peer,) = Lnetctl(pair.a.node).peer_show()["peer"]
    assert [ni["nid"] for ni in peer["peer ni"]] == [str(B_NIDS[0])]


def test_interface_added_to_a_bonded_network_carries_messages() -> None:
    pair = Pair(Bonding.O2IBS)
    ctl = pair.ctl(pair.a, Bonding.O2IBS)
    ctl.net_del("o2ib", "ib1")
    for added in (False, True):
        if added:
            ctl.net_add("o2ib", ["ib1"])
        before = len(pair.a.done)
        for _ in range(4):
            pair.a.node.put(B_NIDS[0], b"x")
        pair.clock.advance(1)
        assert len({done.route.rt_dev.name for done in pair.a.done[before:]}) == 1 + added


def test_nodes_of_the_same_incarnation_are_told_apart() -> None:
    pair = Pair(Bonding.O2IBS)
    c = pair.rig.add_host("c", C)
    for host in (pair.a, c):
        host.node.put(B_NIDS[0], b"from each")
    pair.clock.advance(1)
    assert (len(pair.b.received), len(pair.a.done), len(c.done)) == (2, 1, 1)


@pytest.mark.parametrize("then", list(Bonding), ids=str)
@pytest.mark.parametrize("delay_s", [0.0, 5.0])
def test_network_may_go_while_an_interface_of_a_peer_recovers(then: Bonding, delay_s: float) -> None:
    pair = Pair(Bonding.MULTI_RAIL)
    for _ in range(40):
        pair.a.node.put(B_NIDS[0], b"before")
    pair.clock.advance(1)
    pair.rig.world.faults.add("link-down on b-ib1")
    ctl = pair.ctl(pair.a, then)
    for number in range(40):
        pair.clock.call_later(number * 0.1, lambda: pair.a.node.put(B_NIDS[0], b"amid"))
    pair.clock.advance(4)
    ctl.net_del("o2ib")
    pair.clock.advance(delay_s)
    ctl.net_add("o2ib", ["ib0", "ib1"])
    pair.clock.advance(60)
    assert pair.a.node.failure is None
    before = len(pair.a.done)
    for _ in range(15):
        pair.a.node.put(B_NIDS[0], b"after")
    pair.clock.advance(60)
    assert Counter(received.data for received in pair.b.received)[b"after"] == len(pair.a.done) - before == 15


def test_many_messages_wait_for_a_peer_that_is_removed() -> None:
    pair = Pair(Bonding.MULTI_RAIL)
    pair.rig.world.faults.add("loss on *")
    for number in range(3000):
        pair.a.node.put(B_NIDS[number % 2], b"x")
    pair.clock.advance(0.01)
    for nid in B_NIDS:
        Lnetctl(pair.a.node).peer_del(str(nid))
    pair.clock.advance(0.01)
    assert (len(pair.a.failed), pair.a.node.lnd.unreported, pair.a.node.failure) == (3000, 0, None)


# --- a node that fails --------------------------------------------------------------------------------------


@pytest.mark.breaks_core
def test_node_that_fails_reports_every_message_also_later_ones(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(now: float) -> None:
        raise KeyError("a net")

    pair.rig.world.faults.add("loss on *")
    for _ in range(3):
        pair.a.node.put(B_NIDS[0], b"x")
    monkeypatch.setattr(pair.a.node.lnd.conns, "on_timer", broken)
    pair.clock.advance(LONG_S)
    assert isinstance(pair.a.node.failure, KeyError)
    late = [pair.a.node.put(B_NIDS[0], b"late"), pair.a.node.get(B_NIDS[0], 4)]
    pair.clock.advance(0)
    assert len(pair.a.failed) == len({failed.msg_id for failed in pair.a.failed}) == 5
    assert "LNet on a has failed (KeyError: 'a net')" in pair.a.failed[-1].reason
    assert {failed.msg_id for failed in pair.a.failed} >= set(late)


def test_node_that_was_ended_refuses_messages(pair: Pair) -> None:
    pair.a.node.shutdown()
    pair.a.node.put(B_NIDS[0], b"late")
    pair.clock.advance(0)
    assert [failed.reason for failed in pair.a.failed] == ["LNet on a has ended"]
