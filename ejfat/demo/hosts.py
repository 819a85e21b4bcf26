"""Datagram I/O for the sources and workers of the demonstration: a host in memory, or Linux sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.namespace import run_in_namespace

OnUdp = Callable[[bytes, int], None]
"""Called with the payload and the destination port of each datagram."""


class UdpHost(Protocol):
    """An address that sends and receives datagrams; the lab's `MemoryHost` implements it."""

    address: IPv4Address
    on_udp: OnUdp | None

    async def resolve(self, target: IPv4Address) -> MacAddr | None:
        """Return the MAC address of a neighbour; None if it does not answer."""
        ...

    def send_udp(
        self, mac: MacAddr, target: IPv4Address, payload: bytes, *, src_port: int, dst_port: int
    ) -> None:
        """Send a datagram."""

    def close(self) -> None:
        """Stop sending and receiving."""


class SocketUdpHost(UdpHost):
    """An address of the kernel of a host in a namespace, which resolves neighbours itself."""

    def __init__(self, address: IPv4Address, namespace: Path, port: int = 0) -> None:
        """Args: port: receive on this port; 0: do not receive."""
        self.address = address
        self.on_udp: OnUdp | None = None
        self._namespace = namespace
        self._sockets: dict[int, socket.socket] = {}
        self._port = port
        if port:
            self._bind(port, self._read)

    async def resolve(self, target: IPv4Address) -> MacAddr | None:
        return MacAddr(bytes(6))

    def send_udp(
        self, mac: MacAddr, target: IPv4Address, payload: bytes, *, src_port: int, dst_port: int
    ) -> None:
        sock = self._sockets.get(src_port) or self._bind(src_port, None)
        sock.sendto(payload, (str(target), dst_port))

    def close(self) -> None:
        for sock in self._sockets.values():
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self._sockets.clear()

    def _bind(self, port: int, read: Callable[[socket.socket], None] | None) -> socket.socket:
        sock = self._sockets[port] = run_in_namespace(
            self._namespace, partial(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        )
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.setblocking(False)
        sock.bind((str(self.address), port))
        if read is not None:
            asyncio.get_running_loop().add_reader(sock, read, sock)
        return sock

    def _read(self, sock: socket.socket) -> None:
        while True:
            try:
                payload = sock.recv(65535)
            except BlockingIOError:
                return
            if self.on_udp is not None:
                self.on_udp(payload, self._port)
