"""What `opavnic top` shows, and what keys make of it: a state and a key become the next state and actions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from opavnic.cli.top import keys as key
from opavnic.cli.top.grid import Grid, is_number

MAX_LINE: Final = 200
VNICS, LINKS, DROPS, FAULTS = range(4)
"""The tables, in the order of their tabs."""
TABLES: Final = 4


@dataclass(frozen=True, slots=True)
class SetFault:
    """Set a fault."""

    text: str


@dataclass(frozen=True, slots=True)
class RemoveFault:
    """Remove the fault with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class ClearFaults:
    """Remove all faults that are set on this place."""

    place: str


Action = SetFault | RemoveFault | ClearFaults


@dataclass(frozen=True, slots=True)
class Sort:
    """The order of a table."""

    column: int
    descending: bool


@dataclass(frozen=True, slots=True)
class Look:
    """How one table is looked at."""

    sort: Sort
    filter: str = ""
    cursor: str = ""
    """Key of the chosen row; the first row if no row has it."""
    first: int = 0
    """The first row that is on the screen."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A line that a person is writing: a filter, or a fault."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """What is shown."""

    looks: tuple[Look, ...]
    """Of each table, and at last of what is opened."""
    table: int = VNICS
    opened: str = ""
    """Key of the VNIC or link whose flows or lanes are shown; empty: none."""
    prompt: Prompt | None = None
    is_helping: bool = False
    has_ended: bool = False
    said: str = field(default="")
    """The result of the last action."""

    @property
    def look(self) -> Look:
        """How the table that is shown is looked at."""
        return self.looks[TABLES if self.opened else self.table]

    def with_look(self, look: Look) -> State:
        """Return it with another look at the table that is shown."""
        at = TABLES if self.opened else self.table
        return replace(self, looks=(*self.looks[:at], look, *self.looks[at + 1 :]))


def start(by_load: bool) -> State:
    """Return the first state. Args: by_load: VNICs and links are sorted by what they send, not by name."""
    vnics, links = (Sort(5, True), Sort(3, True)) if by_load else (Sort(0, False), Sort(0, False))
    looks = (vnics, links, Sort(2, True), Sort(0, False), Sort(0, False))
    return State(tuple(map(Look, looks)))


def chosen(grid: Grid, look: Look) -> int:
    """Return the index of the chosen row, 0 if no row has its key."""
    return next((index for index, row in enumerate(grid.rows) if row.key == look.cursor), 0)


def pressed(state: State, pressed_key: str, grid: Grid, room: int) -> tuple[State, Sequence[Action]]:
    """Return the state after a key, and what is to be done.

    Args:  grid: what is shown, arranged. room: rows that the screen has for it.
    """
    state = replace(state, said="")
    if state.prompt is not None:
        return _written(state, state.prompt, pressed_key)
    if state.is_helping:
        return replace(state, is_helping=False), ()
    if pressed_key in _MOVES:
        return _moved(state, pressed_key, grid, room), ()
    if pressed_key in ("<", ">", key.LEFT, key.RIGHT, "r", "s"):
        return state.with_look(_sorted(state.look, pressed_key, grid)), ()
    return _command(state, pressed_key, grid)


_MOVES: Final = {
    key.UP: -1, "k": -1, key.DOWN: 1, "j": 1, key.PAGE_UP: 0, key.PAGE_DOWN: 0, key.HOME: 0, key.END: 0, "g": 0, "G": 0,
}  # fmt: skip


def _moved(state: State, pressed_key: str, grid: Grid, room: int) -> State:
    if not grid.rows:
        return state
    at, last = chosen(grid, state.look), len(grid.rows) - 1
    far = {
        key.PAGE_UP: at - room,
        key.PAGE_DOWN: at + room,
        key.HOME: 0,
        "g": 0,
        key.END: last,
        "G": last,
    }
    at = min(max(far.get(pressed_key, at + _MOVES[pressed_key]), 0), last)
    return state.with_look(replace(state.look, cursor=grid.rows[at].key))


def _sorted(look: Look, pressed_key: str, grid: Grid) -> Look:
    """Go to the next column, back to the one before, or turn the order round."""
    if pressed_key == "r":
        return replace(look, sort=replace(look.sort, descending=not look.sort.descending))
    step = -1 if pressed_key in ("<", key.LEFT) else 1
    column = (look.sort.column + step) % len(grid.columns)
    return replace(look, sort=Sort(column, is_number(grid, column)))


def _command(state: State, pressed_key: str, grid: Grid) -> tuple[State, Sequence[Action]]:
    row = grid.rows[chosen(grid, state.look)].key if grid.rows else ""
    place = _place(state, row)
    if not state.opened:
        state = state.with_look(replace(state.look, cursor=row))  # it stays chosen when other rows come
    match pressed_key:
        case "q":
            return replace(state, has_ended=True), ()
        case "?" | "h":
            return replace(state, is_helping=True), ()
        case "/":
            return replace(state, prompt=Prompt("filter", state.look.filter)), ()
        case "f":
            return replace(state, prompt=Prompt("fault", f"loss on {place} 10%" if place else "")), ()
        case "x" if place and state.table == LINKS:
            return state, (SetFault(f"link-down on {place}"),)
        case "d" | key.DELETE if state.table == FAULTS and row:
            return state, (RemoveFault(int(row)),)
        case "d" | key.DELETE if place:
            return state, (ClearFaults(place),)
        case key.ENTER if row and not state.opened and state.table in (VNICS, LINKS):
            opened = replace(state, opened=row)
            return opened.with_look(Look(Sort(4, True) if state.table == VNICS else Sort(0, False))), ()
        case key.ESCAPE | key.BACKSPACE if state.opened:
            return replace(state, opened=""), ()
        case key.ESCAPE if state.look.filter:
            return state.with_look(replace(state.look, filter="")), ()
        case key.TAB | key.BACK_TAB:
            step = 1 if pressed_key == key.TAB else -1
            return replace(state, table=(state.table + step) % TABLES, opened=""), ()
        case "1" | "2" | "3" | "4":
            return replace(state, table=int(pressed_key) - 1, opened=""), ()
    return state, ()


def _place(state: State, row: str) -> str:
    """Return the place of a fault that is chosen: the host of a VNIC, a link; empty if there is none."""
    key_of = state.opened or row
    if state.table == VNICS:
        return key_of.partition("/")[0]
    return key_of if state.table == LINKS else ""


def _written(state: State, prompt: Prompt, pressed_key: str) -> tuple[State, Sequence[Action]]:
    """Go on writing the line of a prompt. A filter is used as it is written."""
    text = prompt.text
    if pressed_key in (key.ENTER, key.ESCAPE):
        state = replace(state, prompt=None)
        if prompt.kind == "fault":
            return state, (SetFault(text),) if pressed_key == key.ENTER and text.strip() else ()
        return state.with_look(replace(state.look, filter="")) if pressed_key == key.ESCAPE else state, ()
    if pressed_key == key.BACKSPACE:
        text = text[:-1]
    elif len(pressed_key) == 1 and len(text) < MAX_LINE:
        text += pressed_key
    state = replace(state, prompt=Prompt(prompt.kind, text))
    return state.with_look(replace(state.look, filter=text)) if prompt.kind == "filter" else state, ()
