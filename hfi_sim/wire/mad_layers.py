"""scapy layers of a MAD: its header, and the RMPP and vendor headers of the vendor classes. Big-endian.

    OPA16B(slid=1, dlid=2) / OPAFM() / OPAMad(mgmt_class=0x34, method=1, attr_id=0x11) / OPAVendorMad()

Building fills a MAD with zeros up to the size of its base version, 2048 or 256 bytes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import (
    IntField,
    ShortField,
    X3BytesField,
    XByteEnumField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.packet import Packet, bind_layers

from hfi_sim.mad.header import BASE_VERSION_OPA, MadClass, Method, is_vendor_class, mad_size
from hfi_sim.wire.layers import OPAFM

OUI_EMA = 0x00066A


class OPAMad(Packet):
    """The first 24 bytes of every MAD."""

    name = "OPA MAD"
    fields_desc: ClassVar[list[Any]] = [
        XByteField("base_version", BASE_VERSION_OPA),
        XByteEnumField("mgmt_class", int(MadClass.EMA), {int(item): item.name for item in MadClass}),
        XByteField("class_version", 0x80),
        XByteEnumField("method", int(Method.GET), {int(item): item.name for item in Method}),
        XShortField("status", 0),
        ShortField("class_specific", 0),
        XLongField("tid", 0),
        XShortField("attr_id", 0),
        XShortField("reserved", 0),
        XIntField("attr_mod", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> Any:
        """Take RMPP and vendor header behind the vendor classes' headers."""
        if is_vendor_class(self.mgmt_class):
            return OPAVendorMad
        return super().guess_payload_class(payload)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill with zeros up to the size of the base version."""
        return (pkt + pay).ljust(mad_size(self.base_version), b"\0")


class OPAVendorMad(Packet):
    """RMPP header and vendor header: bytes 24 to 39 of a MAD of a vendor class with OUI."""

    name = "OPA vendor MAD"
    fields_desc: ClassVar[list[Any]] = [
        XByteField("rmpp_version", 0),
        XByteField("rmpp_type", 0),
        XByteField("rmpp_rtime_flags", 0),
        XByteField("rmpp_status", 0),
        IntField("rmpp_segment", 0),
        IntField("rmpp_length", 0),
        XByteField("vendor_reserved", 0),
        X3BytesField("oui", OUI_EMA),
    ]


bind_layers(OPAFM, OPAMad)
