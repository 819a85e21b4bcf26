"""Read and write capture files of Ethernet frames, with their timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ejfat.base.errors import CutCaptureError, OutputError, PcapError
from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import (
    DLT_ETHERNET,
    PCAP_HEADER,
    PCAPNG_SECTION,
    CapturedPacket,
    is_capture,
    pcap_header,
    pcap_record,
    read_capture,
)
from opavnic.base.files import MAX_CAPTURE, FileError, read_bytes


def read_pcap(path: Path) -> Iterator[CapturedPacket]:
    """Yield the frames of a pcap or pcapng file, in order.

    Raises:  PcapError: not a capture, or not of Ethernet. CutCaptureError: the file ends inside a frame; raised after
        the frames before it have been yielded.
    """
    try:
        content = read_bytes(path, MAX_CAPTURE, "capture", gzipped=True)
    except FileError as error:
        raise PcapError(str(error)) from None
    if not is_capture(content):
        raise PcapError(f"{path}: neither a pcap nor a pcapng file")
    try:
        for number, packet in enumerate(read_capture(content), 1):
            if packet.link_type != DLT_ETHERNET:
                raise PcapError(
                    f"{path}: link type {packet.link_type} of frame {number}, expected {DLT_ETHERNET} (Ethernet)"
                )
            yield packet
    except WireError as error:
        unusable = error.field in (PCAP_HEADER, PCAPNG_SECTION)
        raise (PcapError if unusable else CutCaptureError)(f"{path}: {error}") from None


def write_pcap(path: Path, frames: Iterable[CapturedPacket]) -> int:
    """Write a pcap file of Ethernet frames; return their number.

    Raises:  OutputError: the file cannot be written.
    """
    count = 0
    try:
        with path.open("wb") as file:
            file.write(pcap_header(DLT_ETHERNET))
            for frame in frames:
                file.write(pcap_record(frame.data, frame.time_ns))
                count += 1
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
    return count
