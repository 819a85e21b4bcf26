"""Convert between the control plane's values and the messages of the public interface; versions of its protocol.

Source: `compatTag` in VersionReply of the public control plane; its tags are numbers, 0.3.1 at present.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.base.addresses import IpAddress, parse_ip
from ejfat.base.errors import BadRequestError, UnknownError
from ejfat.control.balancer import Strategy
from ejfat.control.epochs.demands import SlotRange
from ejfat.control.history import Series
from ejfat.control.members import ReceiverCounters, Session
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.tokens import Action, Permission, Resource, Token

_LAST_SECOND = 253402300799
"""The last second that a timestamp message holds: the end of the year 9999."""
_LONGEST_NUMBER = 20


def worker_status(session: Session, slots: int, ranges: Sequence[SlotRange], ahead: float) -> pb.WorkerStatus:
    """Return the status of a worker.

    Args:    slots: its number of slots. ranges: its slots. ahead: see `replies.status_reply`.
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


def put_counters(message: pb.WorkerStatus | pb.SendStateRequest, counters: ReceiverCounters) -> None:
    """Put the receive counters of a worker into a message that tells them."""
    message.totalEventsRecv = counters.events_received
    message.totalEventsReassembled = counters.events_reassembled
    message.totalEventsReassemblyErr = counters.reassembly_errors
    message.totalEventsDequeued = counters.events_dequeued
    message.totalEventEnqueueErr = counters.enqueue_errors
    message.totalBytesRecv = counters.bytes_received
    message.totalPacketsRecv = counters.packets_received


def slot_ranges(ranges: Iterable[pb.SlotRange]) -> tuple[SlotRange, ...]:
    """Return slot ranges as values of the control plane."""
    return tuple(SlotRange(item.index, item.length) for item in ranges)


def timeseries(series: Series, ahead: float) -> pb.Timeseries:
    """Return a series as a message; `ahead`: see `replies.status_reply`."""
    samples = [
        pb.FloatSample(timestamp=round((at + ahead) * 1000), value=value) for at, value in series.samples
    ]
    return pb.Timeseries(name=series.name, float_samples=pb.FloatTimeseries(data=samples))


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
