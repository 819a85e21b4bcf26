"""Workers' sessions: their states and values.

    READY ----- silent for 2 s, or says not ready ----> DRAINING --- reports ready ---> READY
    READY, DRAINING --- deregistered, or silent for 60 s ---> GONE (its rewrite stays until no epoch names it)

Source: the public control plane's staleness rules.
Differs: silence is measured with the local clock when a report arrives, so that a wrong clock does not evict a worker.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, ip_address
from typing import Any

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import BadRequestError, ControlError
from ejfat.control.epochs.demands import SlotRange
from ejfat.control.epochs.programming import Rewrite
from ejfat.events.event import ReassemblyCounters

STALE_S = 2.0
"""Seconds of silence after which a worker gets no slots in new epochs."""
REMOVE_S = 60.0
"""Seconds of silence after which a worker is deregistered."""
MAX_PORT_BITS = 14
_BROADCAST = IPv4Address("255.255.255.255")
MAX_WEIGHT = 1000.0


LONGEST_NAME = 64
"""Maximum number of characters."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that cannot be displayed.

    Args:    what: kind of the named object, for the error message.
    Raises:  BadRequestError: empty, too long, or with unprintable characters.
    """
    expected = f"expected 1 to {LONGEST_NAME} printable ones"
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequestError(f"the name of the {what} has {len(name)} characters, {expected}")
    if not name.isprintable():
        raise BadRequestError(
            f"the name {name!r} of the {what} has characters that cannot be shown, {expected}"
        )


class SessionState(StrEnum):
    """State of a worker's session."""

    READY = "ready"
    DRAINING = "draining"
    """Keeps its slots in existing epochs and gets none in new ones."""
    GONE = "gone"


@dataclass(slots=True)
class ReceiverCounters:
    """Receive counters as a worker reports them."""

    events_received: int = 0
    events_reassembled: int = 0
    reassembly_errors: int = 0
    events_dequeued: int = 0
    enqueue_errors: int = 0
    bytes_received: int = 0
    packets_received: int = 0

    @classmethod
    def of(cls, seen: ReassemblyCounters, dequeued: int = 0, enqueue_errors: int = 0) -> ReceiverCounters:
        """Return the counters of a worker from those of its reassembly and of its queue."""
        return cls(
            seen.events_seen,
            seen.events_complete,
            seen.events_lost,
            dequeued,
            enqueue_errors,
            seen.bytes,
            seen.packets,
        )


@dataclass(slots=True)
class Worker:
    """The values with which a worker registers."""

    name: str
    ip: IpAddress
    port: int
    port_bits: int = 0
    weight: float = 1.0
    min_factor: float = 0.0
    max_factor: float = 0.0
    keep_lb_header: bool = False
    mac: int = 0
    slot_demands: tuple[SlotRange, ...] = ()
    """Slots that it demands by number, if the strategy supports that."""

    def check(self) -> None:
        """Refuse values that do not fit a calendar or a rewrite.

        Raises:  BadRequestError: with the value and the expected range.
        """
        check_name("worker", self.name)
        if self.ip.is_multicast or self.ip.is_unspecified or self.ip == _BROADCAST:
            raise BadRequestError(f"{self.ip} is not the address of a single worker")
        if not 1 <= self.port <= 0xFFFF:
            raise BadRequestError(f"UDP port {self.port}, expected 1 to 65535")
        if not 0 <= self.port_bits <= MAX_PORT_BITS:
            raise BadRequestError(
                f"port range 2**{self.port_bits}, expected an exponent of 0 to {MAX_PORT_BITS}"
            )
        if self.port + (1 << self.port_bits) - 1 > 0xFFFF:
            raise BadRequestError(f"ports {self.port} + 2**{self.port_bits} go beyond 65535")
        if not 0 <= self.weight <= MAX_WEIGHT:  # a NaN fails too
            raise BadRequestError(f"weight {self.weight}, expected 0 to {MAX_WEIGHT:g}")
        for label, factor in (("min factor", self.min_factor), ("max factor", self.max_factor)):
            if not 0 <= factor <= 512:
                raise BadRequestError(f"{label} {factor}, expected 0 to 512")
        if self.max_factor and self.max_factor < self.min_factor:
            raise BadRequestError(f"max factor {self.max_factor} is below min factor {self.min_factor}")


@dataclass(slots=True)
class Session:
    """A registered worker."""

    session_id: int
    member_id: int
    worker: Worker
    registered_at: float
    reported_at: float
    weight: float
    state: SessionState = SessionState.READY
    fill: float = 0.0
    control: float = 0.0
    counters: ReceiverCounters = field(default_factory=ReceiverCounters)

    @property
    def rewrite(self) -> Rewrite:
        """The rewrite of its packets."""
        worker = self.worker
        return Rewrite(
            self.member_id, worker.mac, worker.ip, worker.port, worker.port_bits, worker.keep_lb_header
        )

    def step(self, state: SessionState) -> bool:
        """Change to `state`; return False if that is already the state.

        Raises:  ControlError: the change is not allowed; the state has not changed.
        """
        if state is self.state:
            return False
        if self.state is SessionState.GONE:
            raise ControlError(f"session {self.session_id} is {self.state} and cannot become {state}")
        self.state = state
        return True

    def report(
        self, now: float, *, fill: float, control: float, ready: bool, counters: ReceiverCounters
    ) -> None:
        """Handle a report of the worker.

        Raises:  BadRequestError: a fill level outside 0 to 1, or a control signal out of range.
            ControlError: the session is gone.
        """
        if not 0.0 <= fill <= 1.0:
            raise BadRequestError(f"fill level {fill}, expected 0 to 1")
        if not abs(control) <= 1e6:
            raise BadRequestError(f"control signal {control}, expected a number from -1e6 to 1e6")
        if self.state is SessionState.GONE:
            raise ControlError(f"session {self.session_id} is gone")
        self.reported_at = now
        self.fill, self.control, self.counters = fill, control, counters
        self.step(SessionState.READY if ready else SessionState.DRAINING)

    def age(self, now: float) -> bool:
        """Drain or end a session that has been silent for too long; return whether its state changed."""
        silence = now - self.reported_at
        if self.state is SessionState.GONE:
            return False
        if silence >= REMOVE_S:
            return self.step(SessionState.GONE)
        return silence >= STALE_S and self.step(SessionState.DRAINING)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data that `restore` understands."""
        data = asdict(self)
        data["state"] = self.state.value
        data["worker"]["ip"] = str(self.worker.ip)
        return data

    @classmethod
    def restore(cls, data: dict[str, Any], now: float) -> Session:
        """Return the session from a snapshot. Its silence starts at `now`, because reports could not arrive before."""
        demands = tuple(SlotRange(**item) for item in data["worker"].get("slot_demands", ()))
        own = {"ip": ip_address(data["worker"]["ip"]), "slot_demands": demands}
        worker = Worker(**data["worker"] | own)
        rest = {
            "worker": worker,
            "state": SessionState(data["state"]),
            "counters": ReceiverCounters(**data["counters"]),
            "reported_at": now,
        }
        return cls(**data | rest)
