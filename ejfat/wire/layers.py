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
from hfi_sim.wire.decode.scapy_header import HeaderLayer, fields_of


class UDPLB(HeaderLayer):
    """Load balancer header, version 1."""

    name = "UDP LB v1"
    headers = (("", LbHeaderV1),)
    fields_desc = fields_of(headers)

    @classmethod
    def dispatch_hook(cls, data: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        """Choose the layer by the version byte."""
        if data is not None and len(data) >= 3:
            return {2: UDPLB2, 3: UDPLB3}.get(data[2], UDPLB)
        return cls


class UDPLB2(HeaderLayer):
    """Load balancer header, version 2."""

    name = "UDP LB v2"
    headers = (("", LbHeaderV2),)
    fields_desc = fields_of(headers)


class UDPLB3(HeaderLayer):
    """Load balancer header, version 3."""

    name = "UDP LB v3"
    headers = (("", LbHeaderV3),)
    fields_desc = fields_of(headers)


class EVIO6Seg(HeaderLayer):
    """The reassembly header of version 1 (8 bytes)."""

    name = "EVIO6 Segment"
    headers = (("", SegmentHeader),)
    fields_desc = fields_of(headers)


class EJFATRE(HeaderLayer):
    """The reassembly header of versions 2 and 3 (20 bytes)."""

    name = "EJFAT RE"
    headers = (("", ReHeader),)
    fields_desc = fields_of(headers)


class EJFATSync(HeaderLayer):
    """A sender's sync message to the control plane."""

    name = "EJFAT sync"
    headers = (("", SyncHeader),)
    fields_desc = fields_of(headers)


__all__ = ["EJFATRE", "UDPLB", "UDPLB2", "UDPLB3", "EJFATSync", "EVIO6Seg"]

bind_layers(UDP, UDPLB, dport=LB_PORT)
bind_layers(UDPLB, EVIO6Seg, protocol=PROTOCOL_RE)
bind_layers(UDPLB2, EJFATRE, protocol=PROTOCOL_RE)
bind_layers(UDPLB3, EJFATRE, protocol=PROTOCOL_RE)
