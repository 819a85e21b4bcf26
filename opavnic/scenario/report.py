"""A page about one test: what happened over time, and the fabric at any moment of it, packets by time and place, lost
ones hop by hop, MADs as a sequence diagram, faults, drops, events.

Text of tests, programs and packets is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.text import xml_text
from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.draw import drawing as topology_drawing
from hfi_sim.fabric.topology.marks import Marks
from opavnic.observe.drawings import packets_drawing
from opavnic.observe.journeys import journeys, messages
from opavnic.observe.pages import drawing, mad_parts, page, table, way_parts
from opavnic.observe.timeline import Rate, marks_of_changes, marks_of_events, timeline_data, timeline_html
from opavnic.state.advice import advice
from opavnic.world.em_node import EM_NODE

if TYPE_CHECKING:
    from opavnic.scenario.scenario import Scenario

PACKETS_DRAWN: Final = 2000
"""The last packets of a test that are drawn; the packet file has more."""
RATE_STEPS: Final = 400
PLACES_DRAWN: Final = 48
LOST_DRAWN: Final = 20
MADS_DECODED: Final = 100
"""The last MADs of a test whose fields are on the page."""
SUSPECTS: Final = 3
"""Places of drops that stand beside the cause."""
_PLACE: Final = re.compile(r"\S+\.py:\d+: .*")


def html_report(scenario: Scenario, name: str, outcome: str, failure: str, repeat: str) -> str:
    """Return the page of a test.

    Args:  name: of the test. outcome: passed or failed. failure: what went wrong, as pytest prints it; may be empty.
           repeat: the command that runs it again.
    """
    parts = [f'<h1 class="{xml_text(outcome)}">{xml_text(cause(failure) if failure else name)}</h1>']
    parts += _suspects(scenario) if failure else []
    parts.append(
        f"<p>{xml_text(name)} {xml_text(outcome)}. Seed {scenario.seed}. Again: <code>{xml_text(repeat)}</code></p>"
    )
    if failure:
        lines = failure.expandtabs().splitlines()
        text = "\n".join(map(xml_text, lines))
        parts.append(f'<details><summary>What pytest says</summary><pre tabindex="0">{text}</pre></details>')
    seen = journeys(scenario.trace.records)
    lost = [journey for journey in seen if journey.dropped is not None]
    cables = topology_drawing(Topology.of_fabric(scenario.fabric), marks=Marks(scenario.links_down))
    parts += ["<h2>What happened</h2>", drawing(cables, "fabric", replayed=True)]
    parts += timeline_html(_over_time(scenario))
    parts += ["<h2>Packets by time and place</h2>", *_packets(scenario)]
    parts += ["<h2>Packets that were lost, hop by hop</h2>", *way_parts(lost, LOST_DRAWN)]
    parts += ["<h2>MADs</h2>", *mad_parts(messages(seen), MADS_DECODED)]
    parts += ["<h2>Faults</h2>", _faults(scenario)]
    parts += ["<h2>Drops</h2>", _drops(scenario)]
    parts += ["<h2>Events</h2>", _events(scenario)]
    return page(f"{outcome}: {name}", parts)


def cause(failure: str) -> str:
    """Return why a test has failed, in a line: the first error of what pytest printed, and the line of the test."""
    lines = failure.expandtabs().splitlines()
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    places = [line for line in lines if _PLACE.fullmatch(line)]
    said = next((line for line in errors if line), next((line for line in lines if line.strip()), ""))
    return f"{said} ({places[0].rpartition(': ')[0]})" if places else said


def _suspects(scenario: Scenario) -> Iterator[str]:
    """Yield what may have caused it: faults that are set, and where most packets were dropped, with the meaning."""
    faults = [row["fault"] for row in scenario.faults.show()]
    if faults:
        yield f"<p>Faults that were set: {xml_text('; '.join(faults))}.</p>"
    drops = [
        (count, element, reason)
        for element, reasons in scenario.fabric.drops().items()
        for reason, count in reasons.items()
    ]
    for count, element, reason in sorted(drops, key=lambda one: -one[0])[:SUSPECTS]:
        what = advice()[reason].what
        yield f"<p>{count} dropped at {xml_text(element)}: {xml_text(reason)}. {xml_text(what)}</p>"


# --- over time ---------------------------------------------------------------------------------------------


def _over_time(scenario: Scenario) -> dict[str, Any]:
    """Return states, events and rates: virtual seconds."""
    changes = list(scenario.changes)
    marks = [*marks_of_changes(changes, EM_NODE), *marks_of_events(scenario.em_events)]
    return timeline_data(marks, _rates(scenario), scenario.clock.time(), virtual=True)


def _rates(scenario: Scenario) -> dict[str, Rate]:
    """Return what entered links, and what was lost, in RATE_STEPS steps of the scenario."""
    records = list(scenario.trace.records)
    if not records:
        return {}
    begin = records[0].time_s
    step = max(scenario.clock.time() - begin, 1e-6) / RATE_STEPS
    bits, drops = [0.0] * (RATE_STEPS + 1), [0.0] * (RATE_STEPS + 1)
    for record in records:
        at = min(int((record.time_s - begin) / step), RATE_STEPS)
        bits[at] += 8 * len(record.packet) / step
        drops[at] += (record.drop is not None) / step
    moments = [begin + step * index for index in range(RATE_STEPS + 1)]
    return {
        "entering links": Rate("bit/s", list(zip(moments, bits, strict=True))),
        "drops": Rate("packets/s", list(zip(moments, drops, strict=True))),
    }


# --- packets -----------------------------------------------------------------------------------------------


def _packets(scenario: Scenario) -> Iterator[str]:
    records = list(scenario.trace.records)[-PACKETS_DRAWN:]
    if not records:
        yield "<p>No packet entered a link.</p>"
        return
    places = list(dict.fromkeys(record.direction for record in records))
    shown = sorted(places[:PLACES_DRAWN])
    yield (
        f"<p>{scenario.trace.packets} packets entered links; the last {len(records)} are drawn, where each did. "
        f'Blue: Ethernet. Green: MADs. <span class="failed">Red crosses: dropped.</span> Point at one to read it.'
        + (f" {len(places) - len(shown)} more links are left out." if len(places) > len(shown) else "")
        + "</p>"
    )
    yield drawing(packets_drawing(records, shown), "packets by time and place")


# --- tables ------------------------------------------------------------------------------------------------


def _faults(scenario: Scenario) -> str:
    rows = scenario.fault_log or scenario.faults.show()
    return table(
        ("number", "fault", "state", "seen", "hits"),
        [(row["number"], row["fault"], row["state"], row["seen"], row["hits"]) for row in rows],
        "No fault was set.",
    )


def _drops(scenario: Scenario) -> str:
    rows = [
        (element, reason, count)
        for element, reasons in scenario.fabric.drops().items()
        for reason, count in reasons.items()
    ]
    return table(("element", "reason", "packets"), rows, "Nothing was dropped.")


def _events(scenario: Scenario) -> str:
    rows = [(f"{when * 1e3:.6f} ms", text) for when, text in scenario.timeline.events]
    return table(("time", "what"), rows, "Nothing happened.")
