"""State machines as tables: each row says which state an event leads to. The diagrams in docs/ are drawn from them."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Generic, TypeVar

from hfi_sim.base.errors import HfiSimError

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


class StateTable(Generic[State, Event]):
    """The legal steps of a state machine. Values of the enums are words for people: messages and diagrams show them."""

    def __init__(self, *rows: tuple[Collection[State], Event, State]) -> None:
        """Take the rows: (states, event that happens in them, next state). The first state of the first row starts."""
        self.rows = rows
        self._next = {(state, event): after for states, event, after in rows for state in states}

    def after(self, state: State, event: Event) -> State:
        """Return the state that follows. Raises HfiSimError if the event cannot happen in this state."""
        try:
            return self._next[state, event]
        except KeyError:
            raise HfiSimError(f'"{event.value}" cannot happen in state "{state.value}"') from None
