"""A page about the packets of a capture: MADs as a sequence diagram, and the way of each packet hop by hop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hfi_sim.base.text import counted, visible, xml_text
from opavnic.decode.summary import summarize
from opavnic.observe.html_page import drawing, page
from opavnic.observe.journey_page import fields_html, journey_html
from opavnic.observe.journeys import Journey
from opavnic.observe.mad_sequence import KEY, MESSAGES_DRAWN, Message, messages, sequence_svg

_ANCHOR: Final = "mad-"


def mad_parts(found: Sequence[Message], decoded: int) -> Iterator[str]:
    """Yield the diagram and the fields of the last MADs, as parts of a page. Args: decoded: of how many."""
    if not found:
        yield "<p>No MAD was seen.</p>"
        return
    wrong = sum(message.is_wrong for message in found)
    yield (
        f"<p>{counted(len(found), 'MAD')}, {wrong} lost or refused; the last {min(len(found), MESSAGES_DRAWN)} are "
        f"drawn. {KEY} A click leads to the fields.</p>"
    )
    yield drawing(sequence_svg(found, link="#" + _ANCHOR), "sequence of MADs")
    shown = found[-decoded:]
    yield f"<details><summary>The fields of the last {counted(len(shown), 'MAD')}</summary>"
    for message in shown:  # browsers open what holds the target of a link
        ends = f"{message.source} to {message.target}"
        yield (
            f"<details><summary>{message.number}. {xml_text(visible(ends))}: {xml_text(message.text)}</summary>"
            f'<div id="{_ANCHOR}{message.number}">{fields_html(message.journey.packet)}</div></details>'
        )
    yield "</details>"


WAYS_DRAWN: Final = 50
"""The last packets, those that were lost, and as many others, whose way is drawn."""


def packet_page(found: Sequence[Journey], title: str) -> str:
    """Return the page. Args: title: plain text."""
    parts = [f"<h1>{xml_text(visible(title))}</h1>"]
    parts += [f"<p>{counted(len(found), 'packet')}.</p>"]
    parts += ["<h2>MADs</h2>", *mad_parts(messages(found), MESSAGES_DRAWN)]
    lost = [journey for journey in found if journey.dropped is not None]
    parts += ["<h2>Packets that were lost</h2>", *way_parts(lost)]
    parts += ["<h2>Packets, hop by hop</h2>", *way_parts(found)]
    return page(title, parts)


def way_parts(found: Sequence[Journey], drawn: int = WAYS_DRAWN) -> Iterable[str]:
    """Yield the ways of the last packets, the newest first, as parts of a page."""
    if not found:
        yield "<p>None.</p>"
        return
    yield f"<p>{counted(len(found), 'packet')}; the last {min(len(found), drawn)} are shown, the newest first.</p>"
    for journey in reversed(found[-drawn:]):
        head = f"{journey.time_s * 1e3:.6f} ms {visible(journey.source)}: {summarize(journey.packet)}"
        yield f"<details><summary>{xml_text(head)}</summary>{journey_html(journey)}</details>"
