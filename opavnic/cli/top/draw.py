"""The screen of `opavnic top`: a state and the tables become lines, as many and as long as the terminal has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from hfi_sim.base.text import visible
from opavnic.cli.top.grid import Grid, GridRow, cut, is_number, tabs, widths, window
from opavnic.cli.top.state import FAULTS, LINKS, Look, State, chosen
from opavnic.cli.top.view import head_text
from opavnic.observe.rates import Rates

AROUND: Final = 4
"""Lines besides the rows: head, tabs, headings, keys."""
HELP: Final = """\
 Up Down PgUp PgDn Home End, j k g G   choose a row, scroll
 1 2 3 4, Tab                          VNICs, links, drops, faults
 < >, Left Right, s                    sort by the column before, by the next one
 r                                     turn the order round
 /                                     show only rows with a text; Esc ends that
 Enter                                 the flows of a VNIC, the virtual lanes of a link
 Esc, Backspace                        back
 f                                     set a fault: the line is that of `opavnic fault add`
 x                                     cut the chosen link
 d, Del                                remove the chosen fault, or all of the chosen host or link
 q                                     end
"""


def room_of(height: int) -> int:
    """Return how many rows a screen of so many lines shows."""
    return max(1, height - AROUND)


def draw(
    state: State, found: Rates, grids: Sequence[Grid], shown: Grid, width: int, height: int
) -> tuple[State, Text]:
    """Return the screen, and the state with what is scrolled to.

    Args:  grids: the tables of the tabs. shown: the one to show, arranged.
    """
    lines = [Text(cut(head_text(found), width), style="bold"), _tabs(state, grids, width)]
    if state.is_helping:
        lines += [Text(cut(line, width)) for line in HELP.splitlines()]
    else:
        room = room_of(height)
        at = chosen(shown, state.look)
        first = window(len(shown.rows), room, at, state.look.first)
        state = state.with_look(_scrolled(state.look, first))
        lines += _table(shown, state.look, shown.rows[first : first + room], at - first, width)
    lines = lines[: height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    return state, Text("\n").join([*lines, _foot(state, shown, width)])


def _scrolled(look: Look, first: int) -> Look:
    return Look(look.sort, look.filter, look.cursor, first)


def _tabs(state: State, grids: Sequence[Grid], width: int) -> Text:
    line = Text()
    for number, name in enumerate(tabs(grids)):
        line.append(f" {name} ", "reverse" if number == state.table else "")
    if state.opened:
        line.append(f" > {visible(state.opened)}", "bold")
    if state.look.filter:
        line.append(f"  with: {visible(state.look.filter)}", "bold yellow")
    line.truncate(width, overflow="ellipsis")
    return line


def _table(grid: Grid, look: Look, rows: Sequence[GridRow], cursor: int, width: int) -> list[Text]:
    arrow = "▼" if look.sort.descending else "▲"
    headings = [name + arrow * (column == look.sort.column) for column, name in enumerate(grid.columns)]
    right = [is_number(grid, column) for column in range(len(headings))]
    sizes = widths(Grid(grid.name, tuple(headings), grid.rows), rows, width)

    def placed(text: str, column: int) -> str:
        text = cut(text, sizes[column])
        return text.rjust(sizes[column]) if right[column] else text.ljust(sizes[column])

    line = Text(
        " ".join(placed(name, column) for column, name in enumerate(headings)), style="bold underline"
    )
    line.truncate(width)
    lines = [line]
    for number, row in enumerate(rows):
        line = Text(style="reverse" if number == cursor else "")
        for column, cell in enumerate(row.cells):
            line.append(" " * bool(column)).append(placed(cell.text, column), cell.style)
        line.truncate(width, pad=number == cursor)
        lines.append(line)
    if not rows:
        lines.append(
            Text(cut("nothing has this text in it" if look.filter else "nothing", width), style="dim")
        )
    return lines


def _foot(state: State, shown: Grid, width: int) -> Text:
    if state.prompt is not None:
        label = "show only rows with: " if state.prompt.kind == "filter" else "set a fault: "
        return Text(cut_front(f"{label}{visible(state.prompt.text)}_", width), style="bold")
    if state.said:
        return Text(cut(visible(state.said), width), style="bold red")
    keys = ["q end", "? keys", "/ filter", "<> sort", "r reverse"]
    keys += ["Esc back"] if state.opened else ["Enter open"] if state.table <= LINKS else []
    keys += ["x cut"] if state.table == LINKS else []
    keys += (
        ["d remove"]
        if state.table == FAULTS
        else ["f fault", "d mend"]
        if state.table <= LINKS
        else ["f fault"]
    )
    last = min(len(shown.rows), chosen(shown, state.look) + 1)
    place = f"{last}/{len(shown.rows)}"
    text = cut("  ".join(keys), width - len(place) - 1)
    return Text(text.ljust(width - len(place)) + place, style="dim")


def cut_front(text: str, width: int) -> str:
    """Return the end of a text that is too long: where a person writes."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
