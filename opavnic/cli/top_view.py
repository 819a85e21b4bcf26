"""What `opavnic top` shows: the rates of a lab as lines of text, as many as fit."""

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
"""Lines of a table that are not rows: an empty one above it, and the header."""
_LEAST = 3
"""Lines below which a table that has more is not worth its place."""
_HEADER = "bold reverse"
_TROUBLE = "red"


def human(number: float) -> str:
    """Return a number of 0 or more with three digits and the unit of a thousand, a million, ...: 1.25M."""
    for unit in _UNITS:
        if number < 999.5 or unit == _UNITS[-1]:
            digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
            text = f"{number:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + unit
        number /= 1000
    raise AssertionError("not reached: the last unit takes any number")


def share(room: int, wanted: Sequence[int]) -> list[int]:
    """Return how many of `room` lines each table gets: what it wants, or as many as any other that wants more."""
    given = [0] * len(wanted)
    while hungry := [index for index, want in enumerate(wanted) if given[index] < want]:
        for index in hungry:
            if room <= 0:
                return given
            given[index] += 1
            room -= 1
    return given


def fit(height: int, wanted: Sequence[int]) -> list[int]:
    """Return how many lines each table gets for its rows; where there is no room, the last tables are left out."""
    for shown in range(len(wanted), 0, -1):
        room = height - _AROUND * shown
        least = min(_LEAST * shown, sum(wanted[:shown])) if shown > 1 else 1
        if room >= least:
            return share(room, wanted[:shown])
    return []


@dataclass(frozen=True, slots=True)
class TopView:
    """The rates of a lab, in their order, for rich to print: a head line and tables."""

    rates: Rates
    fit: bool = False
    """Show what fits in the height of the terminal: of a table that does not, the busiest rows."""
    hint: str = ""
    """More for the head line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Print head and tables, as rich calls it; the size of the terminal is that of now."""
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
    """A table that can be shown in less lines than it has rows."""

    names: tuple[str, ...]
    numbers: tuple[str, ...]
    cells: Sequence[Sequence[Text]]
    """The rows, in the order in which they are shown."""
    busiest: Sequence[int]
    """The indices of all rows, the busiest first: those are shown where not all can be."""

    @property
    def size(self) -> int:
        return len(self.cells)

    def show(self, room: int) -> Iterator[RenderableType]:
        """Yield the table in `room` lines, 1 or more, and the header."""
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
