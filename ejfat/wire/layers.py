"""scapy layers of the EJFAT headers, for people and tests; the pipeline never goes through scapy."""

from __future__ import annotations

from typing import Any

from scapy.fields import (
    BitField,
    FlagsField,
    IntField,
    LongField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from ejfat.wire.headers import LB_MAGIC, LB_PORT, PROTOCOL_RE, SYNC_MAGIC


class UDPLB(Packet):
    """Load balancer header, version 1."""

    name = "UDP LB v1"
    fields_desc = [  # noqa: RUF012  (scapy's way of declaring a layer)
        XShortField("magic", LB_MAGIC),
        XByteField("version", 1),
        XByteField("proto", PROTOCOL_RE),
        XLongField("tick", 0),
    ]

    @classmethod
    def dispatch_hook(cls, data: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        """Choose the layer by the version byte."""
        if data is not None and len(data) >= 3:
            return {2: UDPLB2, 3: UDPLB3}.get(data[2], UDPLB)
        return cls


class UDPLB2(Packet):
    """Load balancer header, version 2."""

    name = "UDP LB v2"
    fields_desc = [  # noqa: RUF012
        XShortField("magic", LB_MAGIC),
        XByteField("version", 2),
        XByteField("proto", PROTOCOL_RE),
        XShortField("reserved", 0),
        XShortField("entropy", 0),
        XLongField("tick", 0),
    ]


class UDPLB3(Packet):
    """Load balancer header, version 3."""

    name = "UDP LB v3"
    fields_desc = [  # noqa: RUF012
        XShortField("magic", LB_MAGIC),
        XByteField("version", 3),
        XByteField("proto", PROTOCOL_RE),
        XShortField("slot_select", 0),
        XShortField("port_select", 0),
        XLongField("tick", 0),
    ]


class EVIO6Seg(Packet):
    """The document's reassembly header (8 bytes)."""

    name = "EVIO6 Segment"
    fields_desc = [  # noqa: RUF012
        BitField("version", 0, 4),
        BitField("reserved", 0, 10),
        FlagsField("flags", 0, 2, ["last", "first"]),
        XShortField("rocid", 0),
        XIntField("offset", 0),
    ]


class EJFATRE(Packet):
    """Today's reassembly header (20 bytes)."""

    name = "EJFAT RE"
    fields_desc = [  # noqa: RUF012
        BitField("version", 1, 4),
        BitField("flags", 0, 12),
        XShortField("data_id", 0),
        IntField("offset", 0),
        IntField("length", 0),
        LongField("event", 0),
    ]


class EJFATSync(Packet):
    """A sender's sync message to the control plane."""

    name = "EJFAT sync"
    fields_desc = [  # noqa: RUF012
        XShortField("magic", SYNC_MAGIC),
        XByteField("version", 2),
        XByteField("reserved", 0),
        IntField("source_id", 0),
        LongField("event", 0),
        IntField("rate_hz", 0),
        LongField("unix_ns", 0),
    ]


__all__ = ["EJFATRE", "UDPLB", "UDPLB2", "UDPLB3", "EJFATSync", "EVIO6Seg"]

bind_layers(UDP, UDPLB, dport=LB_PORT)
bind_layers(UDPLB, EVIO6Seg, proto=PROTOCOL_RE)
bind_layers(UDPLB2, EJFATRE, proto=PROTOCOL_RE)
bind_layers(UDPLB3, EJFATRE, proto=PROTOCOL_RE)
