"""The attributes of the management classes, by number and name."""

from __future__ import annotations

from typing import Final

from hfi_sim.mad.header import MadClass
from hfi_sim.wire.field import Code


class AttrId(Code):
    """Attributes of the EMA class; others stay plain ints."""

    CLASS_PORT_INFO = 0x0001, "ClassPortInfo"
    NOTICE = 0x0002, "Notice"
    VESW_PORT_INFO = 0x0011, "VeswPortInfo"
    MAC_ENTRIES = 0x0012, "MacEntries"
    IFACE_UCAST_MACS = 0x0013, "IfaceUcastMacs"
    IFACE_MCAST_MACS = 0x0014, "IfaceMcastMacs"
    DELETE_VESW = 0x0015, "DeleteVesw"
    SUMMARY_COUNTERS = 0x0020, "SummaryCounters"
    ERROR_COUNTERS = 0x0022, "ErrorCounters"


class SubnetAttrId(Code):
    """Attributes of the subnet management classes that have a name here."""

    NOTICE = 0x0002, "Notice"
    NODE_DESCRIPTION = 0x0010, "NodeDescription"
    NODE_INFO = 0x0011, "NodeInfo"
    SWITCH_INFO = 0x0012, "SwitchInfo"
    PORT_INFO = 0x0015, "PortInfo"
    PARTITION_TABLE = 0x0016, "PartitionTable"
    SM_INFO = 0x0020, "SMInfo"


class CommonAttrId(Code):
    """Attributes that every management class has."""

    CLASS_PORT_INFO = 0x0001, "ClassPortInfo"
    NOTICE = 0x0002, "Notice"


_ATTRIBUTES: Final[dict[int, type[Code]]] = {
    MadClass.EMA: AttrId,
    MadClass.SUBN_LID: SubnetAttrId,
    MadClass.SUBN_DIRECTED: SubnetAttrId,
}


def attribute_text(mgmt_class: int, attr_id: int) -> str:
    """Return the name of an attribute of a management class; empty where it has none here."""
    return _ATTRIBUTES.get(mgmt_class, CommonAttrId).text_of(attr_id)
