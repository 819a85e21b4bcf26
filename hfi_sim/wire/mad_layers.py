"""scapy layers of a MAD: its header, and the RMPP and vendor headers of the vendor classes. Big-endian.

    OPA16B(slid=1, dlid=2) / OPAFM() / OPAMad(mgmt_class=0x34, method=1, attr_id=0x11) / OPAVendorMad()

Building fills a MAD with zeros up to the size of its base version, 2048 or 256 bytes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.packet import bind_layers

from hfi_sim.mad.header import (
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    VendorHeader,
    is_vendor_class,
    mad_size,
)
from hfi_sim.wire.layers import OPAFM
from hfi_sim.wire.scapy_header import HeaderLayer, fields_of


class OPAMad(HeaderLayer):
    """The first 24 bytes of every MAD."""

    name = "OPA MAD"
    headers = (("", MadHeader),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers, mgmt_class=MadClass.EMA, method=Method.GET)

    def guess_payload_class(self, payload: bytes) -> Any:
        """Take RMPP and vendor header behind the vendor classes' headers."""
        if is_vendor_class(self.mgmt_class):
            return OPAVendorMad
        return super().guess_payload_class(payload)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill with zeros up to the size of the base version."""
        return (pkt + pay).ljust(mad_size(self.base_version), b"\0")


class OPAVendorMad(HeaderLayer):
    """RMPP header and vendor header: bytes 24 to 39 of a MAD of a vendor class with OUI."""

    name = "OPA vendor MAD"
    headers = (("rmpp_", RmppHeader), ("", VendorHeader))
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


bind_layers(OPAFM, OPAMad)
