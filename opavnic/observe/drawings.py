"""Drawings of what passed a fabric: events and packets over time, the way of a packet, its header bit by bit, MADs as a
sequence diagram. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hfi_sim.base.drawing import BLUE, BROWN, DIM, GREEN, RED, VIOLET, Canvas
from hfi_sim.base.text import visible
from hfi_sim.wire.lrh16b import L4, l4_of
from opavnic.decode.describe import DescribedField
from opavnic.decode.summary import summarize
from opavnic.observe.journeys import Journey, Message
from opavnic.observe.timeline import clock_text, event_text
from opavnic.state.em import EmEvent

if TYPE_CHECKING:
    from hfi_sim.fabric.notices import TracedPacket

# --- events and packets over time --------------------------------------------------------------------------

LISTED_MAX: Final = 40
"""The last events are listed under their drawing; every dot has its event as a tooltip."""
_TICKS: Final = 5
_TICK_S: Final = 1e-3
"""Ticks of events show milliseconds: events of one moment are drawn on an axis with ticks that far apart."""
_WRONG: Final = frozenset({"agent-isolated", "link-down", "port-left", "port-silent", "table-differs"})
"""Kinds that say that something is not as it was configured."""
_BY_L4: Final[dict[int, str]] = {L4.ETHERNET: BLUE, L4.FM: GREEN}


@dataclass(frozen=True, slots=True)
class _Spot:
    """Something that happened in a row of a drawing, or ended there."""

    time_s: float
    row: str
    colour: str
    text: str
    ended: bool = False


def events_drawing(events: Sequence[EmEvent]) -> Canvas:
    """Return events of an Ethernet Manager, oldest first: a row for each kind, and the last of them as a list below."""
    spots = [
        _Spot(
            event.time,
            event.kind,
            RED if event.kind in _WRONG else BLUE,
            f"{clock_text(event.time)}  {event_text(event)}",
        )
        for event in events
    ]
    kinds = list(dict.fromkeys(event.kind for event in events))
    listed = [spot.text for spot in spots[-LISTED_MAX:]] or ["no events"]
    return _over_time(spots, kinds, _TICKS * _TICK_S, lambda when, _: clock_text(when), listed)


def packets_drawing(records: Sequence[TracedPacket], places: Sequence[str]) -> Canvas:
    """Return packets as they entered links, a row for each place."""
    begin = records[0].time_s
    spots = [
        _Spot(
            record.time_s,
            record.direction,
            _BY_L4.get(l4_of(record.packet), VIOLET),
            f"{(record.time_s - begin) * 1e3:.6f} ms {record.direction}: {summarize(record.packet)}"
            + ("" if record.drop is None else f", dropped: {record.drop}"),
            record.drop is not None,
        )
        for record in records
    ]
    return _over_time(spots, places, 1e-9, lambda when, first: f"{(when - first) * 1e3:.3f} ms")


def _over_time(
    spots: Sequence[_Spot],
    rows: Sequence[str],
    least_s: float,
    tick_text: Callable[[float, float], str],
    listed: Sequence[str] = (),
) -> Canvas:
    """Return spots by time and row. Args: least_s: how long the axis is at least. listed: lines of text below."""
    left, right, top, high, line = 190, 1060, 10, 20, 16
    bottom = top + high * len(rows)
    drawn = Canvas(right + 40, bottom + 2 * line + line * len(listed) + top)
    begin = min((spot.time_s for spot in spots), default=0.0)
    span = max((spot.time_s - begin for spot in spots), default=0.0)
    span = max(span, least_s)

    def x(when: float) -> float:
        return left + (when - begin) / span * (right - left)

    middle = {row: top + high * (index + 0.5) for index, row in enumerate(rows)}
    for row, y in middle.items():
        drawn.text((10, y + 4), row)
        drawn.line((left, y), (right, y))
    for tick in range(_TICKS + 1 if spots else 0):
        when = begin + span * tick / _TICKS
        drawn.text((x(when), bottom + line), tick_text(when, begin), DIM, text_anchor="middle")
    for spot in spots:
        if (at := middle.get(spot.row)) is None:
            continue
        if spot.ended:
            drawn.cross((x(spot.time_s), at), 4, title=spot.text)
        else:
            drawn.dot((x(spot.time_s), at), 3.5, spot.colour, spot.text)
    for index, text in enumerate(listed):
        drawn.text((10, bottom + 2 * line + line * (index + 1)), text)
    return drawn


# --- the way of a packet -----------------------------------------------------------------------------------


_NODE: Final = (96.0, 28.0)


def way_drawing(journey: Journey) -> Canvas:
    """Return the hops of a packet: nodes from left to right, copies of a multicast packet below each other.

    Where a link begins stands when the packet entered it, since it entered the first one.
    """
    level = {journey.source: 0}
    for hop in journey.hops:
        level.setdefault(hop.far, level.get(hop.near, 0) + 1)
    columns: dict[int, list[str]] = {}
    for node, column in level.items():
        columns.setdefault(column, []).append(node)
    step = 190
    height = 92 * max(map(len, columns.values()))
    drawn = Canvas(step * len(columns), height)
    at = {
        node: (step * (column + 0.5), height * (index + 0.5) / len(nodes))
        for column, nodes in columns.items()
        for index, node in enumerate(nodes)
    }
    for hop in journey.hops:
        near, far = at.get(hop.near, at[journey.source]), at[hop.far]
        lost = hop.drop is not None
        drawn.line(near, far, RED if lost else "#8a97a5", stroke_width=2)
        said = f"at {(hop.time_s - journey.time_s) * 1e6:.2f} us" + (f" ✕ {hop.drop}" if lost else "")
        begin = _NODE[0] / 2 + 4
        slope = (far[1] - near[1]) / (far[0] - near[0]) if far[0] > near[0] else 0.0
        place = near[0] + begin, near[1] + slope * begin + (24 if lost else -6)
        drawn.text(place, said, RED if lost else DIM, title=hop.direction, lifted=True)
    for node, place in at.items():
        drawn.node(place, _NODE, visible(node), BLUE)
    return drawn


# --- a header ----------------------------------------------------------------------------------------------

_BITS: Final = 64
_FILL: Final = ("#dbe9f4", "#e8f1e4", "#f6ecd8", "#efe3f0")


def header_drawing(fields: Sequence[DescribedField]) -> Canvas:
    """Return the 16B header as the table of its document: a row for each quad word, bit 63 on the left."""
    rows = [(word, low, high, found) for found in fields for word, low, high in _bits(found.where)]
    words = sorted({word for word, _, _, _ in rows})
    left, top, row = 50, 18, 46
    drawn = Canvas(1120, top + row * len(words), size=10)
    step = (drawn.width - left - 10) / _BITS
    for bit in (63, 55, 47, 39, 31, 23, 15, 7, 0):
        drawn.text((left + (_BITS - bit - 0.5) * step, 12), str(bit), DIM, text_anchor="middle")
    for index, word in enumerate(words):
        drawn.text((4, top + row * (index + 0.5) + 4), f"QW{word}")
    for index, (word, low, high, found) in enumerate(rows):
        x, y = left + (_BITS - 1 - high) * step, top + row * words.index(word)
        wide = (high - low + 1) * step
        with drawn.group(f"{found.name} = {found.text}, {found.where}: {found.meaning}"):
            drawn.box((x, y), (wide, row - 6), _FILL[index % len(_FILL)], stroke=DIM)
            for line, text in enumerate((found.name, found.text)):
                if len(text) * 6.2 <= wide:
                    drawn.text((x + wide / 2, y + 16 + 14 * line), text, "#000", text_anchor="middle")
    return drawn


def _bits(where: str) -> Iterator[tuple[int, int, int]]:
    """Yield quad word, lowest and highest bit of positions such as `QW0 0-19` or `QW1 63`; nothing of others."""
    if not where.startswith("QW"):
        return
    word, _, bits = where[2:].partition(" ")
    low, _, high = bits.partition("-")
    if word.isdecimal() and low.isdecimal():
        yield int(word), int(low), int(high or low)


# --- MADs as a sequence diagram ----------------------------------------------------------------------------

MESSAGES_DRAWN: Final = 400
"""The last messages that are drawn."""
KEY: Final = (
    "Solid: requests. Dashed: responses. Dotted: traps, reports. Red: status not 0, or lost (a cross)."
)
_LANE, _HIGH, _LEFT, _HEAD, _FOOT = 190, 26, 110, 44, 16


def sequence(found: Sequence[Message], *, link: str = "") -> Canvas:
    """Return messages: managers and agents in lanes, time downwards.

    Args:  link: where a click on a message leads, before its number, such as `#mad-`; empty: nowhere.
    """
    shown = found[-MESSAGES_DRAWN:]
    lanes = list(dict.fromkeys(node for message in shown for node in (message.source, message.target)))
    drawn = Canvas(_LEFT + _LANE * max(len(lanes), 1), _HEAD + _HIGH * len(shown) + _FOOT)
    x = {node: _LEFT + _LANE * (index + 0.5) for index, node in enumerate(lanes)}
    for node, at in x.items():
        drawn.text((at, 20), visible(node), text_anchor="middle", font_weight="bold", font_size=13)
        drawn.line((at, 30), (at, drawn.height - _FOOT))
    for row, message in enumerate(shown):
        journey = message.journey
        later = journey.time_s - shown[0].journey.time_s
        said = f"{later * 1e3:.6f} ms, {message.source} to {message.target}: {summarize(journey.packet)}"
        if (lost := journey.dropped) is not None:
            said += f"; lost on {lost.direction}: {lost.drop}"
        with drawn.group(said, f"{link}{message.number}" if link else ""):
            _message(drawn, message, x, _HEAD + _HIGH * (row + 0.75), later)
    return drawn


def _message(drawn: Canvas, message: Message, x: dict[str, float], y: float, later: float) -> None:
    colour, dash = (
        (BROWN, "1 4") if message.is_trap else (GREEN, "6 4") if message.is_response else (BLUE, None)
    )
    colour = RED if message.is_wrong else colour
    start, end = x[message.source], x[message.target]
    if start == end:
        end = start + _LANE / 3
    back = end < start
    tip = end + 7 if back else end - 7
    drawn.box((0, y - _HIGH * 0.75), (drawn.width, _HIGH), "transparent")
    moment = f"{later:.3f} s" if later >= 1 else f"{later * 1e3:.3f} ms"
    drawn.text((_LEFT - 12, y), moment, DIM, text_anchor="end")
    drawn.line((start, y), (tip, y), colour, stroke_width=1.6, stroke_dasharray=dash)
    if message.journey.dropped is None:
        drawn.tip((end, y), colour, leftwards=back)
    else:
        drawn.cross((tip, y), 5)
    drawn.text(((start + end) / 2, y - 4), message.text, colour, lifted=True, text_anchor="middle")
