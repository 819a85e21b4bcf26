"""States, events and rates of a lab or a scenario on one time axis: what `timeline.js` draws. Sans-IO.

The same script draws it on the page of a running lab and in the report of a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

from hfi_sim.base.text import visible
from opavnic.state.em import EmEvent
from opavnic.state.fabric import ChangeStatus

SCRIPT: Final = files("opavnic.observe").joinpath("timeline.js").read_text()
"""Defines the element `opavnic-timeline`."""
ELEMENT: Final = "opavnic-timeline"
KEPT: Final = 10_000
"""Marks that a browser keeps."""
_PORT: Final = {
    "port-joined": ("joined", False),
    "port-answers": ("answers", False),
    "port-left": ("left", True),
    "port-forgotten": ("forgotten", True),
    "port-silent": ("silent", True),
    "agent-isolated": ("isolated", True),
}
_VPORT: Final = {
    "vport-configured": ("configured", False),
    "link-up": ("link up", False),
    "link-down": ("link down", True),
    "vport-deleted": ("deleted", False),
}
"""The state that a port or a vport is in after an event of a kind, and whether that is wrong."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something has come into a new state, or has happened."""

    time: float
    group: str
    """fault, link, port, VNIC or EM."""
    name: str
    state: str
    """Empty: it has no state, it happened."""
    is_wrong: bool
    text: str

    def row(self) -> list[Any]:
        """Return it as the script reads it."""
        return [self.time, self.group, self.name, self.state, int(self.is_wrong), self.text]


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate over time."""

    unit: str
    points: Sequence[tuple[float, float]]
    """Time, value; oldest first."""
    gap: float = 0.0
    """Seconds between two points beyond which nothing is known of the time between them; 0: all of it is."""


def marks_of_events(events: Iterable[EmEvent]) -> Iterator[Mark]:
    """Yield what events of the Ethernet Manager say of ports and VNICs, and else of itself."""
    for event in events:
        text, port = visible(event.text), visible(event.port)
        if event.vport_num and event.kind in _VPORT:
            state, wrong = _VPORT[event.kind]
            yield Mark(event.time, "VNIC", f"{port} vport {event.vport_num}", state, wrong, text)
        elif event.kind in _PORT:
            state, wrong = _PORT[event.kind]
            yield Mark(event.time, "port", port, state, wrong, text)
        else:
            yield Mark(event.time, "EM", event.kind, "", False, f"{port} {text}".strip())


def marks_of_changes(changes: Iterable[ChangeStatus], em_node: str) -> Iterator[Mark]:
    """Yield what has happened to links and faults, and to the manager on `em_node` where a fault holds that down."""
    for change in changes:
        yield Mark(change.time, change.kind, change.name, change.state, change.state == "down", change.text)
        if change.text.startswith(f"crash on {em_node}"):
            down = change.state == "active"
            yield Mark(change.time, "EM", "manager", "down" if down else "running", down, "")


def timeline_data(
    marks: Iterable[Mark],
    rates: Mapping[str, Rate],
    now: float,
    *,
    virtual: bool = False,
    reset: bool = False,
) -> dict[str, Any]:
    """Return what the script draws, or adds to what it has drawn.

    Args:  now: the end of what is known, seconds. virtual: the seconds are those of a scenario, not since 1970.
           reset: it is to forget what it has drawn.
    """
    return {
        "clock": "ms" if virtual else "utc",
        "marks": [mark.row() for mark in sorted(marks, key=lambda mark: mark.time)[-KEPT:]],
        "rates": {
            name: {"unit": rate.unit, "gap": rate.gap, "points": list(rate.points)}
            for name, rate in rates.items()
        },
        "now": now,
        "reset": reset,
    }


def timeline_html(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the timeline as parts of a page that opens without a server."""
    text = json.dumps(data).replace("<", "\\u003c")  # nothing of it ends the script element
    yield f'<{ELEMENT}><script type="application/json">{text}</script></{ELEMENT}><script>{SCRIPT}</script>'


# --- events in words ---------------------------------------------------------------------------------------


def event_text(event: EmEvent) -> str:
    """Return an event in a line, without its time; a virtual switch may have any name, also one with line breaks."""
    where = event.port
    if event.vport_num:
        where += f" vport {event.vport_num}"
    return visible(" ".join(part for part in (event.kind, where, event.text) if part))


def clock_text(seconds: float) -> str:
    """Return the time of day, UTC, of a moment in seconds since the Epoch: 13:05:07.250."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]
