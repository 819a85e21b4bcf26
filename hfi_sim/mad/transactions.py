"""Requests that wait for their response: timeouts, retries, matching. Sans-IO: `now` comes in, actions go out."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from hfi_sim.errors import FabricError

Done = Callable[[bytes | None], None]
"""Called once: with the response, or with None when the last retry has timed out."""

Key = tuple[int, int, int]
"""Peer LID, transaction id (64 bits), management class."""


@dataclass(slots=True)
class Transaction:
    """One request on its way."""

    key: Key
    packet: bytes
    timeout_s: float
    retries_left: int
    done: Done
    deadline: float


class TransactionTable:
    """All requests of one MAD stack that have no response yet."""

    def __init__(self) -> None:
        self._open: dict[Key, Transaction] = {}
        self._deadlines: list[tuple[float, Key]] = []

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, now: float, key: Key, packet: bytes, timeout_s: float, retries: int, done: Done) -> None:
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

    def complete(self, key: Key, response: bytes) -> bool:
        """Close the request that `response` answers; False where none is waiting for it."""
        transaction = self._open.pop(key, None)
        if transaction is None:
            return False
        transaction.done(response)
        return True

    def forget(self, key: Key) -> None:
        """Give up a request without telling anybody: its caller went away."""
        self._open.pop(key, None)

    def expire(self, now: float) -> list[bytes]:
        """Return the packets to send again at `now`; requests without retries left are closed with None."""
        resend: list[bytes] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, key = heapq.heappop(self._deadlines)
            transaction = self._open.get(key)
            if transaction is None or transaction.deadline != deadline:
                continue
            if transaction.retries_left == 0:
                del self._open[key]
                transaction.done(None)
                continue
            transaction.retries_left -= 1
            transaction.deadline = now + transaction.timeout_s
            heapq.heappush(self._deadlines, (transaction.deadline, key))
            resend.append(transaction.packet)
        return resend

    def next_deadline(self) -> float | None:
        """Return when `expire` has something to do next, or None."""
        while self._deadlines:
            deadline, key = self._deadlines[0]
            transaction = self._open.get(key)
            if transaction is not None and transaction.deadline == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None
