"""The attributes of the EMA class, by number and name."""

from __future__ import annotations

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
