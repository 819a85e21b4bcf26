"""Descriptions of packets, field by field: the position of each field, its value, and the meaning of that.

Positions of the 16B header and of the trailer are quad words and bits, as in the document's table; what lies
between is counted in bytes from the start of the packet. What is damaged is described as far as it can be read,
and the faults stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import DECIMAL, HEX, Field, Place, Shown, bytes_where
from hfi_sim.wire.header import Header
from hfi_sim.wire.icrc import ICRC_SIZE, PAD_COUNT_MASK, TRAILER_SIZE, Icrc
from hfi_sim.wire.lrh16b import L4, L4_BYTE, EthernetL4, FmHeader, Lrh16B, is_9b
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MadHeader, RmppHeader, VendorHeader, is_vendor_class
from hfi_sim.wire.packet import MIN_PACKET, QUAD_WORD, Packet16B, Trailer, check_packet
from hfi_sim.wire.packet_9b import UD_SEND_ONLY, Bth, Deth, Lrh9B, bth_at
from opavnic.decode import meanings

_ETHERNET_HEADER: Final = 14
_SHOWN_BYTES: Final = 16
_SHOWN_ITEMS: Final = 32


@dataclass(frozen=True, slots=True)
class DescribedField:
    """One line of a description."""

    layer: str
    where: str
    """`QW0 0-19` or `byte 20-25`."""
    name: str
    value: int | str
    """A number, or hex digits where the field is a string of bytes."""
    meaning: str
    shown: Shown = DECIMAL
    """How it is declared to be displayed."""

    @property
    def text(self) -> str:
        """Its value as people read it: keys, LIDs and bits in hex, numbers and counts in decimal."""
        return _shown(self.value, self.shown)


class MadPart(NamedTuple):
    """A part of a MAD behind its header."""

    name: str
    header: Header
    start: int
    """Its first byte, counted from the MAD's."""


MadLayers = Callable[[MadHeader, bytes], Iterable[MadPart]]
"""Takes a MAD, and returns the parts that it knows."""


@dataclass(slots=True)
class Description:
    """The fields of one packet in wire order, and what is wrong with it."""

    size: int
    """Bytes that were there."""
    fields: list[DescribedField] = field(default_factory=list)
    faults: list[WireError] = field(default_factory=list)
    header: Lrh16B | None = None
    """The 16B header with whole LIDs; None for an Ethernet frame by itself."""

    def add(
        self, layer: str, where: str, name: str, value: int | str, meaning: str = "", shown: Shown = DECIMAL
    ) -> None:
        """Append one field."""
        self.fields.append(DescribedField(layer, where, name, value, meaning, shown))

    def add_header(
        self,
        layer: str,
        header: Header,
        data: bytes,
        start: int,
        *,
        where: Callable[[Place, int], str] = Place.in_bytes,
        meaning: Callable[[str, Any], str] = lambda name, value: "",
    ) -> None:
        """Append all fields of a header that starts `start` bytes into the packet.

        Args:    where: how its positions are written. meaning: what a value says, where that takes more than the
                 declaration; empty: what the declaration says.
        """
        values = dict(zip(header.names, header.unpack(data[start:]), strict=True))
        for place in header.places:
            value = values[place.field_name]
            if isinstance(value, tuple):
                text = _listed(value, place.field)
                self.add(layer, where(place, start), place.name, text, place.meaning)
                continue
            if not isinstance(value, bytes):
                value = value >> place.shift & (1 << place.width_bits) - 1
            said = meaning(place.name, value) or place.field.text_of(value) or place.meaning
            text = value.hex() if isinstance(value, bytes) else value
            self.add(layer, where(place, start), place.name, text, said, place.field.shown)


def _shown(value: Any, shown: Shown) -> str:
    return f"{value:#x}" if shown is HEX and isinstance(value, int) else str(value)


def _listed(items: tuple[Any, ...], field: Field) -> str:
    """Return the items of a field of several, the first ones of many."""
    words = (
        "/".join(_shown(part, field.record.fields[name].shown) for name, part in item.items())
        if isinstance(item, dict)
        else _shown(item, field.shown)
        for item in items[:_SHOWN_ITEMS]
    )
    return ", ".join(words) + (", ..." if len(items) > _SHOWN_ITEMS else "")


def describe_packet(data: bytes, icrc: Icrc | None, mad_layers: MadLayers | None = None) -> Description:
    """Describe one 16B packet, or a 9B packet as links carry it.

    Args:    icrc: None: the ICRC is shown, not checked. mad_layers: knows what MADs hold; None: only those of vendor
             classes are described further than their header.
    Raises:  WireError: fewer than the 16 bytes of the header, so there is nothing to describe.
    """
    lrh = Lrh16B.parse(data)
    described = Description(len(data), header=lrh)
    has_head = is_9b(data)
    if not has_head:
        try:
            Packet16B.parse(data)
        except WireError as fault:
            described.faults.append(fault)
    described.add_header(
        "head" if has_head else "16B",
        Lrh16B.HEADER,
        data,
        0,
        where=Place.in_quad_words,
        meaning=lambda name, value: meanings.header_field(name, value, lrh, len(data)),
    )
    if has_head:
        _describe_9b(described, data, icrc, mad_layers)
        return described
    end = lrh.length_qw * QUAD_WORD
    whole = MIN_PACKET <= end <= len(data)
    payload_end = _payload_end(data, end) if whole else len(data)
    _describe_l4(described, lrh.l4, data[:payload_end], mad_layers)
    if whole:
        _describe_trailer(described, data[:end], payload_end, icrc)
    if whole:
        _describe_bytes(described, "behind it", "excess", data, end, "not part of the packet")
    return described


def _describe_9b(
    described: Description, data: bytes, icrc: Icrc | None, mad_layers: MadLayers | None
) -> None:
    """Append what stands behind the head of a 9B packet."""
    at, end = bth_at(data, HEADER_SIZE), len(data) - ICRC_SIZE
    drop = check_packet(data, icrc)
    if drop is not None:
        described.faults.append(WireError("packet", HEADER_SIZE, f"a port drops it: {drop.value}"))
    if at is None:
        _describe_bytes(described, "9B", "bytes", data, HEADER_SIZE)
        return
    described.add_header("LRH", Lrh9B.HEADER, data, HEADER_SIZE)
    _describe_bytes(described, "GRH", "grh", data[:at], HEADER_SIZE + Lrh9B.SIZE)
    described.add_header("BTH", Bth.HEADER, data, at)
    rest = at + Bth.SIZE
    if data[at] == UD_SEND_ONLY and end - rest >= Deth.SIZE:
        described.add_header("DETH", Deth.HEADER, data, rest)
        rest += Deth.SIZE
    if data[L4_BYTE] == L4.FM:
        _describe_mad(described, data[:end], rest, mad_layers)
    else:
        _describe_bytes(described, "payload", "payload", data[:end], rest)
    said = "not checked" if icrc is None else "does not match" if drop is Drop.RX_ICRC else "matches"
    icrc_value = int.from_bytes(data[end:], "little")
    described.add("ICRC", bytes_where(end, len(data)), "icrc", icrc_value, said, HEX)


def describe_frame(data: bytes) -> Description:
    """Describe an Ethernet frame by itself."""
    described = Description(len(data))
    _describe_ethernet(described, data, 0)
    return described


def _payload_end(data: bytes, end: int) -> int:
    """Return where the payload ends, or where the pad would end if the pad count cannot be right."""
    without_pad = end - TRAILER_SIZE - (data[end - 1] & PAD_COUNT_MASK)
    return without_pad if without_pad >= HEADER_SIZE else end - TRAILER_SIZE


def _describe_bytes(
    described: Description, layer: str, name: str, data: bytes, start: int, meaning: str = ""
) -> None:
    """Append what is left from `start` as one line, unless nothing is left."""
    rest = data[start:]
    if not rest:
        return
    shown = rest[:_SHOWN_BYTES].hex() + ("..." if len(rest) > _SHOWN_BYTES else "")
    size = meanings.byte_count(len(rest)) + ("" if any(rest) else ", all zero")
    described.add(
        layer, bytes_where(start, len(data)), name, shown, f"{size}; {meaning}" if meaning else size
    )


def _describe_l4(described: Description, l4: int, data: bytes, mad_layers: MadLayers | None) -> None:
    """Append the L4 header and what it carries; `data` ends where the payload ends."""
    if l4 == L4.ETHERNET and len(data) >= HEADER_SIZE + EthernetL4.SIZE:
        described.add_header(
            "Ethernet L4",
            EthernetL4.HEADER,
            data,
            HEADER_SIZE,
            where=Place.in_quad_words,
            meaning=meanings.ethernet_l4_field,
        )
        _describe_ethernet(described, data, HEADER_SIZE + EthernetL4.SIZE)
    elif l4 == L4.FM and len(data) >= HEADER_SIZE + FmHeader.SIZE:
        described.add_header("FM", FmHeader.HEADER, data, HEADER_SIZE, meaning=meanings.fm_field)
        _describe_mad(described, data, HEADER_SIZE + FmHeader.SIZE, mad_layers)
    else:
        _describe_bytes(described, "payload", "payload", data, HEADER_SIZE)


def _describe_mad(described: Description, data: bytes, start: int, mad_layers: MadLayers | None) -> None:
    if len(data) - start < MadHeader.SIZE:
        _mark_short(described, "MAD", "MAD header", data, start, MadHeader.SIZE)
        return
    header = MadHeader.parse(data[start:])
    described.add_header(
        "MAD",
        MadHeader.HEADER,
        data,
        start,
        meaning=lambda name, value: meanings.mad_field(name, value, header),
    )
    rest = start + MadHeader.SIZE
    if is_vendor_class(header.mgmt_class) and len(data) - start >= DATA_OFFSET_VENDOR:
        for title, kind in (("RMPP", RmppHeader), ("vendor", VendorHeader)):
            described.add_header(title, kind.HEADER, data, rest, meaning=meanings.vendor_field)
            rest += kind.SIZE
    for layer in () if mad_layers is None else mad_layers(header, data[start:]):
        _describe_bytes(described, "MAD", "data", data[: start + layer.start], rest)
        described.add_header(layer.name, layer.header, data, start + layer.start)
        rest = max(rest, start + layer.start + layer.header.size)
    _describe_bytes(described, "MAD", "data", data, rest)


def _describe_ethernet(described: Description, data: bytes, start: int) -> None:
    if len(data) - start < _ETHERNET_HEADER:
        _mark_short(described, "Ethernet", "Ethernet header", data, start, _ETHERNET_HEADER)
        return
    for name, offset in (("destination", start), ("source", start + 6)):
        mac = data[offset : offset + 6]
        described.add("Ethernet", bytes_where(offset, offset + 6), name, mac.hex(":"), meanings.mac(mac))
    offset = start + 12
    ethertype = int.from_bytes(data[offset : offset + 2])
    while ethertype in meanings.VLAN_TYPES and len(data) - offset >= 6:
        described.add(
            "VLAN", bytes_where(offset, offset + 2), "type", ethertype, meanings.ethertype(ethertype), HEX
        )
        tci = int.from_bytes(data[offset + 2 : offset + 4])
        described.add("VLAN", bytes_where(offset + 2, offset + 4), "tci", tci, meanings.vlan_tci(tci), HEX)
        offset += 4
        ethertype = int.from_bytes(data[offset : offset + 2])
    described.add(
        "Ethernet", bytes_where(offset, offset + 2), "type", ethertype, meanings.ethertype(ethertype), HEX
    )
    _describe_bytes(
        described,
        "Ethernet",
        "payload",
        data,
        offset + 2,
        meanings.network_payload(ethertype, data[offset + 2 :]),
    )


def _mark_short(described: Description, layer: str, name: str, data: bytes, start: int, needed: int) -> None:
    """Note that a header does not fit into what is there, and show the bytes."""
    _describe_bytes(described, layer, "bytes", data, start)
    reason = f"{len(data) - start} bytes, the {name} needs {needed}"
    described.faults.append(WireError(name.replace(" ", "_").lower(), len(data), reason))


def _describe_trailer(described: Description, packet: bytes, payload_end: int, icrc: Icrc | None) -> None:
    icrc_at = len(packet) - TRAILER_SIZE
    if icrc_at > payload_end:
        pad = packet[payload_end:icrc_at]
        meaning = meanings.byte_count(len(pad)) + (
            ", zero" if not any(pad) else ", not zero: allowed, not usual"
        )
        described.add("trailer", bytes_where(payload_end, icrc_at), "pad", pad.hex(), meaning)
    described.add_header(
        "trailer",
        Trailer.HEADER,
        packet,
        icrc_at,
        where=Place.in_quad_words,
        meaning=lambda name, value: (
            _icrc_meaning(described, packet, value, icrc)
            if name == "icrc"
            else meanings.pad_count(value)
            if name == "tail"
            else ""
        ),
    )


def _icrc_meaning(described: Description, packet: bytes, found: int, icrc: Icrc | None) -> str:
    """Return what the ICRC says, and note the fault where it does not match."""
    if icrc is None:
        return "not checked"
    expected = icrc.compute(packet[:-TRAILER_SIZE], packet[-1] & PAD_COUNT_MASK)
    if expected == found:
        return "matches"
    reason = f"ICRC is {found:#010x}, the packet gives {expected:#010x}"
    described.faults.append(WireError("icrc", len(packet) - TRAILER_SIZE, reason))
    return f"does not match: {expected:#010x} would"
