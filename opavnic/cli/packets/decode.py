"""`opavnic decode`, `draw`: print packets, or those of a capture, field by field; or draw a capture as a page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from hfi_sim.base.errors import InputError, WireError
from hfi_sim.base.text import counted
from hfi_sim.wire.captures import DLT_ERF, DLT_ETHERNET, DLT_USER0, is_capture, packet_of, read_capture
from hfi_sim.wire.icrc import IBA_POLYNOMIAL, Icrc
from hfi_sim.wire.lrh16b import SIZE, is_9b
from opavnic.base.errors import OpavnicError
from opavnic.base.files import MAX_CAPTURE, FileError, read_stream
from opavnic.cli.base.common import AsJson
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_table, say, write_file
from opavnic.decode.describe import Description, describe_frame, describe_packet
from opavnic.management.management_layout import layers
from opavnic.observe.drawings import sequence
from opavnic.observe.journeys import messages
from opavnic.observe.pages import packet_page
from opavnic.observe.trace_file import CaptureError, read_journeys

_EXPECTED: Final = "hex digits such as '05 00 b0 00', or a file: a raw packet, hex text, pcap or pcapng"
_COMMENT: Final = re.compile(r"#[^\n]*")
_GROUP: Final = re.compile(r"[^\s:,_-]+")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_MAX_SOURCE: Final = MAX_CAPTURE


class DecodeInputError(OpavnicError, InputError):
    """The input cannot be decoded; the message says where it is wrong and what is expected."""


@dataclass(frozen=True, slots=True)
class SourcePacket:
    """One packet of the source, 1-based, and the link type of its capture."""

    number: int
    data: bytes
    link_type: int = DLT_USER0
    wire_len: int | None = None
    """Bytes on the wire, if the capture states it."""


def decode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="HEX|FILE", help="Hex digits, a file (raw, hex text, pcap, pcapng), or - for stdin."
        ),
    ],
    as_json: AsJson = False,
    no_icrc: Annotated[bool, typer.Option("--no-icrc", help="Show the ICRC without checking it.")] = False,
    polynomial: Annotated[
        str, typer.Option(metavar="HEX", help="Polynomial of the ICRC, without x^32.")
    ] = f"{IBA_POLYNOMIAL:#010x}",
    packet: Annotated[
        int | None, typer.Option(min=1, help="Only this packet of a capture, counted from 1.")
    ] = None,
) -> None:
    """Print a 16B packet field by field.

    Hex may contain spaces, colons, 0x and comments after #. Exit codes: 0 ok, 1 damaged packet, 2 bad input.

    Example: opavnic decode capture.pcap --packet 3
    """
    try:
        icrc = None if no_icrc else _read_polynomial(polynomial)
        content, origin = _read_source(source)
        packets, cut_off = _split_packets(content, origin)
        if packet is not None:
            packets = [_nth(packets, packet, origin)]
        results = list(_describe_all(packets, icrc, single=not is_capture(content)))
    except DecodeInputError as error:
        fail(f"decode: {error}", EXIT_USAGE)
    if as_json:
        print_json(_document(origin, results, cut_off))
    else:
        _print_tables(results, headings=is_capture(content))
    _finish(origin, results, cut_off)


def parse_hex(text: str, origin: str) -> bytes:
    """Read groups of hex digits, each a whole number of bytes, with or without 0x.

    Args:    origin: name of the text in messages.
    Raises:  DecodeInputError: a character is not a hex digit, half a byte is left over, or the text is empty.
    """
    text = _COMMENT.sub(lambda comment: " " * len(comment.group()), text)
    digits = []
    for group in _GROUP.finditer(text):
        word = group.group()
        start = group.start() + (2 if word[:2] in ("0x", "0X") else 0)
        word = text[start : group.end()]
        wrong = next((at for at, char in enumerate(word) if char not in _HEX), None)
        if wrong is not None:
            place = _place(text, start + wrong)
            raise DecodeInputError(
                f"{origin}, {place}: {word[wrong]!r} is not a hex digit; expected {_EXPECTED}"
            )
        if not word or len(word) % 2:
            place = _place(text, group.start())
            problem = f"{len(word)} hex digits are not a whole number of bytes"
            raise DecodeInputError(f"{origin}, {place}: {problem}; write two digits for each byte")
        digits.append(word)
    if not digits:
        raise DecodeInputError(f"{origin} is empty; expected {_EXPECTED}")
    return bytes.fromhex("".join(digits))


def _place(text: str, position: int) -> str:
    """Return `position` as text: a character of one line, or line and column."""
    before = text[:position]
    column = position - (before.rfind("\n") + 1) + 1
    return (
        f"line {before.count(chr(10)) + 1} column {column}" if "\n" in text.strip() else f"character {column}"
    )


def _read_polynomial(text: str) -> Icrc:
    try:
        return Icrc(int(text, 16))
    except ValueError:
        raise DecodeInputError(
            f"--polynomial {text!r} is not an odd hex number of at most 32 bits such as {IBA_POLYNOMIAL:#010x}"
        ) from None


def _read_source(source: str) -> tuple[bytes, str]:
    """Return the bytes of the packet or capture that `source` names or contains, and its name in messages."""
    if source == "-":
        content = _read_limited(sys.stdin.buffer, "standard input")
        return _from_file_content(content, "standard input"), "standard input"
    if not source.strip():
        return parse_hex(source, "hex"), "hex"
    try:
        with Path(source).open("rb") as file:
            content = _read_limited(file, source)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return _hex_argument(source), "hex"
    except OSError as error:
        if isinstance(error, IsADirectoryError | PermissionError):
            raise DecodeInputError(f"{source}: {error.strerror}; expected {_EXPECTED}") from None
        return _hex_argument(source), "hex"
    return _from_file_content(content, source), source


def _read_limited(file: BinaryIO, name: str) -> bytes:
    """Return the content of `file`. Raises DecodeInputError if it is longer than a source may be."""
    try:
        return read_stream(file, name, _MAX_SOURCE, "packet or capture")
    except FileError as error:
        raise DecodeInputError(f"{error}; expected {_EXPECTED}") from None


def _hex_argument(source: str) -> bytes:
    """Read hex from the command line; an argument that looks like a path is reported as a missing file."""
    if not set(source) <= _HEX | set("xX :,_-\t\n#") and re.search(r"[./]", source):
        raise DecodeInputError(f"no such file: {source!r}; expected {_EXPECTED}")
    return parse_hex(source, "hex")


def _from_file_content(content: bytes, origin: str) -> bytes:
    """Return raw or capture bytes unchanged, and hex text converted to bytes.

    Byte 7 of a 16B packet holds L2 and LT and is at least 0xC0: a packet is never plain ASCII, hex text always is.
    """
    if is_capture(content) or not content.isascii() or b"\0" in content:
        return content
    return parse_hex(content.decode("ascii"), origin)


def _split_packets(content: bytes, origin: str) -> tuple[list[SourcePacket], WireError | None]:
    """Return the packets and, if a capture file could only be read in part, its fault."""
    if not is_capture(content):
        return [SourcePacket(1, content)], None
    packets: list[SourcePacket] = []
    try:
        for found in read_capture(content):
            number, size = len(packets) + 1, found.wire_len
            if found.link_type == DLT_ERF and (carried := packet_of(DLT_ERF, found.data)) is not None:
                packets.append(SourcePacket(number, carried, DLT_USER0, len(carried)))
            else:
                packets.append(SourcePacket(number, found.data, found.link_type, size))
    except WireError as fault:
        if not packets:
            raise DecodeInputError(f"{origin}: {fault}") from None
        return packets, fault
    if not packets:
        raise DecodeInputError(f"{origin} is a capture without packets")
    return packets, None


def _nth(packets: list[SourcePacket], number: int, origin: str) -> SourcePacket:
    if number > len(packets):
        raise DecodeInputError(f"--packet {number}: {origin} holds {len(packets)}, counted from 1")
    return packets[number - 1]


def _describe_all(
    packets: list[SourcePacket], icrc: Icrc | None, *, single: bool
) -> Iterator[tuple[SourcePacket, Description]]:
    """Yield each packet with its description.

    Raises:  DecodeInputError: the link type is unknown, or a single packet is shorter than its header.
    """
    for item in packets:
        if item.link_type not in (DLT_USER0, DLT_ETHERNET):
            raise DecodeInputError(
                f"packet {item.number} has link type {item.link_type}; captures of 16B packets have {DLT_USER0} "
                f"(USER0), of 9B packets {DLT_ERF} (ERF)"
            )
        try:
            described = (
                describe_frame(item.data)
                if item.link_type == DLT_ETHERNET
                else describe_packet(item.data, icrc, layers)
            )
        except WireError as fault:
            if single:
                raise DecodeInputError(f"truncated: {fault}") from None
            described = Description(len(item.data), faults=[fault])
        if item.wire_len is not None and item.wire_len > len(item.data):
            reason = f"only {len(item.data)} of {item.wire_len} bytes were captured"
            described.faults.append(WireError("capture", len(item.data), reason))
        yield item, described


def _document(
    origin: str, results: list[tuple[SourcePacket, Description]], cut_off: WireError | None
) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "source": origin,
        "ok": cut_off is None and not any(described.faults for _, described in results),
        "packets": [
            {
                "number": item.number,
                "format": "ethernet" if item.link_type == DLT_ETHERNET else "9b" if _is_9b(item) else "16b",
                "bytes": described.size,
                "header": None if described.header is None else asdict(described.header),
                "fields": [asdict(line) for line in described.fields],
                "faults": [_fault_document(fault) for fault in described.faults],
            }
            for item, described in results
        ],
        "faults": [] if cut_off is None else [_fault_document(cut_off)],
    }


def _is_9b(item: SourcePacket) -> bool:
    return item.link_type == DLT_USER0 and len(item.data) >= SIZE and is_9b(item.data)


def _fault_document(fault: WireError) -> dict[str, Any]:
    return {"field": fault.field, "offset": fault.offset, "reason": fault.reason}


def _print_tables(results: list[tuple[SourcePacket, Description]], *, headings: bool) -> None:
    for item, described in results:
        kind = "9B packet" if _is_9b(item) else "16B packet"
        if item.link_type == DLT_ETHERNET:
            kind = "Ethernet frame"
        title = f"packet {item.number}: {kind}, {described.size} bytes" if headings else None
        print_table(("layer", "where", "field", "value", "meaning"), list(_rows(described)), title)


def _rows(described: Description) -> Iterator[tuple[str, ...]]:
    layer = ""
    for line in described.fields:
        shown = line.layer if line.layer != layer else ""
        layer = line.layer
        yield shown, line.where, line.name, line.text, line.meaning


def _finish(origin: str, results: list[tuple[SourcePacket, Description]], cut_off: WireError | None) -> None:
    """Print every fault on stderr and exit with 1 if there are any."""
    if results and all(item.link_type == DLT_ETHERNET for item, _ in results):
        say(f"note: {origin} holds Ethernet frames (link type 1), not 16B packets ({DLT_USER0})")
    faults = [(item, fault) for item, described in results for fault in described.faults]
    for item, fault in faults:
        prefix = f"packet {item.number}: " if len(results) > 1 else ""
        say(f"damaged: {prefix}{fault}")
    if cut_off is not None:
        say(f"damaged: {origin}: {cut_off}")
    if faults or cut_off is not None:
        raise typer.Exit(EXIT_FAILED)


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
    is_page = page.suffix == ".html"
    write_file(page, packet_page(found, capture.name) if is_page else sequence(mads).document("MADs"))
    say(f"{page}: {counted(len(found), 'packet')}, {counted(len(mads), 'MAD')}")
