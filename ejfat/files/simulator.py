"""The simulator of the specification: the frames of a capture file go through the pipeline into another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ejfat.base.drops import PipelineCounters
from ejfat.base.errors import BadRequestError, CutCaptureError, EjfatError
from ejfat.pipeline import Pipeline
from ejfat.tables.script import load_script
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
from opavnic.base.files import MAX_CAPTURE, MAX_DOCUMENT, MAX_TEXT, read_bytes, read_text

# --- read and write capture files of Ethernet frames, with their timestamps --------------------------------


def read_pcap(path: Path) -> Iterator[CapturedPacket]:
    """Yield the frames of a pcap or pcapng file, in order.

    Raises:  FileError: it cannot be read. BadRequestError: not a capture, or not of Ethernet. CutCaptureError: the file
        ends inside a frame; raised after the frames before it have been yielded.
    """
    content = read_bytes(path, MAX_CAPTURE, "capture", gzipped=True)
    if not is_capture(content):
        raise BadRequestError(f"{path}: neither a pcap nor a pcapng file")
    try:
        for number, packet in enumerate(read_capture(content), 1):
            if packet.link_type != DLT_ETHERNET:
                raise BadRequestError(
                    f"{path}: link type {packet.link_type} of frame {number}, expected {DLT_ETHERNET} (Ethernet)"
                )
            yield packet
    except WireError as error:
        unusable = error.field in (PCAP_HEADER, PCAPNG_SECTION)
        raise (BadRequestError if unusable else CutCaptureError)(f"{path}: {error}") from None


def write_pcap(path: Path, frames: Iterable[CapturedPacket]) -> int:
    """Write a pcap file of Ethernet frames; return their number.

    Raises:  EjfatError: the file cannot be written.
    """
    count = 0
    try:
        with path.open("wb") as file:
            file.write(pcap_header(DLT_ETHERNET))
            for frame in frames:
                file.write(pcap_record(frame.data, frame.time_ns))
                count += 1
    except OSError as error:
        raise EjfatError(f"{path}: {error.strerror or error}") from None
    return count


# -----------------------------------------------------------------------------------------------------------

_FIELD: Final = re.compile(r"(?:[A-Za-z_][\w.]*=)?(?:0[xX])?[0-9A-Fa-f]+", re.ASCII)
_BETWEEN: Final = re.compile(r"[\s,;]+")
"""Separators of fields. Fields may have names or not: the specification describes the file without an example."""
_SHOWN: Final = 40
"""Maximum number of characters of an invalid row in an error message."""


def simulate(
    tables: Path, source: Path, target: Path, *, meta: Path | None = None, meta_out: Path | None = None
) -> tuple[PipelineCounters, int]:
    """Run a capture through the pipeline that a table script describes; return its counters and the frames written.

    Args:    meta: a metadata file with one row per frame. The pipeline does not use it; the rows are only checked to
        consist of fields with numbers. meta_out: output file for the rows of the outgoing frames.
    Raises:  FileError, BadRequestError: an input cannot be read, or is invalid; nothing is written. EjfatError: an
        output cannot be written. CutCaptureError: the capture ends inside a frame; what comes of the frames before it
        is written.
    """
    pipeline = Pipeline(load_script(read_text(tables, MAX_TEXT, "table script"), str(tables)))
    rows = _meta_rows(meta) if meta else []
    seen: list[int] = []
    out: list[CapturedPacket] = []
    cut: CutCaptureError | None = None
    try:
        for captured in _run(pipeline, source, seen):
            out.append(captured)
    except CutCaptureError as error:
        cut = error
    written = write_pcap(target, out)
    if meta_out is not None:
        kept = [rows[min(index, len(rows) - 1)] for index in seen] if rows else []
        _write_rows(meta_out, kept)
    if cut is not None:
        whole = pipeline.counters.rx_packets
        raise CutCaptureError(f"{cut}; the output of the {whole} frames before it is in {target}")
    return pipeline.counters, written


def _run(pipeline: Pipeline, source: Path, seen: list[int]) -> Iterator[CapturedPacket]:
    for index, captured in enumerate(read_pcap(source)):
        verdict = pipeline.process(captured.data)
        if verdict.frame is not None:
            seen.append(index)
            yield captured._replace(data=verdict.frame, wire_len=len(verdict.frame))


def _write_rows(path: Path, rows: list[str]) -> None:
    try:
        path.write_text("".join(f"{row}\n" for row in rows))
    except OSError as error:
        raise EjfatError(f"{path}: {error.strerror or error}") from None


def _meta_rows(path: Path) -> list[str]:
    text = read_text(path, MAX_DOCUMENT, "metadata file")
    lines = [line.strip() for line in text.splitlines()]
    lines = ["" if line.startswith("#") else line for line in lines]
    for number, line in enumerate(lines, 1):
        if not all(_FIELD.fullmatch(word) for word in _BETWEEN.split(line) if word):
            raise BadRequestError(
                f"{path}:{number}: {line[:_SHOWN]!r}, expected fields with hexadecimal numbers, such as `egress_spec=0`"
            )
    rows = [line for line in lines if line]
    if not rows:
        raise BadRequestError(f"{path}: no rows; expected one per frame, such as `egress_spec=0`")
    return rows
