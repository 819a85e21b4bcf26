"""NodeInfo, NodeDescription and SwitchInfo: what a node is. Big-endian.

Source: stl_sm_types.h of opa-ff: STL_NODE_INFO, STL_NODE_DESCRIPTION, STL_SWITCH_INFO; ib_types.h: NODE_INFO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Self

from hfi_sim.wire.field import BYTES, FLAG, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared

_SOURCE: Final = "stl_sm_types.h of opa-ff"


class NodeType(Code):
    """Kinds of nodes."""

    HFI = 1, "HFI"
    SWITCH = 2, "switch"


# what NodeInfo and its forms in InfiniBand's MADs and records share
BaseVersion = Annotated[int, Field(8, "0x80", HEX)]
ClassVersion = Annotated[int, Field(8, "0x80", HEX)]
TypeOfNode = Annotated[int, Field(8, "HFI or switch", codes=NodeType)]
NumPorts = Annotated[int, Field(8, "ports with a cable; a switch's port 0 does not count")]
SystemImageGuid = Annotated[int, Field(64, "GUID of the whole system", HEX)]
NodeGuid = Annotated[int, Field(64, "GUID of the node", HEX)]
PortGuid = Annotated[int, Field(64, "GUID of the port that was asked", HEX)]
PartitionCap = Annotated[int, Field(16, "entries of the partition table")]
DeviceId = Annotated[int, Field(16, "device, by its vendor", HEX)]
Revision = Annotated[int, Field(32, "revision of the device", HEX)]
LocalPortNum = Annotated[int, Field(8, "the port that the question came by")]
VendorId = Annotated[int, Field(24, "OUI of the vendor", HEX)]


@declared("NodeInfo", "NodeInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo(WireHeader):
    """Attribute 0x0011, 44 bytes: the same from every port of a node, but for the last two GUID and port."""

    base_version: BaseVersion = 0x80
    class_version: ClassVersion = 0x80
    node_type: TypeOfNode = NodeType.HFI
    num_ports: NumPorts = 1
    reserved: Annotated[int, Field(32, "reserved", HEX)] = 0
    system_image_guid: SystemImageGuid = 0
    node_guid: NodeGuid = 0
    port_guid: PortGuid = 0
    partition_cap: PartitionCap = 0
    device_id: DeviceId = 0
    revision: Revision = 0
    local_port_num: LocalPortNum = 0
    vendor_id: VendorId = 0


@declared(
    "IB NodeInfo",
    "NodeInfo of base version 1",
    "big",
    source="the InfiniBand architecture",
    names_itself=True,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class IbNodeInfo(WireHeader):
    """Attribute 0x0011 as a MAD of base version 1 bears it, 40 bytes."""

    base_version: Annotated[int, Field(8, "0x80: the node speaks OPA", HEX)] = 0x80
    class_version: ClassVersion = 0x80
    node_type: TypeOfNode = NodeType.HFI
    num_ports: NumPorts = 1
    system_image_guid: SystemImageGuid = 0
    node_guid: NodeGuid = 0
    port_guid: PortGuid = 0
    partition_cap: PartitionCap = 0
    device_id: DeviceId = 0
    revision: Revision = 0
    local_port_num: LocalPortNum = 0
    vendor_id: VendorId = 0

    @classmethod
    def of(cls, info: NodeInfo) -> Self:
        """Return the same facts in this form."""
        return cls(**{name: getattr(info, name) for name in cls.HEADER.names})


@declared("NodeDescription", "NodeDescription", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class NodeDescription(WireHeader):
    """Attribute 0x0010, 64 bytes: the name of a node for people."""

    text: Annotated[bytes, Field(512, "UTF-8, ends with a zero byte", BYTES)]

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the description of a node with this name, cut to the 63 bytes that there are."""
        return cls(name.encode()[:63].decode(errors="ignore").encode().ljust(64, b"\0"))

    @property
    def name(self) -> str:
        """The name."""
        return self.text.split(b"\0", 1)[0].decode(errors="replace")


@declared("SwitchInfo", "SwitchInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchInfo(WireHeader):
    """Attribute 0x0012, 84 bytes: the tables of a switch, and how it forwards."""

    linear_fdb_cap: Annotated[int, Field(32, "entries of the linear forwarding table")] = 0
    port_group_fdb_cap: Annotated[int, Field(32, "entries of the port group forwarding table")] = 0
    multicast_fdb_cap: Annotated[int, Field(32, "entries of the multicast forwarding table")] = 0
    linear_fdb_top: Annotated[int, Field(32, "the highest LID in the linear table", HEX, access="RW")] = 0
    multicast_fdb_top: Annotated[
        int, Field(32, "the highest LID in the multicast table", HEX, access="RW")
    ] = 0
    collective_cap: Annotated[int, Field(32, "entries of the collective table")] = 0
    collective_top: Annotated[int, Field(32, "the highest LID in the collective table", HEX, access="RW")] = 0
    reserved_28: Annotated[int, Field(32, "reserved", HEX)] = 0
    ipv6: Annotated[bytes, Field(128, "IPv6 address of its management", BYTES)] = bytes(16)
    ipv4: Annotated[bytes, Field(32, "IPv4 address of its management", BYTES)] = bytes(4)
    reserved_52: Annotated[bytes, Field(120, "reserved", BYTES)] = bytes(15)
    life_time_value: Annotated[
        int, Field(5, "how long a packet lives in it, 4.096 us * 2**n", access="RW")
    ] = 0
    port_state_change: Annotated[
        bool, Field(1, "a port has changed its state; a Set of 1 clears it", FLAG)
    ] = False
    reserved_67: Annotated[int, Field(2, "reserved")] = 0
    reserved_68: Annotated[int, Field(16, "reserved", HEX)] = 0
    partition_enforcement_cap: Annotated[int, Field(16, "P_Keys that a port can enforce")] = 0
    port_group_cap: Annotated[int, Field(8, "entries of the port group table")] = 0
    port_group_top: Annotated[int, Field(8, "entries in use in the port group table", access="RW")] = 0
    routing_supported: Annotated[int, Field(8, "routing modes that it has; 1: linear", HEX)] = 1
    routing_enabled: Annotated[
        int, Field(8, "the mode in use; a Set of 0 changes nothing", HEX, access="RW")
    ] = 1
    reserved_76: Annotated[int, Field(4, "reserved")] = 0
    enhanced_port0: Annotated[bool, Field(1, "its port 0 is a full end port", FLAG)] = False
    reserved_76_3: Annotated[int, Field(3, "reserved")] = 0
    reserved_77: Annotated[int, Field(2, "reserved")] = 0
    collective_mask: Annotated[int, Field(3, "upper ones of a collective LID", access="RW")] = 1
    multicast_mask: Annotated[int, Field(3, "upper ones of a multicast LID", access="RW")] = 4
    adaptive_routing: Annotated[int, Field(16, "settings of adaptive routing", HEX, access="RW")] = 0
    capability_mask: Annotated[int, Field(16, "bit 0: adaptive routing", HEX)] = 0
    collective_capabilities: Annotated[int, Field(16, "collective capabilities", HEX)] = 0
