"""What is wrong with a reservation or a worker at present, as operators and clients are told it.

Source: the public control plane's health checks: names, severities, and the check for a worker that gets packets and
    reports none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import TICK_AHEAD, LbDrop
from ejfat.control.assignment import Strategy
from ejfat.control.balancer import ReservedInstance
from ejfat.control.history import History
from ejfat.control.members import STALE_S, Session, SessionState

_RECENT_S = 60.0
"""Seconds for which refused sync messages and ticks count as an issue of the present."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong."""

    kind: str
    """Its name for programs, such as `receiver_silent`."""
    severity: Literal["warning", "error"]
    message: str
    since: float
    """Unix time."""
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another host has an address of the load balancer."""

    mac: str
    since: float
    at: float
    """When it was last seen."""


def _quiet(now: float, at: float) -> dict[str, float]:
    """Return the detail of an issue by which a client sees whether its cause has gone."""
    return {"quiet_s": max(now - at, 0.0)}


def issues_of_addresses(
    addresses: Iterable[IpAddress], conflicts: Mapping[IpAddress, Conflict], now: float
) -> Iterator[Issue]:
    """Yield what is wrong with the addresses of a reservation."""
    for address in addresses:
        conflict = conflicts.get(address)
        if conflict is not None and now - conflict.at <= _RECENT_S:
            message = f"{conflict.mac} has {address} too: packets go to one of two hosts"
            yield Issue("address_conflict", "error", message, conflict.since, _quiet(now, conflict.at))


def issues_of(balancer: ReservedInstance, now: float) -> Iterator[Issue]:
    """Yield what is wrong with a reservation as a whole."""
    watch = balancer.watch
    refused, at = watch.refused_syncs, watch.refused_at
    if at is not None and now - at <= _RECENT_S:
        counts = ", ".join(f"{drop.partition(':')[2]} {count}" for drop, count in refused.items())
        details = {str(drop): float(count) for drop, count in refused.items()} | _quiet(now, at)
        message = f"sync messages were refused: {counts}"
        if LbDrop.SYNC_SENDER in refused:
            message += "; a sender that uses both IP versions needs both addresses among the senders"
        yield Issue("sync_refused", "warning", message, at, details)
    at = watch.ticks_refused_at
    if at is not None and now - at <= _RECENT_S:
        ahead = {TICK_AHEAD: float(watch.refused_ticks)} | _quiet(now, at)
        message = f"ticks in data were not believed: too_far_ahead {watch.refused_ticks}"
        yield Issue("tick_refused", "warning", message, at, ahead)
    at = watch.missed_at
    if at is not None and now - at <= _RECENT_S and balancer.strategy is not Strategy.EXPLICIT:
        message = f"{watch.misses} packets were dropped: the worker of their slot has no address of their IP version"
        details = {"packets": float(watch.misses)} | _quiet(now, at)
        yield Issue("member_miss", "error", message, at, details)
    present = [session for session in balancer.sessions.values() if session.state is not SessionState.GONE]
    if present and not balancer.ready:
        since = max(session.reported_at for session in present)
        message = f"none of {len(present)} workers is ready; the last calendar stays in force"
        yield Issue("no_receiver_ready", "error", message, since, {"workers": float(len(present))})


def issues_of_family(session: Session, balancer: ReservedInstance) -> Iterator[Issue]:
    """Yield what is wrong with the IP version of a worker: a packet never changes its own on the way."""
    name, version = session.worker.name, session.worker.ip.version
    if not balancer.is_reached(session):
        message = f"{name} has an IPv{version} address, and no sender has one: it gets no slots"
        yield Issue("member_family", "error", message, session.registered_at)
        return
    others = {one.worker.ip.version for one in balancer.ready} - {version}
    for other in others:
        message = (
            f"{name} has an IPv{version} address: events that come over IPv{other} for its slots are dropped"
        )
        yield Issue("member_family", "warning", message, session.registered_at)


def issues_of_worker(
    session: Session, balancer: ReservedInstance, history: History, reservation: int, now: float
) -> Iterator[Issue]:
    """Yield what is wrong with a worker."""
    yield from issues_of_family(session, balancer)
    name, silence = session.worker.name, now - session.reported_at
    if session.state is SessionState.DRAINING and silence >= STALE_S:
        message = f"{name} has not reported for {silence:.0f} s and gets no slots in new epochs"
        since = session.reported_at + STALE_S
        yield Issue("receiver_silent", "warning", message, since, {"silence_s": silence})
    stall = history.stall(reservation, session.session_id, now)
    if stall is not None:
        packets, since = stall
        message = f"{name} was sent {packets:.0f} packets and reports to have received none of them"
        yield Issue("receiver_packet_stall", "error", message, since, {"packets": packets})
