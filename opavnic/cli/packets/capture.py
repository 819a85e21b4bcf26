"""`opavnic capture`: the packets on the links of a running lab, as lines or as a file for Wireshark."""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final
from urllib.parse import urlencode

import typer

from hfi_sim.base.errors import FaultError, WireError
from hfi_sim.base.text import visible
from hfi_sim.fabric.faults import parse_match
from hfi_sim.fabric.notices import TracedPacket
from opavnic.base.signals import followed, interruptible
from opavnic.cli.base.common import AsJson, LabOption, lab_client, place_names, size_option
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, Form, current_form, fail, print_line, say
from opavnic.decode.summary import summarize
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.observe.capture_copy import NUMBER_HEADER, WITHOUT_HEADER, CaptureCopy, Target
from opavnic.observe.trace_file import TraceReader


class PipeTarget(Target):
    """A pipe, which takes everything. A reader at its other end sees each packet at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def room(self) -> None:
        return None

    def next(self, head: bytes) -> None:
        raise AssertionError("a pipe is never full")

    def close(self) -> None:
        pass


class FileTarget(Target):
    """A file, or where `size` is given, files with a number in their name, from NAME_00001.pcapng on."""

    def __init__(self, path: Path, *, size: int | None = None, ring: int | None = None) -> None:
        """Open the first file.

        Args:    size: bytes that a file has at most; one always takes a packet. ring: how many files are kept; the
                 oldest is removed when another one begins. None: all.
        Raises:  OSError: the file cannot be written.
        """
        if not path.name:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._path, self._size, self._ring = path, size, ring
        self._number = 0
        self.names: deque[Path] = deque()
        """The files that are there, the oldest first."""
        self._file = self._open()
        self._written = 0

    def _open(self) -> BinaryIO:
        self._number += 1
        path = self._path
        if self._size is not None:
            path = path.with_name(f"{path.stem}_{self._number:05}{path.suffix}")
        file = path.open("wb", buffering=0)
        self.names.append(path)
        if self._ring is not None and len(self.names) > self._ring:
            self.names.popleft().unlink(missing_ok=True)
        return file

    def write(self, data: memoryview) -> None:
        self._written += len(data)
        while data:
            data = data[self._file.write(data) or 0 :]

    def room(self) -> int | None:
        return None if self._size is None else max(0, self._size - self._written)

    def next(self, head: bytes) -> None:
        self._file.close()
        self._file = self._open()
        self._written = 0
        self.write(memoryview(head))

    def close(self) -> None:
        self._file.close()


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


_PIECE: Final = 1 << 17
"""Bytes that are read at once. Room for many more than a socket has would be new memory of the kernel each time."""
_END_S: Final = 5.0
"""Seconds that what is left may take to be written, once the capture was told to end: a reader may have stopped."""


def copy_capture(client: LabClient, stream: HTTPResponse, target: Target) -> tuple[CaptureCopy, bool]:
    """Copy the answer to GET /capture.

    A signal ends the capture in the lab; what that has kept until then is still written. A second signal ends that.

    Returns: what was copied, and whether the lab ended before the capture did.
    Raises:  OSError: the target cannot be written.
    """
    copying = _Copying(stream, target)
    try:
        with interruptible():
            copying.start()
            copying.done.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt, LabError), interruptible():
            client.post("/capture/end", {"number": int(stream.headers[NUMBER_HEADER])})
            copying.done.wait(_END_S)
    if copying.fault is not None:
        raise copying.fault
    return copying.copy, copying.lab_has_ended


class _Copying(threading.Thread):
    """Copies in a thread: signals come to the main thread only, so none of them cuts a read or a write in two."""

    def __init__(self, stream: HTTPResponse, target: Target) -> None:
        super().__init__(name="capture", daemon=True)  # a stuck pipe does not keep the program from its end
        self.copy = CaptureCopy(target)
        self.done = threading.Event()
        """Set at the end. A join() that a signal interrupts may take the thread for ended (CPython 3.11)."""
        self.lab_has_ended = False
        self.fault: OSError | None = None
        """Why the target cannot be written."""
        self._stream = stream
        self._target = target

    def run(self) -> None:
        try:
            while piece := self._read():
                self.copy.feed(piece)
            self._target.close()
        except WireError:
            self.lab_has_ended = True
        except OSError as error:
            self.fault = error
        finally:
            self.done.set()

    def _read(self) -> bytes:
        """Return the next piece; empty at the end, also where that comes too early."""
        try:
            return self._stream.read1(_PIECE)
        except (HTTPException, OSError):
            self.lab_has_ended = True
            return b""
