"""Events of an Ethernet Manager: in words, and over time as an SVG document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from hfi_sim.base.text import visible, xml_text
from opavnic.state.em import EmEvent

LISTED_MAX: Final = 40
"""The last events are listed under the drawing; every dot has its event as a tooltip."""
_WIDTH, _ROW, _LINE, _LEFT, _RIGHT, _TOP, _AXIS = 1000, 24, 16, 150, 30, 10, 40
_TICKS: Final = 5
_TICK_S: Final = 1e-3
"""Ticks show milliseconds: events that all happened at once are drawn on an axis with ticks that far apart."""
_COLOUR, _WRONG_COLOUR, _LINE_COLOUR = "#2f6f9f", "#c0392b", "#e5e5e5"
_WRONG: Final = frozenset({"agent-isolated", "link-down", "port-left", "port-silent", "table-differs"})
"""Kinds that say that something is not as it was configured."""


def event_text(event: EmEvent) -> str:
    """Return an event in a line, without its time; a virtual switch may have any name, also one with line breaks."""
    where = event.port
    if event.vport_num:
        where += f" vport {event.vport_num}"
    return visible(" ".join(part for part in (event.kind, where, event.text) if part))


def clock_text(seconds: float) -> str:
    """Return the time of day, UTC, of a moment in seconds since the Epoch: 13:05:07.250."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]


def as_svg(events: Sequence[EmEvent], title: str) -> str:
    """Return a drawing of events over time, a row for each kind, with the last of them as a list below.

    Args:  events: oldest first. title: what they are of.
    """
    kinds = list(dict.fromkeys(event.kind for event in events))
    listed = [f"{clock_text(event.time)}  {event_text(event)}" for event in events[-LISTED_MAX:]]
    bottom = _TOP + _ROW * len(kinds)
    height = bottom + _AXIS + _LINE * (len(listed) or 1) + _TOP
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="12">',
        f"<title>{xml_text(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        *_drawing(events, kinds, bottom),
        *(
            f'<text x="10" y="{bottom + _AXIS + _LINE * (line + 1)}" xml:space="preserve">{xml_text(text)}</text>'
            for line, text in enumerate(listed or ["no events"])
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _drawing(events: Sequence[EmEvent], kinds: Sequence[str], bottom: float) -> Iterator[str]:
    if not events:
        return
    times: list[float] = [event.time for event in events]
    begin = min(times)
    span = max(max(times) - begin, _TICKS * _TICK_S)
    middle = {kind: _TOP + _ROW * (row + 0.5) for row, kind in enumerate(kinds)}

    def x(when: float) -> float:
        return _LEFT + (when - begin) / span * (_WIDTH - _LEFT - _RIGHT)

    for kind, y in middle.items():
        yield f'<text x="10" y="{y + 4:.1f}">{xml_text(kind)}</text>'
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_LINE_COLOUR}"/>'
    for tick in range(_TICKS + 1):
        when = begin + span * tick / _TICKS
        yield (
            f'<text x="{x(when):.1f}" y="{bottom + _LINE}" font-size="10" text-anchor="middle">'
            f"{clock_text(when)}</text>"
        )
    for event in events:
        colour = _WRONG_COLOUR if event.kind in _WRONG else _COLOUR
        yield (
            f'<circle cx="{x(event.time):.1f}" cy="{middle[event.kind]:.1f}" r="4" fill="{colour}">'
            f"<title>{xml_text(clock_text(event.time))}  {xml_text(event_text(event))}</title></circle>"
        )
