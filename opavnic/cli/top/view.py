"""What `opavnic top` prints where it has no screen for itself: the rates of a lab as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from hfi_sim.base.text import counted, visible
from opavnic.base.state import StateModel
from opavnic.observe.rates import DropRate, Paces, Rates, load_of, pace_headings
from opavnic.state.lab import UP, HostStatus, LinkStatus, VnicStatus

_UNITS = ("", "k", "M", "G", "T", "P")
_HEADER = "bold reverse"
_TROUBLE = "red"
_ROWS_SHOWN: Final = 64
"""Rows that a table has as long as it lists everything. A longer one lists what is not up and what is busiest."""
TROUBLES = frozenset({"drops"})
"""Counters that had better not grow."""


def human(number: float) -> str:
    """Return a number of 0 or more with three digits and a prefix for thousands, millions, ...: 1.25M."""
    for unit in _UNITS:
        if number < 999.5 or unit == _UNITS[-1]:
            digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
            text = f"{number:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + unit
        number /= 1000
    raise AssertionError("unreachable: the last unit takes any number")


def head_text(rates: Rates) -> str:
    """Return the line above the tables: the lab, and what runs it."""
    return visible(
        f"lab {rates.lab.lab}: datapath {rates.lab.datapath}, EM {rates.lab.em}, {human(rates.mads)} MADs/s, "
        f"{rates.seconds:.3g} s"
    )


@dataclass(frozen=True, slots=True)
class TopView:
    """The rates of a lab in the given order, printable with rich: a head line and tables."""

    rates: Rates
    whole: bool = False
    """List every VNIC and link, however many there are."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the head line and the tables, as rich's protocol requires."""
        yield Text(head_text(self.rates), no_wrap=True, overflow="ellipsis", style="bold")
        for table in self._tables():
            yield Text()
            yield table.show()
            if table.left_out:
                yield Text(table.left_out)

    def _tables(self) -> list[_Rows]:
        rates = self.rates
        most = max(len(rates.vnics), len(rates.links)) if self.whole else _ROWS_SHOWN
        shown_vnics = _most_telling([(vnic.state, paces) for _, vnic, paces in rates.vnics], most)
        vnics = _measured(
            ("host", "vesw", "interface", "state"),
            VnicStatus,
            [
                (_vnic_cells(host, vnic), paces)
                for host, vnic, paces in map(rates.vnics.__getitem__, shown_vnics)
            ],
            _left_out(len(rates.vnics) - len(shown_vnics), "VNIC"),
        )
        shown_links = _most_telling([(link.state, paces) for link, paces in rates.links], most)
        links = _measured(
            ("link", "state", "datapath"),
            LinkStatus,
            [(_link_cells(link), paces) for link, paces in map(rates.links.__getitem__, shown_links)],
            _left_out(len(rates.links) - len(shown_links), "link"),
        )
        drops = _Rows(
            ("what was dropped", "reason"),
            ("drops/s", "so far"),
            [_drop_cells(drop) for drop in rates.drops],
        )
        return [table for table in (vnics, links, drops) if table.size]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table."""

    names: tuple[str, ...]
    numbers: tuple[str, ...]
    cells: Sequence[Sequence[Text]]
    left_out: str = ""
    """How many rows are not shown; empty if all are."""

    @property
    def size(self) -> int:
        return len(self.cells)

    def show(self) -> RenderableType:
        """Return the table."""
        table = Table(box=None, pad_edge=False, collapse_padding=True, header_style=_HEADER)
        for name in self.names:
            table.add_column(_name(name))
        for number in self.numbers:
            table.add_column(_name(number), justify="right", no_wrap=True)
        for row in self.cells:
            table.add_row(*row)
        return table


def _measured(
    names: tuple[str, ...], model: type[StateModel], rows: Sequence[tuple[list[Text], Paces]], left_out: str
) -> _Rows:
    return _Rows(
        names,
        tuple(pace_headings(model)),
        [[*cells, *_pace_cells(paces)] for cells, paces in rows],
        left_out,
    )


def _most_telling(rows: Sequence[tuple[str, Paces]], most: int) -> list[int]:
    """Return which rows, each a state and paces, are shown, in their order: what is not up first, then the busiest."""
    if len(rows) <= most:
        return list(range(len(rows)))

    def weight(number: int) -> tuple[bool, tuple[float, ...]]:
        state, paces = rows[number]
        return state != UP, load_of(paces)

    return sorted(sorted(range(len(rows)), key=weight, reverse=True)[:most])


def _left_out(count: int, what: str) -> str:
    return f"and {counted(count, f'more {what}')}, less busy; see: opavnic top --all" if count else ""


def _vnic_cells(host: HostStatus, vnic: VnicStatus) -> list[Text]:
    return [_name(host.name), _name(vnic.vesw_text), _name(vnic.interface), _state(vnic.state)]


def _link_cells(link: LinkStatus) -> list[Text]:
    return [_name(link.name), _state(link.state), _name(link.datapath)]


def _drop_cells(drop: DropRate) -> list[Text]:
    rate = Text(human(drop.per_second), style=_TROUBLE)
    return [_name(drop.element), _name(drop.reason), rate, Text(human(drop.total))]


def _pace_cells(paces: Paces) -> list[Text]:
    return [
        Text(human(pace), style=_TROUBLE if name in TROUBLES and pace else "") for name, pace in paces.items()
    ]


def _name(text: str) -> Text:
    return Text(visible(text), no_wrap=True, overflow="ellipsis")


def _state(text: str) -> Text:
    return Text(visible(text), no_wrap=True, overflow="ellipsis", style="" if text == UP else _TROUBLE)
