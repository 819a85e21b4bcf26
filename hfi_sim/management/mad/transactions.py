"""Requests that wait for their response: timeouts, retries, matching. Sans-IO: `now` comes in, actions go out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hfi_sim.base.deadlines import Timers
from hfi_sim.base.errors import FabricError
from hfi_sim.wire.mad.header import Mad

Done = Callable[[Mad | None], None]
"""Called once: with the response, or with None when the last retry has timed out."""

Key = tuple[int, int, int]
"""Peer LID, transaction id (64 bits), management class."""


class Outgoing(NamedTuple):
    """A packet that was built here, with what the port checks of it; the arguments of `HfiPort.send_built`."""

    packet: bytes
    """Empty where its service level has no service channel."""
    slid: int
    dlid: int
    pkey: int


@dataclass(slots=True)
class Transaction:
    """One request on its way."""

    key: Key
    packet: Outgoing | None
    """What is sent again; None where the request is a message of several MADs, which repeats itself."""
    timeout_s: float
    retries_left: int
    done: Done


class TransactionTable:
    """All requests of one MAD stack that have no response yet.

    After `expire` take what is due, with `next_resend` and `next_given_up`.
    """

    def __init__(self) -> None:
        self._open: dict[Key, Transaction] = {}
        self._timers: Timers[Key] = Timers()
        self._resend: deque[Outgoing] = deque()
        self._given_up: deque[Done] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def begin(
        self, now: float, key: Key, packet: Outgoing | None, timeout_s: float, retries: int, done: Done
    ) -> None:
        """Remember a request that is being sent at `now`.

        Raises:  FabricError: a request with the same peer, id and class is still open.
        """
        if key in self._open:
            lid, tid, mgmt_class = key
            raise FabricError(
                f"a request to LID {lid:#x} with tid {tid:#x} of class {mgmt_class:#04x} is still open"
            )
        self._open[key] = Transaction(key, packet, timeout_s, retries, done)
        self._timers.set(key, now + timeout_s)

    def is_open(self, key: Key) -> bool:
        """Return whether a request waits for its response."""
        return key in self._open

    def extend(self, now: float, key: Key) -> None:
        """Give a request its whole timeout again: part of its response has come."""
        transaction = self._open.get(key)
        if transaction is not None:
            self._timers.set(key, now + transaction.timeout_s)

    def complete(self, key: Key) -> Done | None:
        """Close the request that has its response; return its callback, or None if no request is open."""
        transaction = self._open.pop(key, None)
        self._timers.cancel(key)
        return None if transaction is None else transaction.done

    def forget(self, key: Key) -> None:
        """Give up a request without calling back: its caller has left."""
        self._open.pop(key, None)
        self._timers.cancel(key)

    def expire(self, now: float) -> None:
        """Take note of the requests whose time is over at `now`: each is due again, or is given up."""
        for key in self._timers.due(now):
            transaction = self._open[key]
            if transaction.retries_left == 0:
                del self._open[key]
                self._given_up.append(transaction.done)
                continue
            transaction.retries_left -= 1
            self._timers.set(key, now + transaction.timeout_s)
            if transaction.packet is not None:
                self._resend.append(transaction.packet)

    def next_resend(self) -> Outgoing | None:
        """Return the next packet to send again, or None."""
        return self._resend.popleft() if self._resend else None

    def next_given_up(self) -> Done | None:
        """Return the callback of the next request that got no response, or None."""
        return self._given_up.popleft() if self._given_up else None

    def next_deadline(self) -> float | None:
        """Return when `expire` has something to do next, or None."""
        return self._timers.next()
