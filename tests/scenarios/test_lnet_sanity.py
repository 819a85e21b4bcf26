"""The health tests of Lustre's sanity-lnet.sh, each as a scenario on virtual time under its own number.

Kept: what is set up, made to fail and expected. Faults that the real tests make with `net_drop add -e STATUS` are made
at the same place, before the message is sent; those that a down interface makes are faults of the fabric. Left out: the
lnetctl command lines around them, waiting in real time, and LNet's loopback interface 0@lo.
Not here: 208 (ip2nets, which this LNet does not have; and which upstream has dropped).
Source: the public lustre/tests/sanity-lnet.sh.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.lnetctl import Lnetctl
from lnet.objects.objects import KibRoute
from lnet.objects.peers import KibTx, LocalNi, PeerNi
from lnet.objects.stats import SendDone, SendFailed, TxKind
from lnet.settings.config import LndConfig
from lnet.settings.health import MAX_HEALTH, HealthStatus
from lnet.settings.networks import Bonding
from lnet.wire.ping import MAX_REPLY, PING_MATCH_BITS, RESERVED_PORTAL

LOCAL_RESEND = ["local_interrupt", "local_dropped", "local_aborted", "local_no_route", "local_timeout"]
LOCAL_NO_RESEND = ["local_error"]
REMOTE_RESEND = ["remote_dropped"]
REMOTE_NO_RESEND = ["remote_error", "remote_timeout"]
A, B = ["10.1.1.2", "10.1.1.3"], ["10.1.1.5", "10.1.1.6"]


def nid(addr: str, net: str = "o2ib") -> Nid:
    return Nid.parse(f"{addr}@{net}")


class Pair:
    """A local node and a remote one with Multi-Rail, which know each other."""

    def __init__(self, *, rails: int = 2, config: LndConfig | None = None, networks: str = "") -> None:
        self.clock = ManualClock()
        self.rig = LnetRig(self.clock, config=config, bonding=Bonding.MULTI_RAIL)
        self.a = self.rig.add_host("a", A[:rails], networks=networks)
        self.b = self.rig.add_host("b", B[:rails], networks=networks)
        self.rails = self.a.node.lnd.rails
        self.table = self.rails.table
        assert self.ping(B[0])

    def set_health(self, nid: Nid, value: int) -> None:
        """Set the health of an interface here, or else of one of the peer."""
        local = next((ni for ni in self.table.locals.values() if ni.nid == nid), None)
        self.rails.set_health_of(local or self.table.peers[nid].nis[nid], value)

    def ping(self, addr: str, source: str | None = None, net: str = "o2ib") -> bool:
        """lnetctl ping: return whether it succeeded."""
        node = self.a.node
        msg_id = node.lnd.get(
            nid(addr, net),
            MAX_REPLY,
            node.time(),
            match_bits=PING_MATCH_BITS,
            ptl_index=RESERVED_PORTAL,
            source=nid(source, net) if source else None,
        )
        node.poll()
        self.clock.advance(0.5)
        (report,) = [r for r in self.a.reports if isinstance(r, SendDone | SendFailed) and r.msg_id == msg_id]
        return isinstance(report, SendDone)

    def drop(
        self, status: str, rate: int = 1, where: Callable[[KibRoute], bool] = lambda route: True
    ) -> None:
        """net_drop add -m GET -e STATUS -r RATE: every RATEth GET fails in this way."""
        count = itertools.count(1)

        def simulate(tx: KibTx, route: KibRoute) -> HealthStatus | None:
            hit = tx.kind is TxKind.GET and where(route) and next(count) % rate == 0
            return HealthStatus(status) if hit else None

        self.rails.way.simulate = simulate

    def reset(self) -> None:
        """Remove the rules, and set every health to its maximum (peer set --health 1000 --all)."""
        self.rails.way.simulate = None
        for ni in [
            *self.table.locals.values(),
            *(ni for p in self.table.known_peers() for ni in p.nis.values()),
        ]:
            self.rails.set_health_of(ni, MAX_HEALTH)
        self.clock.advance(20)

    def local_health(self) -> int:
        """The lowest health of a local interface."""
        return min(ni.health.value for ni in self.table.locals.values())

    def remote_health(self) -> int:
        """The lowest health of an interface of the peer."""
        return min(ni.health.value for ni in self.table.peers[nid(B[0])].nis.values())

    def local(self, addr: str, net: str = "o2ib") -> LocalNi:
        return next(ni for ni in self.table.locals.values() if ni.nid == nid(addr, net))

    def remote(self, addr: str) -> PeerNi:
        return self.table.peers[nid(addr)].nis[nid(addr)]


def statuses(ctl: Lnetctl) -> dict[str, str]:
    """NIDs of `net show`, with their status."""
    return {ni["nid"]: ni["status"] for net in ctl.net_show()["net"][1:] for ni in net["local NI(s)"]}


def sends_of(pair: Pair, status: str) -> int:
    """Let a ping fail with a status; return how often it was sent again."""
    before = pair.table._traffic.counters["resend_count"]
    pair.drop(status)
    assert not pair.ping(B[0])
    return pair.table._traffic.counters["resend_count"] - before


@pytest.mark.parametrize("status", LOCAL_RESEND + LOCAL_NO_RESEND)
def test_204_single_rail_local_failure_is_not_resent(status: str) -> None:
    pair = Pair(rails=1)
    assert sends_of(pair, status) == 0
    assert pair.local_health() < MAX_HEALTH


@pytest.mark.parametrize("status", LOCAL_RESEND + LOCAL_NO_RESEND)
def test_205_multi_rail_local_failure_is_resent_unless_it_is_an_error(status: str) -> None:
    pair = Pair()
    assert sends_of(pair, status) == (pair.table.config.retry_count if status in LOCAL_RESEND else 0)
    assert pair.local_health() < MAX_HEALTH
    assert pair.remote_health() == MAX_HEALTH


@pytest.mark.parametrize("status", REMOTE_RESEND + REMOTE_NO_RESEND)
def test_206_single_rail_remote_failure_touches_no_health_and_is_not_resent(status: str) -> None:
    pair = Pair(rails=1)
    assert sends_of(pair, status) == 0
    assert (pair.local_health(), pair.remote_health()) == (MAX_HEALTH, MAX_HEALTH)


@pytest.mark.parametrize("status", REMOTE_RESEND + REMOTE_NO_RESEND)
def test_207_multi_rail_remote_failure_is_resent_if_it_was_dropped(status: str) -> None:
    pair = Pair()
    assert sends_of(pair, status) == (pair.table.config.retry_count if status in REMOTE_RESEND else 0)
    assert pair.local_health() == MAX_HEALTH
    assert pair.remote_health() < MAX_HEALTH
    pair.reset()
    assert pair.remote_health() == MAX_HEALTH


@pytest.mark.parametrize("rails", [1, 2])
def test_209_network_timeout_touches_health_and_is_not_resent(rails: int) -> None:
    pair = Pair(rails=rails)
    assert sends_of(pair, "network_timeout") == 0
    assert pair.local_health() < MAX_HEALTH
    assert (pair.remote_health() < MAX_HEALTH) == (rails == 2)


def test_210_local_recovery_pings_wait_twice_as_long_each_time() -> None:
    pair = Pair(networks="o2ib0(ib0),o2ib1(ib1)")
    pair.drop("local_error")
    pair.set_health(nid(A[0]), 0)
    ni = pair.local(A[0])
    counts = []
    for seconds in (1, 2, 4, 8):  # the first ping follows after a second, as the monitor thread wakes
        pair.clock.advance(seconds + 0.01)
        counts.append(ni.health.ping_count)
        assert ni.health.next_ping is not None, "still in the recovery queue"
    assert counts == [1, 2, 3, 4]


def test_210_local_recovery_pings_wait_at_most_the_maximum() -> None:
    pair = Pair(config=LndConfig(max_recovery_ping_interval_s=4), networks="o2ib0(ib0),o2ib1(ib1)")
    pair.drop("local_error")
    pair.set_health(nid(A[0]), 0)
    counts = []
    for seconds in (1, 2, 4, 4, 4):
        pair.clock.advance(seconds + 0.01)
        counts.append(pair.local(A[0]).health.ping_count)
    assert counts == [1, 2, 3, 4, 5]


def test_211_peer_interface_ages_out_of_recovery_and_comes_back() -> None:
    pair = Pair(config=LndConfig(recovery_limit_s=10))
    pair.drop("remote_error")
    pair.set_health(nid(B[0]), 0)
    pair.clock.advance(5)
    assert pair.remote(B[0]).health.next_ping is not None
    pair.clock.advance(15)
    assert pair.remote(B[0]).health.next_ping is None
    assert pair.remote(B[0]).health.ping_count == 0


def test_211_peer_interface_at_half_health_is_back_in_about_five_seconds() -> None:
    pair = Pair()
    pair.set_health(nid(B[0]), 500)
    assert pair.remote(B[0]).health.next_ping is not None
    pair.clock.advance(6)
    assert (pair.remote(B[0]).health.value, pair.remote(B[0]).health.next_ping) == (MAX_HEALTH, None)


def test_211_peer_recovery_pings_wait_at_most_the_maximum() -> None:
    pair = Pair(config=LndConfig(max_recovery_ping_interval_s=4))
    pair.drop("remote_error")
    pair.set_health(nid(B[0]), 0)
    pair.clock.advance(1.01)
    assert pair.remote(B[0]).health.ping_count == 1
    pair.clock.advance(13)
    assert pair.remote(B[0]).health.ping_count == 4


def test_214_interface_whose_link_is_down_is_shown_down() -> None:
    pair = Pair()
    ctl = Lnetctl(pair.a.node)
    assert statuses(ctl) == {"10.1.1.2@o2ib": "up", "10.1.1.3@o2ib": "up"}
    assert pair.ping(A[0], source=A[1])
    pair.rig.world.faults.add("link-down on a-ib1")
    pair.clock.advance(1)
    assert statuses(ctl) == {"10.1.1.2@o2ib": "up", "10.1.1.3@o2ib": "down"}


def test_218_local_recovery_pings_take_the_other_interfaces() -> None:
    pair = Pair()
    pair.drop("local_error", where=lambda route: route.rt_nid == nid(A[0]) and route.rt_dev.name == "ib0")
    assert not pair.ping(A[0], source=A[0])
    assert pair.local_health() < MAX_HEALTH
    pair.clock.advance(5)
    assert pair.local_health() == MAX_HEALTH


@pytest.mark.parametrize("status", LOCAL_RESEND + REMOTE_RESEND)
def test_233_message_that_fails_now_and_then_succeeds_when_resent(status: str) -> None:
    pair = Pair()
    pair.drop(status, rate=2)
    for _ in range(4):
        assert pair.ping(B[0], source=A[0])
    counters = pair.table._traffic.counters
    assert counters["resend_count"] >= 1
    assert counters["failed_resends"] == 0
    (net,) = Lnetctl(pair.a.node).net_status()["net_status"]
    assert sum(route["statistics"]["retries"] for route in net["routes"]) == counters["resend_count"]


def test_234_status_follows_a_health_that_is_set() -> None:
    pair = Pair(rails=1, config=LndConfig(health_sensitivity=0))
    ctl = Lnetctl(pair.a.node)
    seen = []
    for value in (MAX_HEALTH, 0, MAX_HEALTH):
        pair.set_health(nid(A[0]), value)
        pair.clock.advance(0.1)
        seen.append((statuses(ctl)["10.1.1.2@o2ib"], pair.local_health()))
    assert seen == [("up", MAX_HEALTH), ("down", 0), ("up", MAX_HEALTH)]


def test_235_failed_recovery_pings_bring_an_interface_down_and_good_ones_up() -> None:
    pair = Pair(networks="o2ib0(ib0),o2ib1(ib1)")
    ctl = Lnetctl(pair.a.node)
    pair.drop("local_timeout", where=lambda route: route.rt_nid == nid(A[0]))
    pair.set_health(nid(A[0]), 100)
    pair.clock.advance(60)
    assert statuses(ctl) == {"10.1.1.2@o2ib": "down", "10.1.1.3@o2ib1": "up"}
    pair.rails.way.simulate = None
    pair.set_health(nid(A[0]), 900)
    pair.clock.advance(60)
    assert statuses(ctl) == {"10.1.1.2@o2ib": "up", "10.1.1.3@o2ib1": "up"}


def health_at(host: RigHost, of: Nid) -> int:
    """Health of an interface as another host sees it in `peer show`."""
    (peer,) = Lnetctl(host.node).peer_show(str(of), "2")["peer"]
    return next(int(ni["health stats"]["health value"]) for ni in peer["peer ni"] if ni["nid"] == str(of))


def test_303_peers_are_told_of_an_interface_that_goes_down() -> None:
    pair = Pair()
    (peer,) = Lnetctl(pair.b.node).peer_show("10.1.1.3@o2ib", "2")["peer"]
    assert peer["primary nid"] == "10.1.1.2@o2ib", "the configuration was pushed"
    assert health_at(pair.b, nid(A[1])) == MAX_HEALTH
    pair.rig.world.faults.add("link-down on a-ib1")
    pair.clock.advance(0.5)
    assert health_at(pair.b, nid(A[1])) < MAX_HEALTH
    assert statuses(Lnetctl(pair.a.node))["10.1.1.3@o2ib"] == "down"
