"""One fault under Multi-Rail. Upstream lets messages fail where bonding does not; what it must never do is here."""

from __future__ import annotations

from collections import Counter

from lnet.objects.objects import KibRoute
from lnet.objects.stats import SendDone, SendFailed, TxKind
from lnet.settings.health import MAX_HEALTH, HealthStatus
from lnet.settings.networks import Bonding
from scenarios.lnet_faults import payload
from scenarios.lnet_short_faults import PROMPT_S, A, B, ShortFault, Traffic, TwoByTwo

SETTLED_S = 200.0
"""Longer than a transaction, and than it takes for every health value to recover."""


def hold_the_rail_law(traffic: Traffic, fault: ShortFault) -> int:
    """Send under a fault; return how many messages failed, each of them for a reason for which upstream fails it.

    Every message ends once; none is delivered twice, and none that is done is missing; afterwards every interface is
    healthy, every pair is prompt, and no credit is gone.

    Raises:  AssertionError: what the fault left behind.
    """
    scene = TwoByTwo(bonding=Bonding.MULTI_RAIL)
    scene.faults.add(str(fault))
    ids = scene.send(traffic)
    scene.clock.advance(fault.at_s + fault.for_s + SETTLED_S)
    where = f"{traffic} under {fault}"
    ends = Counter(report.msg_id for report in scene.a.reports if isinstance(report, SendDone | SendFailed))
    assert ends == dict.fromkeys(ids, 1), where
    done = {ids.index(report.msg_id): report.data for report in scene.a.done}
    if traffic.kind is TxKind.GET:
        assert done == {number: payload(number, traffic.size) for number in done}, where
    else:
        arrived = Counter(received.data for received in scene.b.received)
        assert set(arrived.values()) <= {1}, f"{where}: delivered twice"
        assert {payload(number, traffic.size) for number in done} <= set(arrived), (
            f"{where}: done, not delivered"
        )
    retries = scene.a.node.lnd.config.retry_count
    for failed in scene.a.failed:
        undiscovered, _, reason = failed.reason.rpartition("was not discovered: ")
        status = HealthStatus(reason.partition(":")[0])
        exhausted = scene.a.node.lnd.traffic.counters["resend_count"] >= retries
        assert not status.resends or exhausted or undiscovered, (
            f"{where}: {failed}"
        )  # a ping has one way only
    check_interfaces_and_credits(scene, where)
    assert scene.rig.world.fabric.balance() == {}, where
    return len(scene.a.failed)


def check_interfaces_and_credits(scene: TwoByTwo, where: str) -> None:
    """Every interface is healthy, messages are prompt over both of them, no credit of any connection is gone."""
    lnd = scene.a.node.lnd
    table, full = lnd.rails.table, lnd.config.peer_credits
    first = [scene.start(TxKind.PUT, 1 << 20, 8) for _ in range(4)]
    scene.clock.advance(1)  # a connection may have been lost at the far end while nothing was sent over it
    before = len(scene.a.done)
    most: dict[KibRoute, int] = {}
    later = []
    for _ in range(60):  # round robin lets an interface catch up that has had fewer messages
        later.append(scene.start(TxKind.PUT, 1 << 20, 8))
        scene.clock.advance(PROMPT_S)
        for conn in lnd.conns:
            if conn.route is not None:
                assert conn.credits > full / 2, (
                    f"{where}: credits of {conn.route}"
                )  # the peer owes the others
                most[conn.route] = max(most.get(conn.route, 0), conn.credits)
    assert {report.msg_id for report in scene.a.done} >= {*first, *later}, where
    assert all(scene.took[msg_id] < PROMPT_S for msg_id in later), where
    used = Counter(report.route for report in scene.a.done[before:])
    assert {route.rt_dev for route in used} == set(table.locals), f"{where}: an interface is idle"
    assert all(most[route] == full for route, count in used.items() if count > full / 2), where
    nis = [*table.locals.values(), *(ni for peer in table.remote_peers() for ni in peer.nis.values())]
    assert len(nis) == len(A) + len(B), where
    assert {ni.health.value for ni in nis} == {MAX_HEALTH}, where
    assert all(ni.in_flight == 0 for ni in nis), where
