"""The packets of a capture file and their ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hfi_sim.base.errors import InputError, WireError
from hfi_sim.wire.captures import is_capture
from hfi_sim.wire.lrh16b import Lrh16B
from opavnic.base.errors import OpavnicError
from opavnic.base.files import MAX_CAPTURE, FileError, read_bytes
from opavnic.observe.journeys import Journey, journeys
from opavnic.observe.trace_file import read_trace

if TYPE_CHECKING:
    from hfi_sim.fabric.trace import TracedPacket


class CaptureError(OpavnicError, InputError):
    """A file is no capture of 16B packets; the message says what it is, and what would be right."""


def read_journeys(file: Path) -> list[Journey]:
    """Return the packets of a capture and their ways.

    In a capture that does not say on which link a packet was, a packet goes from its source LID to its destination LID.
    Raises:  CaptureError: it cannot be read, is no capture, or has no 16B packets.
    """
    try:
        data = read_bytes(file, MAX_CAPTURE, "capture")
    except FileError as error:
        raise CaptureError(str(error)) from error
    if not is_capture(data):
        raise CaptureError(
            f"{file}: not a capture; give a pcapng file as `opavnic capture -w FILE.pcapng` or `opavnic mad record "
            "FILE.pcapng` writes it"
        )
    try:
        found = journeys(map(_placed, read_trace(data)))
    except WireError as error:
        raise CaptureError(f"{file}: {error}") from error
    if not found:
        raise CaptureError(f"{file}: a capture without 16B packets")
    return found


def _placed(record: TracedPacket) -> TracedPacket:
    """Return a packet with the link that it was on, or with its LIDs in place of it."""
    if "->" in record.direction:
        return record
    try:
        lrh = Lrh16B.parse(record.packet)
    except WireError:
        return replace(record, direction="unknown:1->unknown:1")
    return replace(record, direction=f"LID {lrh.slid:#x}:1->LID {lrh.dlid:#x}:1")
