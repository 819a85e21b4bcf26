"""The attributes of InfiniBand's performance management, class 0x04, version 1, that an HFI answers. Big-endian.

The data of an attribute begin at byte 64 of the MAD: 40 reserved bytes follow the header.

Source: the InfiniBand architecture, 16.1.3; ib_pma.h of Linux.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hfi_sim.wire.field import HEX, Field
from hfi_sim.wire.header import Header

CLASS_VERSION_IB: Final = 1
DATA_AT: Final = 40
"""Bytes between the header and the data."""
CAP_EXTENDED: Final = 0x0200
"""Bit of ClassPortInfo's CapabilityMask: PortCountersExtended has all its counters."""
_SOURCE: Final = "ib_pma.h of Linux"


def _header(name: str, fields: Mapping[str, Field]) -> Header:
    return Header(name, name, "big", fields, module=__name__, source=_SOURCE)


_SELECT: Final = {
    "reserved_0": Field(8, "0"),
    "port_select": Field(8, "number of the port"),
    "counter_select": Field(16, "counters that a Set would clear"),
}
PORT_COUNTERS: Final = _header(
    "PortCounters",
    {
        **_SELECT,
        "symbol_error": Field(16, "always 0 on Omni-Path"),
        "link_error_recovery": Field(8, "always 0 here"),
        "link_downed": Field(8, "how often the link went down"),
        "port_rcv_errors": Field(16, "packets received that are malformed, damaged, or not for this port"),
        "port_rcv_remote_physical_errors": Field(16, "always 0 here"),
        "port_rcv_switch_relay_errors": Field(16, "always 0 at an HFI"),
        "port_xmit_discards": Field(
            16, "packets not sent: port or link down, queue full, longer than the MTU"
        ),
        "port_xmit_constraint_errors": Field(8, "packets not sent for their P_Key or SLID"),
        "port_rcv_constraint_errors": Field(8, "packets received with a P_Key that does not fit"),
        "reserved_18": Field(8, "0"),
        "link_overrun_errors": Field(
            8,
            "two counters of 4 bits",
            HEX,
            parts={
                "local_link_integrity_errors": (
                    0xF0,
                    "packets damaged or lost on the wire on their way here",
                ),
                "excessive_buffer_overrun_errors": (
                    0x0F,
                    "packets received for which the buffer had no room",
                ),
            },
        ),
        "reserved_20": Field(16, "0"),
        "VL15_dropped": Field(16, "always 0 on Omni-Path"),
        "port_xmit_data": Field(32, "always 0: PortCountersExtended has it"),
        "port_rcv_data": Field(32, "always 0: PortCountersExtended has it"),
        "port_xmit_packets": Field(32, "always 0: PortCountersExtended has it"),
        "port_rcv_packets": Field(32, "always 0: PortCountersExtended has it"),
        "port_xmit_wait": Field(32, "always 0: the OPA form has it"),
    },
)
PORT_COUNTERS_EXTENDED: Final = _header(
    "PortCountersExtended",
    {
        **_SELECT,
        "reserved_4": Field(32, "0"),
        "port_xmit_data": Field(64, "flits of 8 bytes sent"),
        "port_rcv_data": Field(64, "flits of 8 bytes received"),
        "port_xmit_packets": Field(64, "packets sent"),
        "port_rcv_packets": Field(64, "packets received"),
        "unicast_xmit_packets": Field(64, "always 0 at an HFI of Omni-Path"),
        "unicast_rcv_packets": Field(64, "always 0 at an HFI of Omni-Path"),
        "multicast_xmit_packets": Field(64, "packets sent to groups"),
        "multicast_rcv_packets": Field(64, "packets received for groups"),
    },
)
LIMITS: Final[Mapping[str, int]] = {
    name: mask // (mask & -mask)
    for header in (PORT_COUNTERS, PORT_COUNTERS_EXTENDED)
    for field_name, field in header.fields.items()
    if not field_name.startswith("reserved") and not field_name.endswith("select")
    for name, mask in (
        [(part, bits) for part, (bits, _) in field.parts.items()]
        if field.parts
        else [(field_name, (1 << field.bits) - 1)]
    )
}
"""The most that each counter of both can be, by the names of the files in `counters/` of sysfs."""
REGISTERS: Final[Mapping[str, str]] = {
    "link_error_recovery": "link_error_recovery",
    "link_downed": "link_downed",
    "port_rcv_errors": "rcv_errors",
    "port_rcv_remote_physical_errors": "rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors": "rcv_switch_relay_errors",
    "port_xmit_discards": "xmit_discards",
    "port_xmit_constraint_errors": "xmit_constraint_errors",
    "port_rcv_constraint_errors": "rcv_constraint_errors",
    "local_link_integrity_errors": "local_link_integrity_errors",
    "excessive_buffer_overrun_errors": "excessive_buffer_overruns",
    "port_xmit_data": "xmit_data",
    "port_rcv_data": "rcv_data",
    "port_xmit_packets": "xmit_pkts",
    "port_rcv_packets": "rcv_pkts",
    "multicast_xmit_packets": "multicast_xmit_pkts",
    "multicast_rcv_packets": "multicast_rcv_pkts",
}
"""The counter of Omni-Path's form that each of them shows; what is not here stays 0."""
ONLY_EXTENDED: Final = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
"""Counters that PortCounters has a place for, and leaves 0."""
