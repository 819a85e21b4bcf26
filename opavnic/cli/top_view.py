"""The view of `opavnic top`: the rates of a lab as tables, cut to what fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from hfi_sim.text import visible
from opavnic.observe.rates import DropRate, Link, Pace, Rates, Vnic

PACES = ("pkt/s", "bit/s")
_UNITS = ("", "k", "M", "G", "T", "P")
_AROUND = 2
"""Lines of a table besides its rows: an empty line above it, and the header."""
_LEAST = 3
"""Rows that a table must have room for to be shown, unless it has fewer."""
_HEADER = "bold reverse"
_TROUBLE = "red"


def human(number: float) -> str:
    """Return a number of 0 or more with three digits and a prefix for thousands, millions, ...: 1.25M."""
    for unit in _UNITS:
        if number < 999.5 or unit == _UNITS[-1]:
            digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
            text = f"{number:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + unit
        number /= 1000
    raise AssertionError("unreachable: the last unit takes any number")


def share(room: int, wanted: Sequence[int]) -> list[int]:
    """Divide `room` lines among tables: each gets what it wants, or an equal share of what is left."""
    given = [0] * len(wanted)
    while hungry := [index for index, want in enumerate(wanted) if given[index] < want]:
        for index in hungry:
            if room <= 0:
                return given
            given[index] += 1
            room -= 1
    return given


def fit(height: int, wanted: Sequence[int]) -> list[int]:
    """Return how many lines each table gets for its rows; the last tables are left out if there is no room."""
    for shown in range(len(wanted), 0, -1):
        room = height - _AROUND * shown
        least = min(_LEAST * shown, sum(wanted[:shown])) if shown > 1 else 1
        if room >= least:
            return share(room, wanted[:shown])
    return []


@dataclass(frozen=True, slots=True)
class TopView:
    """The rates of a lab in the given order, printable with rich: a head line and tables."""

    rates: Rates
    fit: bool = False
    """Show only what fits in the height of the terminal: the busiest rows of a table that is too long."""
    hint: str = ""
    """Appended to the head line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the head line and the tables, as rich's protocol requires, for the current size of the terminal."""
        yield self._head()
        tables = self._tables()
        lines = [table.size for table in tables]
        if self.fit:
            lines = fit(console.size.height - 1, lines)
        for table, room in zip(tables, lines, strict=False):
            yield Text()
            yield from table.show(room)

    def _head(self) -> Text:
        rates = self.rates
        text = (
            f"lab {rates.lab}: datapath {rates.datapath}, EM {rates.em}, {human(rates.mads)} MADs/s, "
            f"{rates.seconds:.3g} s{self.hint and '   ' + self.hint}"
        )
        return Text(visible(text), no_wrap=True, overflow="ellipsis", style="bold")

    def _tables(self) -> list[_Rows]:
        rates = self.rates
        vnics = _measured(
            ("host", "vesw", "interface", "state"),
            ("tx", "rx"),
            [(_vnic_cells(vnic), pace) for vnic, pace in rates.vnics],
        )
        links = _measured(
            ("link", "state", "datapath"),
            ("->", "<-"),
            [(_link_cells(link), pace) for link, pace in rates.links],
        )
        drops = _Rows(
            ("what was dropped", "reason"),
            ("drops/s", "so far"),
            [_drop_cells(drop) for drop in rates.drops],
            list(range(len(rates.drops))),
        )
        return [table for table in (vnics, links, drops) if table.size]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table that can be shown in fewer lines than it has rows."""

    names: tuple[str, ...]
    numbers: tuple[str, ...]
    cells: Sequence[Sequence[Text]]
    """The rows in display order."""
    busiest: Sequence[int]
    """The indices of all rows, busiest first; the first of them are shown if there is no room for all."""

    @property
    def size(self) -> int:
        return len(self.cells)

    def show(self, room: int) -> Iterator[RenderableType]:
        """Yield the table with its rows in `room` lines, 1 or more."""
        whole = self.size <= room
        shown = range(self.size) if whole else sorted(self.busiest[: room - 1])
        table = Table(box=None, pad_edge=False, collapse_padding=True, header_style=_HEADER)
        for name in self.names:
            table.add_column(_name(name))
        for number in self.numbers:
            table.add_column(_name(number), justify="right", no_wrap=True)
        for index in shown:
            table.add_row(*self.cells[index])
        yield table
        if not whole:
            busy = ", less busy" if shown else ""
            text = f"... and {self.size - len(shown)} more{busy}"
            yield Text(text, no_wrap=True, overflow="ellipsis", style="dim")


def _measured(
    names: tuple[str, ...], ways: tuple[str, ...], rows: Sequence[tuple[list[Text], Pace]]
) -> _Rows:
    return _Rows(
        names,
        (*(f"{way} {pace}" for way in ways for pace in PACES), "drops/s"),
        [[*cells, *_pace_cells(pace)] for cells, pace in rows],
        sorted(range(len(rows)), key=lambda index: rows[index][1].load, reverse=True),
    )


def _vnic_cells(vnic: Vnic) -> list[Text]:
    return [_name(vnic.host), _name(vnic.vesw), _name(vnic.interface), _state(vnic.state)]


def _link_cells(link: Link) -> list[Text]:
    return [_name(link.name), _state(link.state), _name(link.datapath)]


def _drop_cells(drop: DropRate) -> list[Text]:
    rate = Text(human(drop.per_second), style=_TROUBLE)
    return [_name(drop.element), _name(drop.reason), rate, Text(human(drop.total))]


def _pace_cells(pace: Pace) -> list[Text]:
    cells = [Text(human(number)) for number in (pace.tx_packets, pace.tx_bits, pace.rx_packets, pace.rx_bits)]
    return [*cells, Text(human(pace.drops), style=_TROUBLE if pace.drops else "")]


def _name(text: str) -> Text:
    return Text(visible(text), no_wrap=True, overflow="ellipsis")


def _state(text: str) -> Text:
    return Text(visible(text), no_wrap=True, overflow="ellipsis", style="" if text == "up" else _TROUBLE)
