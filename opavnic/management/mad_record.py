"""Recorded MADs: JSON lines, or the FM packets of a capture (pcap, pcapng)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.errors import InputError, WireError
from hfi_sim.wire.captures import is_capture, packet_of, read_capture
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.mad.fm_packet import parse_mad_packet
from hfi_sim.wire.mad.header import RESPONSE_BIT, MadHeader, awaits_response, method_of
from hfi_sim.wire.packet import check_packet
from opavnic.base.files import MAX_CAPTURE, FileError, read_bytes

if TYPE_CHECKING:
    from pathlib import Path

MAX_UNANSWERED: Final = 10_000
"""Requests that wait for their response; beyond that, the oldest counts as never answered."""
_FORM: Final = (
    'give lines of JSON, {"lid": N, "mad": HEX, "response": HEX}, as opavnic mad record writes them, or a capture of '
    "16B packets"
)


@dataclass(frozen=True, slots=True)
class MadExchange:
    """A request and its response, or an unsolicited MAD."""

    lid: int
    """The destination of the request, or the source of the unsolicited MAD."""
    mad: bytes
    response: bytes | None = None

    def to_json(self) -> str:
        """Return one line; zeros at the end of a MAD are left out."""
        data: dict[str, Any] = {"lid": self.lid, "mad": self.mad.rstrip(b"\0").hex()}
        if self.response is not None:
            data["response"] = self.response.rstrip(b"\0").hex()
        return json.dumps(data)

    @property
    def is_request(self) -> bool:
        """Whether it can be sent again: a request, not a response or a trap."""
        return awaits_response(method_of(self.mad))


def read_record(file: Path) -> Iterator[MadExchange]:
    """Yield the exchanges in a file, in order. Raises InputError: it cannot be read, or contains invalid data."""
    try:
        data = read_bytes(file, MAX_CAPTURE, "record of MADs")
    except FileError as error:
        raise InputError(str(error)) from error
    return _of_capture(file, data) if is_capture(data) else _of_lines(file, data)


def _of_lines(file: Path, data: bytes) -> Iterator[MadExchange]:
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            mad = bytes.fromhex(item["mad"])
            response = bytes.fromhex(item["response"]) if item.get("response") else None
            if len(mad) < MadHeader.SIZE:
                raise ValueError(f"MAD of {len(mad)} bytes")
            yield MadExchange(int(item["lid"]), mad, response)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InputError(f"{file}:{number}: not a recorded MAD{_why(error)}; {_FORM}") from error


def _why(error: Exception) -> str:
    """Return the part of an error about a line that is useful in a message."""
    if isinstance(error, KeyError):
        return f": no {error}"
    if isinstance(error, ValueError) and not isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return f": {error}"
    return ""


def _of_capture(file: Path, data: bytes) -> Iterator[MadExchange]:
    pairing = Pairing()
    try:
        for packet in read_capture(data):
            if (carried := packet_of(packet.link_type, packet.data)) is not None:
                yield from pairing.take(carried)
    except WireError as error:
        raise InputError(f"{file}: {error}") from error
    yield from pairing.rest()


class Pairing:
    """Pairs the requests among packets, 16B and 9B, with their responses, by LIDs and transaction id."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int, int], MadExchange] = {}

    def take(self, data: bytes) -> Iterator[MadExchange]:
        """Take one packet; yield the exchange that it completes, if any. Retries and other packets are skipped."""
        try:
            lrh = Lrh16B.parse(data)
            if lrh.l4 != L4.FM or check_packet(data, None) is not None:
                return
            _, mad = parse_mad_packet(data)
            header = MadHeader.parse(mad)
        except WireError:
            return  # damaged in transit: its receiver dropped it too
        slid, dlid = lrh.slid, lrh.dlid
        if header.method & RESPONSE_BIT:
            request = self._waiting.pop((slid, dlid, header.tid), None)
            if request is not None:
                yield MadExchange(request.lid, request.mad, mad)
        elif not awaits_response(header.method):
            yield MadExchange(slid, mad)
        else:
            self._waiting.setdefault((dlid, slid, header.tid), MadExchange(dlid, mad))
            if len(self._waiting) > MAX_UNANSWERED:
                yield self._waiting.pop(next(iter(self._waiting)))

    def rest(self) -> Iterator[MadExchange]:
        """Yield the requests that were never answered."""
        yield from self._waiting.values()
        self._waiting = {}
