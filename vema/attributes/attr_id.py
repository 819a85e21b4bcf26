"""The attributes of the EMA class, a row for each.

What handles any attribute looks here: the agent, `opavnic mad`, the simulator, texts of packets, the tables of
docs/reference/ema-attributes.md, the Wireshark dissector. The class of its values declares the fields of an attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, Self

from hfi_sim.wire.field import Code
from hfi_sim.wire.header import Header
from vema.attributes.class_port_info import ClassPortInfo, Notice
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries
from vema.attributes.vesw_port_info import VeswPortInfo

VNIC: Final = "vnic"
"""Answers the Gets of an attribute that is only read: the VNIC is asked for its value."""


class Value(Protocol):
    """The value of an attribute.

    The class of a list also has `ITEM`, the declaration of an item, and `LAYOUT`, that of the attribute with as many
    items as fit; its `HEADER` ends before them.
    """

    HEADER: ClassVar[Header]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read it at the start of `data`. Raises WireError: truncated."""
        ...

    def build(self) -> bytes:
        """Return its bytes. Raises ValueError: a value does not fit its field."""
        ...


@dataclass(frozen=True, slots=True)
class AttrRow:
    """The declaration of an attribute."""

    number: int
    name: str
    """As in documents."""
    kind: type[Value]
    get: str = ""
    """What answers a Get: `VNIC`, or the agent's method `_get_NAME`; empty: a Get is refused."""
    set: str = ""
    """What answers a Set: the agent's method `_set_NAME`; empty: a Set is refused."""
    command: str = ""
    """The name on the command line, where it is not that of the member: `vesw-port-info`."""
    of_port: bool = False
    """Whether a port has one, not each of its vports."""


class AttrId(Code):
    """Attributes of the EMA class; others stay plain ints."""

    row: AttrRow

    def __new__(cls, row: AttrRow) -> Self:
        """Make the member of a row."""
        member = int.__new__(cls, row.number)
        member._value_, member.text, member.row = row.number, row.name, row
        return member

    CLASS_PORT_INFO = AttrRow(
        0x0001, "ClassPortInfo", ClassPortInfo, get="class_port_info", set="class_port_info", of_port=True
    )
    NOTICE = AttrRow(0x0002, "Notice", Notice, of_port=True)
    VESW_PORT_INFO = AttrRow(0x0011, "VeswPortInfo", VeswPortInfo, get="vesw_port_info", set="vesw_port_info")
    MAC_ENTRIES = AttrRow(0x0012, "MacEntries", MacEntries, get="mac_entries", set="mac_entries")
    IFACE_UCAST_MACS = AttrRow(0x0013, "IfaceUcastMacs", IfaceMacs, get="ucast_macs", command="ucast-macs")
    IFACE_MCAST_MACS = AttrRow(0x0014, "IfaceMcastMacs", IfaceMacs, get="mcast_macs", command="mcast-macs")
    DELETE_VESW = AttrRow(0x0015, "DeleteVesw", VeswPortInfo, set="delete_vesw")
    SUMMARY_COUNTERS = AttrRow(0x0020, "SummaryCounters", SummaryCounters, get=VNIC)
    ERROR_COUNTERS = AttrRow(0x0022, "ErrorCounters", ErrorCounters, get=VNIC)

    @property
    def command(self) -> str:
        """The name on the command line."""
        return self.row.command or self.name.lower().replace("_", "-")


VALUE_KINDS: Final[dict[int, type[Value]]] = {attr_id: attr_id.row.kind for attr_id in AttrId}
"""The class of the values of each attribute."""
