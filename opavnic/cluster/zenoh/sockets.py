"""TCP connections between machines, with TLS where Zenoh has it, beside Zenoh's own port.

A machine requests one over Zenoh, which tells who it is, and gets addresses and a ticket: random bytes that precede all
else on the connection, so that the machine that listens knows whose it is before it starts TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.zenoh_config import LEASE_S, Address, Credentials
from opavnic.cluster.zenoh.credentials import name_in
from opavnic.cluster.zenoh.tasks import Tasks

CONNECT_S: Final = 3.0
"""Time limit for a connection to one address, for its ticket to come, and for TLS to begin."""
BACKLOG: Final = 64
"""Connections that wait to be accepted, and those whose ticket has not come."""
TICKET_SIZE: Final = 16
_TCP_INFO: Final = struct.Struct("=68xI76xI")
"""Round trips in us in Linux's `struct tcp_info`: tcpi_rtt and tcpi_min_rtt."""
Files = tuple[str, str, str, bool]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True, eq=False)
class PeerSocket:
    """A connected socket, before TLS."""

    socket: socket.socket
    peer: NodeName
    credentials: Credentials | None
    is_accepted: bool

    @property
    def files(self) -> Files | None:
        """The files of the CA, the certificate and its key, and whether this end has accepted; None: without TLS."""
        own = self.credentials
        return None if own is None else (own.ca, own.certificate, own.key, self.is_accepted)

    @property
    def round_trip_s(self) -> float:
        """The shortest round trip to the other end, as TCP has measured it."""
        data = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        smoothed, shortest = _TCP_INFO.unpack(data)
        return float(min(smoothed, shortest)) * 1e-6

    def check(self, certificate: bytes | None) -> None:
        """Check the certificate of a handshake, in DER. Raises ClusterError: it is another machine's."""
        if certificate is not None and (name := name_in(certificate)) != self.peer:
            raise ClusterError(f"the machine that is to be {self.peer} has a certificate of {name}")

    async def streams(self) -> Streams:
        """Shake hands. Raises OSError, ClusterError."""
        context = None if self.credentials is None else _context(self.credentials, self.is_accepted)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        if self.is_accepted:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, self.socket, ssl=context)
        else:
            name = None if context is None else ""
            transport, _ = await loop.create_connection(
                lambda: protocol, sock=self.socket, ssl=context, server_hostname=name
            )
        if (secured := transport.get_extra_info("ssl_object")) is not None:
            try:
                self.check(secured.getpeercert(binary_form=True))
            except ClusterError:
                transport.abort()
                raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def _context(own: Credentials, is_accepted: bool) -> ssl.SSLContext:
    """Return what a handshake needs: both ends show a certificate of the CA, for any address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_accepted else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.ca)
    context.load_cert_chain(own.certificate, own.key)
    return context


class PeerListener:
    """Listens for the connections of other machines, and makes them."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._listening: list[socket.socket] = []
        self._expected: dict[bytes, tuple[NodeName, Callable[[PeerSocket], None]]] = {}
        """By ticket."""
        self._accepting = Tasks()
        self._hosts: list[str] = []
        self._port = 0

    def listen(self, addresses: Sequence[Address], *, is_beside: bool) -> None:
        """Listen on these addresses, all on one port.

        Args:    is_beside: Zenoh listens there: on the next port, or on any if that is taken.
        Raises:  ClusterInputError: it cannot listen there.
        """
        loop = asyncio.get_running_loop()
        for address in addresses:
            wanted = self._port or address.port + is_beside
            try:
                try:
                    one = _listening(address.host, wanted)
                except (OSError, OverflowError):
                    if not is_beside:
                        raise
                    one = _listening(address.host, 0)
            except OSError as error:
                raise ClusterInputError(f"cannot listen on {address}: {error.strerror}") from None
            self._port = int(one.getsockname()[1])
            self._hosts.append(address.host.strip("[]"))
            self._listening.append(one)
            loop.add_reader(one, self._accept, one)

    def expect(
        self, peer: NodeName, accepted: Callable[[PeerSocket], None], links: Sequence[str]
    ) -> dict[str, Any]:
        """Expect one connection of a machine, which is to come soon; return what it needs for `connect`.

        Args:  links: near ends of links to other machines, such as "tls/192.0.2.2:40112", by which this one is seen.
        """
        ticket = secrets.token_bytes(TICKET_SIZE)
        self._expected[ticket] = peer, accepted
        asyncio.get_running_loop().call_later(3 * CONNECT_S, self._expected.pop, ticket, None)
        seen = [Address.parse(link.partition("#")[0].partition("?")[0]).host.strip("[]") for link in links]
        hosts = [one for host in self._hosts for one in (seen if _is_wildcard(host) else [host])]
        return {"hosts": list(dict.fromkeys(hosts)), "port": self._port, "ticket": ticket.hex()}

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one, _ = listening.accept()
            _has_lease(one)
            if len(self._accepting) >= BACKLOG:
                one.close()
                return
            self._accepting.start(self._admit(one))

    async def _admit(self, one: socket.socket) -> None:
        """Wait for the ticket of a connection; without one that is expected it ends."""
        loop, ticket = asyncio.get_running_loop(), b""
        try:
            async with asyncio.timeout(CONNECT_S):
                while len(ticket) < TICKET_SIZE:
                    data = await loop.sock_recv(one, TICKET_SIZE - len(ticket))
                    if not data:
                        break
                    ticket += data
            peer, accepted = self._expected.pop(ticket)
        except (OSError, KeyError, asyncio.CancelledError):
            one.close()
        else:
            accepted(PeerSocket(one, peer, self._credentials, True))

    async def connect(self, peer: NodeName, hosts: Sequence[str], port: int, ticket: str) -> PeerSocket:
        """Connect to a machine, on the first of its hosts that answers. Raises OSError: none does."""
        loop = asyncio.get_running_loop()
        failed: OSError = OSError("no address")
        for host in dict.fromkeys(hosts):
            one: socket.socket | None = None
            try:
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                family, kind, protocol, _, where = found[0]
                one = socket.socket(family, kind, protocol)
                _has_lease(one)
                async with asyncio.timeout(CONNECT_S):
                    await loop.sock_connect(one, where)
                    await loop.sock_sendall(one, bytes.fromhex(ticket))
                return PeerSocket(one, peer, self._credentials, False)
            except (OSError, asyncio.CancelledError) as error:  # a timeout is an OSError
                if one is not None:
                    one.close()
                if not isinstance(error, OSError):
                    raise
                failed = error
        raise failed

    def close(self) -> None:
        """Listen no more."""
        for one in self._listening:
            asyncio.get_running_loop().remove_reader(one)
            one.close()
        self._listening.clear()
        self._accepting.cancel()


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError: the port is taken, or the host is not here; OverflowError."""
    family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setblocking(False)
        one.bind(where)
        one.listen(BACKLOG)
    except BaseException:
        one.close()
        raise
    return one


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _has_lease(one: socket.socket) -> None:
    """End a connection whose other end is not reached any more, or takes nothing, after the lease."""
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, 1),
        (socket.TCP_KEEPINTVL, 1),
        (socket.TCP_KEEPCNT, round(LEASE_S) - 1),
        (socket.TCP_USER_TIMEOUT, round(1000 * LEASE_S)),
    ):
        one.setsockopt(socket.IPPROTO_TCP, option, value)
