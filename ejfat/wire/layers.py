"""scapy layers of the EJFAT headers, for interactive use and tests; the pipeline does not use scapy."""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from ejfat.wire.headers import (
    LB_PORT,
    PROTOCOL_RE,
    LbHeaderV1,
    LbHeaderV2,
    LbHeaderV3,
    ReHeader,
    SegmentHeader,
    SyncHeader,
)
from hfi_sim.wire.header import WireHeader
from opavnic.observe.layer_rows import field_rows
from opavnic.observe.opa_scapy import field


def _fields(kind: type[WireHeader]) -> list[Any]:
    return [field(row, {}) for row in field_rows(kind.HEADER)]


class UDPLB(Packet):
    """Load balancer header, version 1."""

    name = "UDP LB v1"
    fields_desc = _fields(LbHeaderV1)

    @classmethod
    def dispatch_hook(cls, data: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        """Choose the layer by the version byte."""
        if data is not None and len(data) >= 3:
            return {2: UDPLB2, 3: UDPLB3}.get(data[2], UDPLB)
        return cls


class UDPLB2(Packet):
    """Load balancer header, version 2."""

    name = "UDP LB v2"
    fields_desc = _fields(LbHeaderV2)


class UDPLB3(Packet):
    """Load balancer header, version 3."""

    name = "UDP LB v3"
    fields_desc = _fields(LbHeaderV3)


class EVIO6Seg(Packet):
    """The reassembly header of version 1 (8 bytes)."""

    name = "EVIO6 Segment"
    fields_desc = _fields(SegmentHeader)


class EJFATRE(Packet):
    """The reassembly header of versions 2 and 3 (20 bytes)."""

    name = "EJFAT RE"
    fields_desc = _fields(ReHeader)


class EJFATSync(Packet):
    """A sender's sync message to the control plane."""

    name = "EJFAT sync"
    fields_desc = _fields(SyncHeader)


__all__ = ["EJFATRE", "UDPLB", "UDPLB2", "UDPLB3", "EJFATSync", "EVIO6Seg"]

bind_layers(UDP, UDPLB, dport=LB_PORT)
bind_layers(UDPLB, EVIO6Seg, protocol=PROTOCOL_RE)
bind_layers(UDPLB2, EJFATRE, protocol=PROTOCOL_RE)
bind_layers(UDPLB3, EJFATRE, protocol=PROTOCOL_RE)
