"""`opavnic capture`: the packets on the links of a running lab, as lines or as a file for Wireshark."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from hfi_sim.base.errors import FaultError, WireError
from hfi_sim.base.text import visible
from hfi_sim.fabric.faults import parse_match
from hfi_sim.fabric.trace import TracedPacket
from opavnic.base.signals import followed
from opavnic.cli.base.common import AsJson, LabOption, lab_client, place_names, size_option
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, Form, current_form, fail, print_line, say
from opavnic.cli.packets.capture_targets import FileTarget, PipeTarget
from opavnic.cli.packets.capture_write import copy_capture
from opavnic.decode.summary import summarize
from opavnic.observe.capture_copy import WITHOUT_HEADER
from opavnic.observe.trace_file import TraceReader


def capture(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[on PLACE] [MATCH=VALUE ...]",
            help="Which links and packets; default: all.",
            autocompletion=place_names,
        ),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("-w", "--write", metavar="FILE", help="Write pcapng to a file; - for stdout."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=1, help="End after this many packets.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Capture a packet only where it enters the fabric.")
    ] = False,
    snap: Annotated[
        Any, size_option("-s", "--snap", help="Keep this much of a packet at most (with -w).")
    ] = None,
    size: Annotated[
        Any, size_option("-C", "--size", help="Begin another file, FILE_00002 and so on, after this much.")
    ] = None,
    ring: Annotated[
        int | None,
        typer.Option("-W", "--ring", min=1, metavar="COUNT", help="Keep the last of these files only."),
    ] = None,
    buffer: Annotated[
        Any, size_option("-B", "--buffer", help="What may wait to be written before packets are missed.")
    ] = None,
    as_json: AsJson = False,
    lab: LabOption = None,
) -> None:
    """Show the 16B packets that enter the links of a lab, until Ctrl-C (or SIGTERM, SIGHUP; exit code 0).

    Places: a host, switch or port (h1, sw0, h1:1), a link (h1--sw0), one direction of it (h1->sw0), * for all. Matches:
    l4=, lid=, slid=, dlid=, sc=, vesw=, attr=, method=, direction=, as in `opavnic fault`. A packet is shown on each
    link that it enters, or with --once on the first only. No link waits for a capture: packets that
    arrive faster than they can be written are missed. At the end you are told how many packets were
    captured and missed; with --json, by the last object, and with --json -w FILE, by the only one. --json prints one
    object for each packet, one per line.

    \b
    Example:
      opavnic capture on h1 vesw=2
      opavnic capture l4=mad -c 20 -w mads.pcapng
      opavnic capture --once --snap 128 --size 100M --ring 10 -w last.pcapng
      opavnic capture on 'h1->sw0' -w - | wireshark -k -i -
    """
    _refuse(write, as_json=as_json, snap=snap, size=size, ring=ring)
    query = _query(list(what or []))
    options = {"count": count, "snap": snap, "buffer": buffer, "once": int(once) or None}
    query |= {name: str(value) for name, value in options.items() if value is not None}
    client = lab_client(lab)
    stream = client.open(f"/capture?{urlencode(query)}")
    if without := stream.headers[WITHOUT_HEADER]:
        say(f"not all links are captured: {without}")
    target = None
    if write is None:
        reader = TraceReader(stream)
        kept, has_ended = _show(reader, _printer())
        missed = reader.missed
    else:
        try:
            target = PipeTarget(1) if write == "-" else FileTarget(Path(write), size=size, ring=ring)
            copy, has_ended = copy_capture(client, stream, target)
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise  # the reader of our output has gone
            fail(f"{'stdout' if write == '-' else write}: {error.strerror}", EXIT_FAILED)
        kept, missed = copy.packets, copy.missed
    if as_json:
        files = {"files": [str(name) for name in target.names]} if isinstance(target, FileTarget) else {}
        print_line(json.dumps({"kept": kept, "missed": missed, **files}), flush=True)
    why = ": they arrived faster than they were read" if missed else ""
    say(f"{kept} packets captured, {missed} missed{why}{'; the lab has ended' if has_ended else ''}")
    if has_ended and count is not None:
        raise typer.Exit(EXIT_FAILED)


def _refuse(write: str | None, *, as_json: bool, snap: Any, size: Any, ring: int | None) -> None:
    """Refuse options that do not go together."""
    if write is None:
        for option, value in (("--snap", snap), ("--size", size), ("--ring", ring)):
            if value is not None:
                fail(f"capture: {option} is for files; give -w FILE as well", EXIT_USAGE)
        return
    if write != "-":
        if ring is not None and size is None:
            fail("capture: --ring needs --size, the size at which a new file begins", EXIT_USAGE)
        return
    if size is not None:
        fail("capture: --size is for files, not for stdout", EXIT_USAGE)
    if as_json:
        fail("capture: --json and -w - cannot be combined: both are for stdout", EXIT_USAGE)
    if sys.stdout.isatty():
        fail(
            "capture: -w - writes binary data, not for a terminal; redirect it to a program or a file",
            EXIT_USAGE,
        )


def _query(words: list[str]) -> dict[str, str]:
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
    return query | dict(word.split("=", 1) for word in words)


def _show(reader: TraceReader, show: Callable[[TracedPacket], None]) -> tuple[int, bool]:
    """Show packets until the capture ends or a signal ends it; return their number, and whether the lab has ended."""
    seen = 0
    try:
        with followed():
            for record in reader.records():
                show(record)
                seen += 1
    except KeyboardInterrupt:
        pass
    except (WireError, HTTPException, ConnectionError) as error:
        if isinstance(error, BrokenPipeError):
            raise  # the reader of our output has gone
        return seen, True
    return seen, False


def _printer() -> Callable[[TracedPacket], None]:
    """Return what prints a packet in the form that was asked for."""
    if current_form() is Form.TABLE:
        return _print_line
    if current_form() is Form.JSON:
        return lambda record: print_line(json.dumps(_as_data(record)), flush=True)
    writer = csv.DictWriter(sys.stdout, ("time", "link", "summary", "drop", "packet"), lineterminator="\n")
    writer.writeheader()

    def write(record: TracedPacket) -> None:
        writer.writerow({key: visible(str(value or "")) for key, value in _as_data(record).items()})
        sys.stdout.flush()

    return write


def _print_line(record: TracedPacket) -> None:
    when = datetime.fromtimestamp(record.time_s).strftime("%H:%M:%S.%f")
    drop = "" if record.drop is None else f" DROPPED: {record.drop}"
    print_line(f"{when} {record.direction} {summarize(record.packet)}{drop}", flush=True)


def _as_data(record: TracedPacket) -> dict[str, Any]:
    return {
        "time": record.time_s,
        "link": record.direction,
        "summary": summarize(record.packet),
        "drop": record.drop,
        "packet": record.packet.hex(),
    }
