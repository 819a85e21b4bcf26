"""The links of a node over Zenoh: messages to and from an Exchange, in any thread.

Zenoh calls back in its own threads. If packets never become Python objects, trains and grants are handled there, under
one lock, without the event loop. Otherwise they wait for the loop, like everything else (`ZenohLinks.is_threaded`).
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from opavnic.cluster.protocol.exchange import (
    ACK_DELAY_S,
    Arrived,
    Exchange,
    Lost,
    Output,
    Put,
    RoomAgain,
    Urgency,
)
from opavnic.cluster.protocol.messages import Body, Take, is_open
from opavnic.cluster.protocol.streams import ONE_EACH, ONE_FOR_ALL
from opavnic.cluster.protocol.transport import LinkReport, NodeName
from opavnic.cluster.protocol.zenoh_config import link_key, parse_link_key

if TYPE_CHECKING:
    import zenoh

Soon = Callable[..., bool]
"""Runs a function with its arguments in the event loop, in order."""

_PRIORITIES: Final = {
    Urgency.GRANT: "REAL_TIME",
    Urgency.MANAGEMENT: "INTERACTIVE_HIGH",
    Urgency.DATA: "DATA",
}
_MOST_KEYS: Final = 1 << 12
"""Size of the cache of parsed keys."""


class ZenohLinks:
    """See the module. Methods run in the event loop unless they say otherwise."""

    def __init__(self, name: NodeName, exchange: Exchange, soon: Soon) -> None:
        """Args:  exchange: of this node; every user of it holds `lock`."""
        self.on_train: Callable[[str, int, Body], None] = lambda link, direction, body: None
        self.on_room: Callable[[str, int], None] = lambda link, direction: None
        self.on_lost: Callable[[str, int, int], None] = lambda link, direction, packets: None
        self.exchange = exchange
        self.lock = threading.RLock()
        """Held while deciding; the results are acted on without it, so that no thread waits for another's packets."""
        self.failed_puts = 0
        self._putting = threading.RLock()
        """Held from a decision until its messages are put, so that no grant overtakes an earlier one. Lock
        order: `lock` is never acquired while this is held.
        """
        self._arriving = threading.RLock()
        """Held from a message until its packets have arrived, to keep order; not acquired while `lock` is held."""
        self._is_threaded = False
        self._name = name
        self._soon = soon
        self._session: zenoh.Session | None = None
        self._publishers: dict[tuple[NodeName, str, int, Urgency], zenoh.Publisher] = {}
        self._keys: dict[str, zenoh.KeyExpr] = {}
        """By link: the key of messages to it. Declared to Zenoh, which then resolves the receiver once, not for each
        message.
        """
        self._known: dict[str, tuple[NodeName, str, int] | None] = {}
        self._threads = threading.local()
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None
        """The time for which the timer is set, or about to be."""

    @property
    def is_threaded(self) -> bool:
        """Whether `on_train` and `on_room` may be called in any thread, and each peer has its own sending thread."""
        return self._is_threaded

    @is_threaded.setter
    def is_threaded(self, value: bool) -> None:
        self._is_threaded = value
        with self.lock:
            self.exchange.pace = ONE_EACH if value else ONE_FOR_ALL

    def start(self, session: zenoh.Session, loop: asyncio.AbstractEventLoop) -> None:
        """Start to put messages."""
        self._session, self._loop = session, loop

    def stop(self) -> None:
        """Stop; messages in transit are lost."""
        with self._arriving, self.lock:
            for link in list(dict(self.exchange.reports())):
                self.exchange.unbind(link)
        self.deliver()
        with self.lock, self._putting:
            self._session = None
            self._publishers.clear()
            self._keys.clear()
        if self._timer is not None:
            self._timer.cancel()

    def bind(self, link: str, direction: int, peer: NodeName) -> None:
        """See Transport.bind."""
        with self.lock:
            self.exchange.bind(link, direction, peer, self._loop.time())
        if self._session is not None:
            incoming = link_key(self.exchange.fabric, peer, self._name, link, 1 - direction)
            self._keys[link] = self._session.declare_keyexpr(incoming)
        self.deliver()

    def unbind(self, link: str) -> None:
        """See Transport.unbind."""
        with self._arriving, self.lock:
            self.exchange.unbind(link)
        self.deliver()
        with self.lock, self._putting:
            gone = [self._publishers.pop(key) for key in list(self._publishers) if key[1] == link]
            key, session = self._keys.pop(link, None), self._session
        for publisher in gone:
            publisher.undeclare()
        if key is not None and session is not None:
            session.undeclare(key)

    def send_train(self, link: str, sc: int, take: Take) -> int:
        """See Transport.send_train. For the links to one peer, only one thread at a time may call this."""
        with self.lock:
            sent = self.exchange.send_train(link, sc, take, self._loop.time())
        if self.exchange.outputs:
            self.deliver()
        if sent is None:
            return 0
        put, count = sent
        self._put(put)
        return count

    def pause(self, link: str) -> None:
        """See Transport.pause."""
        with self.lock:
            self.exchange.pause(link)

    def resume(self, link: str) -> None:
        """See Transport.resume."""
        with self.lock:
            self.exchange.resume(link, self._loop.time())
        self.deliver()

    def reports(self) -> Mapping[str, LinkReport]:
        """See Transport.links."""
        with self.lock:
            return dict(self.exchange.reports())

    def on_sample(self, sample: zenoh.Sample) -> None:
        """Handle a message, in a thread of Zenoh's."""
        if not hasattr(self._threads, "is_kept"):
            self._keep_thread()
        key, payload = str(sample.key_expr), sample.payload.to_bytes()
        # a peer that asks for room may have just joined, which the event loop learns first
        if self.is_threaded and not is_open(payload):
            self._received(key, payload)
        else:
            self._soon(self._received, key, payload)

    def _keep_thread(self) -> None:
        """Keep Python's state of this thread, which would otherwise be created anew for every call."""
        ctypes.pythonapi.PyGILState_Ensure()  # never released: Zenoh's threads last as long as the process
        self._threads.is_kept = True

    def _received(self, key: str, payload: bytes) -> None:
        parsed = self._parsed(key)
        if parsed is None:
            with self.lock:
                self.exchange.refused["bad_key"] += 1
            return
        sender, link, direction = parsed
        with self._arriving:
            with self.lock:
                now = self._loop.time()
                self.exchange.received(sender, link, direction, payload, now)
                outputs = self._take_outputs(now)
            self._act(outputs)

    def _parsed(self, key: str) -> tuple[NodeName, str, int] | None:
        try:
            return self._known[key]
        except KeyError:
            with self.lock:
                if len(self._known) >= _MOST_KEYS:
                    self._known.clear()
                parsed = self._known[key] = parse_link_key(key)
            return parsed

    def deliver(self) -> None:
        """Send the exchange's messages, report its events, and set the timer for what is due later.

        May be called in any thread, but not while holding the lock.
        """
        with self.lock:
            outputs = self._take_outputs(self._loop.time())
        self._act(outputs)

    def _take_outputs(self, now: float) -> Sequence[Output]:
        """Return what to do without the lock; if there are messages, `_putting` is held until they are put."""
        due = self.exchange.poll(now)
        if due is not None and self._session is not None and (self._due is None or due < self._due):
            self._due = due
            self._soon(self._set_timer)
        if not self.exchange.outputs:
            return ()
        outputs = tuple(self.exchange.outputs)
        self.exchange.outputs.clear()
        for output in outputs:
            if isinstance(output, Put):
                self._putting.acquire()
                break
        return outputs

    def _act(self, outputs: Sequence[Output]) -> None:
        puts = [output for output in outputs if isinstance(output, Put)]
        if puts:
            try:
                for put in puts:
                    self._put(put)
            finally:
                self._putting.release()
        for output in outputs:
            match output:
                case Arrived(link, direction, body):
                    self.on_train(link, direction, body)
                case RoomAgain(link, direction):
                    self.on_room(link, direction)
                case Lost(link, direction, packets):
                    self._soon(self.on_lost, link, direction, packets)

    def _set_timer(self) -> None:
        with self.lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._due is not None and self._session is not None:
                self._timer = self._loop.call_at(self._due, self._time_has_come)

    def _time_has_come(self) -> None:
        """Send what is due. While there is always something due, the timer keeps running and the loop is not
        woken to set it.
        """
        with self.lock:
            now = self._loop.time()
            self._timer, self._due = None, now
            outputs = self._take_outputs(now)
            due = self.exchange.poll(now)
            if due is None and outputs:
                due = now + ACK_DELAY_S
            self._due = due
            if due is not None and self._session is not None:
                self._timer = self._loop.call_at(due, self._time_has_come)
        self._act(outputs)

    def _put(self, put: Put) -> None:
        import zenoh

        session = self._session
        if session is None:
            return
        key = (put.peer, put.link, put.direction, put.urgency)
        try:
            publisher = self._publishers.get(key)
            if publisher is None:
                publisher = self._publishers[key] = session.declare_publisher(
                    link_key(self.exchange.fabric, self._name, put.peer, put.link, put.direction),
                    # dropping would lose packets of a lossless fabric. A full queue blocks a thread that does not hold
                    # the lock, so incoming messages are still handled; grants are too few to fill their queue
                    congestion_control=zenoh.CongestionControl.BLOCK,
                    reliability=zenoh.Reliability.RELIABLE,
                    priority=getattr(zenoh.Priority, _PRIORITIES[put.urgency]),
                    express=True,
                    allowed_destination=zenoh.Locality.REMOTE,
                )
            publisher.put(put.payload)
        except zenoh.ZError:
            self.failed_puts += 1  # its packets are found missing by the receiver, or lost with the peer
