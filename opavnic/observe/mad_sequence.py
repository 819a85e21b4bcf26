"""MADs as a sequence diagram: managers and agents in lanes, time downwards. One SVG document without scripts. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.base.text import visible, xml_text
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.wire.l4 import L4, FmHeader
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.header import RESPONSE_BIT, MadHeader, Method
from opavnic.decode import meanings
from opavnic.decode.summary import summarize
from opavnic.observe.journeys import Journey

MESSAGES_DRAWN: Final = 400
"""The last messages that are drawn."""
_LANE, _ROW, _LEFT, _TOP, _FOOT = 190, 26, 110, 44, 16
_REQUEST, _RESPONSE, _TRAP, _WRONG, _LINE = "#2f6f9f", "#3f7332", "#8a6508", "#c0392b", "#c8cfd6"
KEY: Final = (
    "Solid: requests. Dashed: responses. Dotted: traps, reports. Red: status not 0, or lost (a cross)."
)


@dataclass(frozen=True, slots=True)
class Message:
    """One MAD from its sender to where it arrived."""

    number: int
    """Its place among the messages, from 1."""
    journey: Journey
    source: str
    """Its lane: the node that sent it, or its LID where only links of others were watched."""
    target: str
    method: str
    attribute: str
    status: int
    """Of a response; 0: it was done."""
    is_response: bool
    is_trap: bool
    sendings: int
    """How often it was sent up to now, this time included."""

    @property
    def text(self) -> str:
        """What stands on its arrow."""
        words = [self.method, self.attribute]
        words += [f"status {self.status:#x}"] if self.status else []
        words += [f"again ({self.sendings})"] if self.sendings > 1 else []
        return visible(" ".join(words))

    @property
    def is_wrong(self) -> bool:
        """Whether it was lost on its way, or says that something was not done."""
        return bool(self.status) or self.journey.dropped is not None


def messages(seen: Iterable[Journey]) -> list[Message]:
    """Return the MADs among packets, in order; what is damaged is left out, as its receiver does."""
    found: list[Message] = []
    sent: dict[object, int] = {}
    seen = list(seen)
    passing = _passing(seen)
    for journey in seen:
        try:
            lrh = Lrh16B.parse(journey.packet)
            if lrh.l4 != L4.FM:
                continue
            mad = MadHeader.parse(journey.packet[HEADER_SIZE + FmHeader.SIZE :])
        except WireError:
            continue
        source = f"LID {lrh.slid:#x}" if journey.source in passing else journey.source
        target = f"LID {lrh.dlid:#x}" if journey.target in passing else journey.target
        key = source, target, mad.method, mad.tid, mad.attr_id, mad.mgmt_class
        sent[key] = sent.get(key, 0) + 1
        found.append(
            Message(
                number=len(found) + 1,
                journey=journey,
                source=source,
                target=target,
                method=meanings.mad_field("method", mad.method, mad) or f"method {mad.method:#x}",
                attribute=meanings.attribute(mad.mgmt_class, mad.attr_id),
                status=mad.status if mad.method & RESPONSE_BIT else 0,
                is_response=bool(mad.method & RESPONSE_BIT),
                is_trap=mad.method in (Method.TRAP, Method.REPORT, Method.TRAP_REPRESS),
                sendings=sent[key],
            )
        )
    return found


def _passing(seen: Iterable[Journey]) -> set[str]:
    """Return the nodes that packets of several LIDs seem to come from: switches, where no link before was watched."""
    lids: dict[str, set[int]] = {}
    for journey in seen:
        with contextlib.suppress(WireError):
            lids.setdefault(journey.source, set()).add(Lrh16B.parse(journey.packet).slid)
    return {node for node, its in lids.items() if len(its - {LID_PERMISSIVE}) > 1}


def sequence_svg(found: Sequence[Message], *, link: str = "") -> str:
    """Return the drawing of messages.

    Args:  link: where a click on a message leads, before its number, such as `#mad-`; empty: nowhere.
    """
    shown = found[-MESSAGES_DRAWN:]
    lanes = list(dict.fromkeys(node for message in shown for node in (message.source, message.target)))
    width = _LEFT + _LANE * max(len(lanes), 1)
    height = _TOP + _ROW * len(shown) + _FOOT
    x = {node: _LEFT + _LANE * (index + 0.5) for index, node in enumerate(lanes)}
    begin = shown[0].journey.time_s if shown else 0.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="monospace" font-size="11" role="{"group" if link else "img"}" '
        'aria-label="MADs as a sequence diagram">',
        '<rect width="100%" height="100%" fill="white"/>',
        *(_lane(visible(node), at, height) for node, at in x.items()),
        *(
            part
            for row, message in enumerate(shown)
            for part in _arrow(message, x, _TOP + _ROW * (row + 0.75), begin, link)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lane(name: str, x: float, height: float) -> str:
    return (
        f'<text x="{x}" y="20" text-anchor="middle" font-weight="bold" font-size="13">{xml_text(name)}</text>'
        f'<line x1="{x}" y1="30" x2="{x}" y2="{height - _FOOT}" stroke="{_LINE}"/>'
    )


def _arrow(message: Message, x: dict[str, float], y: float, begin: float, link: str) -> Iterator[str]:
    journey = message.journey
    colour = _REQUEST
    if message.is_wrong:
        colour = _WRONG
    elif message.is_trap:
        colour = _TRAP
    elif message.is_response:
        colour = _RESPONSE
    dash = (
        ' stroke-dasharray="1 4"'
        if message.is_trap
        else ' stroke-dasharray="6 4"'
        if message.is_response
        else ""
    )
    start, end = x[message.source], x[message.target]
    if start == end:
        end = start + _LANE / 3
    tip = end - 7 if end > start else end + 7
    said = f"{(journey.time_s - begin) * 1e3:.6f} ms, {message.source} to {message.target}: {summarize(journey.packet)}"
    lost = journey.dropped
    if lost is not None:
        said += f"; lost on {lost.direction}: {lost.drop}"
    yield f'<a href="{link}{message.number}">' if link else "<g>"
    yield f"<title>{xml_text(said)}</title>"
    yield f'<rect x="0" y="{y - _ROW * 0.75}" width="100%" height="{_ROW}" fill="transparent"/>'
    yield f'<text x="{_LEFT - 12}" y="{y}" text-anchor="end" fill="#5b6671">{_clock(journey.time_s - begin)}</text>'
    yield f'<line x1="{start}" y1="{y}" x2="{tip}" y2="{y}" stroke="{colour}" stroke-width="1.6"{dash}/>'
    if lost is None:
        back = 8 if end < start else -8
        yield f'<path d="M{end} {y}l{back} -4v8z" fill="{colour}"/>'
    else:
        yield f'<path d="M{tip - 5} {y - 5}l10 10m0 -10l-10 10" stroke="{colour}" stroke-width="2.5"/>'
    yield (
        f'<text x="{(start + end) / 2}" y="{y - 4}" text-anchor="middle" fill="{colour}" paint-order="stroke" '
        f'stroke="white" stroke-width="3">{xml_text(message.text)}</text>'
    )
    yield "</a>" if link else "</g>"


def _clock(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.3f} ms"
