"""The two worked examples of the document, message by message, and what else two healthy hosts do."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig
from lnet.lnetctl import Lnetctl
from lnet.objects.objects import RouteState
from lnet.settings.config import LndConfig

A = ["10.1.1.2", "10.1.1.3", "10.1.1.4"]
B = ["10.1.1.5", "10.1.1.6", "10.1.1.7"]
A_NID = "10.1.1.2@o2ib"
B_NID = "10.1.1.5@o2ib"
LOCAL_A = f"{A_NID} {' '.join(A)}\n"
LOCAL_B = f"{B_NID} {' '.join(B)}\n"


def make(targets_a: str, targets_b: str, config: LndConfig | None = None) -> tuple[ManualClock, LnetRig]:
    clock = ManualClock()
    rig = LnetRig(clock, config=config)
    rig.add_host("a", A, targets=targets_a)
    rig.add_host("b", B, targets=targets_b)
    return clock, rig


def send_three(clock: ManualClock, rig: LnetRig) -> list[str]:
    a, b = rig.hosts["a"], rig.hosts["b"]
    for number in range(3):
        a.node.put(Nid.parse(B_NID), b"message %d" % number)
        clock.advance(0.01)
        assert [received.data for received in b.received] == [b"message %d" % n for n in range(number + 1)]
    assert a.failed == []
    assert rig.world.fabric.balance() == {}
    return [str(done.route) for done in a.done]


def test_example_one_targets_list_the_peers_addresses_each_message_takes_its_own_pair() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    assert send_three(clock, rig) == ["10.1.1.2->10.1.1.5", "10.1.1.3->10.1.1.6", "10.1.1.4->10.1.1.7"]
    assert [received.dev.name for received in rig.hosts["b"].received] == ["ib0", "ib1", "ib2"]


def test_example_two_no_target_for_the_peer_every_device_sends_to_the_same_address() -> None:
    clock, rig = make(LOCAL_A, LOCAL_B + LOCAL_A)
    assert send_three(clock, rig) == ["10.1.1.2->10.1.1.5", "10.1.1.3->10.1.1.5", "10.1.1.4->10.1.1.5"]
    assert [received.dev.name for received in rig.hosts["b"].received] == ["ib0", "ib0", "ib0"]


def test_route_is_not_connected_before_it_is_picked() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    a = rig.hosts["a"]
    a.node.put(Nid.parse(B_NID), b"one")
    clock.advance(0.01)
    routes = a.node.lnd.messages.routes_on(Nid.parse(A_NID).net)
    assert [route.state for route in routes] == [RouteState.UP, RouteState.NEW, RouteState.NEW]


def test_fourth_message_takes_the_first_route_again() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    send_three(clock, rig)
    rig.hosts["a"].node.put(Nid.parse(B_NID), b"four")
    clock.advance(0.01)
    assert str(rig.hosts["a"].done[3].route) == "10.1.1.2->10.1.1.5"


@pytest.mark.parametrize("size", [0, 1, 3976, 3977, 65_536, 1 << 20])
def test_put_of_any_allowed_size_arrives_whole(size: int) -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    data = rig.rng.randbytes(size)
    rig.hosts["a"].node.put(Nid.parse(B_NID), data, match_bits=7, hdr_data=9)
    clock.advance(1)
    (received,) = rig.hosts["b"].received
    assert (received.data, received.match_bits, received.hdr_data) == (data, 7, 9)
    assert received.src_nid == Nid.parse(A_NID)
    assert [done.nob for done in rig.hosts["a"].done] == [size]


@pytest.mark.parametrize("size", [0, 1, 5000, 1 << 20])
def test_get_of_any_allowed_size_brings_the_data(size: int) -> None:
    clock = ManualClock()
    rig = LnetRig(clock)
    data = rig.rng.randbytes(size)
    a = rig.add_host("a", A)
    rig.add_host("b", B, get_handler=lambda nid, hdr: data)
    a.node.get(Nid.parse(B_NID), size)
    clock.advance(1)
    assert [done.data for done in a.done] == [data]


def test_get_that_the_peer_refuses_fails_with_its_errno() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    rig.hosts["a"].node.get(Nid.parse(B_NID), 100)
    clock.advance(1)
    assert [failed.errno for failed in rig.hosts["a"].failed] == [-2]


def test_many_messages_under_few_credits_all_arrive() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A, LndConfig(peer_credits=1))
    for number in range(200):
        rig.hosts["a"].node.put(Nid.parse(B_NID), b"%d" % number)
    clock.advance(1)
    assert sorted(int(r.data) for r in rig.hosts["b"].received) == list(range(200))
    assert len(rig.hosts["a"].done) == 200


def test_node_sends_to_itself_over_the_routes_of_its_own_target() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    a = rig.hosts["a"]
    for _ in range(3):
        a.node.put(Nid.parse(A_NID), b"to myself")
        clock.advance(0.01)
    assert len(a.received) == 3
    assert [str(done.route) for done in a.done] == [f"{addr}->{addr}" for addr in A]


def test_unknown_nid_fails_within_its_timeout_and_is_reported_once() -> None:
    clock, rig = make(LOCAL_A, LOCAL_B, LndConfig(timeout_s=5))
    a = rig.hosts["a"]
    msg_id = a.node.put(Nid.parse("10.1.1.99@o2ib"), b"anyone?")
    clock.advance(5.001)
    (failed,) = a.failed
    assert (failed.msg_id, failed.errno, failed.in_doubt) == (msg_id, -113, False)
    assert "no port has address 10.1.1.99" in failed.reason
    clock.advance(100)
    assert len(a.reports) == 1
    assert a.node.lnd.deadline() is None, "nobody tries its routes any more"


def test_unknown_nids_are_not_kept() -> None:
    clock, rig = make(LOCAL_A, LOCAL_B, LndConfig(timeout_s=5))
    a = rig.hosts["a"]
    for number in range(300):
        a.node.put(Nid.parse(f"10.9.{number >> 8}.{number & 255}@o2ib"), b"anyone?")
    clock.advance(60)
    assert len(a.failed) == 300
    assert (len(a.node.lnd.conns), a.node.lnd.unreported) == (0, 0)
    assert Lnetctl(a.node).peer_list() == {"peer list": []}


def test_nid_on_a_network_this_node_does_not_have_fails_at_once() -> None:
    clock, rig = make(LOCAL_A, LOCAL_B)
    rig.hosts["a"].node.put(Nid.parse("10.1.1.5@o2ib7"), b"x")
    clock.advance(0)
    assert [failed.errno for failed in rig.hosts["a"].failed] == [-101]


def test_message_larger_than_allowed_fails_at_once() -> None:
    clock, rig = make(LOCAL_A + LOCAL_B, LOCAL_B + LOCAL_A)
    rig.hosts["a"].node.put(Nid.parse(B_NID), bytes((1 << 20) + 1))
    clock.advance(0)
    (failed,) = rig.hosts["a"].failed
    assert failed.errno == -90
    assert "1048576 are allowed" in failed.reason
