"""The tables of `opavnic top` on a terminal: cells that sort by their values, not by the text shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hfi_sim.base.text import visible
from opavnic.cli.top.view import TROUBLES, human
from opavnic.observe.flows import Flow
from opavnic.observe.rates import Paces, Rates, natural, pace_headings
from opavnic.state.fabric import FaultsSet, LanesState, LaneStatus
from opavnic.state.lab import UP, LinkStatus, VnicStatus

TROUBLE: Final = "red"


@dataclass(frozen=True, slots=True)
class Cell:
    """One value and what is shown of it."""

    value: float | str
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class GridRow:
    """What one thing of a lab has in a table."""

    key: str
    """What it is known by from poll to poll; for places of faults, the place."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its name, headings, and rows."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]

    def arranged(self, wanted: str, column: int, descending: bool) -> Grid:
        """Return it with the rows whose cells contain `wanted` in any case, in the order of a column."""
        folded = wanted.casefold()
        rows = [row for row in self.rows if any(folded in cell.text.casefold() for cell in row.cells)]
        rows.sort(key=lambda row: natural(row.key))
        rows.sort(key=lambda row: _order(row.cells[column].value), reverse=descending)
        return replace(self, rows=tuple(rows))


def _order(value: float | str) -> tuple[float, list[tuple[int, str]]]:
    return (0.0, natural(value)) if isinstance(value, str) else (value, [])


def name_cell(text: str) -> Cell:
    """Return the cell of a name; nothing in it can steer the terminal."""
    return Cell(text, visible(text))


def state_cell(text: str) -> Cell:
    """Return the cell of a state, which is trouble unless it is up."""
    return Cell(text, visible(text), "" if text == UP else TROUBLE)


def number_cell(number: float, *, trouble: bool = False) -> Cell:
    """Return the cell of a number of 0 or more. Args: trouble: it had better be 0."""
    return Cell(number, human(number), TROUBLE if trouble and number else "")


def _pace_cells(paces: Paces) -> list[Cell]:
    return [number_cell(pace, trouble=name in TROUBLES) for name, pace in paces.items()]


def vnics(found: Rates) -> Grid:
    """Return the VNICs; the key of a row is `host/interface`."""
    rows = [
        GridRow(
            f"{host.name}/{vnic.interface}",
            (
                *map(name_cell, (host.name, vnic.vesw_text, vnic.interface)),
                state_cell(vnic.state),
                *_pace_cells(paces),
            ),
        )
        for host, vnic, paces in found.vnics
    ]
    return Grid("VNICs", ("host", "vesw", "interface", "state", *pace_headings(VnicStatus)), tuple(rows))


def links(found: Rates) -> Grid:
    """Return the links; the key of a row is the cable, as places of faults have it: `h1:1--sw0:2`."""
    rows = [
        GridRow(link.cable, (name_cell(link.name), state_cell(link.state), *_pace_cells(paces)))
        for link, paces in found.links
    ]
    return Grid("Links", ("link", "state", *pace_headings(LinkStatus)), tuple(rows))


def drops(found: Rates) -> Grid:
    """Return the drop counters that grew."""
    rows = [
        GridRow(
            f"{drop.element} {drop.reason}",
            (
                name_cell(drop.element),
                name_cell(drop.reason),
                number_cell(drop.per_second, trouble=True),
                number_cell(drop.total),
            ),
        )
        for drop in found.drops
    ]
    return Grid("Drops", ("what was dropped", "reason", "drops/s", "so far"), tuple(rows))


def faults(answer: FaultsSet) -> Grid:
    """Return the faults; the key of a row is the number of its fault."""
    rows = [
        GridRow(
            str(fault.number),
            (
                Cell(float(fault.number), str(fault.number)),
                name_cell(fault.fault),
                name_cell(fault.state),
                number_cell(fault.seen),
                number_cell(fault.hits),
            ),
        )
        for fault in answer.faults
    ]
    return Grid("Faults", ("no.", "fault", "state", "seen", "hits"), tuple(rows))


def lanes(answer: LanesState, before: LanesState | None, seconds: float) -> Grid:
    """Return the virtual lanes of a link.

    Args:  before: the lanes `seconds` ago; None: nothing was asked then, and nothing has grown.
    """
    old = {(way.name, lane.vl): lane for way in (before or answer).directions for lane in way.vls}
    rows = [
        _lane(way.name, lane, old.get((way.name, lane.vl), lane), seconds)
        for way in answer.directions
        for lane in way.vls
    ]
    columns = ("direction", "VL", "pkt/s", "bit/s", "waits", "disc/s", "FECN/s", "credits", "waiting", "held")
    return Grid("VLs", columns, tuple(rows))


def _lane(way: str, lane: LaneStatus, old: LaneStatus, seconds: float) -> GridRow:
    def grown(now: int, before: int) -> float:
        return max(0, now - before) / seconds

    waits = grown(lane.wait_ns, old.wait_ns) / 1e9
    held = [
        Cell(-1.0, "-") if size is None else number_cell(size)
        for size in (lane.credits, lane.waiting, lane.occupied)
    ]
    return GridRow(
        f"{way} {lane.vl}",
        (
            name_cell(way),
            Cell(float(lane.vl), str(lane.vl)),
            number_cell(grown(lane.packets, old.packets)),
            number_cell(8 * grown(lane.bytes, old.bytes)),
            Cell(waits, f"{min(waits, 1):.0%}", TROUBLE if waits > 0.5 else ""),
            number_cell(grown(lane.discards, old.discards), trouble=True),
            number_cell(grown(lane.fecn, old.fecn), trouble=True),
            *held,
        ),
    )


def flows(
    now: Mapping[Flow, tuple[int, int]], before: Mapping[Flow, tuple[int, int]], seconds: float
) -> Grid:
    """Return flows, with their packets and bytes now and `seconds` ago."""
    rows = []
    for flow, (packets, size) in now.items():
        old_packets, old_size = before.get(flow, (0, 0))
        rows.append(
            GridRow(
                f"{flow.source} {flow.target} {flow.protocol}",
                (
                    *map(name_cell, (flow.source, flow.target, flow.protocol)),
                    number_cell((packets - old_packets) / seconds),
                    number_cell(8 * (size - old_size) / seconds),
                    number_cell(packets),
                ),
            )
        )
    return Grid("Flows", ("from", "to", "protocol", "pkt/s", "bit/s", "packets"), tuple(rows))


def window(total: int, room: int, cursor: int, first: int) -> int:
    """Return the first row to show of `total` in `room` lines, so that the cursor is seen, near where it was."""
    first = min(first, cursor, max(0, total - room))
    return max(first, cursor - room + 1, 0)


def is_number(grid: Grid, column: int) -> bool:
    """Return whether a column has numbers, which sort from the largest on at first."""
    return any(not isinstance(row.cells[column].value, str) for row in grid.rows)


def widths(grid: Grid, shown: Sequence[GridRow], width: int) -> list[int]:
    """Return the width of each column; where there is too little, the widest column of names gives way."""
    wanted = [
        max([len(heading), *(len(row.cells[column].text) for row in shown)])
        for column, heading in enumerate(grid.columns)
    ]
    names = [column for column in range(len(wanted)) if not is_number(grid, column)] or [0]
    over = sum(wanted) + len(wanted) - 1 - width
    while over > 0:
        widest = max(names, key=lambda column: wanted[column])
        if wanted[widest] <= _LEAST_NAME:
            break
        wanted[widest] -= 1
        over -= 1
    return wanted


_LEAST_NAME: Final = 6


def cut(text: str, width: int) -> str:
    """Return text in at most `width` characters, with an ellipsis where it is cut."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def tabs(grids: Iterable[Grid]) -> list[str]:
    """Return the names of tables with the numbers of their rows."""
    return [f"{number} {grid.name} {len(grid.rows)}" for number, grid in enumerate(grids, start=1)]
