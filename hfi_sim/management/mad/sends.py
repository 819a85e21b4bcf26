"""What waits at a port: MADs for their response, messages for acknowledgements and then for theirs. Sans-IO.

It waits in one table, whether an agent of this process has sent it or a program at a umad device, and is repeated until
its retries are used up.

Source: drivers/infiniband/core/mad.c and mad_rmpp.c of Linux: ib_mad_send_wr_private, timeout_sends, retry_send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from hfi_sim.base.counters import Drop
from hfi_sim.base.deadlines import Timers
from hfi_sim.base.errors import FabricError
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.transfers import MAX_MESSAGE
from hfi_sim.wire.mad.header import RmppHeader
from hfi_sim.wire.mad.rmpp import Lone, RmppType, Segmented

MAX_LEAVING: Final = 64
"""Messages of agents of this process that leave a port at once."""
MAX_LEAVING_BYTES: Final = 32 << 20
"""Bytes of these."""
MAX_TO_ONE: Final = 8
"""Of these, to one LID."""
ACK_S: Final = 2.0
"""Seconds that an acknowledgement may take, as in the kernel."""
ACK_RETRIES: Final = 3
"""Times that a response in segments is repeated without news of the receiver."""


class SendEnd(Enum):
    """Why something that was sent does not wait any more, where it is not for its response."""

    ACKNOWLEDGED = auto()
    """The receiver has all of a message to which no response is awaited."""
    TIMED_OUT = auto()
    ABORTED = auto()
    """By the receiver of a message."""
    FORGOTTEN = auto()
    """By the sender."""


Ended = Callable[[MadRequest | SendEnd], Drop | None]
"""Called once: with the response, of which it may say why it is dropped, or with why there is none."""

SendKey = tuple[int, int, int, bool]
"""LID of the other port, transaction id, management class; whether it is a response itself."""


class Where(NamedTuple):
    """What a MAD needs to leave."""

    dlid: int
    sl: int
    dest_qp: int
    pkey: int | None
    is_9b: bool = False


@dataclass(slots=True, eq=False)
class Send:
    """Something sent that waits."""

    key: SendKey
    where: Where
    content: bytes | Segmented | Lone
    """A MAD, or a message in segments."""
    ended: Ended
    timeout_s: float = 0.0
    """How long its response may take; 0: none is awaited."""
    retries: int = 0
    joins: bool = False
    """Whether a response in segments is put together."""
    size: int = 0
    """Bytes that a message counts for among those of MAX_LEAVING_BYTES."""
    retries_left: int = 0
    is_due: bool = False
    """Whether it waits to be sent, once more or further."""

    @property
    def is_message(self) -> bool:
        """Whether acknowledgements belong to it."""
        return not isinstance(self.content, bytes)

    @property
    def patience_s(self) -> float:
        """How long it waits for what comes next."""
        if isinstance(self.content, bytes) or self.content.complete:
            return self.timeout_s
        return min(ACK_S, self.timeout_s or ACK_S)


class Sends:
    """All that waits at one port.

    After `expire`, `begin` and `acknowledge` take what is due, with `next_out` and `next_given_up`.
    """

    def __init__(self) -> None:
        self._open: dict[SendKey, Send] = {}
        self._timers: Timers[SendKey] = Timers()
        self._due: deque[Send] = deque()
        self._given_up: deque[Send] = deque()
        self._leaving = self._leaving_bytes = 0
        self._to_one: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def get(self, key: SendKey) -> Send | None:
        """Return what waits under a key, or None."""
        return self._open.get(key)

    def has_room(self, lid: int, size: int) -> bool:
        """Return whether one more message may leave to a LID."""
        crowded = self._leaving >= MAX_LEAVING or self._to_one.get(lid, 0) >= MAX_TO_ONE
        return not crowded and size <= MAX_MESSAGE and self._leaving_bytes + size <= MAX_LEAVING_BYTES

    def begin(self, now: float, send: Send) -> None:
        """Let a MAD wait that is being sent at `now`, or a message whose segments are due.

        Raises:  FabricError: something waits under the same key.
        """
        key = send.key
        if key in self._open:
            lid, tid, mgmt_class, _ = key
            raise FabricError(
                f"a request to LID {lid:#x} with tid {tid:#x} of class {mgmt_class:#04x} is still open"
            )
        self._open[key] = send
        send.retries_left = send.retries
        if send.size:
            self._leaving += 1
            self._leaving_bytes += send.size
            self._to_one[key[0]] = self._to_one.get(key[0], 0) + 1
        if isinstance(send.content, bytes):
            self._timers.set(key, now + send.timeout_s)
        else:
            self._go_on(now, send)

    def end(self, key: SendKey) -> Send | None:
        """Let something wait no more and return it, for the caller to say why; None where nothing waits."""
        send = self._open.pop(key, None)
        self._timers.cancel(key)
        if send is not None and send.size:
            self._leaving -= 1
            self._leaving_bytes -= send.size
            self._to_one[key[0]] -= 1
            if not self._to_one[key[0]]:
                del self._to_one[key[0]]
        return send

    def stop(self, key: SendKey, why: SendEnd) -> None:
        """Let something wait no more, and say why; harmless where nothing waits."""
        send = self.end(key)
        if send is not None:
            send.ended(why)

    def extend(self, now: float, key: SendKey) -> None:
        """Give a request its whole timeout again: part of its response has come."""
        send = self._open.get(key)
        if send is not None:
            self._timers.set(key, now + send.timeout_s)

    def acknowledge(self, now: float, send: Send, rmpp: RmppHeader) -> bool:
        """Take an acknowledgement, or the receiver's end of a transfer; return whether it is to be answered."""
        content = send.content
        if isinstance(content, Lone):
            return rmpp.type == RmppType.ACK
        if rmpp.type != RmppType.ACK:
            self.stop(send.key, SendEnd.ABORTED)
        elif isinstance(content, Segmented) and content.acknowledge(rmpp):
            send.retries_left = send.retries
            if not content.complete:
                self._go_on(now, send)
            elif send.timeout_s:
                self._timers.set(send.key, now + send.timeout_s)
            else:
                self.stop(send.key, SendEnd.ACKNOWLEDGED)
        return False

    def next_out(self) -> tuple[Where, bytes] | None:
        """Return where to send the next MAD or segment, and its bytes; None where nothing is due."""
        while self._due:
            send = self._due[0]
            if self._open.get(send.key) is send:
                if isinstance(send.content, bytes):
                    self._due.popleft().is_due = False
                    return send.where, send.content
                if (segment := next(send.content.due(), None)) is not None:
                    return send.where, segment
            self._due.popleft().is_due = False
        return None

    def next_given_up(self) -> Ended | None:
        """Return the callback of the next that has got no response, or None."""
        while self._given_up:
            send = self._given_up.popleft()
            if self._open.get(send.key) is send:
                self.end(send.key)
                return send.ended
        return None

    def next_deadline(self) -> float | None:
        """Return when `expire` has something to do next, or None."""
        return self._timers.next()

    def expire(self, now: float) -> None:
        """Take note of what has waited long enough at `now`: each is due again, or is given up."""
        for key in self._timers.due(now):
            send = self._open[key]
            if send.retries_left == 0:
                self._given_up.append(send)
                continue
            send.retries_left -= 1
            if isinstance(send.content, Segmented) and not send.content.complete:
                send.content.repeat()
            self._go_on(now, send)

    def _go_on(self, now: float, send: Send) -> None:
        self._timers.set(send.key, now + send.patience_s)
        if not send.is_due:
            send.is_due = True
            self._due.append(send)


def unheeded(_outcome: MadRequest | SendEnd) -> None:
    """Take no note of how far a response has come."""
