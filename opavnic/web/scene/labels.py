"""Where what is said about links stands in a drawing: on its link, and upon nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.fabric.topology.draw import Position
from opavnic.web.scene.layout import Size

_ALONG: Final = (0.5, 0.42, 0.58, 0.35, 0.65, 0.28, 0.72, 0.2, 0.8, 0.14, 0.86)
"""Places along a link that are tried, of its length."""
_APART: Final = 2.0
_MIDDLE: Final = 1 / 3
"""Of a label's width."""

Box = tuple[Position, Size]
"""Centre and size."""
Line = tuple[Position, Position]
"""Its ends."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text that is to stand on a link."""

    link: int
    """What it belongs to: a number of the caller."""
    text: str
    size: Size
    ends: Line
    bend: float
    """As ECharts has it: of the length of the link, to the left."""
    alone: bool = False
    """Whether it is to stand where the fewest other links pass its middle: it would seem to be said of them, too."""

    def at(self, share: float) -> Position:
        """Return a point of the link, which is a curve of Bezier with one point beside its middle."""
        (ax, ay), (bx, by) = self.ends
        cx = (ax + bx) / 2 - (ay - by) * self.bend
        cy = (ay + by) / 2 - (bx - ax) * self.bend
        near, far = (1 - share) ** 2, share**2
        half = 2 * share * (1 - share)
        return near * ax + half * cx + far * bx, near * ay + half * cy + far * by


def placed(
    labels: Iterable[Label], nodes: Iterable[Box], area: Size, lines: Iterable[Line] = ()
) -> Iterator[tuple[Label, Position]]:
    """Yield the labels that have room, each with its centre.

    Args:  labels: those that matter most first. nodes: which no label covers. area: which all are in. lines: all links.
    """
    taken, links = list(nodes), set(map(frozenset, lines))
    for label in labels:
        others = [tuple(link) for link in links - {frozenset(label.ends)}] if label.alone else []
        room = (
            (at, label.size)
            for at in map(label.at, _ALONG)
            if _inside(at, label.size, area) and not any(_meet((at, label.size), box) for box in taken)
        )
        if box := min(room, key=lambda box: _crossings(others, box), default=None):
            taken.append(box)
            yield label, box[0]


def _inside(at: Position, size: Size, area: Size) -> bool:
    return all(size[axis] / 2 <= at[axis] <= area[axis] - size[axis] / 2 for axis in (0, 1))


def _meet(one: Box, other: Box) -> bool:
    sizes: Sequence[Size] = (one[1], other[1])
    return all(
        abs(one[0][axis] - other[0][axis]) < (sizes[0][axis] + sizes[1][axis]) / 2 + _APART for axis in (0, 1)
    )


def _crossings(lines: Sequence[Sequence[Position]], box: Box) -> list[int]:
    """Return how many lines pass the middle of a label, where they hurt most, and all of it."""
    at, (width, height) = box
    return [sum(_crosses(line, (at, (width * part, height))) for line in lines) for part in (_MIDDLE, 1)]


def _crosses(line: Sequence[Position], box: Box) -> bool:
    """Return whether a straight line passes a box: on both axes, some part of it is there at once."""
    (centre, size), (near, far) = box, line
    begin, end = 0.0, 1.0
    for axis in (0, 1):
        length, there = far[axis] - near[axis], centre[axis] - near[axis]
        if not length:
            if abs(there) > size[axis] / 2:
                return False
            continue
        first, last = sorted(((there - size[axis] / 2) / length, (there + size[axis] / 2) / length))
        begin, end = max(begin, first), min(end, last)
    return begin <= end
