"""Sources and workers of the demonstration, and the `UdpHost` that they are on: in memory, or Linux sockets."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

from ejfat.control.feedback import Gains
from ejfat.control.members import ReceiverCounters
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.events.event import Segmenter
from ejfat.events.reassembly import Reassembler
from ejfat.events.uri import EjfatUri
from ejfat.live.feedback import Reporter
from ejfat.wire.headers import LB_PORT, SyncHeader
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


# --- records of what was sent, routed and delivered, to prove that no event was split or lost --------------


def event_data(tick: int, data_id: int, size: int) -> bytes:
    """Return `size` bytes of event content that depend only on the arguments."""
    block = hashlib.sha256(f"{tick}:{data_id}".encode()).digest()
    return (block * (size // len(block) + 1))[:size]


@dataclass(slots=True)
class Ledger:
    """The records of one run. An event is a tick; each source sends a part of it under its data id."""

    sent: set[tuple[int, int]] = field(default_factory=set)
    routed: dict[int, set[str]] = field(default_factory=dict)
    """By tick, the workers to which the load balancer sent its packets."""
    delivered: dict[tuple[int, int], str] = field(default_factory=dict)
    damaged: int = 0
    """Complete parts whose content differs from what was sent."""
    twice: int = 0
    """Parts that were delivered a second time."""

    def forwarded(self, tick: int, worker: str) -> None:
        """Record that a packet of `tick` was forwarded to `worker`."""
        self.routed.setdefault(tick, set()).add(worker)

    def arrived(self, worker: str, tick: int, data_id: int, data: bytes, size: int) -> None:
        """Record a part that a worker has reassembled, and check its content."""
        key = (tick, data_id)
        self.damaged += data != event_data(tick, data_id, size)
        self.twice += key in self.delivered
        self.delivered[key] = worker

    @property
    def events(self) -> int:
        """Number of ticks that were sent."""
        return len({tick for tick, _ in self.sent})

    @property
    def split(self) -> list[int]:
        """Ticks whose packets went to more than one worker."""
        return [tick for tick, workers in self.routed.items() if len(workers) > 1]

    def lost(self, dead: str | None = None) -> list[tuple[int, int]]:
        """Return the parts that were sent but not delivered, except those routed to `dead`."""
        return sorted(
            key
            for key in self.sent - self.delivered.keys()
            if self.routed.get(key[0], set()) != {dead} or dead is None
        )

    def shares(self, first: int, last: int, workers: list[str]) -> dict[str, float]:
        """Return the share of each worker in the ticks from `first` to `last`."""
        counts: Counter[str] = Counter()
        for tick in range(first, last + 1):
            counts.update(self.routed.get(tick, ()))
        total = sum(counts.values()) or 1
        return {worker: round(counts[worker] / total, 4) for worker in workers}


# -----------------------------------------------------------------------------------------------------------

_SEND_PERIOD_S = 0.005
_SERVE_PERIOD_S = 0.02
_SYNC_PERIOD_S = 0.25


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream that all sources send."""

    rate_hz: float
    """Ticks per second."""
    size: int
    """Bytes of each source's part of an event."""
    first_tick: int
    started_at: float
    """Time of the event loop at which the first tick is due."""

    def tick_at(self, now: float) -> int:
        """Return the tick that is due at `now`; before the start, the number before the first tick."""
        return self.first_tick - 1 + max(0, int((now - self.started_at) * self.rate_hz))


class EventSource:
    """Sends its part of every tick, and sync messages."""

    def __init__(self, host: UdpHost, data_id: int, lb: IPv4Address, sync_port: int, ledger: Ledger) -> None:
        self._host = host
        self._data_id = data_id
        self._lb = lb
        self._sync_port = sync_port
        self._ledger = ledger
        self._segmenter = Segmenter(version=2, mtu=1500)
        self._timer: asyncio.TimerHandle | None = None
        self._synced_at = float("-inf")
        self.next_tick = 0

    async def start(self, stream: Stream) -> None:
        """Resolve the load balancer and start sending.

        Raises:  TimeoutError: it does not answer ARP.
        """
        mac = await self._host.resolve(self._lb)
        if mac is None:
            raise TimeoutError(f"the load balancer {self._lb} does not answer ARP")
        self.next_tick = stream.first_tick
        self._turn(stream, mac)

    async def stop(self) -> None:
        """Stop sending."""
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self, stream: Stream, mac: MacAddr) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = stream.tick_at(now)
        if now - self._synced_at >= _SYNC_PERIOD_S:
            self._synced_at = now
            sync = SyncHeader(
                source_id=self._data_id, event=due, rate_hz=round(stream.rate_hz), unix_ns=time.time_ns()
            )
            self._host.send_udp(mac, self._lb, sync.build(), src_port=40000, dst_port=self._sync_port)
        while self.next_tick <= due:
            tick = self.next_tick
            self.next_tick += 1
            self._ledger.sent.add((tick, self._data_id))
            data = event_data(tick, self._data_id, stream.size)
            for payload in self._segmenter.payloads(
                data, tick=tick, data_id=self._data_id, event=tick, entropy=tick & 0xFFFF
            ):
                self._host.send_udp(mac, self._lb, payload, src_port=50000 + self._data_id, dst_port=LB_PORT)
        self._timer = loop.call_later(_SEND_PERIOD_S, self._turn, stream, mac)


class WorkerNode:
    """Reassembles events, processes them at a given rate and reports the fill level of its queue."""

    def __init__(
        self,
        name: str,
        host: UdpHost,
        *,
        weight: float,
        port: int,
        capacity_hz: float,
        queue: int,
        on_event: Callable[[str, int, int, bytes], None],
    ) -> None:
        """Args: capacity_hz: parts that it processes per second. queue: maximum number of waiting parts."""
        self.name = name
        self.weight = weight
        self.capacity_hz = capacity_hz
        self.alive = True
        self.overflowed = 0
        self.reassembler = Reassembler(timeout_s=1.0)
        self._host = host
        self._port = port
        self._queue: deque[None] = deque()
        self._limit = queue
        self._on_event = on_event
        self._credit = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._reporter: Reporter | None = None
        host.on_udp = self._receive

    @property
    def ip(self) -> str:
        """Its IP address."""
        return str(self._host.address)

    @property
    def fill(self) -> float:
        """Fill level of its queue, 0 to 1."""
        return min(len(self._queue) / self._limit, 1.0)

    async def start(self, uri: EjfatUri, control: str) -> None:
        """Register, then process and report until killed. Args: control: gRPC address of the control plane."""
        request = pb.RegisterRequest(
            name=self.name, weight=self.weight, ipAddress=self.ip, udpPort=self._port, minFactor=0.05
        )
        self._reporter = Reporter(uri, request, Gains(), control=control)
        await self._reporter.register()
        self._tasks = [
            asyncio.create_task(self._reporter.report(self._measure)),
            asyncio.create_task(self._serve()),
        ]

    def _measure(self) -> tuple[float, ReceiverCounters]:
        return self.fill, ReceiverCounters.of(self.reassembler.counters, enqueue_errors=self.overflowed)

    def kill(self) -> None:
        """Stop receiving, processing and reporting, without deregistering."""
        self.alive = False
        self._host.close()
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Stop, and wait until all tasks have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._reporter is not None:
            await self._reporter.close()

    def _receive(self, payload: bytes, _port: int) -> None:
        event = self.reassembler.receive(payload, asyncio.get_running_loop().time())
        if event is None:
            return
        if len(self._queue) >= self._limit:
            self.overflowed += 1
            return
        self._queue.append(None)
        self._on_event(self.name, event.key.event, event.key.data_id, event.data)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        served_at = loop.time()
        while True:
            await asyncio.sleep(_SERVE_PERIOD_S)
            now = loop.time()
            self.reassembler.expire(now)
            # by elapsed time: on a busy machine a period takes longer, and the queue would overflow
            self._credit = min(self._credit + self.capacity_hz * (now - served_at), self.capacity_hz)
            served_at = now
            while self._queue and self._credit >= 1:
                self._queue.popleft()
                self._credit -= 1
