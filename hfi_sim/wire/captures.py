"""Capture files, pcap and pcapng: one reader and one writer, for whole files and for streams that grow.

Packets keep their time in nanoseconds, the name of their interface and their comment, as far as the format has them.
16B packets have link type 147 (USER0), 9B packets 197 (ERF). Where a file was cut off, the reader does not stop
quietly, but says so.

Source: the pcapng specification (draft-ietf-opsawg-pcapng): section, interface, simple and enhanced packet, interface
statistics blocks; and that of pcap (draft-ietf-opsawg-pcap).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import Order
from hfi_sim.wire.header import Header, structure
from hfi_sim.wire.packet_9b import carry_9b

DLT_ETHERNET: Final = 1
DLT_ERF: Final = 197
"""Records of Endace, each with a type; 9B packets have it, with type 29, which Wireshark itself reads."""
DLT_USER0: Final = 147
"""The first link type that is free for private use; our captures of 16B packets have it."""
NS_PER_S: Final = 10**9
MAX_BLOCK: Final = 1 << 20
"""Bytes of a block or packet in a stream; those of links are much shorter."""

PCAP_HEADER: Final = "pcap header"
PCAP_RECORD: Final = "pcap record"
PCAPNG_BLOCK: Final = "pcapng block"
PCAPNG_SECTION: Final = "pcapng section"
"""Fields of a WireError about what a file begins with: nothing of it can be read."""

_PCAP_MAGICS: Final[Mapping[bytes, tuple[Order, int]]] = {  # byte order, and nanoseconds in a unit of time
    b"\xa1\xb2\xc3\xd4": ("big", 1000),
    b"\xd4\xc3\xb2\xa1": ("little", 1000),
    b"\xa1\xb2\x3c\x4d": ("big", 1),
    b"\x4d\x3c\xb2\xa1": ("little", 1),
}
_PCAP_MICROSECONDS: Final = 0xA1B2C3D4
_SNAPLEN: Final = 0xFFFF

_PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER_MARK: Final = 0x1A2B3C4D
_BYTE_ORDERS: Final[Mapping[bytes, Order]] = {
    b"\x1a\x2b\x3c\x4d": "big",
    b"\x4d\x3c\x2b\x1a": "little",
}
SECTION, INTERFACE, _SIMPLE_PACKET, STATISTICS, ENHANCED_PACKET = 0x0A0D0D0A, 1, 3, 5, 6
_OPT_END, _OPT_COMMENT, _OPT_IF_NAME, _OPT_IF_TSRESOL = 0, 1, 2, 9
_OPT_ISB_IFRECV, _OPT_ISB_IFDROP = 4, 5
_TSRESOL_MICROSECONDS, _TSRESOL_NANOSECONDS = b"\x06", b"\x09"
_BINARY_RESOLUTION: Final = 0x80


class CaptureForms:
    """What the parts of captures begin with, in one byte order."""

    def __init__(self, order: Order) -> None:
        form = partial(structure, order=order, module=__name__)
        self.file = form(
            PCAP_HEADER, "u32 magic; u16 major, minor; s32 thiszone; u32 sigfigs, snaplen, linktype"
        )
        self.record = form(PCAP_RECORD, "u32 ts_sec, ts_frac, incl_len, orig_len")
        self.block = form(PCAPNG_BLOCK, "u32 type, length")
        body = partial(form, within=PCAPNG_BLOCK)
        self.section = body("section header", "u32 magic; u16 major, minor; s64 length")
        self.interface = body("interface description", "u16 linktype, reserved; u32 snaplen")
        self.enhanced = body("enhanced packet", "u32 interface, time_high, time_low, captured, original")
        self.simple = body("simple packet", "u32 original")
        self.statistics = body("interface statistics", "u32 interface, time_high, time_low")
        self.option = body("option", "u16 code, length")


FORMS: Final[Mapping[Order, CaptureForms]] = {"little": CaptureForms("little"), "big": CaptureForms("big")}
OURS: Final = FORMS["little"]
"""Those of what is written here."""
_LENGTH_SIZE: Final = 4
_SMALLEST_BLOCK: Final = OURS.block.size + _LENGTH_SIZE


class CapturedPacket(NamedTuple):
    """One packet of a capture."""

    link_type: int
    data: bytes
    """As far as it was captured."""
    wire_len: int
    """Bytes that the packet had on the wire."""
    time_ns: int = 0
    """Since 1970, or since what the clock of the capture counts from."""
    interface: str = ""
    comment: str = ""


def is_capture(data: bytes) -> bool:
    """Return whether `data` begins as a pcap or pcapng file does."""
    return data[:4] in _PCAP_MAGICS or data[:4] == _PCAPNG_MAGIC


def read_capture(data: bytes) -> Iterator[CapturedPacket]:
    """Yield the packets of a whole pcap or pcapng file.

    Raises:  WireError: no such file, or it ends in the middle; the latter after what could be read.
    """
    if not is_capture(data):
        raise _no_capture()
    return CaptureReader(BytesIO(data), longest=len(data)).packets()


class CaptureReader:
    """Reads a pcap or pcapng file as it comes. Bounded: neither a block nor a packet is longer than `longest`."""

    def __init__(self, stream: BinaryIO, *, longest: int = MAX_BLOCK) -> None:
        self._read = stream.read
        self._longest = longest
        self._offset = 0
        self._statistics: dict[tuple[int, int], int] = {}
        """Packets that were missed, by section and interface."""

    @property
    def missed(self) -> int:
        """Packets that the capture could not keep up with, as far as it was read."""
        return sum(self._statistics.values())

    def packets(self) -> Iterator[CapturedPacket]:
        """Yield the packets until the stream ends.

        Raises:  WireError: no such file, or it ends in the middle.
        """
        magic = self._take(4, "capture", "the first word", may_end=True)
        if magic in _PCAP_MAGICS:
            return self._pcap(*_PCAP_MAGICS[magic])
        if magic == _PCAPNG_MAGIC:
            return self._pcapng(magic + self._take(4, PCAPNG_SECTION, "a header"))
        if magic:
            raise _no_capture()
        return iter(())

    def _take(self, size: int, what: str, inside: str, *, may_end: bool = False) -> bytes:
        """Return the next `size` bytes, which may come in pieces; with `may_end`, none where the stream ends.

        Raises:  WireError: the stream ends before.
        """
        data = self._read(size)
        while len(data) < size:
            if may_end and not data:
                return b""
            more = self._read(size - len(data))
            if not more:
                reason = f"the file ends inside {inside} of {size} bytes, {len(data)} of them are there"
                raise WireError(what, self._offset + len(data), reason)
            data += more
        self._offset += size
        return data

    def _pcap(self, order: Order, unit_ns: int) -> Iterator[CapturedPacket]:
        magic, forms, take = bytes(4), FORMS[order], self._take
        rest = take(forms.file.size - len(magic), PCAP_HEADER, "a header")
        link_type, record = forms.file.parse(magic + rest).linktype & 0xFFFF, forms.record
        while head := take(record.size, PCAP_RECORD, "a record header", may_end=True):
            seconds, units, captured, wire_len = record.unpack(head)
            if captured > self._longest:
                start = self._offset - record.size
                reason = f"a packet of {captured} bytes is longer than any can be"
                raise WireError(PCAP_RECORD, start, reason)
            time_ns = seconds * NS_PER_S + units * unit_ns
            yield CapturedPacket(link_type, take(captured, PCAP_RECORD, "a packet"), wire_len, time_ns)

    def _pcapng(self, head: bytes) -> Iterator[CapturedPacket]:
        section, sections = _Section("little"), 0
        while head:
            start = self._offset - len(head)
            what, begun = PCAPNG_BLOCK, b""
            if head[:4] == _PCAPNG_MAGIC:
                what = PCAPNG_SECTION
                begun = self._take(4, what, "a header")
                if begun not in _BYTE_ORDERS:
                    raise WireError(what, start + len(head), "unknown byte order mark")
                section, sections = _Section(_BYTE_ORDERS[begun]), sections + 1
            kind, size = section.head.unpack(head)
            left = size - len(head) - len(begun)
            if size % 4 or left < 4 or size > self._longest:
                raise WireError(what, start, f"a block of {size} bytes")
            rest = self._take(left, what, "a block")
            if rest[-4:] != head[4:8]:
                reason = f"a block of {size} bytes that says at its end that it has another length"
                raise WireError(what, start, reason)
            body = begun + rest[:-4]
            try:
                if kind == ENHANCED_PACKET:
                    yield section.enhanced_packet(body)
                elif kind == _SIMPLE_PACKET:
                    yield section.simple_packet(body)
                elif kind == INTERFACE:
                    section.add_interface(body)
                elif kind == STATISTICS:
                    interface, missed = section.missed(body)
                    self._statistics[sections, interface] = missed
            except WireError as error:
                raise WireError(error.field, start + len(head) + error.offset, error.reason) from None
            head = self._take(8, PCAPNG_BLOCK, "a block", may_end=True)


class _Interface(NamedTuple):
    link_type: int
    name: str
    snap: int
    """Bytes that are kept of a packet at most; 0: all."""
    units_per_s: int
    """Units of time."""


class _Section:
    """What the blocks of a section of a pcapng file mean: its byte order, and its interfaces."""

    def __init__(self, order: Order) -> None:
        self._order: Final = order
        self._forms = FORMS[order]
        self.head = self._forms.block.codec
        self._interfaces: list[_Interface] = []

    def add_interface(self, body: bytes) -> None:
        """Take the next interface. Raises WireError: the block is too short for one."""
        form = self._forms.interface
        link_type, _, snap = form.unpack(body)
        options = self._options(body, form.size)
        resolution = options.get(_OPT_IF_TSRESOL, b"") or _TSRESOL_MICROSECONDS
        units = (
            2 ** (resolution[0] & ~_BINARY_RESOLUTION)
            if resolution[0] & _BINARY_RESOLUTION
            else 10 ** resolution[0]
        )
        name = options.get(_OPT_IF_NAME, b"").decode(errors="replace")
        self._interfaces.append(_Interface(link_type, name, snap, units))

    def enhanced_packet(self, body: bytes) -> CapturedPacket:
        """Return a packet. Raises WireError: the block is too short, or of an interface that is not described."""
        form = self._forms.enhanced
        number, high, low, captured, wire_len = form.unpack(body)
        if number >= len(self._interfaces):
            raise unknown_interface(number)
        link_type, name, _, units_per_s = self._interfaces[number]
        data = _captured(body, form, captured)
        at, comment = form.size + captured + -captured % 4, ""
        if at < len(body):
            comment = self._options(body, at).get(_OPT_COMMENT, b"").decode(errors="replace")
        when = high << 32 | low
        time_ns = when if units_per_s == NS_PER_S else when * NS_PER_S // units_per_s
        return CapturedPacket(link_type, data, wire_len, time_ns, name, comment)

    def simple_packet(self, body: bytes) -> CapturedPacket:
        """Return a packet of the first interface, without a time. Raises WireError as `enhanced_packet` does."""
        form = self._forms.simple
        (wire_len,) = form.unpack(body)
        if not self._interfaces:
            raise unknown_interface(0)
        interface = self._interfaces[0]
        data = _captured(body, form, min(wire_len, interface.snap or wire_len))
        return CapturedPacket(interface.link_type, data, wire_len, 0, interface.name)

    def missed(self, body: bytes) -> tuple[int, int]:
        """Return an interface and how many of its packets were missed, by an interface statistics block.

        Raises:  WireError: the block is too short.
        """
        form = self._forms.statistics
        count = self._options(body, form.size).get(_OPT_ISB_IFDROP, b"")
        return form.parse(body).interface, int.from_bytes(count[:8], self._order)

    def _options(self, body: bytes, at: int) -> dict[int, bytes]:
        """Return the options that begin at `at`, by code; what is cut off there is left out."""
        options: dict[int, bytes] = {}
        while at + 4 <= len(body):
            code, size = self._forms.option.unpack(body[at : at + 4])
            if code == _OPT_END:
                break
            options[code] = body[at + 4 : at + 4 + size]
            at += 4 + size + -size % 4
        return options


def _captured(body: bytes, form: Header, size: int) -> bytes:
    """Return the bytes of a packet behind what begins its block. Raises WireError: the block ends inside them."""
    data = body[form.size : form.size + size]
    if len(data) < size:
        path = f"{form.within} -> {form.name}"
        raise WireError(path, form.size, f"packet of {size} bytes in a block with {len(body)}")
    return data


def missed_packets(block: bytes) -> tuple[int, int]:
    """Return an interface and how many of its packets were missed, by a whole statistics block in little-endian order.

    Raises:  WireError: the block is too short.
    """
    return _Section("little").missed(block[OURS.block.size : -_LENGTH_SIZE])


def _no_capture() -> WireError:
    return WireError("capture", 0, "neither a pcap nor a pcapng file: unknown first four bytes")


def unknown_interface(number: int) -> WireError:
    """Return the error of a packet or of statistics of an interface without a description."""
    return WireError(
        f"{PCAPNG_BLOCK} -> interface", 0, f"interface {number}, which the file does not describe"
    )


# --- 9B packets ------------------------------------------------------------------------------------------------

_ERF: Final = structure(
    "ERF header", "u64 time; u8 type, flags; u16 record_size, lost, wire_size", "big", module=__name__
)
_ERF_9B: Final = 29
_VARYING_LENGTH: Final = 4


def erf_9b(packet: bytes) -> bytes:
    """Return the record of a 9B packet as its receiver has it (`bare_9b`); its time is that of its block."""
    size = len(packet)
    head = _ERF.build(type=_ERF_9B, flags=_VARYING_LENGTH, record_size=_ERF.size + size, wire_size=size)
    return head + packet


def packet_of(link_type: int, data: bytes) -> bytes | None:
    """Return a captured packet as links carry it; None: it is no packet of a fabric, or was cut off."""
    if link_type == DLT_USER0:
        return data
    if link_type != DLT_ERF or len(data) < _ERF.size or data[_TYPE_AT] & _TYPE_MASK != _ERF_9B:
        return None
    try:
        return carry_9b(data[_ERF.size :], None)
    except WireError:
        return None


_TYPE_AT: Final = 8
_TYPE_MASK: Final = 0x7F


# --- writing -------------------------------------------------------------------------------------------------

_pack_head: Final = OURS.block.codec.pack
_pack_packet: Final = OURS.enhanced.codec.pack
_END_OF_OPTIONS: Final = bytes(4)


class PcapngWriter:
    """Makes the bytes of a pcapng file with times in nanoseconds; the caller writes them somewhere."""

    def __init__(self, link_type: int = DLT_USER0) -> None:
        self._link_type = link_type
        self._interfaces: dict[str, int] = {}

    def head(self) -> bytes:
        """Return what a file begins with."""
        return _block(SECTION, OURS.section.build(magic=_BYTE_ORDER_MARK, major=1, length=-1))

    def packet(self, data: bytes, time_ns: int, interface: str, comment: str = "") -> bytes:
        """Return one packet; the first of an interface has that interface in front."""
        new = b"" if interface in self._interfaces else self.interface(interface)
        return new + enhanced_packet(self._interfaces[interface], time_ns, data, len(data), comment.encode())

    def interface(self, name: str, snap: int = 0) -> bytes:
        """Return the description of the next interface, counted from 0.

        Args:  snap: bytes that are kept of a packet at most; 0: all.
        """
        self._interfaces[name] = len(self._interfaces)
        return interface(name, self._link_type, snap)


def interface(name: str, link_type: int, snap: int = 0) -> bytes:
    """Return the description of an interface."""
    options = _option(_OPT_IF_NAME, name.encode()) + _option(_OPT_IF_TSRESOL, _TSRESOL_NANOSECONDS)
    description = OURS.interface.build(linktype=link_type, snaplen=snap)
    return _block(INTERFACE, description + options + _END_OF_OPTIONS)


def enhanced_packet(interface: int, time_ns: int, data: bytes, wire_len: int, comment: bytes = b"") -> bytes:
    """Return one packet of an interface that was described. Args: data: what is kept of its `wire_len` bytes."""
    body = _pack_packet(interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), wire_len) + _padded(data)
    if comment:
        body += _option(_OPT_COMMENT, comment) + _END_OF_OPTIONS
    return _block(ENHANCED_PACKET, body)


def interface_statistics(interface: int, time_ns: int, received: int, missed: int) -> bytes:
    """Return what an interface has counted so far. Args: missed: those of `received` that were not kept."""
    options = _option(_OPT_ISB_IFRECV, received.to_bytes(8, "little"))
    options += _option(_OPT_ISB_IFDROP, missed.to_bytes(8, "little")) + _END_OF_OPTIONS
    when = OURS.statistics.build(interface=interface, time_high=time_ns >> 32, time_low=time_ns & 0xFFFFFFFF)
    return _block(STATISTICS, when + options)


def pcap_header(link_type: int) -> bytes:
    """Return what a pcap file with times in microseconds begins with."""
    return OURS.file.build(magic=_PCAP_MICROSECONDS, major=2, minor=4, snaplen=_SNAPLEN, linktype=link_type)


def pcap_record(data: bytes, time_ns: int) -> bytes:
    """Return one packet of a pcap file with times in microseconds."""
    seconds, rest = divmod(time_ns, NS_PER_S)
    return OURS.record.codec.pack(seconds, rest // 1000, len(data), len(data)) + data


def _option(code: int, value: bytes) -> bytes:
    return OURS.option.codec.pack(code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + _SMALLEST_BLOCK
    return _pack_head(kind, size) + body + size.to_bytes(_LENGTH_SIZE, "little")
