"""Convert between the control plane's values and the messages of the public interface; versions of its protocol.

Source: `compatTag` in VersionReply of the public control plane; its tags are numbers, 0.3.1 at present.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.base.addresses import IpAddress, parse_ip
from ejfat.base.errors import BadRequestError, UnknownError
from ejfat.control.assignment import Strategy
from ejfat.control.chains import FIRST_PORT, PORT_BITS
from ejfat.control.epochs.demands import SlotRange
from ejfat.control.health import (
    Issue,
    issues_of,
    issues_of_addresses,
    issues_of_worker,
)
from ejfat.control.history import Series
from ejfat.control.members import ReceiverCounters, Session, SessionState
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.plane import ControlPlane, Reservation
from ejfat.control.tokens import Action, Permission, Resource, Token
from ejfat.tables.schema import SLOTS

_LAST_SECOND = 253402300799
"""The last second that a timestamp message holds: the end of the year 9999."""
_LONGEST_NUMBER = 20


def worker_status(session: Session, slots: int, ranges: Sequence[SlotRange], ahead: float) -> pb.WorkerStatus:
    """Return the status of a worker.

    Args:    slots: its number of slots. ranges: its slots. ahead: see `status_reply`.
    """
    worker = session.worker
    status = pb.WorkerStatus(
        name=worker.name,
        fillPercent=session.fill,
        controlSignal=session.control,
        slotsAssigned=slots,
        lastUpdated=timestamp(session.reported_at + ahead),
        ipAddress=str(worker.ip),
        udpPort=worker.port,
        portRange=pb.PortRange.Name(worker.port_bits),
        minFactor=worker.min_factor,
        maxFactor=worker.max_factor,
        keepLbHeader=worker.keep_lb_header,
        slots=[pb.SlotRange(index=item.index, length=item.length) for item in ranges],
        slotDemands=[pb.SlotRange(index=item.index, length=item.length) for item in worker.slot_demands],
        sessionId=session.session_id,
    )
    put_counters(status, session.counters)
    return status


COUNTERS: Final = {
    "events_received": "totalEventsRecv",
    "events_reassembled": "totalEventsReassembled",
    "reassembly_errors": "totalEventsReassemblyErr",
    "events_dequeued": "totalEventsDequeued",
    "enqueue_errors": "totalEventEnqueueErr",
    "bytes_received": "totalBytesRecv",
    "packets_received": "totalPacketsRecv",
}
"""The fields of messages that tell the receive counters of a worker, by those of `ReceiverCounters`."""


def put_counters(message: pb.WorkerStatus | pb.SendStateRequest, counters: ReceiverCounters) -> None:
    """Put the receive counters of a worker into a message that tells them."""
    for name, field in COUNTERS.items():
        setattr(message, field, getattr(counters, name))


def total_report(sessions: Iterable[Session]) -> pb.SendStateRequest:
    """Return the workers' reports as one, with means and sums; without a worker, not ready."""
    present = [session for session in sessions if session.state is not SessionState.GONE]
    count = len(present) or 1
    report = pb.SendStateRequest(
        fillPercent=sum(session.fill for session in present) / count,
        controlSignal=sum(session.control for session in present) / count,
        isReady=any(session.state is SessionState.READY for session in present),
    )
    for name, field in COUNTERS.items():
        setattr(report, field, sum(getattr(session.counters, name) for session in present))
    return report


def slot_ranges(ranges: Iterable[pb.SlotRange]) -> tuple[SlotRange, ...]:
    """Return slot ranges as values of the control plane."""
    return tuple(SlotRange(item.index, item.length) for item in ranges)


def timeseries(name: str, series: Series, ahead: float) -> pb.Timeseries:
    """Return a series as a message; `ahead`: see `status_reply`."""
    samples = [pb.FloatSample(timestamp=round((at + ahead) * 1000), value=value) for at, value in series]
    return pb.Timeseries(name=name, float_samples=pb.FloatTimeseries(data=samples))


def permission(message: pb.TokenPermission) -> Permission:
    """Read a permission.

    Raises:  BadRequestError: an unknown resource or action.
    """
    try:
        return Permission(Resource(message.resourceType), message.resourceId, Action(message.permission))
    except ValueError as error:
        raise BadRequestError(str(error)) from None


def session_number(text: str) -> int:
    """Read the id of a session.

    Raises:  UnknownError: not a possible id.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > _LONGEST_NUMBER:
        raise UnknownError(f"no session {text!r}")
    return int(text)


def details(token: Token) -> pb.TokenDetails:
    """Return the public details of a token, without its secret."""
    permissions = [
        pb.TokenPermission(
            resourceType=pb.TokenPermission.ResourceType.Name(p.resource),
            resourceId=p.resource_id,
            permission=pb.TokenPermission.PermissionType.Name(p.action),
        )
        for p in token.permissions
    ]
    created = timestamp(token.created_at).ToJsonString()
    return pb.TokenDetails(name=token.name, permissions=permissions, created_at=created, id=token.token_id)


def address(text: str) -> IpAddress:
    """Read an IP address.

    Raises:  BadRequestError: not an IP address, or with a scope.
    """
    found = parse_ip(text)
    if "%" in text:  # a scope has a meaning only on the client's host
        raise BadRequestError(f"{text!r} has a scope, expected the address alone")
    return found


def addresses(texts: Sequence[str]) -> list[IpAddress]:
    """Read IP addresses.

    Raises:  BadRequestError: one of them is not an IP address.
    """
    return [address(text) for text in texts]


def strategy(text: str) -> Strategy:
    """Read the name of a strategy; empty: the default.

    Raises:  BadRequestError: an unknown strategy.
    """
    try:
        return Strategy(text or Strategy.DYNAMIC)
    except ValueError:
        raise BadRequestError(f"strategy {text!r}, expected {', '.join(Strategy)}") from None


def until(stamp: Timestamp) -> float | None:
    """Return Unix time; None for 0, which means no end.

    Raises:  BadRequestError: not a time from 1970 to the year 9999.
    """
    if not 0 <= stamp.seconds <= _LAST_SECOND or not 0 <= stamp.nanos < 10**9:
        raise BadRequestError(
            f"time {stamp.seconds} s {stamp.nanos} ns, expected 0 to {_LAST_SECOND} s since 1970"
        )
    return stamp.seconds + stamp.nanos / 1e9 or None


def timestamp(seconds: float) -> Timestamp:
    """Return Unix time as a message."""
    stamp = Timestamp()
    stamp.FromNanoseconds(round(seconds * 1e9))
    return stamp


COMPAT_TAG: Final = "ejfat-lb-1"
"""Of this control plane. It changes with what an older client would misunderstand."""
_OURS: Final = "ejfat-lb-"
_PUBLIC: Final = (0, 3)
"""The oldest tag of the public control plane whose messages this client knows, major and minor number."""


def mismatch(tag: str, build: str) -> str:
    """Return why a client does not work with a control plane; empty if it does.

    Args:    tag, build: from its VersionReply. A control plane that names no version, or an unknown
        kind, is taken to be like the public one.
    """
    if tag.startswith(_OURS):
        need = "" if tag == COMPAT_TAG else COMPAT_TAG
    else:
        numbers = tag.split(".")[: len(_PUBLIC)]
        known = len(numbers) == len(_PUBLIC) and all(part.isdecimal() for part in numbers)
        need = (
            f"{'.'.join(map(str, _PUBLIC))} or later" if known and tuple(map(int, numbers)) < _PUBLIC else ""
        )
    return f"control plane {build} speaks protocol {tag}; this program needs {need}" if need else ""


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
        dataMinPort=FIRST_PORT,
        dataMaxPort=FIRST_PORT + (1 << PORT_BITS) - 1,
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
        timestamp=timestamp(now + ahead),
        currentEpoch=epoch.number if epoch else 0,
        currentPredictedEventNumber=balancer.watch.ticks.latest(now) or 0,
        senderAddresses=sorted(map(str, balancer.senders)),
        slotResolution=SLOTS,
        healthIssues=_issues(
            [*issues_of(balancer, now), *issues_of_addresses(addresses, plane.conflicts, now)], ahead
        ),
    )
    for session in balancer.sessions.values():
        if session.state is not SessionState.GONE:
            row = worker_status(
                session, slots.get(session.session_id, 0), ranges.get(session.member_id, []), ahead
            )
            issues = issues_of_worker(session, balancer, plane.history, number, now)
            row.healthIssues.extend(_issues(issues, ahead))
            reply.workers.append(row)
    ends = now + _YEAR_S if balancer.expires_at is None else balancer.expires_at
    reply.expiresAt.CopyFrom(timestamp(ends + ahead))
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
                detected_at=timestamp(issue.since + ahead),
            )
        )
    return rows
