"""scapy layers of the EJFAT headers, for interactive use and tests; the pipeline does not use scapy."""

from __future__ import annotations

from typing import Any

from scapy.fields import (
    BitField,
    ByteEnumField,
    ByteField,
    IntField,
    LongField,
    ShortEnumField,
    XBitField,
    XByteField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from ejfat.wire.headers import LB_PORT, PROTOCOL_RE


class UDPLB(Packet):
    """Load balancer header, version 1."""

    name = "UDP LB v1"
    # generated: lb-v1 (made by `make generated` from ejfat/wire/headers.py; do not edit)
    fields_desc = [
        ShortEnumField("magic", 19522, {0x4C42: "LB"}),
        ByteField("version", 1),
        ByteEnumField("protocol", 1, {0x1: "reassembly header"}),
        LongField("tick", 0),
    ]
    # end of generated

    @classmethod
    def dispatch_hook(cls, data: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        """Choose the layer by the version byte."""
        if data is not None and len(data) >= 3:
            return {2: UDPLB2, 3: UDPLB3}.get(data[2], UDPLB)
        return cls


class UDPLB2(Packet):
    """Load balancer header, version 2."""

    name = "UDP LB v2"
    # generated: lb-v2 (made by `make generated` from ejfat/wire/headers.py; do not edit)
    fields_desc = [
        ShortEnumField("magic", 19522, {0x4C42: "LB"}),
        ByteField("version", 2),
        ByteEnumField("protocol", 1, {0x1: "reassembly header"}),
        XShortField("reserved", 0),
        XShortField("entropy", 0),
        LongField("tick", 0),
    ]
    # end of generated


class UDPLB3(Packet):
    """Load balancer header, version 3."""

    name = "UDP LB v3"
    # generated: lb-v3 (made by `make generated` from ejfat/wire/headers.py; do not edit)
    fields_desc = [
        ShortEnumField("magic", 19522, {0x4C42: "LB"}),
        ByteField("version", 3),
        ByteEnumField("protocol", 1, {0x1: "reassembly header"}),
        XShortField("slot_select", 0),
        XShortField("port_select", 0),
        LongField("tick", 0),
    ]
    # end of generated


class EVIO6Seg(Packet):
    """The reassembly header of version 1 (8 bytes)."""

    name = "EVIO6 Segment"
    # generated: segment (made by `make generated` from ejfat/wire/headers.py; do not edit)
    fields_desc = [
        BitField("version", 0, 4),
        XBitField("reserved", 0, 10),
        BitField("first", 0, 1),
        BitField("last", 0, 1),
        XShortField("data_id", 0),
        IntField("offset", 0),
    ]
    # end of generated


class EJFATRE(Packet):
    """The reassembly header of versions 2 and 3 (20 bytes)."""

    name = "EJFAT RE"
    # generated: re (made by `make generated` from ejfat/wire/headers.py; do not edit)
    fields_desc = [
        BitField("version", 1, 4),
        XBitField("flags", 0, 12),
        XShortField("data_id", 0),
        IntField("offset", 0),
        IntField("length", 0),
        LongField("event", 0),
    ]
    # end of generated


class EJFATSync(Packet):
    """A sender's sync message to the control plane."""

    name = "EJFAT sync"
    # generated: sync (made by `make generated` from ejfat/wire/headers.py; do not edit)
    fields_desc = [
        ShortEnumField("magic", 19523, {0x4C43: "LC"}),
        ByteField("version", 2),
        XByteField("reserved", 0),
        IntField("source_id", 0),
        LongField("event", 0),
        IntField("rate_hz", 0),
        LongField("unix_ns", 0),
    ]
    # end of generated


__all__ = ["EJFATRE", "UDPLB", "UDPLB2", "UDPLB3", "EJFATSync", "EVIO6Seg"]

bind_layers(UDP, UDPLB, dport=LB_PORT)
bind_layers(UDPLB, EVIO6Seg, protocol=PROTOCOL_RE)
bind_layers(UDPLB2, EJFATRE, protocol=PROTOCOL_RE)
bind_layers(UDPLB3, EJFATRE, protocol=PROTOCOL_RE)
