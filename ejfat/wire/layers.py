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


def _layer(name: str, title: str, kind: type[WireHeader], **more: Any) -> Any:
    """Return the layer of a header."""
    fields = [field(row, {}) for row in field_rows(kind.HEADER)]
    members = {"name": title, "fields_desc": fields, "__doc__": kind.__doc__, "__module__": __name__}
    return type(name, (Packet,), members | more)


def _by_version(cls: Any, data: bytes | None = None, *args: Any, **kargs: Any) -> Any:
    """Choose the layer by the version byte."""
    if data is not None and len(data) >= 3:
        return {2: UDPLB2, 3: UDPLB3}.get(data[2], UDPLB)
    return cls


UDPLB = _layer("UDPLB", "UDP LB v1", LbHeaderV1, dispatch_hook=classmethod(_by_version))
UDPLB2 = _layer("UDPLB2", "UDP LB v2", LbHeaderV2)
UDPLB3 = _layer("UDPLB3", "UDP LB v3", LbHeaderV3)
EVIO6Seg = _layer("EVIO6Seg", "EVIO6 Segment", SegmentHeader)
EJFATRE = _layer("EJFATRE", "EJFAT RE", ReHeader)
EJFATSync = _layer("EJFATSync", "EJFAT sync", SyncHeader)

__all__ = ["EJFATRE", "UDPLB", "UDPLB2", "UDPLB3", "EJFATSync", "EVIO6Seg"]

bind_layers(UDP, UDPLB, dport=LB_PORT)
bind_layers(UDPLB, EVIO6Seg, protocol=PROTOCOL_RE)
bind_layers(UDPLB2, EJFATRE, protocol=PROTOCOL_RE)
bind_layers(UDPLB3, EJFATRE, protocol=PROTOCOL_RE)
