"""The records of subnet administration in Omni-Path's form: class version 0x80. Big-endian.

Source: opa-ff, stl_sa_types.h and stl_mad_types.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from hfi_sim.wire.field import FLAG, HEX, Field
from hfi_sim.wire.header import declared
from hfi_sim.wire.sa.record import SaRecord, gid, inside, reserved
from hfi_sim.wire.sma.node import NodeInfo

LEASE_FOREVER: Final = 0xFFFFFFFF
"""The lease of a service that ends only when it is deleted."""
JOIN_FULL: Final = 1
JOIN_NON_MEMBER: Final = 2
JOIN_SEND_ONLY: Final = 4
SELECT_GREATER: Final = 0
SELECT_LESS: Final = 1
SELECT_EXACTLY: Final = 2
_SELECTORS: Final = {0: "greater than", 1: "less than", 2: "exactly", 3: "the largest there is"}


def _lid(meaning: str) -> Field:
    return Field(32, meaning, HEX)


def _selector(what: str) -> Field:
    return Field(2, f"how `{what}` is meant", codes=_SELECTORS)


@declared("NodeRecord", "NodeRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord(SaRecord):
    """One port of an HFI, or one switch."""

    INSIDE: ClassVar = {"node_info": NodeInfo}
    COMPONENTS: ClassVar = (
        "lid", "", "node_info.base_version", "node_info.class_version", "node_info.node_type",
        "node_info.num_ports", "", "node_info.system_image_guid", "node_info.node_guid", "node_info.port_guid",
        "node_info.partition_cap", "node_info.device_id", "node_info.revision", "node_info.local_port_num",
        "node_info.vendor_id", "node_description",
    )  # fmt: skip

    lid: Annotated[int, _lid("LID of the port, or of port 0 of the switch")] = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    node_info: Annotated[bytes, inside(44, "NodeInfo")] = bytes(44)
    node_description: Annotated[bytes, inside(64, "its name, filled up with zeros")] = bytes(64)


@declared("PortInfoRecord", "PortInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class PortInfoRecord(SaRecord):
    """One port: of an HFI, or one of a switch with port 0."""

    COMPONENTS: ClassVar = ("lid", "port_num")

    lid: Annotated[int, _lid("LID of the port, or of port 0 of its switch")] = 0
    port_num: Annotated[int, Field(8, "its number on its node")] = 0
    reserved_5: Annotated[int, reserved(8)] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    port_info: Annotated[bytes, inside(242, "PortInfo")] = bytes(242)
    link_down_reasons: Annotated[bytes, inside(128, "the last eight reasons why the link went down")] = bytes(
        128
    )


@declared("LinkRecord", "LinkRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord(SaRecord):
    """One direction of a link."""

    COMPONENTS: ClassVar = ("from_lid", "from_port", "to_port", "", "to_lid")

    from_lid: Annotated[int, _lid("LID of the node that it begins at")] = 0
    from_port: Annotated[int, Field(8, "number of the port there")] = 0
    to_port: Annotated[int, Field(8, "number of the port that it ends at")] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    to_lid: Annotated[int, _lid("LID of the node that it ends at")] = 0


@declared("SwitchInfoRecord", "SwitchInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchInfoRecord(SaRecord):
    """One switch."""

    COMPONENTS: ClassVar = ("lid",)

    lid: Annotated[int, _lid("LID of its port 0")] = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    switch_info: Annotated[bytes, inside(84, "SwitchInfo")] = bytes(84)


@declared("SMInfoRecord", "SMInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SmInfoRecord(SaRecord):
    """One subnet manager."""

    COMPONENTS: ClassVar = ("lid",)

    lid: Annotated[int, _lid("LID of the port that it runs on")] = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    sm_info: Annotated[bytes, inside(26, "SMInfo")] = bytes(26)


@declared("LinearForwardingTableRecord", "LinearForwardingTableRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class LftRecord(SaRecord):
    """A block of 64 entries of a switch's linear forwarding table."""

    COMPONENTS: ClassVar = ("lid", "", "block")

    lid: Annotated[int, _lid("LID of the switch")] = 0
    reserved_4: Annotated[int, reserved(14)] = 0
    block: Annotated[int, Field(18, "number of the block: its first LID divided by 64")] = 0
    ports: Annotated[bytes, inside(64, "a port for each LID; 255: none")] = b"\xff" * 64


@declared("MulticastForwardingTableRecord", "MulticastForwardingTableRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class MftRecord(SaRecord):
    """A block of 8 groups of a switch's multicast forwarding table."""

    COMPONENTS: ClassVar = ("lid", "position", "", "block")

    lid: Annotated[int, _lid("LID of the switch")] = 0
    position: Annotated[int, Field(2, "which 64 ports the masks are of")] = 0
    reserved_4: Annotated[int, reserved(9)] = 0
    block: Annotated[int, Field(21, "number of the block: its first group, from 0, divided by 8")] = 0
    port_masks: Annotated[
        tuple[int, ...], Field(64, "a bit for each port of the group's tree", HEX, count=8)
    ] = (0,) * 8


@declared("P_KeyTableRecord", "P_KeyTableRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTableRecord(SaRecord):
    """A block of 32 P_Keys of a port."""

    COMPONENTS: ClassVar = ("lid", "block", "port_num")

    lid: Annotated[int, _lid("LID of the port, or of port 0 of its switch")] = 0
    block: Annotated[int, Field(16, "number of the block")] = 0
    port_num: Annotated[int, Field(8, "its number on its node")] = 0
    reserved_7: Annotated[int, reserved(8)] = 0
    pkeys: Annotated[tuple[int, ...], Field(16, "P_Keys; 0: no entry", HEX, count=32)] = (0,) * 32


@declared("SLtoSCRecord", "SLtoSCRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SlToScRecord(SaRecord):
    """The SC of each SL at a port; with SL and SC exchanged, the SCtoSLRecord."""

    COMPONENTS: ClassVar = ("lid",)

    lid: Annotated[int, _lid("LID of the port")] = 0
    reserved_4: Annotated[int, reserved(16)] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    table: Annotated[bytes, inside(32, "the SC of each SL, or the SL of each SC")] = bytes(32)


@declared("SCtoVLRecord", "SCtoVLRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScToVlRecord(SaRecord):
    """The VL of each SC at a port: of SCtoVLt, SCtoVLnt and SCtoVLr."""

    COMPONENTS: ClassVar = ("lid", "port_num")

    lid: Annotated[int, _lid("LID of the port, or of port 0 of its switch")] = 0
    port_num: Annotated[int, Field(8, "its number on its node")] = 0
    reserved_5: Annotated[int, reserved(24)] = 0
    table: Annotated[bytes, inside(32, "the VL of each SC; 15: none but SC15's own")] = bytes(32)


@declared("MCMemberRecord", "MCMemberRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class McMemberRecord(SaRecord):
    """A port in a multicast group, or in a request for that."""

    COMPONENTS: ClassVar = (
        "mgid", "port_gid", "q_key", "", "mtu_selector", "mtu", "traffic_class", "pkey", "rate_selector", "rate",
        "life_selector", "life", "sl", "", "hop_limit", "scope", "", "join_state", "proxy_join", "mlid",
    )  # fmt: skip

    mgid: Annotated[bytes, gid("GID of the group; 0 in a join: make one")] = bytes(16)
    port_gid: Annotated[bytes, gid("GID of the member")] = bytes(16)
    q_key: Annotated[int, Field(32, "Q_Key of the group", HEX)] = 0
    reserved_36: Annotated[int, reserved(16)] = 0
    mtu_selector: Annotated[int, _selector("mtu")] = 0
    mtu: Annotated[int, Field(6, "MTU of the group, as a code")] = 0
    traffic_class: Annotated[int, Field(8, "traffic class", HEX)] = 0
    pkey: Annotated[int, Field(16, "P_Key of the group", HEX)] = 0
    rate_selector: Annotated[int, _selector("rate")] = 0
    rate: Annotated[int, Field(6, "rate of the group, as a code")] = 0
    life_selector: Annotated[int, _selector("life")] = 0
    life: Annotated[int, Field(6, "lifetime of a packet, 4.096 us times 2 to this")] = 0
    sl: Annotated[int, Field(5, "SL of the group")] = 0
    reserved_44: Annotated[int, reserved(19)] = 0
    hop_limit: Annotated[int, Field(8, "hop limit")] = 0
    scope: Annotated[int, Field(4, "scope of the GID")] = 0
    join_state: Annotated[
        int, Field(4, "1 full member, 2 non-member, 4 send-only non-member, 8 send-only full member", HEX)
    ] = 0
    proxy_join: Annotated[bool, Field(1, "joined on behalf of another port", FLAG)] = False
    reserved_49: Annotated[int, reserved(7)] = 0
    reserved_50: Annotated[int, reserved(16)] = 0
    mlid: Annotated[int, _lid("LID of the group, in the 32-bit form that begins at 0xf0000000")] = 0


@declared("ServiceRecord", "ServiceRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord(SaRecord):
    """A service that a port offers."""

    COMPONENTS: ClassVar = ("service_id", "lid", "pkey", "", "gid", "lease", "", "key", "name")
    """Bits for parts of `data` follow; no known client queries by them."""

    service_id: Annotated[int, Field(64, "number of the service", HEX)] = 0
    lid: Annotated[int, _lid("LID of the port that offers it")] = 0
    pkey: Annotated[int, Field(16, "partition that it is offered in", HEX)] = 0
    reserved_14: Annotated[int, reserved(16)] = 0
    gid: Annotated[bytes, gid("GID of the port that offers it")] = bytes(16)
    lease: Annotated[int, Field(32, "seconds that the record still holds; 0xffffffff: until deleted")] = (
        LEASE_FOREVER
    )
    reserved_36: Annotated[int, reserved(32)] = 0
    key: Annotated[bytes, inside(16, "key of the service")] = bytes(16)
    name: Annotated[bytes, inside(64, "name, filled up with zeros")] = bytes(64)
    data: Annotated[
        bytes, inside(64, "16 bytes, 8 words of 16, 4 of 32 and 2 of 64 bits: the service's own")
    ] = bytes(64)


@declared("InformInfo", "InformInfo", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class InformInfo(SaRecord):
    """A subscription to notices."""

    gid: Annotated[bytes, gid("notices about this GID only; 0: about any")] = bytes(16)
    lid_begin: Annotated[int, _lid("notices of LIDs from this one; 0xffffffff: of all")] = 0xFFFFFFFF
    lid_end: Annotated[int, _lid("the last LID")] = 0
    is_generic: Annotated[int, Field(8, "1: generic notices, 0: a vendor's")] = 1
    subscribe: Annotated[int, Field(8, "1: subscribe, 0: end that")] = 1
    type: Annotated[int, Field(16, "type of notice; 0xffff: all", HEX)] = 0xFFFF
    reserved_28: Annotated[int, reserved(16)] = 0
    trap: Annotated[int, Field(16, "number of the trap; 0xffff: all")] = 0xFFFF
    qpn: Annotated[int, Field(24, "queue pair of the subscriber; 1: its QP1", HEX)] = 1
    reserved_35: Annotated[int, reserved(3)] = 0
    response_time: Annotated[int, Field(5, "how long a ReportResp may take")] = 0
    reserved_36: Annotated[int, reserved(8)] = 0
    producer: Annotated[int, Field(24, "type of the node; 0xffffff: any", HEX)] = 0xFFFFFF


@declared("InformInfoRecord", "InformInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class InformInfoRecord(SaRecord):
    """A subscription, as the subnet administration holds it."""

    COMPONENTS: ClassVar = ("lid", "number")

    lid: Annotated[int, _lid("LID of the subscriber")] = 0
    number: Annotated[int, Field(16, "which of its subscriptions")] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    inform_info: Annotated[bytes, inside(40, "InformInfo")] = bytes(40)


@declared("VFInfoRecord", "VFInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class VfInfoRecord(SaRecord):
    """One virtual fabric."""

    COMPONENTS: ClassVar = ("index", "pkey", "", "name", "service_id", "mgid", "", "sl_base")

    index: Annotated[int, Field(16, "number of the virtual fabric")] = 0
    pkey: Annotated[int, Field(16, "its P_Key", HEX)] = 0
    reserved_4: Annotated[int, reserved(32)] = 0
    name: Annotated[bytes, inside(64, "its name, filled up with zeros")] = bytes(64)
    service_id: Annotated[int, Field(64, "only asked for: of a service in it", HEX)] = 0
    mgid: Annotated[bytes, gid("only asked for: of a group in it")] = bytes(16)
    select_flags: Annotated[int, Field(2, "bit 0: asked for by P_Key, bit 1: by SL", HEX)] = 0
    reserved_96: Annotated[int, reserved(1)] = 0
    sl_base: Annotated[int, Field(5, "its SL")] = 0
    mtu_specified: Annotated[bool, Field(1, "`mtu` holds", FLAG)] = False
    reserved_97: Annotated[int, reserved(1)] = 0
    mtu: Annotated[int, Field(6, "its MTU, as a code")] = 0
    rate_specified: Annotated[bool, Field(1, "`rate` holds", FLAG)] = False
    reserved_98: Annotated[int, reserved(1)] = 0
    rate: Annotated[int, Field(6, "its rate, as a code")] = 0
    life_specified: Annotated[bool, Field(1, "`life` holds", FLAG)] = False
    reserved_99: Annotated[int, reserved(4)] = 0
    life: Annotated[int, Field(3, "what is added to the lifetime of packets")] = 0
    option_flags: Annotated[
        int, Field(8, "bit 0: security, bit 1: QoS, bit 2: flow control disabled", HEX)
    ] = 0
    bandwidth_percent: Annotated[int, Field(8, "share of the bandwidth, in percent")] = 0
    reserved_102: Annotated[int, reserved(7)] = 0
    priority: Annotated[bool, Field(1, "high priority", FLAG)] = False
    routing_sls: Annotated[int, Field(8, "1")] = 1
    reserved_104: Annotated[int, reserved(1)] = 0
    preemption_rank: Annotated[int, Field(7, "rank in preemption")] = 0
    reserved_105: Annotated[int, reserved(3)] = 0
    hoq_life: Annotated[int, Field(5, "lifetime at the head of a queue")] = 0
    sl_response_specified: Annotated[bool, Field(1, "`sl_response` holds", FLAG)] = False
    reserved_106: Annotated[int, reserved(2)] = 0
    sl_response: Annotated[int, Field(5, "SL of responses")] = 0
    sl_multicast_specified: Annotated[bool, Field(1, "`sl_multicast` holds", FLAG)] = False
    reserved_107: Annotated[int, reserved(2)] = 0
    sl_multicast: Annotated[int, Field(5, "SL of multicast")] = 0
    reserved_108: Annotated[bytes, inside(20, "0")] = bytes(20)


@declared("TraceRecord", "TraceRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord(SaRecord):
    """One node on a path; its ids are given with every second bit flipped."""

    generation: Annotated[int, Field(16, "changes when ids do")] = 0
    reserved_2: Annotated[int, reserved(8)] = 0
    node_type: Annotated[int, Field(8, "1 HFI, 2 switch")] = 0
    entry_port: Annotated[int, Field(8, "number of the port that the path enters by")] = 0
    exit_port: Annotated[int, Field(8, "number of the port that the path leaves by")] = 0
    reserved_6: Annotated[int, reserved(16)] = 0
    node_id: Annotated[int, Field(64, "GUID of the node", HEX)] = 0
    chassis_id: Annotated[int, Field(64, "GUID of its system", HEX)] = 0
    entry_port_id: Annotated[int, Field(64, "GUID of the port that the path enters by", HEX)] = 0
    exit_port_id: Annotated[int, Field(64, "GUID of the port that the path leaves by", HEX)] = 0


@declared("FabricInfoRecord", "FabricInfoRecord", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class FabricInfoRecord(SaRecord):
    """How many nodes and links the fabric has."""

    hfis: Annotated[int, Field(32, "HFIs")] = 0
    switches: Annotated[int, Field(32, "switches")] = 0
    internal_hfi_links: Annotated[int, Field(32, "links of HFIs inside a system")] = 0
    external_hfi_links: Annotated[int, Field(32, "links of HFIs")] = 0
    internal_switch_links: Annotated[int, Field(32, "links between switches inside a system")] = 0
    external_switch_links: Annotated[int, Field(32, "links between switches")] = 0
    degraded_hfi_links: Annotated[int, Field(32, "links of HFIs below their best")] = 0
    degraded_switch_links: Annotated[int, Field(32, "links between switches below their best")] = 0
    omitted_hfi_links: Annotated[int, Field(32, "links of HFIs that are not in use")] = 0
    omitted_switch_links: Annotated[int, Field(32, "links between switches that are not in use")] = 0
    reserved_40: Annotated[bytes, inside(368, "0")] = bytes(368)


@declared("SaClassPortInfo", "ClassPortInfo", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SaClassPortInfo(SaRecord):
    """What the subnet administration can do; it redirects no client, and sends no traps."""

    base_version: Annotated[int, Field(8, "0x80", HEX)] = 0x80
    class_version: Annotated[int, Field(8, "0x80", HEX)] = 0x80
    capabilities: Annotated[int, Field(16, "bit 2: there are more; bit 9: multicast", HEX)] = 0
    capabilities2: Annotated[int, Field(27, "more of them", HEX)] = 0
    response_time: Annotated[int, Field(5, "4.096 us times 2 to this")] = 0
    reserved_8: Annotated[bytes, inside(72, "redirection and sink of traps: 0")] = bytes(72)
