# SPDX-License-Identifier: BSD-3-Clause
# This file works without the rest of opavnic: `opavnic scapy-layers FILE` copies it.

# scapy.contrib.description = Intel Omni-Path (OPA): 16B packets, MADs, Ethernet management
# scapy.contrib.status = loads

"""scapy layers of Omni-Path: 16B packets, their MADs, and the attributes of VNIC and subnet management.

    OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / Ether() / b"hello"
    OPA16B(slid=1, dlid=2) / OPAFM() / OPAMad(method=2, attr_mod=1) / OPAVendorMad() / OPAVeswPortInfo(vesw_id=2)
    OPA16B() / OPAFM(dest_qp=0, src_qp=0) / OPAMad(method=1) / OPADirectedSmp() / OPANodeInfo()

Building fills in what is None: Length, pad, ICRC and tail of a packet, the attribute id of a MAD. A MAD is filled with
zeros up to the size of its base version, 2048 or 256 bytes. Dissecting keeps what is there, so a dissected packet
builds the same bytes again; after a change, `del pkt.length_qw, pkt.pad, pkt.icrc, pkt.tail` lets them be computed anew.

Importing this module tells scapy that captures of link type 147 (USER0) hold 16B packets.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator
from typing import Any

from scapy.config import conf
from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    FieldLenField,
    FieldListField,
    IntField,
    LEShortField,
    LongField,
    MACField,
    PacketField,
    PacketListField,
    ShortEnumField,
    ShortField,
    StrField,
    XBitField,
    XByteField,
    XIntField,
    XLEIntField,
    XLEShortField,
    XLongField,
    XShortField,
    XStrFixedLenField,
    XStrLenField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers, bind_top_down

# generated: codes (made by `make generated` from hfi_sim/wire/mad/attributes.py, hfi_sim/wire/mad/header.py, hfi_sim/wire/l4.py; do not edit)
L4_TYPES = {
    0x8: "management: FM header and MAD",
    0x9: "InfiniBand, no global route header",
    0xA: "InfiniBand with global route header",
    0x78: "Ethernet of a virtual switch",
    0x79: "encapsulated Ethernet of another kind",
    0x7A: "this project's reliable connections",
}
CLASSES = {
    0x1: "subnet management, LID routed",
    0x3: "subnet administration",
    0x4: "performance management",
    0x34: "Ethernet management agent",
    0x81: "subnet management, directed route",
}
METHODS = {
    0x1: "Get",
    0x2: "Set",
    0x3: "Send",
    0x5: "Trap",
    0x6: "Report",
    0x7: "TrapRepress",
    0x12: "GetTable",
    0x15: "Delete",
    0x81: "GetResp",
    0x86: "ReportResp",
    0x92: "GetTableResp",
    0x95: "DeleteResp",
}
ATTRIBUTES = {
    0x34: {
        0x1: "ClassPortInfo",
        0x2: "Notice",
        0x11: "VeswPortInfo",
        0x12: "MacEntries",
        0x13: "IfaceUcastMacs",
        0x14: "IfaceMcastMacs",
        0x15: "DeleteVesw",
        0x20: "SummaryCounters",
        0x22: "ErrorCounters",
    },
    0x1: {
        0x2: "Notice",
        0x10: "NodeDescription",
        0x11: "NodeInfo",
        0x12: "SwitchInfo",
        0x15: "PortInfo",
        0x16: "PartitionTable",
        0x17: "SLtoSC",
        0x18: "VLArb",
        0x19: "LinearForwardingTable",
        0x1B: "MulticastForwardingTable",
        0x20: "SMInfo",
        0x31: "LedInfo",
        0x32: "CableInfo",
        0x80: "Aggregate",
        0x81: "SCtoSC",
        0x82: "SCtoSL",
        0x83: "SCtoVLr",
        0x84: "SCtoVLt",
        0x85: "SCtoVLnt",
        0x87: "PortStateInfo",
        0x88: "PortGroupForwardingTable",
        0x89: "PortGroupTable",
        0x8A: "BufferControl",
        0x8B: "CongestionInfo",
        0x8C: "SwitchCongestionLog",
        0x8D: "SwitchCongestionSetting",
        0x8E: "SwitchPortCongestionSetting",
        0x8F: "HfiCongestionLog",
        0x90: "HfiCongestionSetting",
        0x91: "HfiCongestionControl",
        0x94: "SCtoSCMultiSet",
    },
    0x81: {
        0x2: "Notice",
        0x10: "NodeDescription",
        0x11: "NodeInfo",
        0x12: "SwitchInfo",
        0x15: "PortInfo",
        0x16: "PartitionTable",
        0x17: "SLtoSC",
        0x18: "VLArb",
        0x19: "LinearForwardingTable",
        0x1B: "MulticastForwardingTable",
        0x20: "SMInfo",
        0x31: "LedInfo",
        0x32: "CableInfo",
        0x80: "Aggregate",
        0x81: "SCtoSC",
        0x82: "SCtoSL",
        0x83: "SCtoVLr",
        0x84: "SCtoVLt",
        0x85: "SCtoVLnt",
        0x87: "PortStateInfo",
        0x88: "PortGroupForwardingTable",
        0x89: "PortGroupTable",
        0x8A: "BufferControl",
        0x8B: "CongestionInfo",
        0x8C: "SwitchCongestionLog",
        0x8D: "SwitchCongestionSetting",
        0x8E: "SwitchPortCongestionSetting",
        0x8F: "HfiCongestionLog",
        0x90: "HfiCongestionSetting",
        0x91: "HfiCongestionControl",
        0x94: "SCtoSCMultiSet",
    },
    0x3: {
        0x1: "ClassPortInfo",
        0x2: "Notice",
        0x3: "InformInfo",
        0x11: "NodeRecord",
        0x12: "PortInfoRecord",
        0x13: "SCtoSCRecord",
        0x14: "SwitchInfoRecord",
        0x15: "LinearForwardingTableRecord",
        0x17: "MulticastForwardingTableRecord",
        0x18: "SMInfoRecord",
        0x20: "LinkRecord",
        0x31: "ServiceRecord",
        0x33: "P_KeyTableRecord",
        0x35: "PathRecord",
        0x36: "VLArbitrationTableRecord",
        0x38: "MCMemberRecord",
        0x39: "TraceRecord",
        0x80: "SLtoSCRecord",
        0x81: "SCtoSLRecord",
        0x82: "SCtoVLntRecord",
        0x83: "SCtoVLtRecord",
        0x84: "SCtoVLrRecord",
        0x85: "PortGroupForwardingTableRecord",
        0x88: "CableInfoRecord",
        0x89: "VFInfoRecord",
        0x8B: "PortGroupTableRecord",
        0x8C: "BufferControlTableRecord",
        0x8D: "FabricInfoRecord",
        0x90: "QuarantinedNodeRecord",
        0x91: "CongestionInfoRecord",
        0x92: "SwitchCongestionRecord",
        0x93: "SwitchPortCongestionRecord",
        0x94: "HfiCongestionRecord",
        0x95: "HfiCongestionControlRecord",
        0x9B: "DeviceGroupMemberRecord",
        0x9C: "DeviceGroupNameRecord",
        0x9D: "DeviceTreeMemberRecord",
        0xA3: "SwitchCostRecord",
        0xF3: "InformInfoRecord",
    },
    0x4: {
        0x1: "ClassPortInfo",
        0x40: "PortStatus",
        0x41: "ClearPortStatus",
        0x42: "DataPortCounters",
        0x43: "ErrorPortCounters",
        0x44: "ErrorInfo",
    },
}
# end of generated

GET, SET, RESPONSE = 0x01, 0x02, 0x80
EMA, SUBN_LID, SUBN_ADM, PERFORMANCE, SUBN_DIRECTED = 0x34, 0x01, 0x03, 0x04, 0x81
IB = 1
"""The base and class versions of InfiniBand."""


class OPA16B(Packet):
    """The 16B header in front of its payload, and pad, ICRC and tail behind it.

    The header is two little-endian quad words. Bytes that are not a whole packet (Length disagrees) still give the
    header; pad, ICRC and tail stay None then.
    """

    name = "OPA 16B"
    # generated: lrh16b (made by `make generated` from hfi_sim/wire/lrh16b.py; do not edit)
    places = {
        "slid": [(0, 20, 0), (72, 4, 20)],
        "dlid": [(32, 20, 0), (76, 4, 20)],
        "length_qw": [(20, 11, 0)],
        "becn": [(31, 1, 0)],
        "sc": [(52, 5, 0)],
        "rc": [(57, 3, 0)],
        "fecn": [(60, 1, 0)],
        "l2": [(61, 2, 0)],
        "lt": [(63, 1, 0)],
        "l4": [(64, 8, 0)],
        "pkey": [(80, 16, 0)],
        "entropy": [(96, 16, 0)],
        "age": [(112, 8, 0)],
        "reserved": [(120, 8, 0)],
    }
    variable_mask = 0xFF00000000000011F0000080000000
    header_fields = [
        XBitField("slid", 0, 24),
        XBitField("dlid", 0, 24),
        BitField("length_qw", None, 11),
        BitField("becn", 0, 1),
        BitField("sc", 0, 5),
        BitField("rc", 0, 3),
        BitField("fecn", 0, 1),
        BitEnumField("l2", 2, 2, {0x0: "not 16B", 0x1: "not 16B", 0x2: "16B", 0x3: "not 16B"}),
        BitEnumField("lt", 1, 1, {0x0: "not a head flit", 0x1: "head flit"}),
        ByteEnumField(
            "l4",
            0,
            {
                0x8: "management: FM header and MAD",
                0x9: "InfiniBand, no global route header",
                0xA: "InfiniBand with global route header",
                0x78: "Ethernet of a virtual switch",
                0x79: "encapsulated Ethernet of another kind",
                0x7A: "this project's reliable connections",
            },
        ),
        XShortField("pkey", 65535),
        XShortField("entropy", 0),
        ByteField("age", 0),
        XByteField("reserved", 0),
    ]
    # end of generated
    fields_desc = [
        *header_fields,
        StrField("pad", None),
        XLEIntField("icrc", None),
        XBitField("tail", None, 8),
    ]
    size = 16

    def do_dissect(self, s: bytes) -> bytes:
        """Read header and trailer; return the payload.

        Raises:  ValueError: fewer than 16 bytes.
        """
        if len(s) < self.size:
            raise ValueError(f"{len(s)} bytes, the 16B header needs {self.size}")
        number = int.from_bytes(s[: self.size], "little")
        for name, places in self.places.items():
            self.fields[name] = sum((number >> at & (1 << bits) - 1) << up for at, bits, up in places)
        self.explicit = 1
        if len(s) < 24 or self.length_qw * 8 != len(s):
            return s[self.size :]
        end = max(len(s) - 5 - (s[-1] & 7), self.size)
        self.fields.update(pad=s[end:-5], icrc=int.from_bytes(s[-5:-1], "little"), tail=s[-1])
        return s[self.size : end]

    def self_build(self) -> bytes:
        """Return the 16 bytes of the header.

        Raises:  ValueError: a value does not fit its field.
        """
        number = 0
        for name, places in self.places.items():
            value = int(self.getfieldval(name) or 0)
            width = sum(bits for _, bits, _ in places)
            if value >> width:
                raise ValueError(f"{name} {value:#x} does not fit {width} bits")
            for at, bits, up in places:
                number |= (value >> up & (1 << bits) - 1) << at
        return number.to_bytes(self.size, "little")

    def do_build_payload(self) -> bytes:
        """Return the payload with the bytes that scapy holds back as padding of an inner layer."""
        return bytes(self.payload.do_build() + self.payload.build_padding())

    def build_padding(self) -> bytes:
        """Return nothing: inner padding stands in front of the ICRC, as part of the payload."""
        return b""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Put pad, ICRC and tail behind header and payload, and fill in the Length."""
        pad = bytes(-(len(pkt) + len(pay) + 5) % 8) if self.pad is None else self.pad
        tail = 0x40 | len(pad) & 7 if self.tail is None else self.tail
        if self.length_qw is None:
            length = (len(pkt) + len(pay) + len(pad) + 5) // 8
            ((at, bits, _),) = self.places["length_qw"]
            pkt = (int.from_bytes(pkt, "little") | (length & (1 << bits) - 1) << at).to_bytes(
                self.size, "little"
            )
        head = pkt + pay + pad
        icrc = self.compute_icrc(head, tail & 7) if self.icrc is None else self.icrc
        return bytes(head + icrc.to_bytes(4, "little") + bytes([tail]))

    def compute_icrc(self, head: bytes, pad_count: int) -> int:
        """Return the ICRC: a CRC-32 with ones where switches may change the header. Args: head: up to the ICRC."""
        masked = int.from_bytes(head[: self.size], "little") | self.variable_mask
        return zlib.crc32(masked.to_bytes(self.size, "little") + head[self.size :] + bytes([pad_count]))

    def mysummary(self) -> str:
        """Return source and destination LID and the service channel."""
        return f"{self.slid:#x} > {self.dlid:#x} sc {self.sc}"

    def summary(self, intern: int = 0) -> str:
        """Return the LIDs, then what the payload says."""
        return f"{self.mysummary()} / {self.payload.summary()}" if self.payload else self.mysummary()


class OPAEthernet(Packet):
    """The Ethernet L4 header: 4 bytes between the 16B header and the Ethernet frame. Little-endian."""

    name = "OPA Ethernet L4"
    # generated: ethernet-l4 (made by `make generated` from hfi_sim/wire/l4.py; do not edit)
    fields_desc = [XLEShortField("reserved", 0), LEShortField("vesw_id", 0)]
    # end of generated

    def mysummary(self) -> str:
        """Return the virtual Ethernet switch."""
        return f"vesw {self.vesw_id}"

    def summary(self, intern: int = 0) -> str:
        """Return the virtual Ethernet switch, then what the frame says."""
        return f"{self.mysummary()} / {self.payload.summary()}"


class OPAFM(Packet):
    """The FM header: 8 bytes between the 16B header and a MAD."""

    name = "OPA FM"
    # generated: fm (made by `make generated` from hfi_sim/wire/l4.py; do not edit)
    fields_desc = [
        XByteField("dest_reserved", 0),
        BitEnumField("dest_qp", 1, 24, {0x0: "the subnet manager's QP", 0x1: "the management QP"}),
        XByteField("src_reserved", 0),
        BitEnumField("src_qp", 1, 24, {0x0: "the subnet manager's QP", 0x1: "the management QP"}),
    ]
    # end of generated

    def summary(self, intern: int = 0) -> str:
        """Return what the MAD says."""
        return str(self.payload.summary()) if self.payload else self.name


class OPAPart(Packet):
    """A part of a MAD. What follows it depends on the MAD header and on all parts before it."""

    def guess_payload_class(self, payload: bytes) -> Any:
        """Return the layer of the next part, if it is there whole."""
        found: list[Packet] = [self]
        while not isinstance(found[0], OPAMad):
            if found[0].underlayer is None:
                return self.default_payload_class(payload)
            found.insert(0, found[0].underlayer)
        following = next(itertools.islice(_parts(found), len(found) - 1, None), None)
        if following is None or len(payload) < following.size:
            return self.default_payload_class(payload)
        return following


class OPAMad(OPAPart):
    """The first 24 bytes of every MAD."""

    name = "OPA MAD"
    # generated: mad (made by `make generated` from hfi_sim/wire/mad/header.py; do not edit)
    fields_desc = [
        XByteField("base_version", 128),
        ByteEnumField(
            "mgmt_class",
            52,
            {
                0x1: "subnet management, LID routed",
                0x3: "subnet administration",
                0x4: "performance management",
                0x34: "Ethernet management agent",
                0x81: "subnet management, directed route",
            },
        ),
        XByteField("class_version", 128),
        ByteEnumField(
            "method",
            1,
            {
                0x1: "Get",
                0x2: "Set",
                0x3: "Send",
                0x5: "Trap",
                0x6: "Report",
                0x7: "TrapRepress",
                0x12: "GetTable",
                0x15: "Delete",
                0x81: "GetResp",
                0x86: "ReportResp",
                0x92: "GetTableResp",
                0x95: "DeleteResp",
            },
        ),
        ShortEnumField(
            "status",
            0,
            {
                0x0: "ok",
                0x1: "busy",
                0x4: "bad base or class version",
                0x8: "method not supported",
                0xC: "method and attribute do not go together",
                0x1C: "a value in attribute or modifier is wrong",
                0x700: "denied",
            },
        ),
        XShortField("class_specific", 0),
        XLongField("tid", 0),
        XShortField("attr_id", None),
        XShortField("reserved", 0),
        XIntField("attr_mod", 0),
    ]
    # end of generated

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the attribute id, and zeros up to the size of the base version."""
        if self.attr_id is None:
            pkt = pkt[:16] + self._built_attribute().to_bytes(2, "big") + pkt[18:]
        return (pkt + pay).ljust(256 if self.base_version == IB else 2048, b"\0")

    def _built_attribute(self) -> int:
        """Return the number of the first attribute behind this header; 0: none."""
        layer, numbers = self.payload, _numbers(self)
        while layer:
            for number, row in numbers.items():
                if type(layer) in (row if isinstance(row, tuple) else (row,)):
                    return number
            layer = layer.payload
        return 0

    def mysummary(self) -> str:
        """Return method, attribute, vport or class, and the transaction id."""
        attribute = (
            ATTRIBUTES.get(self.mgmt_class, {}).get(self.attr_id) or f"attribute {self.attr_id or 0:#x}"
        )
        words = [METHODS.get(self.method, f"method {self.method:#x}"), attribute]
        if self.mgmt_class != EMA:
            words.append(f"of {CLASSES.get(self.mgmt_class, f'class {self.mgmt_class:#x}')}")
        elif self.attr_id not in (1, 2):
            words.append(f"vport {self.attr_mod & 0xFF}")
        words.append(f"tid {self.tid:#x}" + (f" status {self.status:#x}" if self.status else ""))
        return " ".join(words)

    def summary(self, intern: int = 0) -> str:
        """Return what the MAD does and, of an attribute of Ethernet management, the virtual Ethernet switch."""
        vesw = [layer.vesw_id for layer in self.iterpayloads() if "vesw_id" in layer.fields]
        return self.mysummary() + "".join(f" vesw {number}" for number in vesw)


class OPAVendorMad(OPAPart):
    """RMPP header and vendor header: bytes 24 to 39 of a MAD of a vendor class with OUI."""

    name = "OPA vendor MAD"
    size = 16
    # generated: vendor (made by `make generated` from hfi_sim/wire/mad/header.py; do not edit)
    fields_desc = [
        ByteField("rmpp_version", 0),
        ByteField("rmpp_type", 0),
        XByteField("rmpp_rtime_flags", 0),
        ByteField("rmpp_status", 0),
        IntField("rmpp_segment", 0),
        IntField("rmpp_length", 0),
        XByteField("vendor_reserved", 0),
        XStrFixedLenField("oui", b"\x00\x06j", 3),
    ]
    # end of generated


class OPASmp(OPAPart):
    """What an SMP that is routed by LID has before its data."""

    name = "OPA SMP"
    size = 8
    # generated: smp (made by `make generated` from hfi_sim/wire/mad/smp_header.py; do not edit)
    fields_desc = [XLongField("mkey", 0)]
    # end of generated


class OPADirectedSmp(OPAPart):
    """What an SMP on a directed route has before its data."""

    name = "OPA directed SMP"
    size = 152
    # generated: directed-smp (made by `make generated` from hfi_sim/wire/mad/smp_header.py; do not edit)
    fields_desc = [
        XLongField("mkey", 0),
        XIntField("dr_slid", 4294967295),
        XIntField("dr_dlid", 4294967295),
        XStrFixedLenField("initial_path", bytes(64), 64),
        XStrFixedLenField("return_path", bytes(64), 64),
        XLongField("reserved", 0),
    ]
    # end of generated


class OPAIbDirectedSmp(OPAPart):
    """An SMP of base version 1 on a directed route, with its data."""

    name = "OPA directed SMP, base version 1"
    size = 232
    # generated: ib-directed-smp (made by `make generated` from hfi_sim/wire/mad/smp_header.py; do not edit)
    fields_desc = [
        XLongField("mkey", 0),
        XShortField("dr_slid", 65535),
        XShortField("dr_dlid", 65535),
        XStrFixedLenField("reserved", bytes(28), 28),
        XStrFixedLenField("data", bytes(64), 64),
        XStrFixedLenField("initial_path", bytes(64), 64),
        XStrFixedLenField("return_path", bytes(64), 64),
    ]
    # end of generated


class OPASaMad(OPAPart):
    """RMPP header and SA header: bytes 24 to 55 of a MAD of subnet administration."""

    name = "OPA SA MAD"
    size = 32
    # generated: sa (made by `make generated` from hfi_sim/wire/mad/header.py, hfi_sim/wire/sa/message.py; do not edit)
    fields_desc = [
        ByteField("rmpp_version", 0),
        ByteField("rmpp_type", 0),
        XByteField("rmpp_rtime_flags", 0),
        ByteField("rmpp_status", 0),
        IntField("rmpp_segment", 0),
        IntField("rmpp_length", 0),
        XLongField("sa_sm_key", 0),
        ShortField("sa_attribute_offset", 0),
        XShortField("sa_reserved", 0),
        XLongField("sa_component_mask", 0),
    ]
    # end of generated


class OPAAttribute(OPAPart):
    """An attribute; also one within another, and an item of a list."""

    size = 0

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return what follows: the next part of the MAD, or what the attribute around this one goes on with."""
        return (s, None) if self.parent is None else (b"", s)


class OPAGap(OPAPart):
    """Bytes between two attributes."""

    name = "OPA gap"
    size = 0
    fields_desc = [XStrLenField("gap", b"", length_from=lambda pkt: pkt.size)]


@functools.cache
def gap(size: int) -> type[OPAGap]:
    """Return the layer of a gap of `size` bytes."""
    return type("OPAGap", (OPAGap,), {"size": size})


def list_length(attribute: Packet, said: int) -> int:
    """Return how many items follow: none in a Get, which only says how many are wanted."""
    layer = attribute.underlayer
    while layer is not None and not isinstance(layer, OPAMad):
        layer = layer.underlayer
    return 0 if layer is not None and layer.method == GET else said


# generated: attributes (made by `make generated` from hfi_sim/wire/mad/pma_attributes.py, hfi_sim/wire/sa/records.py, hfi_sim/wire/sa/records_ib.py, hfi_sim/wire/sa/records_tables.py, hfi_sim/wire/sma/congestion.py, hfi_sim/wire/sma/node.py, hfi_sim/wire/sma/notice.py, hfi_sim/wire/sma/port_info.py, hfi_sim/wire/sma/tables.py, vema/attributes/class_port_info.py, vema/attributes/counters.py, vema/attributes/iface_macs.py, vema/attributes/mac_entries.py, vema/attributes/notice.py, vema/attributes/vesw_port_info.py; do not edit)
class OPAClassPortInfo(OPAAttribute):
    """ClassPortInfo, 80 bytes."""

    name = "ClassPortInfo"
    size = 80
    fields_desc = [
        XByteField("base_version", 0),
        XByteField("class_version", 0),
        XShortField("cap_mask", 0),
        XIntField("cap_mask2_resp_time", 0),
        XStrFixedLenField("redirect_gid", bytes(16), 16),
        XIntField("redirect_tc_fl", 0),
        XIntField("redirect_lid", 0),
        XIntField("redirect_sl_qp", 0),
        XIntField("redirect_qkey", 0),
        XStrFixedLenField("trap_gid", bytes(16), 16),
        XIntField("trap_tc_fl", 0),
        XIntField("trap_lid", 0),
        XIntField("trap_hl_qp", 0),
        XIntField("trap_qkey", 0),
        XShortField("trap_pkey", 0),
        XShortField("redirect_pkey", 0),
        XByteField("trap_sl_rsvd", 0),
        XStrFixedLenField("reserved_77", bytes(3), 3),
    ]


class OPANotice(OPAAttribute):
    """Notice, 48 bytes."""

    name = "Notice"
    size = 48
    fields_desc = [
        XByteField("generic_type", 8),
        XStrFixedLenField("oui", b"\x00\x06j", 3),
        ShortField("trap_num", 0),
        ShortField("toggle_count", 0),
        XIntField("issuer_lid", 0),
        XStrFixedLenField("reserved_12", bytes(4), 4),
        XStrFixedLenField("issuer_gid", bytes(16), 16),
        XShortField("fabric_id", 0),
        ShortField("vesw_id", 0),
        IntField("vesw_port_num", 0),
        ShortField("opa_port_num", 0),
        ByteField("vport_num", 0),
        ByteEnumField(
            "opcode",
            0,
            {0x1: "unicast list changed", 0x2: "multicast list changed", 0x3: "link status changed"},
        ),
        XStrFixedLenField("reserved_44", bytes(4), 4),
    ]


class OPAVeswPortInfo(OPAAttribute):
    """VeswPortInfo, 280 bytes."""

    name = "VeswPortInfo"
    size = 280
    fields_desc = [
        XShortField("fabric_id", 0),
        ShortField("vesw_id", 0),
        XStrFixedLenField("reserved_4", bytes(6), 6),
        XShortField("def_port_mask", 0),
        XStrFixedLenField("reserved_12", bytes(2), 2),
        XShortField("pkey", 0),
        XStrFixedLenField("reserved_16", bytes(4), 4),
        XIntField("u_mcast_dlid", 0),
        FieldListField("u_ucast_dlid", [0] * 16, XIntField("", 0), count_from=lambda pkt: 16, max_count=16),
        XIntField("rc", 0),
        XStrFixedLenField("reserved_92", bytes(56), 56),
        ShortField("eth_mtu", 0),
        XStrFixedLenField("reserved_150", bytes(2), 2),
        IntField("vesw_port_num", 0),
        ByteEnumField("eth_link_status", 0, {0x0: "no such vport", 0x1: "up", 0x2: "down"}),
        XStrFixedLenField("reserved_157", bytes(3), 3),
        MACField("base_mac", "00:00:00:00:00:00"),
        ByteEnumField("config_state", 0, {0x1: "dropping all", 0x3: "forwarding"}),
        ByteEnumField("oper_state", 0, {0x1: "dropping all", 0x3: "forwarding"}),
        ShortField("max_mac_tbl_ent", 0),
        ShortField("max_smac_ent", 0),
        XIntField("mac_tbl_digest", 0),
        XStrFixedLenField("reserved_176", bytes(4), 4),
        XIntField("encap_slid", 0),
        XStrFixedLenField("pcp_to_sc_uc", bytes(8), 8),
        XStrFixedLenField("pcp_to_vl_uc", bytes(8), 8),
        XStrFixedLenField("pcp_to_sc_mc", bytes(8), 8),
        XStrFixedLenField("pcp_to_vl_mc", bytes(8), 8),
        ByteField("non_vlan_sc_uc", 0),
        ByteField("non_vlan_vl_uc", 0),
        ByteField("non_vlan_sc_mc", 0),
        ByteField("non_vlan_vl_mc", 0),
        XStrFixedLenField("reserved_220", bytes(48), 48),
        ShortField("uc_macs_gen_count", 0),
        ShortField("mc_macs_gen_count", 0),
        XStrFixedLenField("reserved_272", bytes(8), 8),
    ]


class OPAMACEntry(OPAAttribute):
    """MAC entry, 16 bytes."""

    name = "MAC entry"
    size = 16
    fields_desc = [
        MACField("mac", "00:00:00:00:00:00"),
        MACField("mask", "00:00:00:00:00:00"),
        XIntField("dlid_sd", 0),
    ]


class OPAVeswPortMacEntries(OPAAttribute):
    """VeswPortMacEntries, 8 bytes."""

    name = "VeswPortMacEntries"
    size = 8
    fields_desc = [
        ShortField("offset", 0),
        FieldLenField("num_entries", None, count_of="entries", fmt="!H"),
        XIntField("digest", 0),
        PacketListField(
            "entries",
            [],
            OPAMACEntry,
            count_from=lambda pkt: list_length(pkt, pkt.num_entries),
            max_count=125,
        ),
    ]


class OPAIfaceMacs(OPAAttribute):
    """IfaceMacs, 8 bytes."""

    name = "IfaceMacs"
    size = 8
    fields_desc = [
        ShortField("start", 0),
        FieldLenField("num_macs", None, count_of="macs", fmt="!H"),
        ShortField("total", 0),
        ShortField("gen_count", 0),
        FieldListField(
            "macs",
            [],
            MACField("", None),
            count_from=lambda pkt: list_length(pkt, pkt.num_macs),
            max_count=333,
        ),
    ]


class OPASummaryCounters(OPAAttribute):
    """SummaryCounters, 360 bytes."""

    name = "SummaryCounters"
    size = 360
    fields_desc = [
        ShortField("vport_num", 0),
        ShortField("vesw_id", 0),
        IntField("opa_port_num", 0),
        LongField("tx_errors", 0),
        LongField("rx_errors", 0),
        LongField("tx_packets", 0),
        LongField("rx_packets", 0),
        LongField("tx_bytes", 0),
        LongField("rx_bytes", 0),
        LongField("tx_unicast", 0),
        LongField("tx_mcastbcast", 0),
        LongField("tx_untagged", 0),
        LongField("tx_vlan", 0),
        LongField("tx_64", 0),
        LongField("tx_65_127", 0),
        LongField("tx_128_255", 0),
        LongField("tx_256_511", 0),
        LongField("tx_512_1023", 0),
        LongField("tx_1024_1518", 0),
        LongField("tx_1519_max", 0),
        LongField("rx_unicast", 0),
        LongField("rx_mcastbcast", 0),
        LongField("rx_untagged", 0),
        LongField("rx_vlan", 0),
        LongField("rx_64", 0),
        LongField("rx_65_127", 0),
        LongField("rx_128_255", 0),
        LongField("rx_256_511", 0),
        LongField("rx_512_1023", 0),
        LongField("rx_1024_1518", 0),
        LongField("rx_1519_max", 0),
        XStrFixedLenField("reserved_232", bytes(128), 128),
    ]


class OPAErrorCounters(OPAAttribute):
    """ErrorCounters, 304 bytes."""

    name = "ErrorCounters"
    size = 304
    fields_desc = [
        ShortField("vport_num", 0),
        ShortField("vesw_id", 0),
        IntField("opa_port_num", 0),
        LongField("tx_errors", 0),
        LongField("rx_errors", 0),
        XStrFixedLenField("reserved_24", bytes(8), 8),
        LongField("tx_smac_filt", 0),
        XStrFixedLenField("reserved_40", bytes(8), 8),
        XStrFixedLenField("reserved_48", bytes(8), 8),
        XStrFixedLenField("reserved_56", bytes(8), 8),
        LongField("tx_dlid_zero", 0),
        XStrFixedLenField("reserved_72", bytes(8), 8),
        LongField("tx_logic", 0),
        XStrFixedLenField("reserved_88", bytes(8), 8),
        LongField("tx_drop_state", 0),
        LongField("rx_bad_veswid", 0),
        XStrFixedLenField("reserved_112", bytes(8), 8),
        LongField("rx_runt", 0),
        LongField("rx_oversize", 0),
        XStrFixedLenField("reserved_136", bytes(8), 8),
        LongField("rx_eth_down", 0),
        LongField("rx_drop_state", 0),
        LongField("rx_logic", 0),
        XStrFixedLenField("reserved_168", bytes(136), 136),
    ]


class OPASmNotice(OPAAttribute):
    """Notice of subnet management, 96 bytes."""

    name = "Notice of subnet management"
    size = 96
    fields_desc = [
        BitField("is_generic", 1, 1),
        BitEnumField(
            "type",
            1,
            7,
            {0x0: "fatal", 0x1: "urgent", 0x2: "security", 0x3: "subnet management", 0x4: "informational"},
        ),
        BitEnumField("producer", 1, 24, {0x1: "HFI", 0x2: "switch", 0x3: "router", 0x4: "class manager"}),
        ShortEnumField(
            "trap_number",
            0,
            {
                0x40: "a port is in service",
                0x41: "a port is out of service",
                0x42: "there is a new multicast group",
                0x43: "a multicast group is gone",
                0x80: "a port of a switch has changed its state",
                0x81: "too many errors on a link",
                0x82: "a buffer has overrun",
                0x83: "flow control has timed out",
                0x90: "capabilities or the description have changed",
                0x91: "the system image GUID has changed",
                0x100: "wrong M_Key",
                0x101: "wrong P_Key",
                0x102: "wrong Q_Key",
                0x103: "wrong P_Key at a switch",
                0x800: "the width of a link has changed",
            },
        ),
        BitField("toggle", 0, 1),
        BitField("count", 0, 15),
        XIntField("issuer_lid", 0),
        XIntField("reserved", 0),
        XStrFixedLenField("issuer_gid", bytes(16), 16),
        XStrFixedLenField("data", bytes(64), 64),
    ]


class OPANodeDescription(OPAAttribute):
    """NodeDescription, 64 bytes."""

    name = "NodeDescription"
    size = 64
    fields_desc = [XStrFixedLenField("text", bytes(64), 64)]


class OPANodeInfo(OPAAttribute):
    """NodeInfo, 44 bytes."""

    name = "NodeInfo"
    size = 44
    fields_desc = [
        XByteField("base_version", 128),
        XByteField("class_version", 128),
        ByteEnumField("node_type", 1, {0x1: "HFI", 0x2: "switch"}),
        ByteField("num_ports", 1),
        XIntField("reserved", 0),
        XLongField("system_image_guid", 0),
        XLongField("node_guid", 0),
        XLongField("port_guid", 0),
        ShortField("partition_cap", 0),
        XShortField("device_id", 0),
        XIntField("revision", 0),
        ByteField("local_port_num", 0),
        XBitField("vendor_id", 0, 24),
    ]


class OPASwitchInfo(OPAAttribute):
    """SwitchInfo, 84 bytes."""

    name = "SwitchInfo"
    size = 84
    fields_desc = [
        IntField("linear_fdb_cap", 0),
        IntField("port_group_fdb_cap", 0),
        IntField("multicast_fdb_cap", 0),
        XIntField("linear_fdb_top", 0),
        XIntField("multicast_fdb_top", 0),
        IntField("collective_cap", 0),
        XIntField("collective_top", 0),
        XIntField("reserved_28", 0),
        XStrFixedLenField("ipv6", bytes(16), 16),
        XStrFixedLenField("ipv4", bytes(4), 4),
        XStrFixedLenField("reserved_52", bytes(15), 15),
        BitField("life_time_value", 0, 5),
        BitField("port_state_change", 0, 1),
        BitField("reserved_67", 0, 2),
        XShortField("reserved_68", 0),
        ShortField("partition_enforcement_cap", 0),
        ByteField("port_group_cap", 0),
        ByteField("port_group_top", 0),
        XByteField("routing_supported", 1),
        XByteField("routing_enabled", 1),
        BitField("reserved_76", 0, 4),
        BitField("enhanced_port0", 0, 1),
        BitField("reserved_76_3", 0, 3),
        BitField("reserved_77", 0, 2),
        BitField("collective_mask", 1, 3),
        BitField("multicast_mask", 4, 3),
        XShortField("adaptive_routing", 0),
        XShortField("capability_mask", 0),
        XShortField("collective_capabilities", 0),
    ]


class OPAPortInfo(OPAAttribute):
    """PortInfo, 242 bytes."""

    name = "PortInfo"
    size = 242
    fields_desc = [
        XIntField("lid", 0),
        XIntField("flow_control_mask", 0),
        ByteField("preempt_cap", 0),
        BitField("reserved_9", 0, 3),
        BitField("vl_cap", 8, 5),
        ShortField("vl_high_limit", 0),
        ShortField("vl_preempting_limit", 0),
        ByteField("arb_high_cap", 16),
        ByteField("arb_low_cap", 16),
        BitField("reserved_16", 0, 9),
        BitField("led_enabled", 0, 1),
        BitField("is_sm_configuration_started", 0, 1),
        BitField("neighbor_normal", 0, 1),
        BitField("offline_disabled_reason", 0, 4),
        ByteField("reserved_18", 0),
        BitEnumField(
            "physical_state",
            0,
            4,
            {
                0x0: "no change",
                0x2: "polling",
                0x3: "disabled",
                0x4: "training",
                0x5: "link up",
                0x9: "offline",
                0xB: "test",
            },
        ),
        BitEnumField("state", 0, 4, {0x1: "DOWN", 0x2: "INIT", 0x3: "ARMED", 0x4: "ACTIVE"}),
        BitField("reserved_20", 0, 4),
        BitEnumField(
            "port_type",
            4,
            4,
            {
                0x0: "unknown",
                0x1: "disconnected",
                0x2: "fixed",
                0x3: "variable",
                0x4: "standard",
                0x5: "silicon photonics",
            },
        ),
        BitField("reserved_21", 0, 2),
        BitField("collective_mask", 1, 3),
        BitField("multicast_mask", 4, 3),
        BitField("mkey_protect", 0, 2),
        BitField("reserved_22", 0, 2),
        BitField("lmc", 0, 4),
        BitField("reserved_23", 0, 3),
        BitField("master_sm_sl", 0, 5),
        BitEnumField(
            "link_init_reason",
            0,
            4,
            {
                0x0: "no change",
                0x1: "the link came up",
                0x2: "the manager ignores a port that flaps",
                0x8: "width or speed are outside the policy",
                0x9: "quarantined",
                0xA: "capabilities are insufficient",
            },
        ),
        BitField("enforce_inbound", 0, 1),
        BitField("enforce_outbound", 0, 1),
        BitField("reserved_24", 0, 2),
        BitField("reserved_25", 0, 3),
        BitField("operational_vls", 8, 5),
        XShortField("pkey_8b", 0),
        XShortField("pkey_10b", 0),
        ShortField("mkey_violations", 0),
        ShortField("pkey_violations", 0),
        ShortField("qkey_violations", 0),
        IntField("sm_trap_qp", 0),
        IntField("sa_qp", 1),
        ByteField("neighbor_port_num", 0),
        ByteField("link_down_reason", 0),
        ByteField("neighbor_link_down_reason", 0),
        BitField("client_reregister", 0, 1),
        BitField("multicast_pkey_trap_suppression", 0, 2),
        BitField("subnet_timeout", 0, 5),
        XShortField("speed_supported", 2),
        XShortField("speed_enabled", 2),
        XShortField("speed_active", 0),
        XShortField("width_supported", 8),
        XShortField("width_enabled", 8),
        XShortField("width_active", 0),
        XShortField("downgrade_supported", 15),
        XShortField("downgrade_enabled", 15),
        XShortField("width_tx_active", 0),
        XShortField("width_rx_active", 0),
        BitField("reserved_68", 0, 1),
        BitField("mode_supported", 4, 5),
        BitField("mode_enabled", 4, 5),
        BitField("mode_active", 4, 5),
        BitField("reserved_70", 0, 4),
        BitField("crc_supported", 7, 4),
        BitField("crc_enabled", 7, 4),
        BitField("crc_active", 2, 4),
        XShortField("port_mode", 0),
        XShortField("formats_supported", 10),
        XShortField("formats_enabled", 10),
        BitField("reserved_78", 0, 2),
        BitField("distance_supported", 3, 2),
        BitField("distance_enabled", 1, 2),
        BitField("nest_tx_enabled", 0, 5),
        BitField("nest_rx_supported", 0, 5),
        ShortField("preempt_min_initial", 0),
        ShortField("preempt_min_tail", 0),
        ByteField("large_packet_limit", 0),
        ByteField("small_packet_limit", 0),
        ByteField("max_small_packet_limit", 0),
        ByteField("preemption_limit", 0),
        XIntField("max_lid", 49151),
        XIntField("port_error_action", 0),
        ByteField("pass_through_egress_port", 0),
        BitField("reserved_97", 0, 7),
        BitField("pass_through_dr_control", 0, 1),
        ShortField("mkey_lease_period", 0),
        BitField("reserved_100", 0, 9),
        BitField("vl15_init", 256, 12),
        BitField("vl15_credit_rate", 18, 5),
        BitField("credit_ack", 0, 3),
        BitField("buffer_alloc", 3, 3),
        XShortField("reserved_104", 0),
        ByteField("bundle_next_port", 0),
        ByteField("bundle_lane", 0),
        XIntField("master_sm_lid", 0),
        XLongField("mkey", 0),
        XLongField("subnet_prefix", 18338657682652659712),
        FieldListField(
            "neighbor_mtu",
            [119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119],
            XByteField("", 0),
            count_from=lambda pkt: 16,
            max_count=16,
        ),
        FieldListField(
            "xmit_q",
            [
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
                243,
            ],
            XByteField("", 0),
            count_from=lambda pkt: 32,
            max_count=32,
        ),
        XStrFixedLenField("ipv6", bytes(16), 16),
        XStrFixedLenField("ipv4", bytes(4), 4),
        XStrFixedLenField("reserved_196", bytes(12), 12),
        XLongField("neighbor_node_guid", 0),
        XIntField("capability_mask", 0),
        XShortField("reserved_220", 0),
        XShortField("capability_mask3", 0),
        XIntField("reserved_224", 0),
        ShortField("overall_buffer_space", 2048),
        ByteField("replay_buffer_depth_high", 0),
        ByteField("replay_wire_depth_high", 0),
        XShortField("diag_code", 0),
        ByteField("replay_buffer_depth", 128),
        ByteField("replay_wire_depth", 32),
        BitField("reserved_236", 0, 4),
        BitField("mgmt_allowed", 1, 1),
        BitField("neighbor_auth_bypass", 0, 1),
        BitEnumField("neighbor_node_type", 0, 2, {0x0: "HFI", 0x1: "switch"}),
        BitField("reserved_237", 0, 4),
        BitEnumField(
            "mtu_cap",
            7,
            4,
            {
                0x0: "none",
                0x1: "256",
                0x2: "512",
                0x3: "1024",
                0x4: "2048",
                0x5: "4096",
                0x6: "8192",
                0x7: "10240",
            },
        ),
        BitField("reserved_238", 0, 3),
        BitField("response_time", 16, 5),
        ByteField("local_port_num", 0),
        XShortField("reserved_240", 0),
    ]


class OPAPartitionTable(OPAAttribute):
    """PartitionTable, 64 bytes."""

    name = "PartitionTable"
    size = 64
    fields_desc = [
        FieldListField("pkeys", [0] * 32, XShortField("", 0), count_from=lambda pkt: 32, max_count=32)
    ]


class OPASLtoSC(OPAAttribute):
    """SLtoSC, 32 bytes."""

    name = "SLtoSC"
    size = 32
    fields_desc = [FieldListField("scs", [0] * 32, ByteField("", 0), count_from=lambda pkt: 32, max_count=32)]


class OPAVLArbEntry(OPAAttribute):
    """entry of VLArb, 2 bytes."""

    name = "entry of VLArb"
    size = 2
    fields_desc = [BitField("reserved", 0, 3), BitField("vl", 0, 5), ByteField("weight", 0)]


class OPAVLArb(OPAAttribute):
    """VLArb, 256 bytes."""

    name = "VLArb"
    size = 256
    fields_desc = [
        PacketListField(
            "entries",
            [OPAVLArbEntry() for _ in range(128)],
            OPAVLArbEntry,
            count_from=lambda pkt: 128,
            max_count=128,
        )
    ]


class OPALFT(OPAAttribute):
    """linear forwarding table, 64 bytes."""

    name = "linear forwarding table"
    size = 64
    fields_desc = [
        FieldListField("ports", [0] * 64, ByteField("", 0), count_from=lambda pkt: 64, max_count=64)
    ]


class OPAMFT(OPAAttribute):
    """multicast forwarding table, 64 bytes."""

    name = "multicast forwarding table"
    size = 64
    fields_desc = [FieldListField("masks", [0] * 8, XLongField("", 0), count_from=lambda pkt: 8, max_count=8)]


class OPASMInfo(OPAAttribute):
    """SMInfo, 26 bytes."""

    name = "SMInfo"
    size = 26
    fields_desc = [
        XLongField("port_guid", 0),
        XLongField("sm_key", 0),
        IntField("act_count", 0),
        IntField("elapsed_time", 0),
        BitField("priority", 0, 4),
        BitField("elevated_priority", 0, 4),
        BitField("initial_priority", 0, 4),
        BitEnumField("state", 0, 4, {0x0: "not active", 0x1: "discovering", 0x2: "standby", 0x3: "master"}),
    ]


class OPALedInfo(OPAAttribute):
    """LedInfo, 8 bytes."""

    name = "LedInfo"
    size = 8
    fields_desc = [XIntField("led_mask", 0), XIntField("reserved", 0)]


class OPASCtoSC(OPAAttribute):
    """SCtoSC, 32 bytes."""

    name = "SCtoSC"
    size = 32
    fields_desc = [FieldListField("scs", [0] * 32, ByteField("", 0), count_from=lambda pkt: 32, max_count=32)]


class OPASCtoSCMultiSet(OPAAttribute):
    """SCtoSCMultiSet, 96 bytes."""

    name = "SCtoSCMultiSet"
    size = 96
    fields_desc = [
        XStrFixedLenField("ingress", bytes(32), 32),
        XStrFixedLenField("egress", bytes(32), 32),
        FieldListField("scs", [0] * 32, ByteField("", 0), count_from=lambda pkt: 32, max_count=32),
    ]


class OPASCtoSL(OPAAttribute):
    """SCtoSL, 32 bytes."""

    name = "SCtoSL"
    size = 32
    fields_desc = [FieldListField("sls", [0] * 32, ByteField("", 0), count_from=lambda pkt: 32, max_count=32)]


class OPASCtoVL(OPAAttribute):
    """SCtoVLr, SCtoVLt, SCtoVLnt, 32 bytes."""

    name = "SCtoVLr, SCtoVLt, SCtoVLnt"
    size = 32
    fields_desc = [FieldListField("vls", [0] * 32, ByteField("", 0), count_from=lambda pkt: 32, max_count=32)]


class OPAPortStateInfo(OPAAttribute):
    """PortStateInfo, 8 bytes."""

    name = "PortStateInfo"
    size = 8
    fields_desc = [
        BitField("reserved", 0, 9),
        BitField("led_enabled", 0, 1),
        BitField("is_sm_configuration_started", 0, 1),
        BitField("neighbor_normal", 0, 1),
        BitField("offline_disabled_reason", 0, 4),
        ByteField("reserved_8", 0),
        BitEnumField(
            "physical_state",
            0,
            4,
            {
                0x0: "no change",
                0x2: "polling",
                0x3: "disabled",
                0x4: "training",
                0x5: "link up",
                0x9: "offline",
                0xB: "test",
            },
        ),
        BitEnumField("state", 0, 4, {0x1: "DOWN", 0x2: "INIT", 0x3: "ARMED", 0x4: "ACTIVE"}),
        XShortField("width_tx_active", 0),
        XShortField("width_rx_active", 0),
    ]


class OPABufferControlVl(OPAAttribute):
    """buffer of a VL, 4 bytes."""

    name = "buffer of a VL"
    size = 4
    fields_desc = [ShortField("dedicated", 0), ShortField("shared", 0)]


class OPABufferControl(OPAAttribute):
    """BufferControl, 132 bytes."""

    name = "BufferControl"
    size = 132
    fields_desc = [
        XShortField("reserved", 0),
        ShortField("overall_shared", 0),
        PacketListField(
            "vls",
            [OPABufferControlVl() for _ in range(32)],
            OPABufferControlVl,
            count_from=lambda pkt: 32,
            max_count=32,
        ),
    ]


class OPACongestionInfo(OPAAttribute):
    """CongestionInfo, 4 bytes."""

    name = "CongestionInfo"
    size = 4
    fields_desc = [
        XShortField("congestion_info", 0),
        ByteField("control_table_cap", 0),
        ByteField("log_length", 96),
    ]


class OPASwitchCongestionSetting(OPAAttribute):
    """switch congestion setting, 76 bytes."""

    name = "switch congestion setting"
    size = 76
    fields_desc = [
        XIntField("control_map", 0),
        XStrFixedLenField("victim_mask", bytes(32), 32),
        XStrFixedLenField("credit_mask", bytes(32), 32),
        XByteField("threshold", 0),
        ByteField("packet_size", 0),
        XByteField("cs_threshold", 0),
        XByteField("reserved", 0),
        ShortField("cs_return_delay", 0),
        ShortField("marking_rate", 0),
    ]


class OPAHfiCongestionEntry(OPAAttribute):
    """HFI congestion setting of an SL, 6 bytes."""

    name = "HFI congestion setting of an SL"
    size = 6
    fields_desc = [
        ByteField("ccti_increase", 0),
        XByteField("reserved", 0),
        ShortField("ccti_timer", 0),
        ByteField("trigger_threshold", 0),
        ByteField("ccti_min", 0),
    ]


class OPAHfiCongestionSetting(OPAAttribute):
    """HFI congestion setting, 198 bytes."""

    name = "HFI congestion setting"
    size = 198
    fields_desc = [
        XIntField("control_map", 0),
        XShortField("port_control", 0),
        PacketListField(
            "entries",
            [OPAHfiCongestionEntry() for _ in range(32)],
            OPAHfiCongestionEntry,
            count_from=lambda pkt: 32,
            max_count=32,
        ),
    ]


class OPAHfiCongestionControl(OPAAttribute):
    """HFI congestion control table, 130 bytes."""

    name = "HFI congestion control table"
    size = 130
    fields_desc = [
        ShortField("ccti_limit", 0),
        FieldListField("entries", [0] * 64, XShortField("", 0), count_from=lambda pkt: 64, max_count=64),
    ]


class OPAIBNodeInfo(OPAAttribute):
    """NodeInfo of base version 1, 40 bytes."""

    name = "NodeInfo of base version 1"
    size = 40
    fields_desc = [
        XByteField("base_version", 128),
        XByteField("class_version", 128),
        ByteEnumField("node_type", 1, {0x1: "HFI", 0x2: "switch"}),
        ByteField("num_ports", 1),
        XLongField("system_image_guid", 0),
        XLongField("node_guid", 0),
        XLongField("port_guid", 0),
        ShortField("partition_cap", 0),
        XShortField("device_id", 0),
        XIntField("revision", 0),
        ByteField("local_port_num", 0),
        XBitField("vendor_id", 0, 24),
    ]


class OPASaClassPortInfo(OPAAttribute):
    """ClassPortInfo, 80 bytes."""

    name = "ClassPortInfo"
    size = 80
    fields_desc = [
        XByteField("base_version", 128),
        XByteField("class_version", 128),
        XShortField("capabilities", 0),
        XBitField("capabilities2", 0, 27),
        BitField("response_time", 0, 5),
        XStrFixedLenField("reserved_8", bytes(72), 72),
    ]


class OPAInformInfo(OPAAttribute):
    """InformInfo, 40 bytes."""

    name = "InformInfo"
    size = 40
    fields_desc = [
        XStrFixedLenField("gid", bytes(16), 16),
        XIntField("lid_begin", 4294967295),
        XIntField("lid_end", 0),
        ByteField("is_generic", 1),
        ByteField("subscribe", 1),
        XShortField("type", 65535),
        XShortField("reserved_28", 0),
        ShortField("trap", 65535),
        XBitField("qpn", 1, 24),
        XBitField("reserved_35", 0, 3),
        BitField("response_time", 0, 5),
        XByteField("reserved_36", 0),
        XBitField("producer", 16777215, 24),
    ]


class OPANodeRecord(OPAAttribute):
    """NodeRecord, 116 bytes."""

    name = "NodeRecord"
    size = 116
    fields_desc = [
        XIntField("lid", 0),
        XIntField("reserved_4", 0),
        PacketField("node_info", OPANodeInfo(), OPANodeInfo),
        XStrFixedLenField("node_description", bytes(64), 64),
    ]


class OPAPortInfoRecord(OPAAttribute):
    """PortInfoRecord, 378 bytes."""

    name = "PortInfoRecord"
    size = 378
    fields_desc = [
        XIntField("lid", 0),
        ByteField("port_num", 0),
        XByteField("reserved_5", 0),
        XShortField("reserved_6", 0),
        XStrFixedLenField("port_info", bytes(242), 242),
        XStrFixedLenField("link_down_reasons", bytes(128), 128),
    ]


class OPASwitchInfoRecord(OPAAttribute):
    """SwitchInfoRecord, 92 bytes."""

    name = "SwitchInfoRecord"
    size = 92
    fields_desc = [
        XIntField("lid", 0),
        XIntField("reserved_4", 0),
        XStrFixedLenField("switch_info", bytes(84), 84),
    ]


class OPALinearForwardingTableRecord(OPAAttribute):
    """LinearForwardingTableRecord, 72 bytes."""

    name = "LinearForwardingTableRecord"
    size = 72
    fields_desc = [
        XIntField("lid", 0),
        XBitField("reserved_4", 0, 14),
        BitField("block", 0, 18),
        XStrFixedLenField(
            "ports",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            64,
        ),
    ]


class OPAMulticastForwardingTableRecord(OPAAttribute):
    """MulticastForwardingTableRecord, 72 bytes."""

    name = "MulticastForwardingTableRecord"
    size = 72
    fields_desc = [
        XIntField("lid", 0),
        BitField("position", 0, 2),
        XBitField("reserved_4", 0, 9),
        BitField("block", 0, 21),
        FieldListField("port_masks", [0] * 8, XLongField("", 0), count_from=lambda pkt: 8, max_count=8),
    ]


class OPASMInfoRecord(OPAAttribute):
    """SMInfoRecord, 34 bytes."""

    name = "SMInfoRecord"
    size = 34
    fields_desc = [
        XIntField("lid", 0),
        XIntField("reserved_4", 0),
        XStrFixedLenField("sm_info", bytes(26), 26),
    ]


class OPALinkRecord(OPAAttribute):
    """LinkRecord, 12 bytes."""

    name = "LinkRecord"
    size = 12
    fields_desc = [
        XIntField("from_lid", 0),
        ByteField("from_port", 0),
        ByteField("to_port", 0),
        XShortField("reserved_6", 0),
        XIntField("to_lid", 0),
    ]


class OPAServiceRecord(OPAAttribute):
    """ServiceRecord, 184 bytes."""

    name = "ServiceRecord"
    size = 184
    fields_desc = [
        XLongField("service_id", 0),
        XIntField("lid", 0),
        XShortField("pkey", 0),
        XShortField("reserved_14", 0),
        XStrFixedLenField("gid", bytes(16), 16),
        IntField("lease", 4294967295),
        XIntField("reserved_36", 0),
        XStrFixedLenField("key", bytes(16), 16),
        XStrFixedLenField("name", bytes(64), 64),
        XStrFixedLenField("data", bytes(64), 64),
    ]


class OPAPKeyTableRecord(OPAAttribute):
    """P_KeyTableRecord, 72 bytes."""

    name = "P_KeyTableRecord"
    size = 72
    fields_desc = [
        XIntField("lid", 0),
        ShortField("block", 0),
        ByteField("port_num", 0),
        XByteField("reserved_7", 0),
        FieldListField("pkeys", [0] * 32, XShortField("", 0), count_from=lambda pkt: 32, max_count=32),
    ]


class OPAIbPathRecord(OPAAttribute):
    """PathRecord, 64 bytes."""

    name = "PathRecord"
    size = 64
    fields_desc = [
        XLongField("service_id", 0),
        XStrFixedLenField("dgid", bytes(16), 16),
        XStrFixedLenField("sgid", bytes(16), 16),
        XShortField("dlid", 0),
        XShortField("slid", 0),
        BitField("raw", 0, 1),
        XBitField("reserved_44", 0, 3),
        XBitField("flow_label", 0, 20),
        ByteField("hop_limit", 0),
        XByteField("traffic_class", 0),
        BitField("reversible", 0, 1),
        BitField("number_of_paths", 0, 7),
        XShortField("pkey", 0),
        XBitField("qos_class", 0, 12),
        BitField("sl", 0, 4),
        BitField("mtu_selector", 0, 2),
        BitField("mtu", 0, 6),
        BitField("rate_selector", 0, 2),
        BitField("rate", 0, 6),
        BitField("life_selector", 0, 2),
        BitField("life", 0, 6),
        ByteField("preference", 0),
        XStrFixedLenField("reserved_58", bytes(6), 6),
    ]


class OPAVLArbitrationTableRecord(OPAAttribute):
    """VLArbitrationTableRecord, 264 bytes."""

    name = "VLArbitrationTableRecord"
    size = 264
    fields_desc = [
        XIntField("lid", 0),
        ByteField("port_num", 0),
        ByteField("block", 0),
        XShortField("reserved_6", 0),
        XStrFixedLenField("elements", bytes(256), 256),
    ]


class OPASCtoSCRecord(OPAAttribute):
    """SCtoSCRecord, 40 bytes."""

    name = "SCtoSCRecord"
    size = 40
    fields_desc = [
        XIntField("lid", 0),
        ByteField("in_port", 0),
        ByteField("out_port", 0),
        XShortField("reserved_6", 0),
        XStrFixedLenField("table", bytes(32), 32),
    ]


class OPABufferControlTableRecord(OPAAttribute):
    """BufferControlTableRecord, 140 bytes."""

    name = "BufferControlTableRecord"
    size = 140
    fields_desc = [
        XIntField("lid", 0),
        ByteField("port_num", 0),
        XBitField("reserved_5", 0, 24),
        XStrFixedLenField("table", bytes(132), 132),
    ]


class OPACableInfoRecord(OPAAttribute):
    """CableInfoRecord, 72 bytes."""

    name = "CableInfoRecord"
    size = 72
    fields_desc = [
        XIntField("lid", 0),
        ByteField("port_num", 0),
        BitField("length", 0, 7),
        XBitField("reserved_6", 0, 1),
        BitField("address", 0, 12),
        BitField("port_type", 0, 4),
        XStrFixedLenField("memory", bytes(64), 64),
    ]


class OPACongestionInfoRecord(OPAAttribute):
    """CongestionInfoRecord, 12 bytes."""

    name = "CongestionInfoRecord"
    size = 12
    fields_desc = [
        XIntField("lid", 0),
        XIntField("reserved_4", 0),
        XStrFixedLenField("congestion_info", bytes(4), 4),
    ]


class OPASwitchCongestionRecord(OPAAttribute):
    """SwitchCongestionRecord, 84 bytes."""

    name = "SwitchCongestionRecord"
    size = 84
    fields_desc = [
        XIntField("lid", 0),
        XIntField("reserved_4", 0),
        XStrFixedLenField("setting", bytes(76), 76),
    ]


class OPASwitchPortCongestionRecord(OPAAttribute):
    """SwitchPortCongestionRecord, 12 bytes."""

    name = "SwitchPortCongestionRecord"
    size = 12
    fields_desc = [
        XIntField("lid", 0),
        ByteField("port_num", 0),
        XBitField("reserved_5", 0, 24),
        XStrFixedLenField("setting", bytes(4), 4),
    ]


class OPAHfiCongestionRecord(OPAAttribute):
    """HfiCongestionRecord, 206 bytes."""

    name = "HfiCongestionRecord"
    size = 206
    fields_desc = [
        XIntField("lid", 0),
        XIntField("reserved_4", 0),
        XStrFixedLenField("setting", bytes(198), 198),
    ]


class OPAHfiCongestionControlRecord(OPAAttribute):
    """HfiCongestionControlRecord, 138 bytes."""

    name = "HfiCongestionControlRecord"
    size = 138
    fields_desc = [
        XIntField("lid", 0),
        ShortField("block", 0),
        XShortField("reserved_6", 0),
        XStrFixedLenField("table", bytes(130), 130),
    ]


class OPAMCMemberRecord(OPAAttribute):
    """MCMemberRecord, 56 bytes."""

    name = "MCMemberRecord"
    size = 56
    fields_desc = [
        XStrFixedLenField("mgid", bytes(16), 16),
        XStrFixedLenField("port_gid", bytes(16), 16),
        XIntField("q_key", 0),
        XShortField("reserved_36", 0),
        BitEnumField(
            "mtu_selector",
            0,
            2,
            {0x0: "greater than", 0x1: "less than", 0x2: "exactly", 0x3: "the largest there is"},
        ),
        BitField("mtu", 0, 6),
        XByteField("traffic_class", 0),
        XShortField("pkey", 0),
        BitEnumField(
            "rate_selector",
            0,
            2,
            {0x0: "greater than", 0x1: "less than", 0x2: "exactly", 0x3: "the largest there is"},
        ),
        BitField("rate", 0, 6),
        BitEnumField(
            "life_selector",
            0,
            2,
            {0x0: "greater than", 0x1: "less than", 0x2: "exactly", 0x3: "the largest there is"},
        ),
        BitField("life", 0, 6),
        BitField("sl", 0, 5),
        XBitField("reserved_44", 0, 19),
        ByteField("hop_limit", 0),
        BitField("scope", 0, 4),
        XBitField("join_state", 0, 4),
        BitField("proxy_join", 0, 1),
        XBitField("reserved_49", 0, 7),
        XShortField("reserved_50", 0),
        XIntField("mlid", 0),
    ]


class OPATraceRecord(OPAAttribute):
    """TraceRecord, 40 bytes."""

    name = "TraceRecord"
    size = 40
    fields_desc = [
        ShortField("generation", 0),
        XByteField("reserved_2", 0),
        ByteField("node_type", 0),
        ByteField("entry_port", 0),
        ByteField("exit_port", 0),
        XShortField("reserved_6", 0),
        XLongField("node_id", 0),
        XLongField("chassis_id", 0),
        XLongField("entry_port_id", 0),
        XLongField("exit_port_id", 0),
    ]


class OPASLtoSCRecord(OPAAttribute):
    """SLtoSCRecord, 40 bytes."""

    name = "SLtoSCRecord"
    size = 40
    fields_desc = [
        XIntField("lid", 0),
        XShortField("reserved_4", 0),
        XShortField("reserved_6", 0),
        XStrFixedLenField("table", bytes(32), 32),
    ]


class OPASCtoVLRecord(OPAAttribute):
    """SCtoVLRecord, 40 bytes."""

    name = "SCtoVLRecord"
    size = 40
    fields_desc = [
        XIntField("lid", 0),
        ByteField("port_num", 0),
        XBitField("reserved_5", 0, 24),
        XStrFixedLenField("table", bytes(32), 32),
    ]


class OPAVFInfoRecord(OPAAttribute):
    """VFInfoRecord, 128 bytes."""

    name = "VFInfoRecord"
    size = 128
    fields_desc = [
        ShortField("index", 0),
        XShortField("pkey", 0),
        XIntField("reserved_4", 0),
        XStrFixedLenField("name", bytes(64), 64),
        XLongField("service_id", 0),
        XStrFixedLenField("mgid", bytes(16), 16),
        XBitField("select_flags", 0, 2),
        XBitField("reserved_96", 0, 1),
        BitField("sl_base", 0, 5),
        BitField("mtu_specified", 0, 1),
        XBitField("reserved_97", 0, 1),
        BitField("mtu", 0, 6),
        BitField("rate_specified", 0, 1),
        XBitField("reserved_98", 0, 1),
        BitField("rate", 0, 6),
        BitField("life_specified", 0, 1),
        XBitField("reserved_99", 0, 4),
        BitField("life", 0, 3),
        XByteField("option_flags", 0),
        ByteField("bandwidth_percent", 0),
        XBitField("reserved_102", 0, 7),
        BitField("priority", 0, 1),
        ByteField("routing_sls", 1),
        XBitField("reserved_104", 0, 1),
        BitField("preemption_rank", 0, 7),
        XBitField("reserved_105", 0, 3),
        BitField("hoq_life", 0, 5),
        BitField("sl_response_specified", 0, 1),
        XBitField("reserved_106", 0, 2),
        BitField("sl_response", 0, 5),
        BitField("sl_multicast_specified", 0, 1),
        XBitField("reserved_107", 0, 2),
        BitField("sl_multicast", 0, 5),
        XStrFixedLenField("reserved_108", bytes(20), 20),
    ]


class OPAFabricInfoRecord(OPAAttribute):
    """FabricInfoRecord, 408 bytes."""

    name = "FabricInfoRecord"
    size = 408
    fields_desc = [
        IntField("hfis", 0),
        IntField("switches", 0),
        IntField("internal_hfi_links", 0),
        IntField("external_hfi_links", 0),
        IntField("internal_switch_links", 0),
        IntField("external_switch_links", 0),
        IntField("degraded_hfi_links", 0),
        IntField("degraded_switch_links", 0),
        IntField("omitted_hfi_links", 0),
        IntField("omitted_switch_links", 0),
        XStrFixedLenField("reserved_40", bytes(368), 368),
    ]


class OPAInformInfoRecord(OPAAttribute):
    """InformInfoRecord, 48 bytes."""

    name = "InformInfoRecord"
    size = 48
    fields_desc = [
        XIntField("lid", 0),
        ShortField("number", 0),
        XShortField("reserved_6", 0),
        XStrFixedLenField("inform_info", bytes(40), 40),
    ]


class OPAIbClassPortInfo(OPAAttribute):
    """ClassPortInfo, 72 bytes."""

    name = "ClassPortInfo"
    size = 72
    fields_desc = [
        XByteField("base_version", 1),
        XByteField("class_version", 2),
        XShortField("capabilities", 0),
        XBitField("capabilities2", 0, 27),
        BitField("response_time", 0, 5),
        XStrFixedLenField("reserved_8", bytes(64), 64),
    ]


class OPAIbNotice(OPAAttribute):
    """Notice, 80 bytes."""

    name = "Notice"
    size = 80
    fields_desc = [
        BitField("is_generic", 1, 1),
        BitField("type", 0, 7),
        BitField("producer", 0, 24),
        ShortField("trap", 0),
        XShortField("issuer_lid", 0),
        ShortField("toggle_count", 0),
        XStrFixedLenField("data", bytes(54), 54),
        XStrFixedLenField("issuer_gid", bytes(16), 16),
    ]


class OPAIbInformInfo(OPAAttribute):
    """InformInfo, 36 bytes."""

    name = "InformInfo"
    size = 36
    fields_desc = [
        XStrFixedLenField("gid", bytes(16), 16),
        XShortField("lid_begin", 65535),
        XShortField("lid_end", 0),
        XShortField("reserved_20", 0),
        ByteField("is_generic", 1),
        ByteField("subscribe", 1),
        XShortField("type", 65535),
        ShortField("trap", 65535),
        XBitField("qpn", 1, 24),
        XBitField("reserved_31", 0, 3),
        BitField("response_time", 0, 5),
        XByteField("reserved_32", 0),
        XBitField("producer", 16777215, 24),
    ]


class OPAIbNodeRecord(OPAAttribute):
    """NodeRecord, 108 bytes."""

    name = "NodeRecord"
    size = 108
    fields_desc = [
        XShortField("lid", 0),
        XShortField("reserved_2", 0),
        XByteField("base_version", 0),
        XByteField("class_version", 0),
        ByteEnumField("node_type", 0, {0x1: "HFI", 0x2: "switch"}),
        ByteField("num_ports", 0),
        XLongField("system_image_guid", 0),
        XLongField("node_guid", 0),
        XLongField("port_guid", 0),
        ShortField("partition_cap", 0),
        XShortField("device_id", 0),
        XIntField("revision", 0),
        ByteField("local_port_num", 0),
        XBitField("vendor_id", 0, 24),
        XStrFixedLenField("node_description", bytes(64), 64),
    ]


class OPAIbServiceRecord(OPAAttribute):
    """ServiceRecord, 176 bytes."""

    name = "ServiceRecord"
    size = 176
    fields_desc = [
        XLongField("service_id", 0),
        XStrFixedLenField("gid", bytes(16), 16),
        XShortField("pkey", 0),
        XShortField("reserved_26", 0),
        IntField("lease", 4294967295),
        XStrFixedLenField("key", bytes(16), 16),
        XStrFixedLenField("name", bytes(64), 64),
        XStrFixedLenField("data", bytes(64), 64),
    ]


class OPAIbMCMemberRecord(OPAAttribute):
    """MCMemberRecord, 52 bytes."""

    name = "MCMemberRecord"
    size = 52
    fields_desc = [
        XStrFixedLenField("mgid", bytes(16), 16),
        XStrFixedLenField("port_gid", bytes(16), 16),
        XIntField("q_key", 0),
        XShortField("mlid", 0),
        BitField("mtu_selector", 0, 2),
        BitField("mtu", 0, 6),
        XByteField("traffic_class", 0),
        XShortField("pkey", 0),
        BitField("rate_selector", 0, 2),
        BitField("rate", 0, 6),
        BitField("life_selector", 0, 2),
        BitField("life", 0, 6),
        BitField("sl", 0, 4),
        XBitField("flow_label", 0, 20),
        ByteField("hop_limit", 0),
        BitField("scope", 0, 4),
        XBitField("join_state", 0, 4),
        BitField("proxy_join", 0, 1),
        XBitField("reserved_49", 0, 23),
    ]


class OPAIbInformInfoRecord(OPAAttribute):
    """InformInfoRecord, 60 bytes."""

    name = "InformInfoRecord"
    size = 60
    fields_desc = [
        XStrFixedLenField("gid", bytes(16), 16),
        ShortField("number", 0),
        XStrFixedLenField("reserved_18", bytes(6), 6),
        XStrFixedLenField("inform_info", bytes(36), 36),
    ]


class OPAPortStatusRequest(OPAAttribute):
    """PortStatus request, 8 bytes."""

    name = "PortStatus request"
    size = 8
    fields_desc = [
        ByteField("port_num", 0),
        XStrFixedLenField("reserved_1", bytes(3), 3),
        XIntField("vl_mask", 0),
    ]


class OPAPortStatus(OPAAttribute):
    """PortStatus, 216 bytes."""

    name = "PortStatus"
    size = 216
    fields_desc = [
        ByteField("port_num", 0),
        XStrFixedLenField("reserved_1", bytes(3), 3),
        XIntField("vl_mask", 0),
        LongField("xmit_data", 0),
        LongField("rcv_data", 0),
        LongField("xmit_pkts", 0),
        LongField("rcv_pkts", 0),
        LongField("multicast_xmit_pkts", 0),
        LongField("multicast_rcv_pkts", 0),
        LongField("xmit_wait", 0),
        LongField("sw_congestion", 0),
        LongField("rcv_fecn", 0),
        LongField("rcv_becn", 0),
        LongField("xmit_time_cong", 0),
        LongField("xmit_wasted_bw", 0),
        LongField("xmit_wait_data", 0),
        LongField("rcv_bubble", 0),
        LongField("mark_fecn", 0),
        LongField("rcv_constraint_errors", 0),
        LongField("rcv_switch_relay_errors", 0),
        LongField("xmit_discards", 0),
        LongField("xmit_constraint_errors", 0),
        LongField("rcv_remote_physical_errors", 0),
        LongField("local_link_integrity_errors", 0),
        LongField("rcv_errors", 0),
        LongField("excessive_buffer_overruns", 0),
        LongField("fm_config_errors", 0),
        IntField("link_error_recovery", 0),
        IntField("link_downed", 0),
        ByteField("uncorrectable_errors", 0),
        ByteField("link_quality", 0),
        XStrFixedLenField("reserved_210", bytes(6), 6),
    ]


class OPAPortStatusVl(OPAAttribute):
    """PortStatusVl, 112 bytes."""

    name = "PortStatusVl"
    size = 112
    fields_desc = [
        LongField("xmit_data", 0),
        LongField("rcv_data", 0),
        LongField("xmit_pkts", 0),
        LongField("rcv_pkts", 0),
        LongField("xmit_wait", 0),
        LongField("sw_congestion", 0),
        LongField("rcv_fecn", 0),
        LongField("rcv_becn", 0),
        LongField("xmit_time_cong", 0),
        LongField("xmit_wasted_bw", 0),
        LongField("xmit_wait_data", 0),
        LongField("rcv_bubble", 0),
        LongField("mark_fecn", 0),
        LongField("xmit_discards", 0),
    ]


class OPAClearPortStatus(OPAAttribute):
    """ClearPortStatus, 36 bytes."""

    name = "ClearPortStatus"
    size = 36
    fields_desc = [XStrFixedLenField("port_mask", bytes(32), 32), XIntField("counter_mask", 0)]


class OPAPortCountersRequest(OPAAttribute):
    """DataPortCounters request, 40 bytes."""

    name = "DataPortCounters request"
    size = 40
    fields_desc = [
        XStrFixedLenField("port_mask", bytes(32), 32),
        XIntField("vl_mask", 0),
        XStrFixedLenField("reserved_36", bytes(3), 3),
        XByteField("resolutions", 0),
    ]


class OPADataPortCountersPort(OPAAttribute):
    """DataPortCountersPort, 136 bytes."""

    name = "DataPortCountersPort"
    size = 136
    fields_desc = [
        ByteField("port_num", 0),
        XStrFixedLenField("reserved_1", bytes(3), 3),
        IntField("link_quality", 0),
        LongField("xmit_data", 0),
        LongField("rcv_data", 0),
        LongField("xmit_pkts", 0),
        LongField("rcv_pkts", 0),
        LongField("multicast_xmit_pkts", 0),
        LongField("multicast_rcv_pkts", 0),
        LongField("xmit_wait", 0),
        LongField("sw_congestion", 0),
        LongField("rcv_fecn", 0),
        LongField("rcv_becn", 0),
        LongField("xmit_time_cong", 0),
        LongField("xmit_wasted_bw", 0),
        LongField("xmit_wait_data", 0),
        LongField("rcv_bubble", 0),
        LongField("mark_fecn", 0),
        LongField("error_summary", 0),
    ]


class OPADataPortCountersVl(OPAAttribute):
    """DataPortCountersVl, 104 bytes."""

    name = "DataPortCountersVl"
    size = 104
    fields_desc = [
        LongField("xmit_data", 0),
        LongField("rcv_data", 0),
        LongField("xmit_pkts", 0),
        LongField("rcv_pkts", 0),
        LongField("xmit_wait", 0),
        LongField("sw_congestion", 0),
        LongField("rcv_fecn", 0),
        LongField("rcv_becn", 0),
        LongField("xmit_time_cong", 0),
        LongField("xmit_wasted_bw", 0),
        LongField("xmit_wait_data", 0),
        LongField("rcv_bubble", 0),
        LongField("mark_fecn", 0),
    ]


class OPAErrorPortCountersPort(OPAAttribute):
    """ErrorPortCountersPort, 96 bytes."""

    name = "ErrorPortCountersPort"
    size = 96
    fields_desc = [
        ByteField("port_num", 0),
        XStrFixedLenField("reserved_1", bytes(7), 7),
        LongField("rcv_constraint_errors", 0),
        LongField("rcv_switch_relay_errors", 0),
        LongField("xmit_discards", 0),
        LongField("xmit_constraint_errors", 0),
        LongField("rcv_remote_physical_errors", 0),
        LongField("local_link_integrity_errors", 0),
        LongField("rcv_errors", 0),
        LongField("excessive_buffer_overruns", 0),
        LongField("fm_config_errors", 0),
        IntField("link_error_recovery", 0),
        IntField("link_downed", 0),
        ByteField("uncorrectable_errors", 0),
        XStrFixedLenField("reserved_89", bytes(7), 7),
    ]


class OPAErrorPortCountersVl(OPAAttribute):
    """ErrorPortCountersVl, 8 bytes."""

    name = "ErrorPortCountersVl"
    size = 8
    fields_desc = [LongField("xmit_discards", 0)]


class OPAErrorInfoRequest(OPAAttribute):
    """ErrorInfo request, 40 bytes."""

    name = "ErrorInfo request"
    size = 40
    fields_desc = [
        XStrFixedLenField("port_mask", bytes(32), 32),
        XIntField("info_mask", 0),
        XStrFixedLenField("reserved_36", bytes(4), 4),
    ]


class OPAErrorInfo(OPAAttribute):
    """ErrorInfo, 72 bytes."""

    name = "ErrorInfo"
    size = 72
    fields_desc = [
        ByteField("port_num", 0),
        XStrFixedLenField("reserved_1", bytes(7), 7),
        XByteField("rcv_status", 0),
        XStrFixedLenField("rcv_flit_1", bytes(8), 8),
        XStrFixedLenField("rcv_flit_2", bytes(8), 8),
        XByteField("rcv_flit_bits", 0),
        XStrFixedLenField("reserved_26", bytes(6), 6),
        XByteField("overrun_status", 0),
        XStrFixedLenField("reserved_33", bytes(7), 7),
        XByteField("xmit_constraint_status", 0),
        XStrFixedLenField("reserved_41", bytes(1), 1),
        XShortField("xmit_constraint_pkey", 0),
        XIntField("xmit_constraint_slid", 0),
        XByteField("rcv_constraint_status", 0),
        XStrFixedLenField("reserved_49", bytes(1), 1),
        XShortField("rcv_constraint_pkey", 0),
        XIntField("rcv_constraint_slid", 0),
        XByteField("relay_status", 0),
        XBitField("relay_slid", 0, 24),
        ByteField("relay_sc", 0),
        XBitField("relay_dlid", 0, 24),
        XByteField("uncorrectable_status", 0),
        XStrFixedLenField("reserved_65", bytes(1), 1),
        XByteField("fm_config_status", 0),
        XByteField("fm_config_info", 0),
        XStrFixedLenField("reserved_68", bytes(4), 4),
    ]


ETHERNET: dict[int, Any] = {
    0x01: OPAClassPortInfo,
    0x02: OPANotice,
    0x11: OPAVeswPortInfo,
    0x12: OPAVeswPortMacEntries,
    0x13: OPAIfaceMacs,
    0x14: OPAIfaceMacs,
    0x15: OPAVeswPortInfo,
    0x20: OPASummaryCounters,
    0x22: OPAErrorCounters,
}
SUBNET: dict[int, Any] = {
    0x02: (OPASmNotice, 96),
    0x10: (OPANodeDescription, 64),
    0x11: (OPANodeInfo, 44),
    0x12: (OPASwitchInfo, 84),
    0x15: (OPAPortInfo, 248),
    0x16: (OPAPartitionTable, 64),
    0x17: (OPASLtoSC, 32),
    0x18: (OPAVLArb, 256),
    0x19: (OPALFT, 64),
    0x1B: (OPAMFT, 64),
    0x20: (OPASMInfo, 26),
    0x31: (OPALedInfo, 8),
    0x81: (OPASCtoSC, 32),
    0x94: (OPASCtoSCMultiSet, 96),
    0x82: (OPASCtoSL, 32),
    0x83: (OPASCtoVL, 32),
    0x84: (OPASCtoVL, 32),
    0x85: (OPASCtoVL, 32),
    0x87: (OPAPortStateInfo, 8),
    0x8A: (OPABufferControl, 136),
    0x8B: (OPACongestionInfo, 4),
    0x8D: (OPASwitchCongestionSetting, 76),
    0x90: (OPAHfiCongestionSetting, 198),
    0x91: (OPAHfiCongestionControl, 130),
}
SUBNET_IB: dict[int, Any] = {0x11: (OPAIBNodeInfo, 40)}
ADMINISTRATION: dict[int, Any] = {
    0x02: (OPASmNotice, 96),
    0x01: (OPASaClassPortInfo, 80),
    0x03: (OPAInformInfo, 40),
    0x11: (OPANodeRecord, 116),
    0x12: (OPAPortInfoRecord, 378),
    0x14: (OPASwitchInfoRecord, 92),
    0x15: (OPALinearForwardingTableRecord, 72),
    0x17: (OPAMulticastForwardingTableRecord, 72),
    0x18: (OPASMInfoRecord, 34),
    0x20: (OPALinkRecord, 12),
    0x31: (OPAServiceRecord, 184),
    0x33: (OPAPKeyTableRecord, 72),
    0x35: (OPAIbPathRecord, 64),
    0x36: (OPAVLArbitrationTableRecord, 264),
    0x13: (OPASCtoSCRecord, 40),
    0x8C: (OPABufferControlTableRecord, 140),
    0x88: (OPACableInfoRecord, 72),
    0x91: (OPACongestionInfoRecord, 12),
    0x92: (OPASwitchCongestionRecord, 84),
    0x93: (OPASwitchPortCongestionRecord, 12),
    0x94: (OPAHfiCongestionRecord, 206),
    0x95: (OPAHfiCongestionControlRecord, 138),
    0x38: (OPAMCMemberRecord, 56),
    0x39: (OPATraceRecord, 40),
    0x80: (OPASLtoSCRecord, 40),
    0x82: (OPASCtoVLRecord, 40),
    0x83: (OPASCtoVLRecord, 40),
    0x84: (OPASCtoVLRecord, 40),
    0x89: (OPAVFInfoRecord, 128),
    0x8D: (OPAFabricInfoRecord, 408),
    0xF3: (OPAInformInfoRecord, 48),
}
ADMINISTRATION_IB: dict[int, Any] = {
    0x01: (OPAIbClassPortInfo, 72),
    0x02: (OPAIbNotice, 80),
    0x03: (OPAIbInformInfo, 36),
    0x11: (OPAIbNodeRecord, 108),
    0x31: (OPAIbServiceRecord, 176),
    0x35: (OPAIbPathRecord, 64),
    0x38: (OPAIbMCMemberRecord, 52),
    0xF3: (OPAIbInformInfoRecord, 60),
}
COUNTERS: dict[int, Any] = {
    0x01: (OPASaClassPortInfo, OPASaClassPortInfo, None, None),
    0x40: (OPAPortStatusRequest, OPAPortStatus, None, OPAPortStatusVl),
    0x41: (OPAClearPortStatus, OPAClearPortStatus, None, None),
    0x42: (OPAPortCountersRequest, OPAPortCountersRequest, OPADataPortCountersPort, OPADataPortCountersVl),
    0x43: (OPAPortCountersRequest, OPAPortCountersRequest, OPAErrorPortCountersPort, OPAErrorPortCountersVl),
    0x44: (OPAErrorInfoRequest, OPAErrorInfoRequest, OPAErrorInfo, None),
}
# end of generated


def _numbers(mad: OPAMad) -> dict[int, Any]:
    """Return the layers of the attributes of a MAD's class, by number."""
    if mad.mgmt_class in (SUBN_LID, SUBN_DIRECTED):
        return SUBNET_IB if mad.base_version == IB else SUBNET
    if mad.mgmt_class == SUBN_ADM:
        return ADMINISTRATION if mad.class_version >= 0x80 else ADMINISTRATION_IB
    return ETHERNET if mad.mgmt_class == EMA else COUNTERS if mad.mgmt_class == PERFORMANCE else {}


def _parts(found: list[Packet]) -> Iterator[type[OPAPart]]:
    """Yield the layers of the parts behind a MAD header in order. Args: found: the parts so far, the header first."""
    mad = found[0]
    row = _numbers(mad).get(mad.attr_id)
    failed = mad.method & RESPONSE and mad.status
    if 0x30 <= mad.mgmt_class <= 0x4F:
        yield OPAVendorMad
        if row is not None:
            yield row
    elif mad.mgmt_class in (SUBN_LID, SUBN_DIRECTED):
        directed = OPAIbDirectedSmp if mad.base_version == IB else OPADirectedSmp
        yield OPASmp if mad.mgmt_class == SUBN_LID else directed
        if mad.mgmt_class == SUBN_DIRECTED:
            failed = mad.method & RESPONSE and mad.status & 0x7FFF
        if row is not None and mad.base_version != IB and mad.method != GET and not failed:
            yield from _repeated(row[0], row[1], max(mad.attr_mod >> 24, 1))
    elif mad.mgmt_class == SUBN_ADM:
        yield OPASaMad
        if row is not None and not failed:
            yield from _records(mad.method, found[1], *row)
    elif mad.mgmt_class == PERFORMANCE and mad.base_version != IB and row is not None and not failed:
        yield from _counters(found, *row)


def _repeated(kind: type[OPAPart], stride: int, count: int) -> Iterator[type[OPAPart]]:
    for index in range(count):
        if index and stride > kind.size:
            yield gap(stride - kind.size)
        yield kind


def _records(method: int, sa: Packet, kind: Any, _: int) -> Iterator[type[OPAPart]]:
    """Yield the records of a MAD, of a table those of its first segment."""
    if not sa.rmpp_rtime_flags & 1 or not method & RESPONSE:
        if method & RESPONSE or method == SET or sa.sa_component_mask:
            yield kind
    elif sa.rmpp_type == 1 and sa.rmpp_segment <= 1:
        stride = sa.sa_attribute_offset * 8
        data = sa.rmpp_length - 20 if sa.rmpp_rtime_flags & 4 else 1992
        if stride >= kind.size:
            yield from _repeated(kind, stride, (data - kind.size) // stride + 1)


def _counters(found: list[Packet], question: Any, head: Any, port: Any, vl: Any) -> Iterator[type[OPAPart]]:
    """Yield the head, then a block for each port and each of its VLs."""
    if not found[0].method & RESPONSE:
        yield question
        return
    yield head
    masks = found[1].fields
    ports = int.from_bytes(masks.get("port_mask", b""), "big").bit_count() if port else 1
    for _ in range(ports):
        if port:
            yield port
        for _ in range(masks["vl_mask"].bit_count() if vl else 0):
            yield vl


bind_layers(OPA16B, OPAEthernet, l4=0x78)
bind_layers(OPA16B, OPAFM, l4=0x08)
bind_layers(OPAEthernet, Ether)
bind_layers(OPAFM, OPAMad)
bind_top_down(OPAMad, OPASmp, mgmt_class=SUBN_LID)
bind_top_down(OPAMad, OPADirectedSmp, mgmt_class=SUBN_DIRECTED)
bind_top_down(OPAMad, OPAIbDirectedSmp, mgmt_class=SUBN_DIRECTED, base_version=IB, class_version=IB)
bind_top_down(OPAMad, OPASaMad, mgmt_class=SUBN_ADM)
for counters in COUNTERS.values():
    bind_top_down(OPAMad, counters[0], mgmt_class=PERFORMANCE)
conf.l2types.register(147, OPA16B)
