"""The run of a lab as one page that opens without a network: what is wrong, what happened, what was dropped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hfi_sim.base.text import counted, visible, xml_text
from hfi_sim.fabric.topology.draw import drawing as topology_drawing
from hfi_sim.fabric.topology.model import Topology
from opavnic.observe.pages import drawing, page, table
from opavnic.observe.timeline import (
    Rate,
    clock_text,
    event_text,
    marks_of_changes,
    marks_of_events,
    timeline_data,
    timeline_html,
)
from opavnic.state.advice import advice
from opavnic.state.em import EmEvent
from opavnic.state.fabric import ChangeStatus
from opavnic.web.scene.scene import EM_NODE, Scene

EVENTS: Final = 1000
"""The last events of the Ethernet Manager that are on the page."""
_NAMED: Final = 3


def run_page(
    seen: Scene,
    topology: Topology,
    changes: Iterable[ChangeStatus],
    events: Sequence[EmEvent],
    rates: Mapping[str, Rate],
    now: float,
) -> str:
    """Return the page. Args: now: the end of what is known, seconds since the Epoch."""
    wrong = list(what_is_wrong(seen))
    marks = [*marks_of_changes(changes, EM_NODE), *marks_of_events(events)]
    lab = visible(seen.state.lab)
    kind = "failed" if wrong else "passed"
    first = "; ".join(wrong) if wrong else f"Nothing is wrong in lab {lab}"
    parts = [
        f'<h1 class="{kind}">{xml_text(first)}</h1>',
        f"<p>Lab {xml_text(lab)} as it was at {clock_text(now)} UTC: {xml_text(seen.summary)}</p>",
        "<h2>What happened</h2>",
        fabric_drawing(topology),
        *timeline_html(timeline_data(marks, rates, now)),
        "<h2>Drops</h2>",
        table(("element", "reason", "packets", "what it means"), _drops(seen), "Nothing was dropped."),
        "<h2>Faults</h2>",
        table(
            ("number", "fault", "state", "seen", "hits"),
            [(fault.number, fault.fault, fault.state, fault.seen, fault.hits) for fault in seen.faults],
            "No fault is set.",
        ),
        "<h2>Events of the Ethernet Manager</h2>",
        table(
            ("time, UTC", "event"),
            [(clock_text(event.time), event_text(event)) for event in reversed(events[-EVENTS:])],
            "Nothing happened.",
        ),
    ]
    return page(f"{lab} - opavnic", parts)


def fabric_drawing(topology: Topology) -> str:
    """Return the drawing in which a timeline shows what was so, as a part of a page."""
    return drawing(topology_drawing(topology), "fabric", replayed=True)


def what_is_wrong(seen: Scene) -> Iterator[str]:
    """Yield what is wrong in a lab now, the cause first: faults, links, VNICs."""
    yield from _some("fault is set", "faults are set", [fault.fault for fault in seen.faults])
    yield from _some("link is down", "links are down", [link.name for link in seen.links if not link.up])
    vnics = [f"{host.name}/{vnic.interface}" for host, vnic, _ in seen.vnics if not vnic.is_up]
    yield from _some("VNIC is not up", "VNICs are not up", vnics)


def _some(one: str, several: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = ", ".join(map(visible, names[:_NAMED])) + more
        yield f"{counted(len(names), one, several)}: {listed}"


def _drops(seen: Scene) -> list[tuple[str, str, int, str]]:
    meaning = advice()
    rows = [
        (element, reason, count, meaning[reason].what if reason in meaning else "")
        for element, reasons in seen.state.drops.items()
        for reason, count in reasons.items()
        if count
    ]
    return sorted(rows, key=lambda row: -row[2])
