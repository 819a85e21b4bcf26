"""State machines in docs/: a picture of each table of states, and the steps of the EM's dialogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from hfi_sim.base.state_table import StateTable
from tools.generate.origins import module_file
from tools.generate.sections import Section, fill, note
from vema.em.core import steps

TABLES: Final[dict[str, tuple[StateTable[Any, Any], str]]] = {
    "em-port-life": (steps.LIFE, steps.__name__),
}
"""The name of each picture, its table and the module that declares it."""
_STEPS_PAGE: Final = "docs/explanation/em.md"
_WIDTH, _HEIGHT = 140, 54
_PITCH: Final = 104
"""From the top of one state to the next."""
_CHARACTER: Final = 6.6
_LINE: Final = 14


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the pictures, and the page with the steps of the dialogue."""
    for name, (table, module) in TABLES.items():
        yield f"docs/pictures/{name}.svg", picture(table, module_file(module))
    section = Section("\n".join(_steps()) + "\n", module_file(steps.__name__))
    yield _STEPS_PAGE, fill(root / _STEPS_PAGE, {"em-steps": section})


def _steps() -> Iterator[str]:
    yield from ("| step | request | due while |", "|---|---|---|")
    for step in steps.Step:
        request = f"{'Set' if step.is_set else 'Get'} {step.attr_id.name}"
        yield f"| {'port' if step.about_port else 'vport'}: {step.name} | {request} | {step.due_while} |"


class _Arrow(NamedTuple):
    """An arrow between two states, by their places in the column, and its events."""

    start: int
    end: int
    events: tuple[str, ...]

    @property
    def bow(self) -> int:
        return 20 + 56 * abs(self.end - self.start)

    @property
    def reach(self) -> float:
        return 0.75 * self.bow + 20 + _CHARACTER * max(map(len, self.events))


def picture(table: StateTable[Any, Any], origin: str) -> str:
    """Return an SVG: the states in a column, arrows down on its right, arrows up on its left.

    Events after which a state stays as it is stand in its box.
    """
    events: dict[tuple[Any, Any], list[str]] = {}
    for before, event, after in table.rows:
        for state in before:
            events.setdefault((state, after), []).append(event.value)
    states = list(dict.fromkeys(state for before, _, after in table.rows for state in (*before, after)))
    arrows = [
        _Arrow(states.index(a), states.index(b), tuple(words)) for (a, b), words in events.items() if a != b
    ]
    left = round(max((arrow.reach for arrow in arrows if arrow.end < arrow.start), default=0)) + 10
    right = round(max((arrow.reach for arrow in arrows if arrow.end > arrow.start), default=0)) + 10
    width, height = left + _WIDTH + right, _PITCH * (len(states) - 1) + _HEIGHT + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<!-- {note(origin)} -->",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#334"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, state in enumerate(states):
        top, stays = 10 + _PITCH * number, events.get((state, state), [])
        lines.append(
            f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#e8f2e4" stroke="#334"/>'
        )
        words = [state.value, *(f"\u21bb {word}" for word in stays)]
        lines += _text(left + _WIDTH / 2, top + _HEIGHT / 2, words, "middle")
    labels: list[str] = []
    for arrow in arrows:
        down = arrow.end > arrow.start
        side, out = (left + _WIDTH, 1) if down else (left, -1)
        y1, y2 = (_attached(arrow, arrows, place) for place in (arrow.start, arrow.end))
        bow = side + out * arrow.bow
        lines.append(
            f'<path d="M{side} {y1}C{bow} {y1} {bow} {y2} {side} {y2}" fill="none" stroke="#334" marker-end="url(#a)"/>'
        )
        x = side + out * (0.75 * arrow.bow + 6)
        labels += _text(x, (y1 + y2) / 2, arrow.events, "start" if down else "end")
    return "\n".join([*lines, *labels, "</svg>", ""])


def _attached(arrow: _Arrow, arrows: Sequence[_Arrow], place: int) -> int:
    """Return where an arrow meets the side of a state: the arrows there are spread over its height."""
    down = arrow.end > arrow.start
    here = [one for one in arrows if (one.end > one.start) == down and place in one[:2]]
    other = {one: one.start + one.end - place for one in here}
    here.sort(key=lambda one: (other[one] > place, -other[one]))  # so that arcs lie in one another
    return 10 + _PITCH * place + round(_HEIGHT * (here.index(arrow) + 1) / (len(here) + 1))


def _text(x: float, y: float, words: Sequence[str], anchor: str) -> Iterator[str]:
    """Yield lines of text around a point, on a white edge where an arrow passes below them."""
    first = y + 4 - _LINE * (len(words) - 1) / 2
    for number, line in enumerate(words):
        edge = "" if anchor == "middle" else ' stroke="white" stroke-width="4" paint-order="stroke"'
        weight = ' font-weight="bold"' if anchor == "middle" and not number else ""
        yield (
            f'<text x="{x:g}" y="{first + _LINE * number:g}" text-anchor="{anchor}"{edge}{weight}>{escape(line)}</text>'
        )
