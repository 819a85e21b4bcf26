"""The replies that describe a reservation: addresses, status, health."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

from google.protobuf.struct_pb2 import Struct

from ejfat.control.grpc import messages
from ejfat.control.health import (
    Issue,
    issues_of,
    issues_of_addresses,
    issues_of_family,
    issues_of_worker,
)
from ejfat.control.members import SessionState
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.plane import ControlPlane, Reservation
from ejfat.tables.schema import SLOTS

_YEAR_S = 365 * 86400.0
"""A reservation without an end is shown to end in a year, as the public one ends: clients read no time as 1970."""


def reservation_reply(
    plane: ControlPlane, reservation: Reservation, *, token: str = "", uri: str = ""
) -> pb.ReserveLoadBalancerReply:
    """Return the addresses of a reservation; empty for an IP version that it does not use.

    Args:    token: the token of the reservation, for its owner. uri: the EJFAT URI with that token.
    """
    config = plane.config
    addresses, family = config.instances[reservation.instance], reservation.balancer.family
    return pb.ReserveLoadBalancerReply(
        token=token,
        ejfatUri=uri,
        lbId=str(reservation.reservation_id),
        syncIpv4Address=str(addresses.ipv4 or ""),
        syncIpv6Address=str(addresses.ipv6 or ""),
        syncUdpPort=config.sync_port + reservation.instance,
        dataIpv4Address="" if family == 6 else str(addresses.ipv4 or ""),
        dataIpv6Address="" if family == 4 else str(addresses.ipv6 or ""),
        dataMinPort=config.data_min_port,
        dataMaxPort=config.data_max_port,
        fpgaLbId=reservation.instance,
        strategy=reservation.balancer.strategy.value,
    )


def overview_row(plane: ControlPlane, reservation: Reservation, now: float, ahead: float) -> pb.Overview:
    """Return the overview of a reservation. Absent addresses are 0.0.0.0 or ::, as E2SAR's `lbadm` parses them all."""
    reply = reservation_reply(plane, reservation)
    for kind, none in (("Ipv4", IPv4Address(0)), ("Ipv6", IPv6Address(0))):
        for name in (f"sync{kind}Address", f"data{kind}Address"):
            if not getattr(reply, name):
                setattr(reply, name, str(none))
    return pb.Overview(
        name=reservation.balancer.name, reservation=reply, status=status_reply(plane, reservation, now, ahead)
    )


def status_reply(
    plane: ControlPlane, reservation: Reservation, now: float, ahead: float = 0.0
) -> pb.LoadBalancerStatusReply:
    """Return the status of a reservation and of its workers.

    Args:    ahead: seconds by which the machine's clock, that of the reply, has stepped ahead of `now`.
    """
    balancer, number = reservation.balancer, reservation.reservation_id
    slots, ranges = balancer.slots(), balancer.slots_by_member()
    epoch = balancer.epochs.current
    addresses = plane.config.instances[reservation.instance].all
    reply = pb.LoadBalancerStatusReply(
        timestamp=messages.timestamp(now + ahead),
        currentEpoch=epoch.number if epoch else 0,
        currentPredictedEventNumber=balancer.ticks.latest(now) or 0,
        senderAddresses=sorted(map(str, balancer.senders)),
        slotResolution=SLOTS,
        healthIssues=_issues(
            [*issues_of(balancer, now), *issues_of_addresses(addresses, plane.conflicts, now)], ahead
        ),
    )
    for session in balancer.sessions.values():
        if session.state is not SessionState.GONE:
            row = messages.worker_status(
                session, slots.get(session.session_id, 0), ranges.get(session.member_id, []), ahead
            )
            row.healthIssues.extend(_issues(issues_of_family(session, balancer), ahead))
            row.healthIssues.extend(_issues(issues_of_worker(session, plane.history, number, now), ahead))
            reply.workers.append(row)
    ends = now + _YEAR_S if balancer.expires_at is None else balancer.expires_at
    reply.expiresAt.CopyFrom(messages.timestamp(ends + ahead))
    return reply


def _issues(found: Iterable[Issue], ahead: float) -> list[pb.HealthIssue]:
    rows = []
    for issue in found:
        details = Struct()
        details.update(issue.details)
        rows.append(
            pb.HealthIssue(
                type=issue.kind,
                severity=issue.severity,
                message=issue.message,
                details=details,
                detected_at=messages.timestamp(issue.since + ahead),
            )
        )
    return rows
