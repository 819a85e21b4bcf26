"""Trace records as a pcapng file: link type USER0 (147), one interface for each direction of a link.

The file is written and read one packet at a time, so that a running capture can be viewed. The reason of a drop is in
the comment of its packet.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from hfi_sim.base.errors import InputError, WireError
from hfi_sim.engine.link.capture import DROP_COMMENTS
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.captures import NS_PER_S, CaptureReader, PcapngWriter, is_capture, packet_of
from hfi_sim.wire.lrh16b import Lrh16B
from opavnic.base.errors import OpavnicError
from opavnic.base.files import MAX_CAPTURE, FileError, read_bytes
from opavnic.observe.journeys import Journey, journeys

_DROPS: Final = {comment.decode(): drop for drop, comment in DROP_COMMENTS.items()}


class TraceWriter:
    """Builds the bytes of a file; the caller writes them."""

    def __init__(self) -> None:
        self._writer = PcapngWriter()
        self._packet = self._writer.packet

    def head(self) -> bytes:
        """Return the beginning of a file."""
        return self._writer.head()

    def packet(self, record: TracedPacket) -> bytes:
        """Return the bytes of one packet."""
        comment = "" if record.drop is None else DROP_COMMENTS[record.drop].decode()
        return self._packet(record.packet, round(record.time_s * NS_PER_S), record.direction, comment)


class TraceReader:
    """Reads the output of a TraceWriter from a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._reader = CaptureReader(stream)

    @property
    def missed(self) -> int:
        """Packets that the capture missed, according to the part read so far."""
        return self._reader.missed

    def records(self, *, only_packets: bool = False) -> Iterator[TracedPacket]:
        """Yield the packets until the stream ends. Args: only_packets: 16B and 9B, and nothing of other link types.

        Raises:  WireError: the stream is not such a file, or it is cut off.
        """
        for link_type, data, _, time_ns, direction, comment in self._reader.packets():
            packet = packet_of(link_type, data)
            if packet is not None or not only_packets:
                drop = _DROPS.get(comment) if comment else None
                yield TracedPacket(time_ns / NS_PER_S, direction, packet or data, drop)


def write_trace(path: Path, records: Iterable[TracedPacket]) -> int:
    """Write `records` to `path` and return how many there were."""
    writer = TraceWriter()
    count = 0
    with path.open("wb") as file:
        file.write(writer.head())
        for record in records:
            file.write(writer.packet(record))
            count += 1
    return count


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
        found = journeys(map(_placed, TraceReader(io.BytesIO(data)).records(only_packets=True)))
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
