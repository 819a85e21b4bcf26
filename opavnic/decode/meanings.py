"""What values of the wire formats mean, in a few words each. An unknown code has no meaning: the empty string."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from hfi_sim.base.types import LID_PERMISSIVE, is_multicast_lid
from hfi_sim.wire.field import Code
from hfi_sim.wire.lrh16b import L4, QP_TEXTS, Lrh16B
from hfi_sim.wire.mad.attributes import CommonAttrId, PmAttrId, SaAttrId, SaStatus, SubnetAttrId
from hfi_sim.wire.mad.header import EMA_OUI, RESPONSE_BIT, MadClass, MadHeader, MadStatus, Method, mad_size
from hfi_sim.wire.mad.pma_attributes import PmStatus
from hfi_sim.wire.packet import QUAD_WORD
from vema.attributes.attr_id import AttrId
from vema.base.types import MAX_FABRIC_ID
from vema.em.desired.election import ELECTION_CLASS, ElectionAttrId

_ETHERTYPES: Final[dict[int, str]] = {
    0x0800: "IPv4",
    0x0806: "ARP",
    0x8100: "VLAN tag (802.1Q)",
    0x86DD: "IPv6",
    0x88A8: "service VLAN tag (802.1ad)",
    0x88CC: "LLDP",
}
ATTRIBUTES: Final[dict[int, type[Code]]] = {
    MadClass.EMA: AttrId,
    MadClass.SUBN_LID: SubnetAttrId,
    MadClass.SUBN_DIRECTED: SubnetAttrId,
    MadClass.SUBN_ADM: SaAttrId,
    MadClass.PERFORMANCE: PmAttrId,
    ELECTION_CLASS: ElectionAttrId,
}
"""Codes of attributes by management class."""
_STATUSES: Final[dict[int, type[Code]]] = {MadClass.SUBN_ADM: SaStatus, MadClass.PERFORMANCE: PmStatus}
_DIRECTION: Final = 0x8000
_OF_PORT: Final = frozenset(attr_id for attr_id in AttrId if attr_id.row.of_port)
VLAN_TYPES: Final = (0x8100, 0x88A8)
"""Ethernet types of a tag, behind which another one follows."""
_IP_PROTOCOLS: Final[dict[int, str]] = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}


def lid(value: int) -> str:
    """Return what kind of LID it is, if a special one."""
    if value == 0:
        return "LID 0: never a destination"
    if value == LID_PERMISSIVE:
        return "the permissive LID"
    return f"LID {value:#x}" + (", multicast" if is_multicast_lid(value) else "")


def header_field(name: str, value: int, lrh: Lrh16B, size: int) -> str:
    """Return what a field of the 16B header says, in a packet of `size` bytes; empty: nothing beyond its name."""
    match name:
        case "slid_high":
            return f"source LID, bits 23:20: {lid(lrh.slid)}"
        case "dlid_high":
            return f"destination LID, bits 23:20: {lid(lrh.dlid)}"
        case "length_qw":
            claimed = value * QUAD_WORD
            return f"{claimed} bytes" + ("" if claimed == size else f", but there are {size}")
        case "becn" | "fecn":
            direction = "backward" if name == "becn" else "forward"
            return f"{direction} congestion " + ("notified" if value else "not notified")
        case "sc":
            return f"service channel {value}"
        case "l4":
            return L4.text_of(value, "unknown L4 type")
        case "pkey":
            return pkey(value)
    return ""


def pkey(value: int) -> str:
    """Return the partition and the kind of membership."""
    partition = "management partition" if value & 0x7FFF == 0x7FFF else f"partition {value & 0x7FFF:#x}"
    return f"{partition}, {'full' if value & 0x8000 else 'limited'} member"


def ethernet_l4_field(name: str, value: int) -> str:
    """Return what a field of the Ethernet L4 header says."""
    if name != "vesw_id":
        return ""
    return f"virtual Ethernet switch {value}" + ("" if value < 1 << 12 else ", more than the 12 bits in use")


def fm_field(name: str, value: int) -> str:
    """Return what a field of the FM header says."""
    if not name.endswith("_qp"):
        return ""
    side = "destination" if name == "dest_qp" else "source"
    return f"{side}: " + QP_TEXTS.get(value, f"QP {value}")


def mad_field(name: str, value: int, header: MadHeader) -> str:
    """Return what a field of a MAD header says."""
    match name:
        case "base_version":
            return f"{mad_size(value)} bytes of MAD" if value in (1, 0x80) else "unknown base version"
        case "mgmt_class":
            return MadClass.text_of(value, "unknown class")
        case "method":
            return Method.text_of(value, "unknown method" + (", a response" if value & RESPONSE_BIT else ""))
        case "status":
            return _status(header.mgmt_class, value) or "failed"
        case "attr_id":
            return attribute(header.mgmt_class, value)
        case "attr_mod":
            if header.mgmt_class == MadClass.EMA and header.attr_id not in _OF_PORT:
                return f"vport {value & 0xFF}"
    return ""


def attribute(mgmt_class: int, attr_id: int) -> str:
    """Return the name of an attribute of a management class."""
    return ATTRIBUTES.get(mgmt_class, CommonAttrId).text_of(attr_id, "unknown attribute")


def _status(mgmt_class: int, status: int) -> str:
    if mgmt_class == MadClass.SUBN_DIRECTED:
        status &= ~_DIRECTION  # the uppermost bit says that it is on its way back
    own = _STATUSES.get(mgmt_class)
    return (own.text_of(status) if own else "") or MadStatus.text_of(status)


def vendor_field(name: str, value: Any) -> str:
    """Return what a field of the RMPP or vendor header says."""
    if name == "oui":
        return "" if value == EMA_OUI else "another vendor's OUI"
    return ""


def mac(address: bytes) -> str:
    """Return the kind of a MAC address, and what a locally administered one encodes: fabric, virtual switch and LID."""
    if address == b"\xff" * 6:
        return "broadcast"
    if address[0] & 1:
        return "multicast"
    if not address[0] & 2:
        return ""
    ids = address[0] >> 2 | address[1] << 6 | address[2] << 14
    port_lid = int.from_bytes(address[3:], "little")
    return f"locally administered; a VNIC's says fabric {ids & MAX_FABRIC_ID:#x}, vesw {ids >> 10}, LID {port_lid:#x}"


def ethertype(value: int) -> str:
    """Return the name of an Ethernet type."""
    if value < 0x0600:
        return "a length: 802.3 with LLC"
    return _ETHERTYPES.get(value, "")


def vlan_tci(value: int) -> str:
    """Return the parts of a VLAN tag."""
    return f"VLAN {value & 0xFFF}, priority {value >> 13}" + (", drop eligible" if value & 0x1000 else "")


def network_payload(ether_type: int, data: bytes) -> str:
    """Return addresses and protocol of an IP packet; empty for everything else."""
    if ether_type == 0x0800 and len(data) >= 20 and data[0] >> 4 == 4:
        ends, protocol = f"{IPv4Address(data[12:16])} > {IPv4Address(data[16:20])}", data[9]
    elif ether_type == 0x86DD and len(data) >= 40 and data[0] >> 4 == 6:
        ends, protocol = f"{IPv6Address(data[8:24])} > {IPv6Address(data[24:40])}", data[6]
    else:
        return ""
    return f"{_IP_PROTOCOLS.get(protocol, f'protocol {protocol}')} {ends}"


def byte_count(count: int) -> str:
    """Return `1 byte`, `2 bytes`."""
    return f"{count} byte" if count == 1 else f"{count} bytes"


def pad_count(value: int) -> str:
    """Return what the Tail field says."""
    return f"pad of {byte_count(value)}" if value <= 7 else "impossible: pad counts are 0 to 7"
