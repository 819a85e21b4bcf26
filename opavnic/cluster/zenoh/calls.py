"""The connections that carry packets between machines: TCP, with TLS where Zenoh has it, beside its own port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.protocol.transport import CallStream
from opavnic.cluster.protocol.zenoh_config import Address, Credentials

CONNECT_S: Final = 3.0
"""Time limit for a connection to one address."""
WAITING: Final = 64
"""MachineConnections that wait to be accepted."""
Files = tuple[str, str, str, bool]


@dataclass(frozen=True, slots=True)
class SocketCall:
    """A connected socket; see Call."""

    socket: socket.socket
    credentials: Credentials | None
    is_accepted: bool

    @property
    def files(self) -> Files | None:
        """The files of the CA, the certificate and its key, and whether this end has accepted; None: without TLS."""
        own = self.credentials
        return None if own is None else (own.ca, own.certificate, own.key, self.is_accepted)

    async def stream(self) -> CallStream:
        """See Call."""
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
        return AsyncioStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def close(self) -> None:
        """See Call."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class AsyncioStream:
    """A stream of the event loop; see CallStream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def certificate(self) -> bytes | None:
        """See CallStream."""
        secured = self._writer.get_extra_info("ssl_object")
        return None if secured is None else secured.getpeercert(binary_form=True)

    async def read(self, count: int) -> bytes:
        """See CallStream."""
        return await self._reader.readexactly(count)

    async def write(self, data: bytes) -> None:
        """See CallStream."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """See CallStream."""
        self._writer.transport.abort()


def _context(own: Credentials, is_accepted: bool) -> ssl.SSLContext:
    """Return what a handshake needs: both ends show a certificate of the CA, for any address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_accepted else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.ca)
    context.load_cert_chain(own.certificate, own.key)
    return context


class Calls:
    """The calls of one node: it listens for them on a port of its own, and makes them."""

    def __init__(self, credentials: Credentials | None, on_call: Callable[[SocketCall], None]) -> None:
        self._credentials = credentials
        self._on_call = on_call
        self._listening: list[socket.socket] = []
        self.hosts: list[str] = []
        """The hosts on which it listens."""
        self.port = 0

    def listen(self, addresses: Sequence[Address]) -> None:
        """Listen on the hosts of these addresses: on the port after that of the first, or on any if that is taken.

        Raises:  ClusterInputError: it cannot listen there.
        """
        loop = asyncio.get_running_loop()
        for host in dict.fromkeys(address.host.strip("[]") for address in addresses):
            wanted = self.port or addresses[0].port + 1
            one = _listening(host, wanted) or _listening(host, 0)
            if one is None:
                raise ClusterInputError(f"cannot listen on {host}, port {wanted}, nor on any other")
            self.port = int(one.getsockname()[1])
            self.hosts.append(host)
            self._listening.append(one)
            loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one, _ = listening.accept()
            one.setblocking(False)
            self._on_call(SocketCall(one, self._credentials, True))

    async def call(self, hosts: Sequence[str], port: int) -> SocketCall:
        """Connect to the first of some hosts that answers. Raises OSError: none does."""
        loop = asyncio.get_running_loop()
        failed: OSError = OSError("no address")
        for host in dict.fromkeys(hosts):
            one: socket.socket | None = None
            try:
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                family, kind, protocol, _, where = found[0]
                one = socket.socket(family, kind, protocol)
                one.setblocking(False)
                async with asyncio.timeout(CONNECT_S):
                    await loop.sock_connect(one, where)
                return SocketCall(one, self._credentials, False)
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


def _listening(host: str, port: int) -> socket.socket | None:
    """Return a socket that listens; None: the port is taken, or the host is not here."""
    if port > 65535:
        return None
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        one = socket.socket(family, kind, protocol)
    except OSError:
        return None
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setblocking(False)
        one.bind(where)
        one.listen(WAITING)
    except OSError:
        one.close()
        return None
    return one
