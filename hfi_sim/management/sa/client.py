"""What a client of subnet administration holds there and asks for. Sans-IO: requests out, responses and time in.

An `SaOrder` is something that the administration is to hold for the client until it is dropped: a port in a group, a
service, a subscription. After `reset`, because another subnet manager is there or says that it has forgotten, all
orders are placed anew. What is refused, or not answered, is tried again: an administration in the middle of a sweep
refuses what it takes a second later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from hfi_sim.base.deadlines import Timers
from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.attributes import SaStatus
from hfi_sim.wire.mad.header import Mad, MadStatus, Method
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord

BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 8.0
AT_ONCE: Final = 16
"""Requests on their way; the administration of a large fabric has other clients."""


@dataclass(frozen=True, slots=True)
class SaOrder:
    """What the administration is to hold."""

    attr_id: int
    record: SaRecord
    mask: int
    """The components of `record` that are filled in."""
    cancels_with: SaRecord | None = None
    """What a Set is to carry that ends it; None: it ends by Delete of `record`."""


class OrderState(Enum):
    """How far an order is."""

    NEW = "to be placed"
    ASKED = "placed, not answered yet"
    HELD = "held"
    DROPPED = "to be cancelled"
    CANCELLED = "cancelled, not answered yet"


@dataclass(slots=True)
class Held:
    """An order and its result so far."""

    order: SaOrder
    state: OrderState = OrderState.NEW
    answer: bytes = b""
    """The record of the last answer, while the order is held."""
    error: str = ""
    """Why it is not held; empty if it is held, or before the first response."""
    tries: int = 0
    again: bool = False
    """Wanted again while it was being cancelled."""


Fetched = Callable[[SaMessage | None], None]
"""Called once: with the response of any status, or with None after a timeout."""


class Ask(NamedTuple):
    """A request to send; its response goes to `SaClient.answered` with the ticket."""

    ticket: int
    message: SaMessage


class SaClient:
    """The orders and questions of one port."""

    def __init__(self) -> None:
        self.orders: dict[Hashable, Held] = {}
        self.refused = 0
        """Requests refused or not answered so far."""
        self._news: set[Hashable] = set()
        self._due: deque[Hashable] = deque()
        self._later: Timers[Hashable] = Timers()
        self._questions: deque[tuple[SaMessage, Fetched]] = deque()
        self._open: dict[int, tuple[Hashable, Held] | Fetched] = {}
        """What responses are to, by ticket: an order by its key, as it was when it was placed, or a question."""
        self._next_ticket = 1

    # --- what is wanted ------------------------------------------------------------------------------------

    def place(self, key: Hashable, order: SaOrder) -> None:
        """Have the administration hold an order; one with the same key gives way to it."""
        held = self.orders.get(key)
        if held is not None and held.order == order:
            if held.state in (OrderState.DROPPED, OrderState.CANCELLED):
                held.again = True
                if held.state is OrderState.DROPPED:
                    held.state, held.again = OrderState.HELD, False
            return
        self._begin(key, Held(order))

    def take_news(self) -> set[Hashable]:
        """Return the keys of the orders that have come to be held, or refused, or are gone, since the last call."""
        news, self._news = self._news, set()
        return news

    def _begin(self, key: Hashable, held: Held) -> None:
        self.orders[key] = held
        self._news.add(key)
        self._due.append(key)

    def drop(self, key: Hashable, *, tell: bool = True) -> None:
        """Have an order cancelled; harmless where there is none.

        Args:  tell: False where the administration has forgotten it by itself.
        """
        held = self.orders.get(key)
        if held is None:
            return
        held.again = False
        self._news.add(key)
        if not tell or held.state is OrderState.NEW:
            del self.orders[key]
        elif held.state is not OrderState.CANCELLED:
            held.state, held.tries = OrderState.DROPPED, 0
            self._due.append(key)

    def ask(self, message: SaMessage, done: Fetched) -> None:
        """Ask once; what is not answered is the caller's to repeat."""
        self._questions.append((message, done))

    def reset(self) -> None:
        """Place all orders again; what is on its way counts for nothing, and questions are given up."""
        given_up = [what for what in self._open.values() if not isinstance(what, tuple)]
        given_up += [done for _, done in self._questions]
        self._open.clear()
        self._questions.clear()
        self._due.clear()
        self._later = Timers()
        for key, held in list(self.orders.items()):
            if held.state in (OrderState.DROPPED, OrderState.CANCELLED) and not held.again:
                del self.orders[key]
                self._news.add(key)
            else:
                self._begin(key, Held(held.order, error=held.error))
        for done in given_up:
            done(None)

    # --- requests and responses ----------------------------------------------------------------------------

    def next_ask(self, now: float) -> Ask | None:
        """Return the next request to send, or None."""
        if len(self._open) >= AT_ONCE:
            return None
        if self._questions:
            message, done = self._questions.popleft()
            return self._send(message, done)
        self._due += self._later.due(now)
        while self._due:
            key = self._due.popleft()
            held = self.orders.get(key)
            if held is not None and held.state is OrderState.NEW:
                held.state = OrderState.ASKED
                order = held.order
                message = SaMessage.request(Method.SET, order.attr_id, order.record, mask=order.mask)
                return self._send(message, (key, held))
            if held is not None and held.state is OrderState.DROPPED:
                held.state = OrderState.CANCELLED
                return self._send(_cancel(held.order), (key, held))
        return None

    def answered(self, now: float, ticket: int, mad: Mad | None) -> None:
        """Take the response to a request, or None if none came."""
        what = self._open.pop(ticket, None)
        message: SaMessage | None = None
        if mad is not None:
            try:
                message = SaMessage.of(mad)
            except WireError:
                message = None
        if what is None:
            return
        if not isinstance(what, tuple):
            what(message)
            return
        key, held = what
        if self.orders.get(key) is not held:
            return  # dropped meanwhile, or another order has its place
        self._news.add(key)
        status = None if message is None else message.header.status
        if held.state is OrderState.CANCELLED:
            del self.orders[key]
            if held.again:
                self._begin(key, Held(held.order))
        elif held.state is OrderState.DROPPED:
            pass  # it is cancelled next, whether it came to be held or not
        elif status == MadStatus.OK and message is not None:
            held.state, held.answer, held.error, held.tries = OrderState.HELD, message.data, "", 0
        else:
            self.refused += 1
            held.state = OrderState.NEW
            held.error = "no answer" if status is None else status_text(status)
            due = now + min(BACKOFF_S * 2**held.tries, BACKOFF_MAX_S)
            held.tries = min(held.tries + 1, 10)
            self._later.set(key, due)

    def next_wake(self) -> float | None:
        """Return when a refused order is due again, or None."""
        if len(self._open) >= AT_ONCE:
            return None
        if self._due:
            return 0.0
        return self._later.next()

    def _send(self, message: SaMessage, what: tuple[Hashable, Held] | Fetched) -> Ask:
        ticket = self._next_ticket
        self._next_ticket += 1
        self._open[ticket] = what
        return Ask(ticket, message)


def _cancel(order: SaOrder) -> SaMessage:
    if order.cancels_with is not None:
        return SaMessage.request(Method.SET, order.attr_id, order.cancels_with, mask=order.mask)
    return SaMessage.request(Method.DELETE, order.attr_id, order.record, mask=order.mask)


def status_text(status: int) -> str:
    """Return the status of a response of the administration for messages."""
    text = SaStatus.text_of(status) or MadStatus.text_of(status, "status")
    return f"{text} ({status:#06x})"


def table_of(attr_id: int) -> SaMessage:
    """Return the question for all records of a kind."""
    return SaMessage.request(Method.GET_TABLE, attr_id)
