"""Chains: this load balancer's reservation as a worker of another reservation, the upstream one.

Source: the public control plane: what is registered upstream, what is reported there, and how cycles are found.
Differs: it registers ports 16384 to 32767, which are those that the data plane takes as the load balancer's; the
    public control plane registers 2**14 ports from 19522 on, of which the data plane does not take those above 32767. A
    control plane calls itself by its data address, not by that on which it listens, which may be 0.0.0.0 on several.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

from ejfat.base.addresses import IpAddress

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
