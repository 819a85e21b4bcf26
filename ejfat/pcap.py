"""Capture files of Ethernet frames, read and written with their times kept."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from scapy.error import Scapy_Exception
from scapy.utils import RawPcapNgReader, RawPcapReader

from ejfat.errors import CutCaptureError, OutputError, PcapError
from hfi_sim.errors import WireError
from hfi_sim.wire.captures import CapturedPacket, read_capture
from opavnic.files import MAX_CAPTURE, FileError, read_bytes

LINKTYPE_ETHERNET = 1
_SNAPLEN = 0xFFFF
_FILE_HEADER = struct.Struct("<IHHiIII")
_RECORD_HEADER = struct.Struct("<IIII")
_MAGIC_US = 0xA1B2C3D4


@dataclass(frozen=True, slots=True)
class Captured:
    """A frame and when it was taken."""

    frame: bytes
    seconds: int = 0
    microseconds: int = 0


def read_pcap(path: Path) -> Iterator[Captured]:
    """Yield the frames of a pcap or pcapng file, in order.

    Raises:  PcapError: not a capture, or not of Ethernet. CutCaptureError: it ends inside a frame; raised after the
        frames before that.
    """
    try:
        content = read_bytes(path, MAX_CAPTURE, "capture", gzipped=True)
        with RawPcapReader(BytesIO(content)) as reader:
            # two readers in step: ours says where a file was cut off, scapy's knows the times
            for number, packet in enumerate(_packets(content, path)):
                if packet.link_type != LINKTYPE_ETHERNET:
                    raise PcapError(
                        f"{path}: link type {packet.link_type} of frame {number + 1}, "
                        f"expected {LINKTYPE_ETHERNET} (Ethernet)"
                    )
                yield _captured(reader, packet.data, next(reader)[1])
    except FileError as error:
        raise PcapError(str(error)) from None
    except (Scapy_Exception, EOFError, StopIteration, struct.error) as error:
        raise PcapError(f"{path}: {str(error) or 'no capture that can be read'}") from None


def _packets(content: bytes, path: Path) -> Iterator[CapturedPacket]:
    try:
        yield from read_capture(content)
    except WireError as error:
        raise CutCaptureError(f"{path}: {error}") from None


def _captured(reader: Any, data: bytes, meta: Any) -> Captured:
    if isinstance(reader, RawPcapNgReader):
        resolution = meta.tsresol or 1_000_000
        seconds, rest = divmod(((meta.tshigh or 0) << 32) + (meta.tslow or 0), resolution)
        return Captured(data, seconds, rest * 1_000_000 // resolution)
    return Captured(data, meta.sec, meta.usec // (1000 if reader.nano else 1))


def write_pcap(path: Path, frames: Iterable[Captured]) -> int:
    """Write a pcap file of Ethernet frames and return how many.

    Raises:  OutputError: the file cannot be written.
    """
    count = 0
    try:
        with path.open("wb") as file:
            file.write(_FILE_HEADER.pack(_MAGIC_US, 2, 4, 0, 0, _SNAPLEN, LINKTYPE_ETHERNET))
            for captured in frames:
                size = len(captured.frame)
                file.write(_RECORD_HEADER.pack(captured.seconds, captured.microseconds, size, size))
                file.write(captured.frame)
                count += 1
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
    return count
