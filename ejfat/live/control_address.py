"""Where clients reach the control plane: the address that stands in their URIs."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import unquote

from ejfat.base.addresses import IpAddress
from ejfat.control.plane import PlaneConfig, Reservation
from ejfat.events.uri import EjfatUri, Endpoint
from ejfat.wire.headers import LB_PORT

_NO_PORT = 1024
"""Port in a URI if the control plane has none: the lowest port that URIs allow."""
_ANY_PORT = 9
"""A port for a connected UDP socket, which sends nothing: the kernel only chooses the source address."""


@dataclass(slots=True)
class ControlAddress:
    """The address that the control plane listens on, as clients can use it."""

    listen: str
    """HOST:PORT or unix:PATH."""
    port: int = 0
    """The port in use; 0 until it is known."""
    tls: bool = False

    def host_for(self, client: IpAddress | None) -> str:
        """Return the host for a client: what was given or, if that means any address, the one that it sees.

        Args:    client: its address, or an address in its direction; None: unknown.
        """
        if self.listen.startswith("unix:"):
            return "localhost"
        host = self.listen.rpartition(":")[0].strip("[]")
        try:
            if host and not ip_address(host).is_unspecified:
                return host
        except ValueError:  # a name
            return host
        own = None if client is None else _source_towards(client)
        return socket.gethostname() if own is None else str(own)

    def uri(
        self, plane: PlaneConfig, reservation: Reservation | None, token: str, client: IpAddress | None
    ) -> EjfatUri:
        """Return the URI with a token for a reservation; without one, for the control plane alone.

        For a Unix socket, host and port are placeholders; clients get the path separately.
        """
        port = _NO_PORT if self.listen.startswith("unix:") else self.port
        sync: tuple[Endpoint, ...] = ()
        data, number = [], ""
        if reservation is not None:
            number = str(reservation.reservation_id)
            family = reservation.balancer.family
            addresses = plane.instances[reservation.instance].all
            data = [address for address in addresses if family in (0, address.version)]
            # of several, E2SAR takes the last one: that of IPv4, where most sync messages go
            ways = sorted(data or addresses, key=lambda address: -address.version)
            sync = tuple(Endpoint(address, plane.sync_port + reservation.instance) for address in ways)
        return EjfatUri(
            host=self.host_for(client),
            port=port,
            tls=self.tls,
            token=token,
            lb_id=number,
            sync=sync,
            data=tuple(Endpoint(address, LB_PORT) for address in data),
        )


def peer_address(peer: str) -> IpAddress | None:
    """Return the address of a gRPC peer such as `ipv4:10.0.0.1:4321`; None for a Unix socket."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    try:
        return ip_address(rest.rpartition(":")[0].strip("[]").partition("%")[0])
    except ValueError:
        return None


def _source_towards(address: IpAddress) -> IpAddress | None:
    """Return the address that the kernel uses towards another one; None if it has no route."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((str(address), _ANY_PORT))
            return ip_address(sock.getsockname()[0])
    except OSError:
        return None
