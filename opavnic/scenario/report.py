"""A page about one test: fabric, what happened over time, packets by time and place, lost ones hop by hop, MADs as a
sequence diagram, faults, drops, events.

Text of tests, programs and packets is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.text import xml_text
from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.draw import as_svg
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import l4_of
from opavnic.decode.summary import summarize
from opavnic.observe.html_page import drawing, page, table
from opavnic.observe.journeys import journeys
from opavnic.observe.mad_sequence import messages
from opavnic.observe.packet_page import mad_parts, way_parts
from opavnic.observe.timeline import Rate, marks_of_changes, marks_of_events, timeline_data, timeline_html
from opavnic.state.advice import advice
from opavnic.state.fabric import ChangeStatus
from opavnic.world.em_node import EM_NODE

if TYPE_CHECKING:
    from hfi_sim.fabric.trace import TracedPacket
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
_WIDTH, _ROW, _LEFT, _TOP, _BOTTOM = 1100, 18, 190, 10, 30
_TICKS: Final = 8
_COLOURS: Final[dict[int, str]] = {L4.ETHERNET: "#2f6f9f", L4.FM: "#3f7332"}
_OTHER, _DROPPED = "#7f6a9a", "#c0392b"


def html_report(scenario: Scenario, name: str, outcome: str, failure: str, repeat: str) -> str:
    """Return the page of a test.

    Args:  name: of the test. outcome: passed or failed. failure: what went wrong, as pytest prints it; may be empty.
           repeat: the command that runs it again.
    """
    parts = [
        f'<h1>{xml_text(name)} <span class="{xml_text(outcome)}">{xml_text(outcome)}</span></h1>',
        f"<p>Seed {scenario.seed}. Again: <code>{xml_text(repeat)}</code></p>",
    ]
    if failure:
        lines = failure.expandtabs().splitlines()
        parts[1:1] = [
            f'<p class="failed"><strong>{xml_text(cause(failure))}</strong></p>',
            *_suspects(scenario),
        ]
        text = "\n".join(map(xml_text, lines))
        parts.append(f'<details><summary>What pytest says</summary><pre tabindex="0">{text}</pre></details>')
    seen = journeys(scenario.trace.records)
    lost = [journey for journey in seen if journey.dropped is not None]
    parts += ["<h2>Fabric</h2>", drawing(_topology(scenario), "fabric")]
    parts += ["<h2>What happened</h2>", *timeline_html(_over_time(scenario))]
    parts += ["<h2>Packets by time and place</h2>", *_packets(scenario)]
    parts += ["<h2>Packets that were lost, hop by hop</h2>", *way_parts(lost, LOST_DRAWN)]
    parts += ["<h2>MADs</h2>", *mad_parts(messages(seen), MADS_DECODED)]
    parts += ["<h2>Faults</h2>", _faults(scenario)]
    parts += ["<h2>Drops</h2>", _drops(scenario)]
    parts += ["<h2>Events</h2>", _events(scenario)]
    return page(name, parts)


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


def _topology(scenario: Scenario) -> str:
    svg = as_svg(Topology.of_fabric(scenario.fabric), is_down=scenario.links_down.__contains__)
    return svg.partition("?>\n")[2]  # without the declaration of an XML document


# --- over time ---------------------------------------------------------------------------------------------


def _over_time(scenario: Scenario) -> dict[str, Any]:
    """Return states, events and rates: virtual seconds."""
    changes = [ChangeStatus(**asdict(change)) for change in scenario.changes]
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
    yield drawing(_packet_drawing(records, shown), "packets by time and place")


def _packet_drawing(records: Sequence[TracedPacket], places: Sequence[str]) -> str:
    begin, end = records[0].time_s, records[-1].time_s
    span = (end - begin) or 1e-9
    row = {place: _TOP + _ROW * (index + 0.5) for index, place in enumerate(places)}
    height = _TOP + _ROW * len(places) + _BOTTOM

    def x(when: float) -> float:
        return _LEFT + (when - begin) / span * (_WIDTH - _LEFT - 20)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="monospace" font-size="11" role="img" aria-label="packets by time and place">'
    ]
    for place in places:
        parts.append(f'<text x="0" y="{row[place] + 4:.1f}">{xml_text(place)}</text>')
        parts.append(
            f'<line x1="{_LEFT}" y1="{row[place]:.1f}" x2="{_WIDTH - 20}" y2="{row[place]:.1f}" stroke="#e5e5e5"/>'
        )
    for tick in range(_TICKS + 1):
        when = begin + span * tick / _TICKS
        anchor = "end" if tick == _TICKS else "middle"
        parts.append(
            f'<text x="{x(when):.1f}" y="{height - 8}" text-anchor="{anchor}">{(when - begin) * 1e3:.3f} ms</text>'
        )
    parts += [
        _mark(record, x(record.time_s), row[record.direction], begin)
        for record in records
        if record.direction in row
    ]
    return "\n".join([*parts, "</svg>"])


def _mark(record: TracedPacket, x: float, y: float, begin: float) -> str:
    said = f"{(record.time_s - begin) * 1e3:.6f} ms {record.direction}: {summarize(record.packet)}"
    if record.drop is not None:
        shape = f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{_DROPPED}" stroke-width="2">'
        return f"{shape}<title>{xml_text(said)}, dropped: {xml_text(str(record.drop))}</title></path>"
    colour = _COLOURS.get(l4_of(record.packet), _OTHER)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{xml_text(said)}</title></circle>'


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
