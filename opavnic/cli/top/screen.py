"""The screen of `opavnic top`, on Textual: it draws, scrolls and reads keys; what is here says what a key does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs

from hfi_sim.base.errors import HfiSimError
from hfi_sim.base.text import visible
from opavnic.cli.base.full_screen import FullScreen
from opavnic.cli.top.lab import Look, TopLab
from opavnic.cli.top.widgets import Arrangement, Keys, Rows, drawn
from opavnic.observe import rate_tables
from opavnic.observe.rate_tables import MANY, RateTable, head_text
from opavnic.observe.rates import Order

VNICS, LINKS, DROPS, FAULTS = range(4)
"""The tables, in the order of their tabs."""
MAX_LINE: Final = 200
NAME_WIDTH: Final = 24
"""Characters of a name or a state that are shown in a wide table: what flows is to be seen beside it."""
WIDE: Final = 7
"""Columns of a wide table."""
_FILTER: Final = "show only rows with: "
_FAULT: Final = "set a fault: "


class TopScreen(FullScreen):
    """What a terminal shows of a lab."""

    CSS = """
    #head, #said, #line { height: 1; }
    #head { text-style: bold; }
    #said { color: ansi_red; text-style: bold; display: none; }
    Tabs { height: 2; }
    Rows { height: 1fr; scrollbar-size: 1 1; }
    Rows > .datatable--header { text-style: bold underline; background: ansi_default; color: ansi_default; }
    Rows > .datatable--cursor { text-style: reverse; background: ansi_default; color: ansi_default; }
    #line { display: none; }
    #label { width: auto; }
    Input { width: 1fr; height: 1; border: none; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, what, show=bool(what), key_display=shown, priority=True)
        for keys, action, what, shown in (
            ("question_mark,h", "help", "Keys", "?"),
            ("slash", "filter", "Filter", "/"),
            ("greater_than_sign,s", "sort(1)", "Sort", "<>"),
            ("less_than_sign", "sort(-1)", "", None),
            ("r", "reverse", "", None),
            ("enter", "open", "Open", "Enter"),
            ("escape", "leave", "Back", "Esc"),
            ("f", "fault", "Fault", None),
            ("x", "cut", "Cut", None),
            ("d,delete", "remove", "Mend", None),
            ("z", "fold", "", None),
            *((str(number + 1), f"table({number})", "", None) for number in range(4)),
            ("tab", "step(1)", "", None),
            ("shift+tab", "step(-1)", "", None),
            ("up,k", "move('cursor_up')", "", None),
            ("down,j", "move('cursor_down')", "", None),
            ("pageup", "move('page_up')", "", None),
            ("pagedown", "move('page_down')", "", None),
            ("home,g", "move('scroll_top')", "", None),
            ("end,G", "move('scroll_bottom')", "", None),
            ("left", "move('cursor_left')", "", None),
            ("right", "move('cursor_right')", "", None),
        )
    ]
    """All come before the widgets' own: keys that arrive at once are worked off in their order."""

    def __init__(
        self, lab: TopLab, first: Look, interval_s: float, order: Order, *, whole: bool = False
    ) -> None:
        """Prepare. Args: first: what is shown first. whole: hosts are not folded."""
        super().__init__()
        self._lab = lab
        self._interval_s = interval_s
        self._asking = asyncio.Lock()
        self._seen = first
        self.tables = _tables(first)
        """Those of the tabs."""
        self.at = VNICS
        """The table that is chosen."""
        self.opened = ""
        """Key of the VNIC or link whose flows or lanes are shown; empty: none."""
        self._writes = ""
        """What the line is that a person writes; empty: none."""
        self._arrangements = [_first_look(table, order, folds=not whole) for table in self.tables]
        self._of_opened = Arrangement()
        self._drawn_as = self._of_opened
        """The arrangement of the rows that are shown."""
        self._keys: list[str] = []
        """Of the rows that are shown."""

    def compose(self) -> ComposeResult:
        """Make the widgets, from top to bottom."""
        yield Static(id="head", markup=False)
        tabs = Tabs(*(Tab("", id=f"table{number}") for number in range(len(self.tables))))
        tabs.can_focus = False
        yield tabs
        yield Rows(cursor_type="row", cell_padding=1)
        yield Static(id="said", markup=False)
        with Horizontal(id="line"):
            yield Static(id="label", markup=False)
            yield Input(max_length=MAX_LINE, compact=True, select_on_focus=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show what has been seen, and go on looking."""
        super().on_mount()
        self.query_one(Rows).focus()
        self._show()
        self.run_worker(self._look_on())

    # --- the lab, which is asked in threads ---------------------------------------------------------------

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._do()

    async def _do(self, deed: Callable[[], None] | None = None) -> None:
        """Do something to the lab, if it is to be, and look at it; say what was wrong with that."""
        async with self._asking:
            try:
                if deed is not None:
                    await asyncio.to_thread(deed)
            except HfiSimError as error:
                self._say(str(error))
            opened, closer = self.opened, "flows_of" if self.at == VNICS else "lanes_of"
            seen = await asyncio.to_thread(self._lab.look, **{closer: opened})
        if opened != self.opened:  # what was opened is closed by now: that is asked for by a look of its own
            return
        if not self.query(Rows):  # the view has ended while the lab was asked
            return
        self._seen, self.tables = seen, _tables(seen)
        if seen.why_not:
            self._say(seen.why_not)
            self.opened = ""
        self._show()

    def _start(self, deed: Callable[[], None] | None = None) -> None:
        self._say("")
        self.run_worker(self._do(deed))

    # --- what is shown ------------------------------------------------------------------------------------

    @property
    def _arrangement(self) -> Arrangement:
        return self._of_opened if self.opened else self._arrangements[self.at]

    def _shown(self) -> RateTable:
        table = self.tables[self.at]
        if self.opened:
            table = self._seen.opened or RateTable("", ("",), ())
        how = self._arrangement
        if how.filter:
            table = table.with_text(how.filter)
        elif how.folds and sum(bool(row.home) for row in table.rows) > MANY:
            table = table.folded(how.apart)
        return table.in_order(min(how.column, len(table.columns) - 1), descending=how.descending)

    def _show(self) -> None:
        """Show what has been seen, arranged as a person wants it."""
        self.query_one("#head", Static).update(head_text(self._seen.found))
        self._show_tabs()
        shown, rows = self._shown(), self.query_one(Rows)
        how = self._arrangement
        arrow = "▼" if how.descending else "▲"
        heads = [name + arrow * (column == how.column) for column, name in enumerate(shown.columns)]
        right = [shown.is_number(column) for column in range(len(heads))]
        longest = NAME_WIDTH if len(heads) >= WIDE else MAX_LINE
        cells = [
            [drawn(cell, is_number, longest) for cell, is_number in zip(row.cells, right, strict=True)]
            for row in shown.rows
        ]
        keys = [row.key for row in shown.rows]
        if keys == self._keys and [column.label.plain for column in rows.columns.values()] == heads:
            for number, row in enumerate(cells):
                for column, cell in enumerate(row):
                    if rows.get_cell_at(Coordinate(number, column)) != cell:
                        rows.update_cell_at(Coordinate(number, column), cell, update_width=True)
            return
        self._drawn_as.chosen = self.chosen or self._drawn_as.chosen
        self._drawn_as = how
        scrolled = rows.scroll_offset
        rows.clear(columns=True)
        for name, is_number in zip(heads, right, strict=True):
            rows.add_column(Text(name, justify="right" if is_number else "left"))
        rows.add_rows(cells)
        self._keys = keys
        rows.scroll_to(*scrolled, animate=False, force=True)
        if how.chosen in keys:
            rows.move_cursor(row=keys.index(how.chosen))

    def _show_tabs(self) -> None:
        tabs = self.query_one(Tabs)
        for number, table in enumerate(self.tables):
            tab = tabs.query_one(f"#table{number}", Tab)
            text = f"{number + 1} {table.name} {len(table.rows)}"
            if number == self.at:
                text += f" > {self.opened}" * bool(self.opened)
                text += f" with: {self._arrangement.filter}" * bool(self._arrangement.filter)
            if str(tab.label) != visible(text):
                tab.label = Text(visible(text))
        with tabs.prevent(Tabs.TabActivated):
            tabs.active = f"table{self.at}"

    def _say(self, line: str) -> None:
        said = self.query_one("#said", Static)
        said.update(visible(line))
        said.display = bool(line)

    # --- what a person chooses ------------------------------------------------------------------------------

    @property
    def chosen(self) -> str:
        """The key of the row that is chosen; empty if there is none."""
        at = self.query_one(Rows).cursor_row
        return self._keys[at] if at < len(self._keys) else ""

    @property
    def place(self) -> str:
        """The place of a fault that is chosen: the host of a VNIC, a link, a switch; empty if there is none."""
        key = self.opened or self.chosen
        return {VNICS: key.partition("/")[0], LINKS: key}.get(self.at, "")

    def action_table(self, number: int) -> None:
        """Show another table."""
        if self._writes:
            self._end_line()
        self._close()
        self.at = number
        self._show()

    def action_step(self, step: int) -> None:
        """Show the next table, or the one before."""
        self.action_table((self.at + step) % len(self._arrangements))

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Show the table whose tab was clicked."""
        self.action_table(int((event.tab.id or "")[-1]))

    def action_sort(self, step: int) -> None:
        """Sort by another column."""
        shown = self._shown()
        self._sort((self._arrangement.column + step) % len(shown.columns))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column that was clicked, or turn its order round."""
        if event.column_index == self._arrangement.column:
            self.action_reverse()
        else:
            self._sort(event.column_index)

    def _sort(self, column: int) -> None:
        how = self._arrangement
        how.column, how.descending = column, self._shown().is_number(column)
        self._show()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._arrangement.descending = not self._arrangement.descending
        self._show()

    def action_fold(self) -> None:
        """Show the hosts of each switch as one row, or apart."""
        how = self._arrangement
        how.folds, how.apart = not how.folds, set()
        self._show()

    def on_data_table_row_selected(self) -> None:
        """Open the row that was clicked."""
        self.action_open()

    def action_open(self) -> None:
        """Show what belongs to the chosen row: hosts of a switch, flows of a VNIC, lanes of a link."""
        key, table = self.chosen, self.tables[self.at]
        if self.opened or not key:
            return
        if any(row.home == key for row in table.rows) and not any(row.key == key for row in table.rows):
            self._arrangement.apart.add(key)
            self._show()
        elif self.at in (VNICS, LINKS):
            self._of_opened = Arrangement()
            self.opened = key
            self._seen = Look(self._seen.found, self._seen.faults, None)
            self._show()
            self._start()

    def action_leave(self) -> None:
        """Go back: from a line that is written, from what is opened, from a filter, from hosts that are shown apart."""
        how = self._arrangement
        if self._writes:
            how.filter = "" if self._writes == _FILTER else how.filter
            self._end_line()
        elif self.opened:
            self._close()
        elif how.filter:
            how.filter = ""
        else:
            how.apart.clear()
        self._show()

    def _close(self) -> None:
        if self.opened:
            self.opened = ""
            self._start()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys be letters of a line that is written, or close the list of keys."""
        if action in ("end_now", "suspend_process"):
            return True
        if self.screen is not self.default_screen:
            return False
        return action == "leave" if self._writes else True

    def action_move(self, how: str) -> None:
        """Choose another row, or scroll. Args: how: an action of the table."""
        getattr(self.query_one(Rows), f"action_{how}")()

    def action_help(self) -> None:
        """Show what the keys do."""
        self.push_screen(Keys())

    # --- lines that a person writes, and faults -------------------------------------------------------------

    def action_filter(self) -> None:
        """Write what rows have in them."""
        self._begin_line(_FILTER, self._arrangement.filter)

    def action_fault(self) -> None:
        """Write a fault."""
        self._begin_line(_FAULT, f"loss on {self.place} 10%" if self.place else "")

    def _begin_line(self, label: str, text: str) -> None:
        line = self.query_one(Input)
        self._say("")
        self._writes = label
        self.query_one("#label", Static).update(label)
        self._show_line(True)
        line.value = text
        self.default_screen.set_focus(line)  # at once: the next key is for the line
        line.cursor_position = len(text)

    def _end_line(self) -> None:
        self._writes = ""
        self._show_line(False)
        self.default_screen.set_focus(self.query_one(Rows))

    def _show_line(self, is_shown: bool) -> None:
        self.query_one("#line").display = is_shown
        self.query_one(Footer).display = not is_shown

    def on_input_changed(self, event: Input.Changed) -> None:
        """Use a filter as it is written."""
        if self._writes == _FILTER:
            self._arrangement.filter = event.value
            self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep a filter, or set a fault."""
        is_fault = self._writes == _FAULT
        self._end_line()
        if is_fault and event.value.strip():
            self._start(lambda: self._lab.set_fault(event.value))

    def action_cut(self) -> None:
        """Cut the chosen link."""
        place = self.place
        if place and self.at == LINKS:
            self._start(lambda: self._lab.set_fault(f"link-down on {place}"))

    def action_remove(self) -> None:
        """Remove the chosen fault, or those of the chosen host or link."""
        place, key = self.place, self.chosen
        if self.at == FAULTS and key:
            self._start(lambda: self._lab.remove_fault(int(key)))
        elif place:
            self._start(lambda: self._lab.remove_faults_on(place))


def _first_look(table: RateTable, order: Order, *, folds: bool) -> Arrangement:
    if table.name == "drops":
        return Arrangement(table.columns.index("drops/s"), descending=True)
    busiest = next((at for at, name in enumerate(table.columns) if "bit/s" in name), None)
    if order is Order.LOAD and busiest is not None:
        return Arrangement(busiest, descending=True, folds=folds)
    return Arrangement(folds=folds)


def _tables(seen: Look) -> tuple[RateTable, ...]:
    return (*rate_tables.all_tables(seen.found), rate_tables.faults(seen.faults))
