"""Recent values of reservations and workers: the time series of the public interface.

A sample is taken in each period of the control plane. Series are named by paths: `/lb/1/rx_packets`,
`/lb/1/epoch/boundary_event`, `/lb/1/session/2/fill_percent`; a selector may end in `*`.

Source: paths and metric names of the public control plane.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ejfat.base.drops import LbCounters, LbDrop, MemberCounters, PipelineCounters
from ejfat.base.errors import BadRequestError
from ejfat.control.balancer import ReservedInstance
from ejfat.control.members import Session, SessionState

RETENTION_S = 300.0
_LB_DROPS = {
    "drop_bad_udplb_version": LbDrop.PARSER_BAD_VERSION,
    "drop_blocked_src": LbDrop.SRC_BLOCKED,
    "drop_epoch_assign_miss": LbDrop.EPOCH_MISS,
    "drop_lb_calendar_miss": LbDrop.CALENDAR_MISS,
    "drop_mbr_info_miss": LbDrop.MEMBER_MISS,
    "drop_mbr_soft_evicted": LbDrop.MEMBER_SOFT_EVICTED,
    "drop_mbr_deregistered": LbDrop.MEMBER_DEREGISTERED,
    "drop_no_udplb_hdr": LbDrop.NOT_UDPLB_PORT,
    "drop_not_ip": LbDrop.NOT_IP,
}
_BOUNDARY = "epoch/boundary_event"
_LB_NAMES = ("event_number", "avg_event_rate_hz", _BOUNDARY, "rx_packets", "rx_bytes", *_LB_DROPS)
_SESSION: dict[str, Callable[[Session], float]] = {
    "fill_percent": lambda s: s.fill,
    "control_signal": lambda s: s.control,
    "is_ready": lambda s: s.state is SessionState.READY,
    "total_events_recv": lambda s: s.counters.events_received,
    "total_events_reassembled": lambda s: s.counters.events_reassembled,
    "total_events_reassembly_err": lambda s: s.counters.reassembly_errors,
    "total_events_dequeued": lambda s: s.counters.events_dequeued,
    "total_event_enqueue_err": lambda s: s.counters.enqueue_errors,
    "total_bytes_recv": lambda s: s.counters.bytes_received,
    "total_packets_recv": lambda s: s.counters.packets_received,
}
_SESSION_NAMES = (*_SESSION, "mbr_tx_pkts", "mbr_tx_bytes")
_SENT, _RECEIVED = _SESSION_NAMES.index("mbr_tx_pkts"), _SESSION_NAMES.index("total_packets_recv")
_STALL_S = 30.0
"""Seconds that the check for stalled workers looks back."""
_REPORT_LATENCY_S = 2.0
_PATH = re.compile(r"/lb/(\d+)/(?:session/(\d+|\*)(?:/([^/]+))?|(\*|epoch/boundary_event|[^/]+))")


class HistorySample(NamedTuple):
    """The values of a reservation or a session at one time."""

    at: float
    """Unix time."""
    values: tuple[float, ...]


Series = tuple[tuple[float, float], ...]
"""A metric over time: Unix time and value, oldest first."""


@dataclass(frozen=True, slots=True)
class Selector:
    """What a client requests: a reservation (None: all), a session of it, and a metric (None: all)."""

    reservation: str | None
    session: str | None = None
    """An id, or `*` for all; None: the series of the reservation and, if `metric` is None, of all its sessions."""
    metric: str | None = None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read a path such as `/lb/1/*`. A metric may also be a field name of the reports (`fillPercent`).

        Raises:  BadRequestError: not a valid path, or an unknown metric.
        """
        if text in ("*", "/lb/*"):
            return cls(None)
        found = _PATH.fullmatch(text)
        if found is None:
            raise BadRequestError(
                f"{text!r} is not a path of time series such as /lb/1/* or /lb/1/session/2/fill_percent"
            )
        reservation, session, of_session, own = found.groups()
        metric = of_session or own or "*"
        known = _LB_NAMES if session is None else _SESSION_NAMES
        metric = re.sub("(?<=[a-z])([A-Z])", lambda hump: f"_{hump[1].lower()}", metric)
        if metric != "*" and metric not in known:
            raise BadRequestError(f"{text!r}: no metric {metric!r} (known: {', '.join(known)})")
        return cls(reservation, session, None if metric == "*" else metric)


Key = tuple[str, ...]
"""A reservation, or a reservation and one of its sessions, by the ids that clients use."""


@dataclass(slots=True)
class History:
    """Samples of the last `RETENTION_S`."""

    _samples: dict[Key, deque[HistorySample]] = field(default_factory=dict)
    _bases: dict[Key, list[float]] = field(default_factory=dict)
    """The data plane's counters when a reservation or a session began: they go on from one to the next."""

    def begin(self, reservation: int, lb: LbCounters) -> None:
        """Let the counters of a new reservation begin at 0.

        Args:    lb: those of its instance at present.
        """
        self._bases[str(reservation),] = _lb_counts(lb)

    def begin_session(self, reservation: int, session: int, member: MemberCounters) -> None:
        """Let the counters of a new session begin at 0.

        Args:    member: those of its member number, which another worker may have had, at present.
        """
        self._bases[str(reservation), str(session)] = [member.tx_packets, member.tx_bytes]

    def stall(self, reservation: int, session: int, now: float) -> tuple[float, float] | None:
        """Return how many packets were sent to a worker that reports none; None if it does not stall.

        A report may be `_REPORT_LATENCY_S` behind the packets.

        Returns: the packets of the last `_STALL_S`, and the Unix time of the first of them.
        """
        samples = self._samples.get((str(reservation), str(session)), ())
        kept = [sample for sample in samples if sample.at >= now - _STALL_S]
        due = [sample for sample in kept if sample.at <= now - _REPORT_LATENCY_S]
        if len(due) < 2:
            return None
        sent = due[-1].values[_SENT] - due[0].values[_SENT]
        if sent <= 0 or kept[-1].values[_RECEIVED] != due[0].values[_RECEIVED]:
            return None
        return sent, due[0].at

    def sample(
        self, balancers: Mapping[int, ReservedInstance], counters: PipelineCounters, now: float
    ) -> None:
        """Add a sample of the current values, and drop reservations and sessions that have ended.

        Args:    balancers: by reservation number. counters: those of the data plane.
        """
        samples: dict[Key, deque[HistorySample]] = {}
        for number, balancer in balancers.items():
            key: Key = (str(number),)
            lb = counters.lbs.get(balancer.target.lb_id, LbCounters())
            kept = self._samples.get(key, deque())
            samples[key] = _add(kept, now, _lb_values(balancer, lb, self._bases.get(key), kept, now))
            for session in balancer.sessions.values():
                member = counters.members.get(session.member_id, MemberCounters())
                key = str(number), str(session.session_id)
                packets, size = self._bases.get(key, (0, 0))
                values = [float(value(session)) for value in _SESSION.values()]
                values += [member.tx_packets - packets, member.tx_bytes - size]
                samples[key] = _add(self._samples.get(key, deque()), now, values)
        self._samples = samples
        self._bases = {key: base for key, base in self._bases.items() if key in samples}

    def latest(self, reservation: int, session: int | None = None) -> dict[str, float]:
        """Return the last sample of a reservation, or of one of its sessions, by metric; empty before the first."""
        of = () if session is None else (str(session),)
        names, samples = _SESSION_NAMES if of else _LB_NAMES, self._samples.get((str(reservation), *of))
        return dict(zip(names, samples[-1].values, strict=True)) if samples else {}

    def select(self, selector: Selector, since: float) -> Iterator[tuple[str, Series]]:
        """Yield the selected series with their names, from `since` (Unix time) on."""
        for (reservation, *of), samples in self._samples.items():
            if selector.reservation not in (None, reservation):
                continue
            if not of and selector.session is None:
                yield from _series(f"/lb/{reservation}", _LB_NAMES, samples, selector.metric, since)
            elif of and (selector.session in ("*", *of) or selector.session is selector.metric is None):
                path = f"/lb/{reservation}/session/{of[0]}"
                yield from _series(path, _SESSION_NAMES, samples, selector.metric, since)


def _lb_values(
    balancer: ReservedInstance,
    lb: LbCounters,
    base: list[float] | None,
    before: deque[HistorySample],
    now: float,
) -> list[float]:
    tick = balancer.watch.ticks.latest(now) or 0
    rate = 0.0
    if before and now > before[-1].at and before[-1].values[0]:  # 0: no tick was known, and none was passed
        rate = max(0.0, (tick - before[-1].values[0]) / (now - before[-1].at))
    current = balancer.epochs.current
    counts = _lb_counts(lb)
    if base is not None:
        counts = [count - start for count, start in zip(counts, base, strict=True)]
    return [float(tick), rate, float(current.start if current else 0), *counts]


def _lb_counts(lb: LbCounters) -> list[float]:
    drops = (lb.drops.get(drop, 0) for drop in _LB_DROPS.values())
    return [float(count) for count in (lb.rx_packets, lb.rx_bytes, *drops)]


def _add(samples: deque[HistorySample], now: float, values: list[float]) -> deque[HistorySample]:
    samples.append(HistorySample(now, tuple(values)))
    while samples[0].at < now - RETENTION_S:
        samples.popleft()
    return samples


def _series(
    path: str, names: tuple[str, ...], samples: deque[HistorySample], metric: str | None, since: float
) -> Iterator[tuple[str, Series]]:
    for index, name in enumerate(names):
        if metric in (None, name):
            values = tuple((sample.at, sample.values[index]) for sample in samples if sample.at >= since)
            yield f"{path}/{name}", values
