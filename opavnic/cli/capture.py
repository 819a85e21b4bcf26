"""`opavnic capture`: the packets on the links of a running lab, as lines or as a file for Wireshark."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from hfi_sim.errors import FaultError, WireError
from hfi_sim.faults import parse_match
from hfi_sim.trace import TraceRecord
from hfi_sim.wire.summary import summarize
from opavnic.cli.common import LabOption, lab_client
from opavnic.cli.output import EXIT_FAILED, EXIT_USAGE, fail, print_line, say
from opavnic.observe.trace_file import TraceReader, TraceWriter
from opavnic.signals import followed, interruptible


def capture(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[on PLACE] [MATCH=VALUE ...]", help="Which links and packets; default: all."),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("-w", "--write", metavar="FILE", help="Write pcapng to a file; - for stdout."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=1, help="End after this many packets.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each packet, one per line.")
    ] = False,
    lab: LabOption = None,
) -> None:
    """Show the 16B packets that enter the links of a lab, until Ctrl-C (or SIGTERM, SIGHUP; exit code 0).

    Places: a host, switch or port (h1, sw0, h1:1), a link (h1--sw0), one direction of it (h1->sw0), * for all. Matches:
    l4=, lid=, slid=, dlid=, sc=, vesw=, attr=, method=, direction=, as in `opavnic fault`. A packet is shown on each
    link that it enters. Captured links are carried by the Python datapath meanwhile.

    \b
    Example:
      opavnic capture on h1 vesw=2
      opavnic capture l4=mad -c 20 -w mads.pcapng
      opavnic capture on 'h1->sw0' -w - | wireshark -k -i -
    """
    if as_json and write is not None:
        fail("capture: --json and --write cannot be combined", EXIT_USAGE)
    if write == "-" and sys.stdout.isatty():
        fail(
            "capture: -w - writes binary data, not for a terminal; redirect it to a program or a file",
            EXIT_USAGE,
        )
    query = urlencode(_query(list(what or []), count))
    client = lab_client(lab)
    reader = TraceReader(client.open(f"/capture?{query}"))
    seen, end = 0, ""
    try:
        with interruptible() if write else followed(), _sink(write, as_json) as put:
            for record in reader.records():
                put(record)
                seen += 1
    except KeyboardInterrupt:
        pass
    except (WireError, HTTPException, ConnectionError) as error:
        if isinstance(error, BrokenPipeError):
            raise  # the reader of our output has gone
        end = "; the lab has ended"
    missed = f", {reader.missed} missed: they arrived faster than they were read" if reader.missed else ""
    say(f"{seen} packets captured{missed}{end}")
    if end and count is not None:
        raise typer.Exit(EXIT_FAILED)


def _query(words: list[str], count: int | None) -> dict[str, str]:
    """Return the query for the lab: place and matches."""
    if words and words[0] == "on":
        del words[0]
        if not words:
            fail("capture: on which link, port or node? Example: opavnic capture on h1", EXIT_USAGE)
    query = {}
    if words and "=" not in words[0]:
        query["on"] = words.pop(0)
    try:
        parse_match(words)
    except FaultError as error:
        fail(f"capture: {error}", EXIT_USAGE)
    query |= dict(word.split("=", 1) for word in words)
    if count is not None:
        query["count"] = str(count)
    return query


@contextmanager
def _sink(write: str | None, as_json: bool) -> Iterator[Callable[[TraceRecord], None]]:
    """Yield a function that prints or writes a packet."""
    if write is None:
        yield _print_json if as_json else _print_line
        return
    try:
        with contextlib.nullcontext(sys.stdout.buffer) if write == "-" else Path(write).open("wb") as file:
            writer = TraceWriter()
            file.write(writer.head())
            file.flush()

            def put(record: TraceRecord) -> None:
                file.write(writer.packet(record))
                file.flush()  # a reader at the other end of a pipe sees it now

            yield put
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        fail(f"{'stdout' if write == '-' else write}: {error.strerror}", EXIT_FAILED)


def _print_line(record: TraceRecord) -> None:
    when = datetime.fromtimestamp(record.time_s).strftime("%H:%M:%S.%f")
    drop = "" if record.drop is None else f" DROPPED: {record.drop}"
    print_line(f"{when} {record.direction} {summarize(record.packet)}{drop}", flush=True)


def _print_json(record: TraceRecord) -> None:
    data = {
        "time": record.time_s,
        "link": record.direction,
        "summary": summarize(record.packet),
        "drop": record.drop,
        "packet": record.packet.hex(),
    }
    print_line(json.dumps(data), flush=True)
