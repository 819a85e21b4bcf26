"""Where the nodes of a fabric are drawn in a browser, and how large, so that they and their names stay apart. Pure.

Each switch that has hosts stands above them, in rows as long as the width allows; what does not fit beside each other
stands in bands below each other, and the drawing becomes as high as that takes: on a phone too, each node has its name.
Trees are drawn in layers, switches of a few others on an ellipse, and of many in rows. Where the lab file gives
positions, those hold.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final
from unicodedata import east_asian_width

from hfi_sim.fabric.topology.draw import Position, layers

PRINT: Final = 12.0
"""Pixels of print on a laptop; the other lengths here are for it, and grow with it."""
_WIDEST: Final = 72.0
_GAP: Final = 8.0
_PADDING: Final = 9.0
_LINE: Final = 24.0
"""Height of a node with one line of print."""
_TAGS: Final = 15.0
"""What the names of virtual switches add to that."""
_RISE: Final = 64.0
_DROP: Final = 46.0
"""Between layers of switches, and between a switch and its hosts: there is room for a rate between them."""
_ROWS: Final = 12
"""Rows of hosts below a switch up to which switches stand beside each other."""
_ROUND: Final = 24
"""Switches that may stand on an ellipse."""
_HIGHER: Final = 1.6
_WIDER: Final = 1.5
_DIGIT: Final = 0.6
"""Width of a character, of the size of its print; of a wide one, and of a sign, 1."""

Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Room:
    """What there is to draw on, in pixels."""

    width: float
    height: float
    """As much as is on view; a drawing may become higher."""
    print: float = PRINT

    @property
    def unit(self) -> float:
        """How much larger than on a laptop everything is."""
        return self.print / PRINT


@dataclass(frozen=True, slots=True)
class Layout:
    """The centre and the size of each node, in pixels, by name, and the height of the whole."""

    at: dict[str, Position]
    size: dict[str, Size]
    height: float

    def is_hidden(self, a: str, b: str) -> bool:
        """Return whether a straight line between two nodes in a row, or in a column, runs behind one between them."""
        for axis in (0, 1):
            low, high = sorted((self.at[a][1 - axis], self.at[b][1 - axis]))
            level = self.at[a][axis]
            if abs(level - self.at[b][axis]) < 1 and any(
                low < at[1 - axis] < high and abs(at[axis] - level) < self.size[name][axis] / 2
                for name, at in self.at.items()
            ):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be drawn."""

    texts: Mapping[str, str]
    """What stands on each node, by its name."""
    leaves: Collection[str]
    """The nodes that are no switches."""
    cables: Sequence[tuple[str, str]]
    tagged: bool = False
    """Whether hosts have names of virtual switches below their own, where there is room."""
    given: Mapping[str, Position] = field(default_factory=dict)
    """Positions in any unit, of some nodes or none."""

    @property
    def near(self) -> dict[str, list[str]]:
        """The neighbours of each node."""
        found: dict[str, list[str]] = {name: [] for name in self.texts}
        for a, b in self.cables:
            found[a].append(b)
            found[b].append(a)
        return found


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is drawn, in pixels; not less. Args: size: of its print."""
    return size * sum(
        1.0 if ord(char) > 0x2000 or east_asian_width(char) in "WF" else _DIGIT for char in text
    )


def layout(plan: Plan, room: Room) -> Layout:
    """Return where to draw each node, and how large."""
    return _Drawn(plan, room).layout()


@dataclass(frozen=True, slots=True)
class _Unit:
    """A switch with its hosts, which stand below it."""

    home: str
    hosts: list[str]


class _Drawn:
    """A drawing that is being laid out."""

    def __init__(self, plan: Plan, room: Room) -> None:
        self.plan = plan
        self.room = room
        self.near = plan.near
        self.at: dict[str, Position] = {}
        self.size: dict[str, Size] = {}
        unit = room.unit
        self.gap, self.line, self.widest = _GAP * unit, _LINE * unit, _WIDEST * unit
        self.wide = {
            name: text_width(text, room.print) + _PADDING * unit for name, text in plan.texts.items()
        }
        self.cell = max((self.wide[name] for name in plan.leaves), default=0.0) + self.gap
        self.host_line = self.line

    def layout(self) -> Layout:
        given = {name: at for name, at in self.plan.given.items() if name in self.plan.texts}
        if given:
            return self._given(given)
        leaves = [name for name in self.plan.texts if name in self.plan.leaves]
        found = layers(leaves, self.near) if leaves else None
        units = self._units()
        if found is not None and len(found) > 1:
            height = self._tree(found[1:], units)
        elif (round_height := self._ellipse(units)) is not None:
            height = round_height
        else:
            height = self._rows_of_units(units)
        return Layout(self.at, self.size, max(height, self.room.height))

    def _units(self) -> list[_Unit]:
        """Return the switches with the hosts that are cabled to each first; a host without a switch is one itself."""
        hosts: dict[str, list[str]] = {name: [] for name in self.plan.texts if name not in self.plan.leaves}
        for name in self.plan.texts:
            if name in self.plan.leaves:
                home = next((far for far in self.near[name] if far not in self.plan.leaves), None)
                if home is None:
                    hosts[name] = []
                else:
                    hosts[home].append(name)
        return [_Unit(home, names) for home, names in hosts.items()]

    # --- trees -------------------------------------------------------------------------------------------

    def _tree(self, switches: Sequence[Sequence[str]], units: list[_Unit]) -> float:
        """Place a tree. Args: switches: in layers, the lowest first. Returns the height that it takes."""
        lowest = set(switches[0])
        units = [unit for unit in units if unit.home in lowest]
        bands, rows = self._bands(units)
        single = rows == 1 and len(bands) == 1
        many = max(sum(len(unit.hosts) for unit in units), 1)
        if single and self.plan.tagged and self.room.width / many >= self.widest:
            self.host_line = self.line + _TAGS * self.room.unit
        upper = [self._wrapped(names) for names in reversed(switches[1:])]
        drops = sum(any(unit.hosts for unit in band) for band in bands)
        fixed = sum(len(lines) for lines in upper) + len(bands)
        needed = (
            2 * self.gap + fixed * (self.line + 2 * self.gap) + drops * rows * (self.host_line + self.gap)
        )
        unit = self.room.unit
        needed += len(upper) * _RISE * unit + drops * _DROP * unit
        spare = max(self.room.height - needed, 0.0) / max(len(upper) + drops, 1)
        rise, drop = _RISE * unit + spare, _DROP * unit + spare
        y = self.gap
        for lines in upper:
            for number, names in enumerate(lines):
                self._row(names, y, number, len(lines))
                y += self.line + 2 * self.gap
            y += rise
        for band in bands:
            y = self._band(band, y, rows, drop) + self.gap
        return y

    def _bands(self, units: list[_Unit]) -> tuple[list[list[_Unit]], int]:
        """Return the units in bands, and in how many rows their hosts stand."""
        for count in range(1, len(units) + 1):
            each = math.ceil(len(units) / count)
            bands = [units[first : first + each] for first in range(0, len(units), each)]
            most = _ROWS if count < len(units) else max(len(unit.hosts) for unit in units) or 1
            for rows in range(1, most + 1):
                if all(sum(self._least(unit, rows) for unit in band) <= self.room.width for band in bands):
                    return bands, rows
        return [[unit] for unit in units], max(len(unit.hosts) for unit in units) or 1

    def _least(self, unit: _Unit, rows: int) -> float:
        """Return how wide a unit is at least."""
        return max(self.wide[unit.home] + self.gap, math.ceil(len(unit.hosts) / rows) * self.cell)

    def _band(self, band: Sequence[_Unit], y: float, rows: int, drop: float) -> float:
        """Place units beside each other over the whole width; return where the band ends."""
        least = [self._least(unit, rows) for unit in band]
        spare = max(self.room.width - sum(least), 0.0)
        shares = [max(math.ceil(len(unit.hosts) / rows), 1) for unit in band]
        left = 0.0
        end = y + self.line
        for unit, wide, share in zip(band, least, shares, strict=True):
            wide += spare * share / sum(shares)
            end = max(end, self._unit(unit, left, wide, y, rows, drop))
            left += wide
        return end

    def _unit(self, unit: _Unit, left: float, wide: float, y: float, rows: int, drop: float) -> float:
        """Place a switch and its hosts; return where they end."""
        self._put(unit.home, left + wide / 2, y + self.line / 2, wide)
        columns = max(math.ceil(len(unit.hosts) / rows), 1)
        step = wide / columns
        y += self.line + drop
        for index, name in enumerate(unit.hosts):
            in_row = min(columns, len(unit.hosts) - index // columns * columns)
            x = left + wide / 2 + (index % columns - (in_row - 1) / 2) * step
            self._put(name, x, y + self.host_line / 2 + index // columns * (self.host_line + self.gap), step)
        used = math.ceil(len(unit.hosts) / columns)
        return y + used * (self.host_line + self.gap) if used else y - drop

    def _put(self, name: str, x: float, y: float, room: float) -> None:
        high = self.host_line if name in self.plan.leaves else self.line
        self.at[name] = (x, y)
        self.size[name] = (max(min(room - self.gap, self.widest), self.wide[name]), high)

    def _wrapped(self, names: Sequence[str]) -> list[Sequence[str]]:
        """Return names in as many rows as their widths need, about as many in each."""
        widest = max(self.wide[name] for name in names) + self.gap
        most = int(self.room.width // widest)
        if len(names) > most:  # rows below each other are shifted by half a place
            most = int(self.room.width / widest - 0.5)
        rows = math.ceil(len(names) / max(most, 1))
        each = math.ceil(len(names) / rows)
        return [names[first : first + each] for first in range(0, len(names), each)]

    def _row(self, names: Sequence[str], y: float, number: int, rows: int) -> None:
        """Place a row of switches. Args: number: of the rows of its layer, which are shifted against each other."""
        shift = 0.5 * (number % 2) if rows > 1 else 0.0
        step = self.room.width / (len(names) + (0.5 if rows > 1 else 0.0))
        for index, name in enumerate(names):
            self._put(name, step * (index + 0.5 + shift), y + self.line / 2, step)

    # --- what is no tree ---------------------------------------------------------------------------------

    def _block(self, unit: _Unit) -> tuple[float, float, int]:
        """Return the width and height of a unit by itself, and its rows of hosts."""
        rows = math.ceil(math.sqrt(len(unit.hosts) / 2)) or 1
        high = self.line + self.gap
        if unit.hosts:
            high += _DROP / 2 * self.room.unit + rows * (self.host_line + self.gap)
        return self._least(unit, rows), high, rows

    def _ellipse(self, units: Sequence[_Unit]) -> float | None:
        """Place units on an ellipse; return its height, or None where they are too many for one."""
        if len(units) > _ROUND:
            return None
        blocks = [self._block(unit) for unit in units]
        wide, high = max(block[0] for block in blocks), max(block[1] for block in blocks)
        height = self.room.height
        while height <= max(self.room.height, self.room.width) * _HIGHER:
            radius = (self.room.width - wide) / 2, (height - high) / 2
            turns = [2 * math.pi * index / len(units) for index in range(len(units))]
            at = [
                (self.room.width / 2 + radius[0] * math.sin(turn), height / 2 - radius[1] * math.cos(turn))
                for turn in turns
            ]
            if min(radius) > 0 and all(
                abs(a[0] - b[0]) >= wide or abs(a[1] - b[1]) >= high for a, b in combinations(at, 2)
            ):
                for unit, (x, y), block in zip(units, at, blocks, strict=True):
                    drop = _DROP / 2 * self.room.unit
                    self._unit(unit, x - block[0] / 2, block[0], y - block[1] / 2, block[2], drop)
                return height
            height *= 1.1
        return None

    def _rows_of_units(self, units: Sequence[_Unit]) -> float:
        """Place units in rows; return the height that they take."""
        blocks = [self._block(unit) for unit in units]
        wide, high = max(block[0] for block in blocks), max(block[1] for block in blocks)
        most = max(int(self.room.width // wide), 1)
        whole = [each for each in range(2, most + 1) if len(units) % each == 0]
        wanted = math.sqrt(_WIDER * len(units))  # a torus is seen as one
        each = min(whole, key=lambda each: abs(each - wanted)) if whole else most
        rows = math.ceil(len(units) / each)
        step = max(self.room.height / rows, high + _DROP / 2 * self.room.unit)
        for index, (unit, block) in enumerate(zip(units, blocks, strict=True)):
            slot = self.room.width / each
            left = slot * (index % each) + (slot - block[0]) / 2
            y = step * (index // each) + (step - high) / 2
            self._unit(unit, left, block[0], y, block[2], _DROP / 2 * self.room.unit)
        return step * rows

    # --- positions of the lab file -----------------------------------------------------------------------

    def _given(self, given: Mapping[str, Position]) -> Layout:
        """Draw nodes where the lab file has them, and each other one in a row below a neighbour that is drawn."""
        at = self._scaled(given)
        while left_over := [name for name in self.plan.texts if name not in at]:
            rows: dict[str, list[str]] = {}
            for name in left_over:
                if home := next((far for far in self.near[name] if far in at), ""):
                    rows.setdefault(home, []).append(name)
            if not rows:  # no cable joins them to what has a position
                rows = {"": left_over}
            for home, names in rows.items():
                x, y = at.get(home, (self.room.width / 2, self.room.height))
                step = max(self.wide[name] for name in names) + self.gap
                at |= {
                    name: (x + (index - (len(names) - 1) / 2) * step, y + self.line + _DROP * self.room.unit)
                    for index, name in enumerate(names)
                }
        high = max(y for _, y in at.values())
        if len(at) > len(given):  # what was added has to be on the area, too
            at = self._scaled(at)
            high = self.room.height
        room = self._nearest(at)
        wide = {name: min(max(room, 3.0), max(self.widest, self.wide[name])) for name in at}
        return Layout(at, {name: (wide[name], self.line) for name in at}, max(high, self.room.height))

    def _scaled(self, at: Mapping[str, Position]) -> dict[str, Position]:
        """Return positions in their proportions over the whole area."""
        left, top = (min(place[axis] for place in at.values()) for axis in (0, 1))
        wide, high = (
            max(place[axis] for place in at.values()) - least for axis, least in ((0, left), (1, top))
        )
        side = max(self.wide.values()) / 2 + self.gap / 2
        area = self.room.width - 2 * side, self.room.height - self.line - 2 * self.gap
        scale = min(area[0] / wide if wide else math.inf, area[1] / high if high else math.inf)
        scale = scale if scale < math.inf else 1.0
        x0 = (self.room.width - wide * scale) / 2
        y0 = (self.room.height - high * scale) / 2
        return {name: (x0 + (x - left) * scale, y0 + (y - top) * scale) for name, (x, y) in at.items()}

    def _nearest(self, at: Mapping[str, Position]) -> float:
        """Return how wide all nodes may be: those at one height stay apart."""
        nearest = math.inf
        ordered = sorted(at.values(), key=lambda place: place[1])
        for index, (x, y) in enumerate(ordered):
            for other_x, other_y in ordered[index + 1 :]:
                if other_y - y >= self.line:
                    break
                nearest = min(nearest, abs(other_x - x) or nearest)
        return nearest - self.gap
