"""`opavnic draw`: the packets of a capture as a page: MADs as a sequence diagram, each packet's way and header."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hfi_sim.base.text import counted
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, say
from opavnic.observe.drawings import sequence
from opavnic.observe.journeys import messages
from opavnic.observe.pages import packet_page
from opavnic.observe.trace_file import CaptureError, read_journeys


def draw(
    capture: Annotated[
        Path,
        typer.Argument(help="FILE.pcapng of `opavnic capture -w`, `opavnic mad record` or --fabric-pcap."),
    ],
    page: Annotated[
        Path,
        typer.Argument(help="FILE.html: a page that opens offline; FILE.svg: the MADs alone, as a drawing."),
    ],
) -> None:
    """Draw the packets of a capture: MADs as a sequence diagram, and the way of each packet hop by hop with its header
    bit by bit, what each field means and who decided it.

    \b
    Example:
      opavnic capture -c 500 -w last.pcapng
      opavnic draw last.pcapng last.html
    """  # fmt: skip
    if page.suffix not in (".html", ".svg"):
        fail(f"draw: {page}: what is drawn is FILE.html or FILE.svg", EXIT_USAGE)
    try:
        found = read_journeys(capture)
    except CaptureError as error:
        fail(f"draw: {error}", EXIT_USAGE)
    mads = messages(found)
    try:
        page.write_text(
            packet_page(found, capture.name) if page.suffix == ".html" else sequence(mads).document("MADs"),
            encoding="utf-8",
        )
    except OSError as error:
        fail(f"draw: {page}: {error.strerror}", EXIT_FAILED)
    say(f"{page}: {counted(len(found), 'packet')}, {counted(len(mads), 'MAD')}")
