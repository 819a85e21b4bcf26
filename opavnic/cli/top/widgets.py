"""What the screen of `opavnic top` is made of: a table in which a row is chosen, and the list of keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from opavnic.cli.base.output import wrong
from opavnic.observe.rate_tables import Cell

KEYS: Final = {
    "Up Down PgUp PgDn, j k": "choose a row; Left, Right: to further columns",
    "Home End, g G": "the first row, the last one",
    "1 2 3 4, Tab": "VNICs, links, drops, faults",
    "< >": "sort by the column before, by the next one",
    "r": "turn the order round",
    "/": "show only rows with a text; Esc ends that",
    "Enter": "hosts of a switch, flows of a VNIC, lanes of a link",
    "Esc": "back",
    "z": "fold the hosts of each switch, or show them apart",
    "f": "set a fault: the line is that of `opavnic fault add`",
    "x": "cut the chosen link",
    "d": "remove the chosen fault, or those of a host or link",
    "q": "end",
}
"""What the keys do, for people."""


@dataclass(slots=True)
class Arrangement:
    """How a person looks at one table."""

    column: int = 0
    """The one that it is sorted by."""
    descending: bool = False
    filter: str = ""
    apart: set[str] = field(default_factory=set)
    """Switches whose hosts are not folded."""
    folds: bool = True
    chosen: str = ""
    """Key of the chosen row, if it has one; else the first row is."""


class Rows(DataTable[Text]):
    """A table in which a row is chosen."""

    def action_scroll_bottom(self) -> None:
        """Go to the last row: Textual fails where there is none."""
        if self.row_count:
            super().action_scroll_bottom()

    def on_resize(self) -> None:
        """Keep the chosen row in sight."""
        if self.row_count:
            self.call_after_refresh(self.move_cursor, row=self.cursor_row)


class Keys(ModalScreen[None]):
    """What the keys do, until one is pressed."""

    CSS = "Keys { align: center middle; } Static { width: auto; height: auto; border: solid ansi_default; }"

    def compose(self) -> ComposeResult:
        """Make the list."""
        keys = Table.grid(padding=(0, 1))
        for names, what in KEYS.items():
            keys.add_row(names, what)
        yield Static(keys)

    def on_key(self, event: events.Key) -> None:
        """Close it."""
        event.stop()
        self.dismiss()


def drawn(cell: Cell, is_number: bool, longest: int) -> Text:
    """Return a cell as it is shown. Args: longest: characters of a name."""
    text = wrong(cell.text, cell.is_wrong)
    text.justify = "right" if is_number else "left"
    if not is_number:
        text.truncate(longest, overflow="ellipsis")
    return text
