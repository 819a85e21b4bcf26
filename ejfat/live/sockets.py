"""Senders and receivers on Linux sockets."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import selectors
import socket
import struct
import termios
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import BinaryIO

from ejfat.base.errors import BadRequestError, EjfatError
from ejfat.control.epochs.calendar import TICKS
from ejfat.control.members import ReceiverCounters
from ejfat.events.event import Event, LostEvent, ReassemblyCounters, Segmenter
from ejfat.events.reassembly import MAX_EVENT, MAX_HELD, Reassembler
from ejfat.events.uri import Endpoint
from ejfat.live.clock import SteadyClock
from ejfat.wire.headers import SyncHeader

_RECEIVE_BUFFER = 8 << 20
_SO_RCVBUFFORCE, _SO_MEMINFO = 33, 55
_MEMINFO = struct.Struct("=9I")
"""The last number is that of the datagrams for which there was no room."""
_INT = struct.Struct("=i")
_ARP_PATIENCE_S = 5.0
"""The kernel asks for a MAC address three times, a second apart."""
_ARP_LOOK_S = 0.001
_BATCH = 256
_LARGEST = 65535
_FASTEST = (1 << 32) - 1
"""Maximum rate in a sync message, in Hz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlan:
    """The settings of a sender."""

    target: Endpoint
    segmenter: Segmenter
    rate_hz: float = 0.0
    """Events per second; 0: as fast as possible."""
    data_id: int = 0
    entropy: int | None = None
    """None: a different one for each event."""
    first_tick: int | None = None
    """First tick, from which ticks count up; None: microseconds since 1970, by a clock that does not step."""
    sync: Endpoint | None = None
    source_id: int = 0
    sockets: int = 1
    """Source ports; events take turns. Receivers and NICs spread load by them."""
    port_of_tick: bool = False
    """Send each event from the UDP port that the low 16 bits of its tick name, as the document says; 0: any port."""
    gbit_per_s: float = 0.0
    """Bits of events per second, in 1e9; 0: `rate_hz` alone limits."""


@dataclass(slots=True)
class Sent:
    """Totals of a sender."""

    events: int = 0
    packets: int = 0
    bytes: int = 0
    last_tick: int = 0
    seconds: float = 0.0


async def send_events(plan: SendPlan, events: Iterator[bytes], entropies: Callable[[], int]) -> Sent:
    """Send all events, with a sync message before the first one and every second.

    Args:    entropies: returns the entropy of an event (16 bits).
    Raises:  EjfatError: sending fails, or there are no more ticks.
    """
    loop = asyncio.get_running_loop()
    sent = Sent()
    started, clock = loop.time(), SteadyClock()
    synced = float("-inf")
    family = _family(plan.target)
    with contextlib.ExitStack() as stack:
        try:
            sockets = [
                stack.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(plan.sockets)
            ]
            for sock in sockets:
                sock.connect((str(plan.target.ip), plan.target.port))
            for number, data in enumerate(events):
                due = number / plan.rate_hz if plan.rate_hz else 0.0
                if plan.gbit_per_s:
                    due = max(due, sent.bytes * 8 / (plan.gbit_per_s * 1e9))
                if due:
                    await asyncio.sleep(max(0.0, started + due - loop.time()))
                tick = clock.ns() // 1000 if plan.first_tick is None else plan.first_tick + number
                if tick >= TICKS:
                    raise EjfatError(
                        f"event {number} would have tick {tick:#x}: ticks have 64 bits and do not wrap"
                    )
                sock = sockets[number % len(sockets)]
                if plan.port_of_tick:
                    sock.close()
                    sock = sockets[0] = stack.enter_context(_from_port(plan.target, tick & _LARGEST))
                if plan.sync is not None and loop.time() - synced >= 1.0:
                    synced = loop.time()
                    _send_sync(plan, tick, clock.ns())
                entropy = entropies() if plan.entropy is None else plan.entropy
                for payload in plan.segmenter.payloads(
                    data, tick=tick, data_id=plan.data_id, event=tick, entropy=entropy
                ):
                    sock.send(payload)
                    sent.packets += 1
                    if sent.packets == 1:
                        await _until_left(sock)
                sent.events += 1
                sent.bytes += len(data)
                sent.last_tick = tick
        except OSError as error:
            raise EjfatError(f"cannot send to {plan.target}: {error.strerror}") from None
    sent.seconds = loop.time() - started
    return sent


def _from_port(target: Endpoint, port: int) -> socket.socket:
    """Return a socket that sends from a port.

    Raises:  EjfatError: the port is in use, or not allowed.
    """
    sock = socket.socket(_family(target), socket.SOCK_DGRAM)
    try:
        sock.bind(("", port))
        sock.connect((str(target.ip), target.port))
    except OSError as error:
        sock.close()
        raise EjfatError(f"cannot send from port {port}, as the tick says: {error.strerror}") from None
    return sock


async def _until_left(sock: socket.socket) -> None:
    """Wait until the kernel has handed on what was sent, because it then knows the next hop's MAC address.

    Until then it keeps some ninety packets, and drops the oldest of them for each one more. It does not report when
    they have left, so this looks again and again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _ARP_PATIENCE_S
    while loop.time() < deadline:
        (waiting,) = _INT.unpack(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size)))
        if not waiting:
            return
        await asyncio.sleep(_ARP_LOOK_S)


def _send_sync(plan: SendPlan, tick: int, unix_ns: int) -> None:
    assert plan.sync is not None  # noqa: S101 - checked by the caller
    rate = round(min(plan.rate_hz, _FASTEST)) if plan.first_tick is not None else 1_000_000
    sync = SyncHeader(source_id=plan.source_id, event=tick, rate_hz=rate, unix_ns=unix_ns)
    try:
        with socket.socket(_family(plan.sync), socket.SOCK_DGRAM) as sock:
            sock.sendto(sync.build(), (str(plan.sync.ip), plan.sync.port))
    except OSError as error:
        raise EjfatError(f"cannot send sync messages to {plan.sync}: {error.strerror}") from None


def _family(endpoint: Endpoint) -> socket.AddressFamily:
    return socket.AF_INET if endpoint.ip.version == 4 else socket.AF_INET6


def cut_stream(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Cut a stream into events of `size` bytes; the last one may be shorter."""
    while data := stream.read(size):
        yield data


class _ReceiverThread(threading.Thread):
    """Receives on some of the ports and reassembles events; all packets of an event arrive at one port."""

    def __init__(
        self,
        sockets: list[socket.socket],
        reassembler: Reassembler,
        tell: Callable[[Event | LostEvent], None],
    ) -> None:
        super().__init__(daemon=True)
        self.reassembler = reassembler
        self._tell = tell
        self.sockets = sockets
        self.used: set[int] = set()
        """Ports at which anything arrived."""
        self._wake_in, self._wake_out = socket.socketpair()

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_in, selectors.EVENT_READ)
            for sock in self.sockets:
                selector.register(sock, selectors.EVENT_READ)
            while True:
                deadline = self.reassembler.deadline
                timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
                for key, _ in selector.select(timeout):
                    if key.fileobj is self._wake_in:
                        return
                    self._drain(key.fileobj)  # type: ignore[arg-type]
                for lost in self.reassembler.expire(time.monotonic()):
                    self._tell(lost)

    def _drain(self, sock: socket.socket) -> None:
        now = time.monotonic()
        for number in range(_BATCH):
            try:
                payload, source = sock.recvfrom(_LARGEST)
            except BlockingIOError:
                return
            if not number:
                self.used.add(sock.getsockname()[1])
            event = self.reassembler.receive(payload, now, source)
            if event is not None:
                self._tell(event)

    def close(self) -> None:
        """End the thread and close its sockets."""
        self._wake_out.send(b"x")
        self.join()
        for sock in (*self.sockets, self._wake_in, self._wake_out):
            sock.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivePlan:
    """The settings of a receiver."""

    listen: Endpoint
    port_bits: int = 0
    """log2 of the number of ports, which start at the port of `listen`."""
    threads: int = 1
    timeout_s: float = 0.5
    old_headers: bool = False
    max_event: int = MAX_EVENT
    """Bytes of the longest event that is accepted."""
    queue: int = 1000
    """Events that may wait for the consumer."""


@dataclass(slots=True)
class ReceiverThreads:
    """Receiver threads, and the queue of their events."""

    plan: ReceivePlan
    enqueue_errors: int = 0
    dequeued: int = 0
    _threads: list[_ReceiverThread] = field(default_factory=list)
    _queue: asyncio.Queue[Event | LostEvent] = field(default_factory=asyncio.Queue)

    @property
    def fill(self) -> float:
        """Fill level of the queue, 0 to 1."""
        return min(self._queue.qsize() / self.plan.queue, 1.0)

    def counters(self) -> ReassemblyCounters:
        """Return the sums of all threads' counters."""
        total = ReassemblyCounters()
        for thread in self._threads:
            total.add(thread.reassembler.counters)
        return total

    def measure(self) -> tuple[float, ReceiverCounters]:
        """Return what a worker reports: the fill level, and its counters."""
        return self.fill, ReceiverCounters.of(self.counters(), self.dequeued, self.enqueue_errors)

    def left(self) -> tuple[int, int]:
        """Return the numbers of incomplete events, and of complete ones that wait in the queue."""
        incomplete = sum(thread.reassembler.pending for thread in self._threads)
        return incomplete, self.counters().events_complete - self.dequeued - self.enqueue_errors

    def missed(self) -> int:
        """Return how many datagrams the kernel dropped because a socket had no room for them."""
        return sum(_missed_at(sock) for thread in self._threads for sock in thread.sockets)

    def ports_used(self) -> set[int]:
        """Return the ports at which anything arrived."""
        return {port for thread in self._threads for port in thread.used}

    def start(self) -> None:
        """Bind the ports and start receiving.

        Raises:  BadRequestError: a port above 65535. EjfatError: a port cannot be bound.
        """
        plan = self.plan
        if plan.listen.port + (1 << plan.port_bits) - 1 > _LARGEST:
            raise BadRequestError(f"ports {plan.listen.port} + 2**{plan.port_bits} go beyond {_LARGEST}")
        loop = asyncio.get_running_loop()
        groups: list[list[socket.socket]] = [[] for _ in range(min(plan.threads, 1 << plan.port_bits))]
        for number in range(1 << plan.port_bits):
            try:
                groups[number % len(groups)].append(_bound(plan.listen, plan.listen.port + number))
            except OSError as error:
                for sock in (sock for group in groups for sock in group):
                    sock.close()
                raise EjfatError(
                    f"cannot listen on {plan.listen.ip} port {plan.listen.port + number}: {error.strerror}"
                ) from None

        def tell(what: Event | LostEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                loop.call_soon_threadsafe(self._enqueue, what)

        numbers = count(1)
        for group in groups:
            reassembler = Reassembler(
                old_headers=plan.old_headers,
                timeout_s=plan.timeout_s,
                max_event=plan.max_event,
                max_held=max(MAX_HELD, 4 * plan.max_event),
                numbers=numbers,
            )
            thread = _ReceiverThread(group, reassembler, tell)
            self._threads.append(thread)
            thread.start()

    async def results(self) -> AsyncIterator[Event | LostEvent]:
        """Yield complete and lost events as they come, endlessly."""
        while True:
            what = await self._queue.get()
            self.dequeued += isinstance(what, Event)
            yield what

    def close(self) -> None:
        """Stop receiving."""
        for thread in self._threads:
            thread.close()
        self._threads.clear()

    def _enqueue(self, what: Event | LostEvent) -> None:
        if isinstance(what, Event) and self._queue.qsize() >= self.plan.queue:
            self.enqueue_errors += 1
        else:
            self._queue.put_nowait(what)


def _bound(listen: Endpoint, port: int) -> socket.socket:
    sock = socket.socket(_family(listen), socket.SOCK_DGRAM)
    try:
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        except PermissionError:  # without CAP_NET_ADMIN it can have net.core.rmem_max
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        sock.setblocking(False)
        sock.bind((str(listen.ip), port))
    except OSError:
        sock.close()
        raise
    return sock


def _missed_at(sock: socket.socket) -> int:
    counts = _MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))
    return int(counts[-1])
