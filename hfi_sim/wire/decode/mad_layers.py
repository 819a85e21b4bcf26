"""scapy layers of a MAD: its header, and those of the classes that have more before their data. Big-endian.

    OPA16B(slid=1, dlid=2) / OPAFM() / OPAMad(mgmt_class=0x34, method=1, attr_id=0x11) / OPAVendorMad()
    OPAFM(dest_qp=0, src_qp=0) / OPAMad(mgmt_class=0x81, method=1, attr_id=0x11) / OPADirectedSmp()

Building fills a MAD with zeros up to the size of its base version, 2048 or 256 bytes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.packet import bind_layers

from hfi_sim.wire.decode.layers import OPAFM
from hfi_sim.wire.decode.scapy_header import HeaderLayer, fields_of
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    VendorHeader,
    is_vendor_class,
    mad_size,
)
from hfi_sim.wire.mad.smp_header import DirectedHeader, IbDirectedHeader, LidRoutedHeader
from hfi_sim.wire.sa.message import SaHeader


class OPAMad(HeaderLayer):
    """The first 24 bytes of every MAD."""

    name = "OPA MAD"
    headers = (("", MadHeader),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers, mgmt_class=MadClass.EMA, method=Method.GET)

    def guess_payload_class(self, payload: bytes) -> Any:
        """Take what the class has before its data."""
        layer = self._class_layer()
        if layer is not None and len(payload) >= sum(header.SIZE for _, header in layer.headers):
            return layer
        return super().guess_payload_class(payload)

    def _class_layer(self) -> type[HeaderLayer] | None:
        if is_vendor_class(self.mgmt_class):
            return OPAVendorMad
        if self.mgmt_class == MadClass.SUBN_DIRECTED:
            return OPAIbDirectedSmp if self.base_version == BASE_VERSION_IB else OPADirectedSmp
        return {MadClass.SUBN_LID: OPASmp, MadClass.SUBN_ADM: OPASaMad}.get(self.mgmt_class)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill with zeros up to the size of the base version."""
        return (pkt + pay).ljust(mad_size(self.base_version), b"\0")


class OPAVendorMad(HeaderLayer):
    """RMPP header and vendor header: bytes 24 to 39 of a MAD of a vendor class with OUI."""

    name = "OPA vendor MAD"
    headers = (("rmpp_", RmppHeader), ("", VendorHeader))
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


class OPASmp(HeaderLayer):
    """What an SMP that is routed by LID has before its data."""

    name = "OPA SMP"
    headers = (("", LidRoutedHeader),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


class OPADirectedSmp(HeaderLayer):
    """What an SMP on a directed route has before its data."""

    name = "OPA directed SMP"
    headers = (("", DirectedHeader),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


class OPAIbDirectedSmp(HeaderLayer):
    """An SMP of base version 1 on a directed route, with its data."""

    name = "OPA directed SMP, base version 1"
    headers = (("", IbDirectedHeader),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


class OPASaMad(HeaderLayer):
    """RMPP header and SA header: bytes 24 to 55 of a MAD of subnet administration."""

    name = "OPA SA MAD"
    headers = (("rmpp_", RmppHeader), ("sa_", SaHeader))
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


bind_layers(OPAFM, OPAMad)
