"""Chains: this load balancer's reservation as a worker of another reservation, the upstream one.

Source: the public control plane: what is registered upstream, what is reported there, and how cycles are found.
Differs: it registers ports 16384 to 32767, which are those that the data plane takes as the load balancer's; the
    public control plane registers 2**14 ports from 19522 on, of which the data plane does not take those above 32767. A
    control plane calls itself by its data address, not by that on which it listens, which may be 0.0.0.0 on several.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from ipaddress import ip_address

from ejfat.base.addresses import IpAddress
from ejfat.control.members import ReceiverCounters, Session, SessionState

MAX_CHAINS = 16
"""Of a reservation."""
FIRST_PORT, PORT_BITS = 16384, 14
"""The UDP ports that the data plane takes as a load balancer's."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A session upstream."""

    number: int
    uri: str
    """Of the upstream reservation, with its token."""
    session_id: str
    session_token: str
    data_ipv4: str
    """Where the upstream load balancer takes data; empty: nowhere."""
    data_ipv6: str
    registration: str = ""
    """The request by which it registered there, as JSON, to do so again; empty: it was made by an older version."""

    @property
    def upstream(self) -> tuple[IpAddress, ...]:
        """Addresses from which the upstream load balancer sends, which are those where it takes data."""
        found = []
        for text in (self.data_ipv4, self.data_ipv6):
            with suppress(ValueError):  # the upstream control plane may send a malformed address
                address = ip_address(text)
                if not address.is_unspecified:
                    found.append(address)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What is reported upstream."""

    fill: float
    """Mean of the workers, 0 to 1."""
    control: float
    ready: bool
    """Whether any worker is ready."""
    counters: ReceiverCounters
    """Sums of the workers'."""


def aggregate(sessions: Iterable[Session]) -> Aggregate:
    """Return the workers' reports as one; without a worker, not ready."""
    present = [session for session in sessions if session.state is not SessionState.GONE]
    count = len(present) or 1
    sums = {
        item.name: sum(getattr(session.counters, item.name) for session in present)
        for item in fields(ReceiverCounters)
    }
    return Aggregate(
        fill=sum(session.fill for session in present) / count,
        control=sum(session.control for session in present) / count,
        ready=any(session.state is SessionState.READY for session in present),
        counters=ReceiverCounters(**sums),
    )
