"""MADs as parts of a page: the sequence diagram, and each field by field; a click on an arrow leads there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hfi_sim.base.text import counted, visible, xml_text
from opavnic.observe.html_page import drawing
from opavnic.observe.journey_page import fields_html
from opavnic.observe.mad_sequence import KEY, MESSAGES_DRAWN, Message, sequence_svg

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
    for message in found[-decoded:]:  # browsers open what holds the target of a link
        ends = f"{message.source} to {message.target}"
        yield (
            f"<details><summary>{message.number}. {xml_text(visible(ends))}: {xml_text(message.text)}</summary>"
            f'<div id="{_ANCHOR}{message.number}">{fields_html(message.journey.packet)}</div></details>'
        )
