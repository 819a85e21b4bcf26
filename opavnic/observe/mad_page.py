"""A page about recorded MADs: the sequence diagram, and each MAD field by field; a click on an arrow leads there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.base.text import counted, visible, xml_text
from opavnic.decode.describe import describe_packet
from opavnic.management.management_layout import layers
from opavnic.observe.html_page import drawing, page, table
from opavnic.observe.mad_sequence import KEY, MESSAGES_DRAWN, Message, sequence_svg

_ANCHOR: Final = "mad-"


def mad_page(found: Sequence[Message], title: str) -> str:
    """Return the page. Args: title: plain text."""
    return page(title, [f"<h1>{xml_text(visible(title))}</h1>", *mad_parts(found, MESSAGES_DRAWN)])


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
            f'<div id="{_ANCHOR}{message.number}">{_fields(message.journey.packet)}</div></details>'
        )


def _fields(packet: bytes) -> str:
    try:
        fields = describe_packet(packet, None, layers).fields
    except WireError as error:
        return f"<p>{xml_text(str(error))}</p>"
    rows = [(found.layer, found.where, found.name, str(found.value), found.meaning) for found in fields]
    return table(("header", "where", "field", "value", "meaning"), rows, "It holds nothing.")
