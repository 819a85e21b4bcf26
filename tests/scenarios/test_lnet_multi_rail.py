"""Multi-Rail: the worked examples, discovery and push, and what must hold under faults."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import yaml

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.lnetctl import Lnetctl
from lnet.objects.stats import SendDone, SendFailed, TxKind
from lnet.settings.config import LndConfig
from lnet.settings.health import MAX_HEALTH
from lnet.settings.networks import Bonding
from lnet.wire.ping import PING_MATCH_BITS, RESERVED_PORTAL, PingInfo
from scenarios.lnet_faults import get_handler, payload
from scenarios.lnet_short_faults import KINDS, ShortFault, Traffic, sample

A = ["10.1.1.2", "10.1.1.3", "10.1.1.4"]
B = ["10.1.1.5", "10.1.1.6", "10.1.1.7"]
B_NID = Nid.parse("10.1.1.5@o2ib")
LNET_PEER_CONFIGURED = 1 << 3
LNET_PEER_DISCOVERING = 1 << 6
PAIRS = {"10.1.1.2->10.1.1.5", "10.1.1.3->10.1.1.6", "10.1.1.4->10.1.1.7"}


def make(a: list[str] = A, b: list[str] = B, config: LndConfig | None = None) -> tuple[ManualClock, LnetRig]:
    clock = ManualClock()
    rig = LnetRig(clock, rate_bps=10e9, config=config, bonding=Bonding.MULTI_RAIL)
    rig.add_host("a", a, get_handler=get_handler)
    rig.add_host("b", b, get_handler=get_handler)
    return clock, rig


def send(clock: ManualClock, a: RigHost, count: int) -> list[str]:
    before = len(a.done)
    for number in range(count):
        a.node.put(B_NID, b"%d" % number)
        clock.advance(0.01)
    return [str(done.route) for done in a.done[before:]]


def test_example_one_every_message_takes_its_own_pair_without_any_target() -> None:
    clock, rig = make()
    routes = send(clock, rig.hosts["a"], 6)
    assert set(routes[:3]) == PAIRS
    assert routes[3:] == routes[:3]
    assert [received.data for received in rig.hosts["b"].received] == [b"%d" % n for n in range(6)]


def test_example_two_unknown_interfaces_every_message_takes_the_same_pair() -> None:
    clock, rig = make(config=LndConfig(discovery=False))
    assert send(clock, rig.hosts["a"], 3) == ["10.1.1.2->10.1.1.5"] * 3


def test_peer_with_bonding_is_met_from_one_interface() -> None:
    clock = ManualClock()
    rig = LnetRig(clock, bonding=Bonding.O2IBS)
    b = rig.add_host("b", B)
    rig._bonding = Bonding.MULTI_RAIL
    a = rig.add_host("a", A)
    assert send(clock, a, 3) == ["10.1.1.2->10.1.1.5"] * 3
    assert len(b.received) == 3
    (peer,) = Lnetctl(a.node).peer_show()["peer"]
    assert peer["Multi-Rail"] is False
    assert [ni["nid"] for ni in peer["peer ni"]] == [str(B_NID)]


def test_peer_with_bonding_is_met_from_one_other_interface_when_its_own_is_removed() -> None:
    clock = ManualClock()
    rig = LnetRig(clock, bonding=Bonding.O2IBS)
    rig.add_host("b", B)
    rig._bonding = Bonding.MULTI_RAIL
    a = rig.add_host("a", A)
    send(clock, a, 1)
    Lnetctl(a.node).net_del("o2ib", "ib0")
    assert send(clock, a, 4) == ["10.1.1.3->10.1.1.5"] * 4


def test_peer_that_names_only_nids_of_other_networks_stays_known_by_the_one_it_was_met_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, rig = make()
    a, b = rig.hosts["a"], rig.hosts["b"]
    elsewhere = PingInfo(((Nid.parse("10.9.9.9@o2ib9"), True),))
    monkeypatch.setattr(b.node.lnd.rails, "info", lambda: elsewhere)
    send(clock, a, 3)
    assert len(b.received) == 3
    assert Lnetctl(a.node).peer_list() == {"peer list": [{"nid": str(B_NID)}]}


def test_peer_is_called_by_its_next_nid_when_the_network_of_the_first_goes() -> None:
    _, rig = make()
    ctl = Lnetctl(rig.hosts["a"].node, bonding_of=lambda net: Bonding.MULTI_RAIL)
    ctl.net_del("o2ib", "ib2")
    ctl.net_add("o2ib1", ["ib2"])
    ctl.peer_add(str(B_NID), ["10.1.1.5@o2ib1"])
    ctl.net_del("o2ib")
    assert ctl.peer_list() == {"peer list": [{"nid": "10.1.1.5@o2ib1"}]}


def test_discovery_of_a_node_that_is_away_takes_as_long_as_any_message_may() -> None:
    clock, rig = make(config=LndConfig(transaction_timeout_s=3.0))
    a = rig.hosts["a"]
    rig.hosts["b"].node.shutdown()
    a.node.put(B_NID, b"waits for it")
    clock.advance(2)
    (peer,) = Lnetctl(a.node).peer_show(verbose="3")["peer"]
    assert peer["peer state"] & LNET_PEER_DISCOVERING


def test_node_that_has_answered_stays_known_as_part_of_another() -> None:
    clock, rig = make(config=LndConfig(discovery=False))
    a = rig.hosts["a"]
    send(clock, a, 1)
    table = a.node.lnd.messages
    other, peer = table.peer_of(B_NID), table.peer_of(Nid.parse("10.1.1.6@o2ib"))
    assert (other.kept, peer.kept) == (True, False)
    table.join(peer, B_NID)
    assert peer.kept


def test_peer_added_by_hand_is_up_and_stays_configured_as_part_of_another() -> None:
    clock, rig = make()
    a = rig.hosts["a"]
    ctl = Lnetctl(a.node)
    ctl.peer_add("10.1.1.6@o2ib", ["10.1.1.6@o2ib"])
    (peer,) = ctl.peer_show(verbose="3")["peer"]
    assert [ni["state"] for ni in peer["peer ni"]] == ["up"]
    send(clock, a, 1)
    (peer,) = ctl.peer_show(verbose="3")["peer"]
    assert peer["primary nid"] == str(B_NID)
    assert peer["peer state"] & LNET_PEER_CONFIGURED


def test_message_that_waits_for_a_discovery_goes_on_when_its_nid_joins_a_known_peer() -> None:
    clock, rig = make()
    a, b = rig.hosts["a"], rig.hosts["b"]
    ctl = Lnetctl(a.node)
    send(clock, a, 1)
    ctl.peer_del(str(B_NID), ["10.1.1.6@o2ib"])
    a.node.put(Nid.parse("10.1.1.6@o2ib"), b"waits")
    ctl.peer_add(str(B_NID), ["10.1.1.6@o2ib"])
    clock.advance(1)
    assert [received.data for received in b.received] == [b"0", b"waits"]


def test_attempt_that_is_not_answered_ends_before_the_message_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, rig = make(config=LndConfig(transaction_timeout_s=3.0))
    a, b = rig.hosts["a"], rig.hosts["b"]
    send(clock, a, 3)
    monkeypatch.setattr(b.node.lnd.conns, "message", lambda *_: None)
    a.node.put(B_NID, bytes(100_000))
    clock.advance(1.5)
    assert ["no answer within 0.75 s" in failed.reason for failed in a.failed] == [True]


@pytest.mark.parametrize("bonding", list(Bonding))
def test_message_that_is_overdue_counts_as_one_response_timeout(bonding: Bonding) -> None:
    clock = ManualClock()
    rig = LnetRig(clock, bonding=bonding, config=LndConfig(discovery=False))
    a, b = rig.add_host("a", A), rig.add_host("b", B)
    b.node.shutdown()
    a.node.put(B_NID, b"anyone?", timeout_s=0.2)
    clock.advance(1)
    assert [failed.in_doubt for failed in a.failed] == [False]
    assert Lnetctl(a.node).stats_show()["statistics"]["response_timeout_count"] == 1


def test_least_credits_of_a_peer_stay_those_of_its_busiest_moment() -> None:
    clock, rig = make(A[:1], B[:1])
    a = rig.hosts["a"]
    ctl = Lnetctl(a.node)
    send(clock, a, 1)

    def shown(key: str) -> int:
        (peer,) = ctl.peer_show(verbose="1")["peer"]
        return int(peer["peer ni"][0][key])

    for number in range(3):
        a.node.put(B_NID, b"%d" % number)
    assert shown("min_tx_credits") == shown("max_ni_tx_credits") - 3
    clock.advance(1)
    send(clock, a, 1)
    assert shown("available_tx_credits") == shown("max_ni_tx_credits")
    assert shown("min_tx_credits") == shown("max_ni_tx_credits") - 3


def test_interface_added_and_removed_is_pushed_to_peers() -> None:
    clock, rig = make(b=B[:2])
    a, b = rig.hosts["a"], rig.hosts["b"]

    def known() -> list[str]:
        (peer,) = Lnetctl(a.node).peer_show()["peer"]
        return [ni["nid"] for ni in peer["peer ni"]]

    send(clock, a, 1)
    assert known() == ["10.1.1.5@o2ib", "10.1.1.6@o2ib"]
    Lnetctl(b.node).net_del("o2ib", "ib1")
    clock.advance(1)
    assert known() == ["10.1.1.5@o2ib"]
    ctl = Lnetctl(b.node, bonding_of=lambda net: Bonding.MULTI_RAIL)
    ctl.net_add("o2ib", ["ib1"])
    clock.advance(1)
    assert known() == ["10.1.1.5@o2ib", "10.1.1.6@o2ib"]


def test_export_of_multi_rail_has_one_ni_for_each_interface_and_is_what_import_reads() -> None:
    _, rig = make()
    node = rig.hosts["a"].node
    ctl = Lnetctl(node)
    exported = ctl.export_yaml()
    assert [ni["nid"] for ni in exported["net"][1]["local NI(s)"]] == [f"{addr}@o2ib" for addr in A]
    assert ctl.import_yaml(yaml.safe_dump(exported)) == {}


def test_unknown_nid_fails_once_and_is_not_kept() -> None:
    clock, rig = make()
    a = rig.hosts["a"]
    for number in range(100):
        a.node.put(Nid.parse(f"10.9.1.{number}@o2ib"), b"anyone?")
    clock.advance(400)
    assert len(a.failed) == len(a.reports) == 100
    assert (Lnetctl(a.node).peer_list(), a.node.lnd.unreported) == ({"peer list": []}, 0)
    (status,) = Lnetctl(a.node).net_status()["net_status"]
    assert {route["nid"] for route in status["routes"]} <= {f"{addr}@o2ib" for addr in A}


def test_message_to_a_restarted_peer_discovers_it_again() -> None:
    clock, rig = make()
    send(clock, rig.hosts["a"], 3)
    rig.restart("b", stamp=2)
    clock.advance(1)
    send(clock, rig.hosts["a"], 6)
    clock.advance(60)
    assert len(rig.hosts["b"].received) >= 3
    assert rig.hosts["a"].node.lnd.rails.table.peers[B_NID].stamp == 2


@pytest.mark.parametrize("data", [b"", b"x" * 40, bytes(16 + 16 * 64)])
def test_push_that_cannot_be_read_changes_nothing(data: bytes) -> None:
    clock, rig = make()
    a = rig.hosts["a"]
    send(clock, a, 1)
    before = Lnetctl(rig.hosts["b"].node).peer_show()
    a.node.put(B_NID, data, match_bits=PING_MATCH_BITS, ptl_index=RESERVED_PORTAL)
    clock.advance(1)
    assert Lnetctl(rig.hosts["b"].node).peer_show() == before


class Law:
    """Two hosts with two interfaces each: what must hold of the messages of a, whatever happens."""

    def __init__(self, traffic: Traffic) -> None:
        self.clock, self.rig = make(["10.1.1.2", "10.1.1.3"], ["10.1.1.5", "10.1.1.6"])
        self.a, self.b = self.rig.hosts["a"], self.rig.hosts["b"]
        self.traffic = traffic
        send(self.clock, self.a, 1)
        self.a.reports.clear()
        self.b.reports.clear()

    def hold(self, faults: list[ShortFault]) -> None:
        for fault in faults:
            self.rig.world.faults.add(str(fault))
        ids = []
        for number in range(self.traffic.count):
            data = payload(number, self.traffic.size)
            put = self.traffic.kind is TxKind.PUT
            node = self.a.node
            ids.append(node.put(B_NID, data) if put else node.get(B_NID, len(data), match_bits=number))
        self.clock.advance(250)
        ends = Counter(r.msg_id for r in self.a.reports if isinstance(r, SendDone | SendFailed))
        assert ends == dict.fromkeys(ids, 1)
        delivered = Counter(received.data for received in self.b.received)
        failed = {failed.msg_id: failed for failed in self.a.failed}
        for number, msg_id in enumerate(ids):
            data = payload(number, self.traffic.size)
            if self.traffic.kind is TxKind.GET:
                assert msg_id in failed or any(d.msg_id == msg_id and d.data == data for d in self.a.done)
            elif msg_id not in failed:
                assert delivered[data] == 1
            else:
                assert delivered[data] <= failed[msg_id].in_doubt
        self.check_afterwards()

    def check_afterwards(self) -> None:
        """Every interface is healthy again and has no message left; messages are done at once."""
        table = self.a.node.lnd.rails.table
        ends = [*table.locals.values(), *table.peers[B_NID].nis.values()]
        assert {(end.health.value, end.in_flight) for end in ends} == {(MAX_HEALTH, 0)}
        assert len(send(self.clock, self.a, 8)) == 8, "each within 10 ms"
        assert self.rig.world.fabric.balance() == {}


@pytest.mark.parametrize(("faults", "of_large"), [(3, 1), pytest.param(40, 10, marks=pytest.mark.long)])
@pytest.mark.parametrize("traffic", KINDS, ids=str)
def test_every_message_ends_once_and_is_delivered_at_most_once_under_faults(
    traffic: Traffic, faults: int, of_large: int
) -> None:
    for fault in sample(traffic, of_large if traffic.count * traffic.size > 1 << 20 else faults):
        Law(traffic).hold([fault])


@pytest.mark.parametrize("scenes", [8, pytest.param(100, marks=pytest.mark.long)])
def test_many_faults_at_once(scenes: int) -> None:
    rng = random.Random(4)
    for _ in range(scenes):
        traffic = rng.choice([t for t in KINDS if t.count * t.size <= 1 << 20])
        Law(traffic).hold(rng.sample(sample(traffic, 12), 4))
