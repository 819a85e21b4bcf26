"""Requests that wait for their response: timeouts, retries, matching. Sans-IO: `now` comes in, actions go out."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

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
    deadline: float


class TransactionTable:
    """All requests of one MAD stack that have no response yet.

    After `expire` take what is due, with `next_resend` and `next_given_up`.
    """

    def __init__(self) -> None:
        self._open: dict[Key, Transaction] = {}
        self._deadlines: list[tuple[float, Key]] = []
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
        transaction = Transaction(key, packet, timeout_s, retries, done, now + timeout_s)
        self._open[key] = transaction
        heapq.heappush(self._deadlines, (transaction.deadline, key))

    def is_open(self, key: Key) -> bool:
        """Return whether a request waits for its response."""
        return key in self._open

    def extend(self, now: float, key: Key) -> None:
        """Give a request its whole timeout again: part of its response has come."""
        transaction = self._open.get(key)
        if transaction is not None:
            transaction.deadline = now + transaction.timeout_s
            heapq.heappush(self._deadlines, (transaction.deadline, key))

    def complete(self, key: Key) -> Done | None:
        """Close the request that has its response; return its callback, or None if no request is open."""
        transaction = self._open.pop(key, None)
        return None if transaction is None else transaction.done

    def forget(self, key: Key) -> None:
        """Give up a request without calling back: its caller has left."""
        self._open.pop(key, None)

    def expire(self, now: float) -> None:
        """Take note of the requests whose time is over at `now`: each is due again, or is given up."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, key = heapq.heappop(self._deadlines)
            transaction = self._open.get(key)
            if transaction is None or transaction.deadline != deadline:
                continue
            if transaction.retries_left == 0:
                del self._open[key]
                self._given_up.append(transaction.done)
                continue
            transaction.retries_left -= 1
            transaction.deadline = now + transaction.timeout_s
            heapq.heappush(self._deadlines, (transaction.deadline, key))
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
        while self._deadlines:
            deadline, key = self._deadlines[0]
            transaction = self._open.get(key)
            if transaction is not None and transaction.deadline == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None
