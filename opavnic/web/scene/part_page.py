"""Pages about apps and parts, as packages that bring a part describe them: data in, tables and charts out. Sans-IO.

    PAGE = PartPage("weather", "Weather", asks=part_named("weather"), sections=sections)

and in the pyproject.toml of the package `[project.entry-points."opavnic.web"]` with `weather = "weather.web:PAGE"`. The
page is there in labs for which `asks` names something to ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from hfi_sim.base.entry_points import entry_points_of
from opavnic.web.scene.scene import Scene

ENTRY_POINTS: Final = "opavnic.web"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the lab has answered, and what it answered before, which rates are made of."""

    now: Mapping[str, Any]
    """By what was asked for."""
    before: Mapping[str, Any]
    """The same at the look before; of the first look, the same as `now`."""
    seconds: float
    """Between the two."""

    def rate(self, value: float, before: float | None) -> float:
        """Return the growth of a counter per second; 0 if it is new, or began anew."""
        return (
            0.0 if before is None or value < before or self.seconds <= 0 else (value - before) / self.seconds
        )


@dataclass(frozen=True, slots=True)
class TableSection:
    """A table."""

    title: str
    columns: Mapping[str, str]
    """Heading by the key of a row; the first one tells rows apart."""
    rows: Sequence[Mapping[str, object]]
    nothing: str = "none"
    """What is said in place of rows."""
    marked: str = ""
    """The key of a column that says what is wrong."""


@dataclass(frozen=True, slots=True)
class BarSection:
    """Bars, each of stacked pieces."""

    title: str
    unit: str
    bars: Sequence[str]
    pieces: Mapping[str, Sequence[float]]
    """Name of a piece: its length in each bar."""


@dataclass(frozen=True, slots=True)
class PlotSection:
    """Values that are drawn over time, as long as the page is open."""

    title: str
    unit: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NoteSection:
    """A line of text; one that says what is wrong is marked."""

    title: str
    text: str
    wrong: bool = False


Section = TableSection | BarSection | PlotSection | NoteSection
"""Titles of the sections of a page differ; one that stays keeps its place."""


@dataclass(frozen=True, slots=True)
class PartPage:
    """One page."""

    name: str
    """In its address: lower case, no spaces."""
    title: str
    asks: Callable[[Scene], Sequence[str]]
    """Paths of the control API that it is made of; none: the lab has nothing for it."""
    sections: Callable[[Answers], Iterable[Section]]
    every_s: float = field(default=1.0)
    """How often it asks while it is open."""


def part_named(name: str) -> Callable[[Scene], list[str]]:
    """Return what asks for a part."""
    return lambda seen: [f"/parts/{quote(name, safe='')}"] if name in seen.state.parts else []


def apps_of(kind: str) -> Callable[[Scene], list[str]]:
    """Return what asks for all apps of a kind."""
    return lambda seen: [f"/apps/{quote(host, safe='')}" for of, host in seen.app_hosts if of == kind]


def installed_pages() -> list[PartPage]:
    """Return the pages of all installed packages, by name."""
    found = entry_points_of(ENTRY_POINTS)
    return [point.load() for point in sorted(found, key=lambda point: point.name)]
