"""What a client of subnet administration holds there and asks for. Sans-IO: requests out, responses and time in.

An `Order` is something that the administration is to hold for the client until it is dropped: a port in a group, a
service, a subscription. After `reset`, because another subnet manager is there or says that it has forgotten, all
orders are placed anew. What is refused, or not answered, is tried again: an administration in the middle of a sweep
refuses what it takes a second later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from hfi_sim.errors import WireError
from hfi_sim.mad.header import MadStatus, Method
from hfi_sim.mad.message import Mad
from hfi_sim.sa.attributes import SaStatus
from hfi_sim.sa.message import SaMessage
from hfi_sim.sa.record import SaRecord

BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 8.0
AT_ONCE: Final = 16
"""Requests on their way; the administration of a large fabric has other clients."""


@dataclass(frozen=True, slots=True)
class Order:
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
    """An order, and what has come of it."""

    order: Order
    state: OrderState = OrderState.NEW
    answer: bytes = b""
    """The record of the last answer, while the order is held."""
    error: str = ""
    """Why it is not held; empty where it is, or nobody has answered yet."""
    tries: int = 0
    not_before: float = 0.0
    again: bool = field(default=False)
    """Wanted again while it was being cancelled."""


Fetched = Callable[[SaMessage | None], None]
"""Called once: with the response, whatever its status, or with None where none came."""


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
        self._questions: deque[tuple[SaMessage, Fetched]] = deque()
        self._open: dict[int, Hashable | Fetched] = {}
        self._next_ticket = 1

    # --- what is wanted ------------------------------------------------------------------------------------

    def place(self, key: Hashable, order: Order) -> None:
        """Have the administration hold an order; one with the same key gives way to it."""
        held = self.orders.get(key)
        if held is not None and held.order == order:
            if held.state in (OrderState.DROPPED, OrderState.CANCELLED):
                held.again = True
                if held.state is OrderState.DROPPED:
                    held.state, held.again = OrderState.HELD, False
            return
        self.orders[key] = Held(order)

    def drop(self, key: Hashable, *, tell: bool = True) -> None:
        """Have an order cancelled; harmless where there is none.

        Args:  tell: False where the administration has forgotten it by itself.
        """
        held = self.orders.get(key)
        if held is None:
            return
        held.again = False
        if not tell or held.state is OrderState.NEW:
            del self.orders[key]
        elif held.state is not OrderState.CANCELLED:
            held.state, held.not_before, held.tries = OrderState.DROPPED, 0.0, 0

    def ask(self, message: SaMessage, done: Fetched) -> None:
        """Ask once; what is not answered is the caller's to repeat."""
        self._questions.append((message, done))

    def reset(self) -> None:
        """Place all orders again; what is on its way counts for nothing, and questions are given up."""
        given_up = [what for what in self._open.values() if callable(what)]
        given_up += [done for _, done in self._questions]
        self._open.clear()
        self._questions.clear()
        for key, held in list(self.orders.items()):
            if held.state in (OrderState.DROPPED, OrderState.CANCELLED) and not held.again:
                del self.orders[key]
            else:
                self.orders[key] = Held(held.order, error=held.error)
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
        for key, held in self.orders.items():
            if held.not_before > now:
                continue
            if held.state is OrderState.NEW:
                held.state = OrderState.ASKED
                order = held.order
                message = SaMessage.request(Method.SET, order.attr_id, order.record, mask=order.mask)
                return self._send(message, key)
            if held.state is OrderState.DROPPED:
                held.state = OrderState.CANCELLED
                return self._send(_cancel(held.order), key)
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
        if callable(what):
            what(message)
            return
        held = self.orders.get(what)
        if held is None:
            return
        status = None if message is None else message.header.status
        if held.state is OrderState.CANCELLED:
            del self.orders[what]
            if held.again:
                self.orders[what] = Held(held.order)
        elif held.state is OrderState.DROPPED:
            pass  # it is cancelled next, whether it came to be held or not
        elif status == MadStatus.OK and message is not None:
            held.state, held.answer, held.error, held.tries = OrderState.HELD, message.data, "", 0
        else:
            self.refused += 1
            held.state = OrderState.NEW
            held.error = "no answer" if status is None else status_text(status)
            held.not_before = now + min(BACKOFF_S * 2**held.tries, BACKOFF_MAX_S)
            held.tries = min(held.tries + 1, 10)

    def next_wake(self) -> float | None:
        """Return when a refused order is due again, or None."""
        if len(self._open) >= AT_ONCE:
            return None
        due = (OrderState.NEW, OrderState.DROPPED)
        return min((held.not_before for held in self.orders.values() if held.state in due), default=None)

    def _send(self, message: SaMessage, what: Hashable | Fetched) -> Ask:
        ticket = self._next_ticket
        self._next_ticket += 1
        self._open[ticket] = what
        return Ask(ticket, message)


def _cancel(order: Order) -> SaMessage:
    if order.cancels_with is not None:
        return SaMessage.request(Method.SET, order.attr_id, order.cancels_with, mask=order.mask)
    return SaMessage.request(Method.DELETE, order.attr_id, order.record, mask=order.mask)


def status_text(status: int) -> str:
    """Return the status of a response of the administration for messages."""
    text = SaStatus.text_of(status) or MadStatus.text_of(status, "status")
    return f"{text} ({status:#06x})"


def table_of(attr_id: int, record: SaRecord | None = None, mask: int = 0) -> SaMessage:
    """Return the question for all records of a kind, or for those with the components of `record` in `mask`."""
    return SaMessage.request(Method.GET_TABLE, attr_id, record, mask=mask)
