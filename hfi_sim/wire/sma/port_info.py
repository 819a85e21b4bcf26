"""PortInfo and PortStateInfo: what a port is, and what the subnet manager wants it to be. Big-endian.

A field that a subnet manager sets is RW here. In a Set, zero in a field that says what is enabled changes nothing.

Source: stl_sm_types.h of opa-ff: STL_PORT_INFO, STL_PORT_STATE_INFO; opa_port_info.h of Linux.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.base.link_modes import SPEED_25G, WIDTH_4X
from hfi_sim.base.types import PortState
from hfi_sim.wire.field import BYTES, FLAG, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared

_SOURCE: Final = "stl_sm_types.h of opa-ff"
_RW: Final = "RW"


class PhysicalState(Code):
    """States of the physical port."""

    NOP = 0, "no change"
    POLLING = 2, "polling"
    DISABLED = 3, "disabled"
    TRAINING = 4, "training"
    LINK_UP = 5, "link up"
    OFFLINE = 9, "offline"
    TEST = 11, "test"


class PortType(Code):
    """What a port's cable is."""

    UNKNOWN = 0, "unknown"
    DISCONNECTED = 1, "disconnected"
    FIXED = 2, "fixed"
    VARIABLE = 3, "variable"
    STANDARD = 4, "standard"
    SI_PHOTONICS = 5, "silicon photonics"


class LinkInitReason(Code):
    """Why a link is in INIT."""

    NOP = 0, "no change"
    LINK_UP = 1, "the link came up"
    FLAPPING = 2, "the manager ignores a port that flaps"
    OUTSIDE_POLICY = 8, "width or speed are outside the policy"
    QUARANTINED = 9, "quarantined"
    INSUFFICIENT = 10, "capabilities are insufficient"


class NeighborType(Code):
    """What is at the other end."""

    HFI = 0, "HFI"
    SWITCH = 1, "switch"


class MtuCode(Code):
    """Codes of MTUs."""

    NONE = 0, "none"
    MTU_256 = 1, "256"
    MTU_512 = 2, "512"
    MTU_1024 = 3, "1024"
    MTU_2048 = 4, "2048"
    MTU_4096 = 5, "4096"
    MTU_8192 = 6, "8192"
    MTU_10240 = 7, "10240"


MTU_BYTES: Final = {code: int(code.text) if code else 0 for code in MtuCode}
"""What a code means, in bytes."""


def mtu_bytes(code: int) -> int:
    """Return what a code means, in bytes; of an unknown one 0."""
    return MTU_BYTES[MtuCode(code)] if code <= MtuCode.MTU_10240 else 0


def mtu_code_for(size: int) -> MtuCode:
    """Return the code of the smallest MTU that carries `size` bytes of payload; the largest there is, if none does."""
    return min((code for code, length in MTU_BYTES.items() if length >= size), default=MtuCode.MTU_10240)


HOQ_LIFE: Final = 0x1F
"""The bits of HOQLife in an entry of `xmit_q`."""
MODE_STL: Final = 4
FORMAT_9B: Final = 2
FORMAT_16B: Final = 8
CRC_14: Final = 1
CRC_16: Final = 2
DISTANCE_1: Final = 1
DISTANCE_2: Final = 2

CAP_IS_SM: Final = 1 << 1
"""Bit of capability_mask: a subnet manager runs on the port."""
CAP_AUTO_MIGRATION: Final = 1 << 5
CAP_CM: Final = 1 << 16
"""Bit of capability_mask: a communication manager answers."""
CAP_NOTICE: Final = 1 << 22
"""Bit of capability_mask: the port tells of changes of its capabilities."""
CAP3_VLR: Final = 1 << 0
"""Bit of capability_mask3: there is a table SCtoVLr."""
CAP3_SHARED_SPACE: Final = 1 << 3
CAP3_ASYNC_SC2VL: Final = 1 << 6


@declared("PortStateInfo", "PortStateInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class PortStateInfo(WireHeader):
    """Attribute 0x0087, 8 bytes for each of consecutive ports; the first four stand in PortInfo, too."""

    reserved: Annotated[int, Field(9, "reserved")] = 0
    led_enabled: Annotated[bool, Field(1, "the beacon is on", FLAG)] = False
    is_sm_configuration_started: Annotated[bool, Field(1, "a manager has begun to set the port up", FLAG)] = (
        False
    )
    neighbor_normal: Annotated[bool, Field(1, "the neighbour is ARMED or ACTIVE", FLAG)] = False
    offline_disabled_reason: Annotated[int, Field(4, "why the port is offline or disabled")] = 0
    reserved_8: Annotated[int, Field(8, "reserved")] = 0
    physical_state: Annotated[int, Field(4, "physical state", codes=PhysicalState, access=_RW)] = 0
    state: Annotated[int, Field(4, "logical state", codes=PortState, access=_RW)] = 0
    width_tx_active: Annotated[int, Field(16, "width in use to send", HEX)] = 0
    width_rx_active: Annotated[int, Field(16, "width in use to receive", HEX)] = 0


@declared("PortInfo", "PortInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class PortInfo(WireHeader):
    """Attribute 0x0015, 242 bytes for each of consecutive ports; they follow each other after 248."""

    lid: Annotated[
        int, Field(32, "base LID; at a switch's port with a cable, that of the neighbour", HEX, access=_RW)
    ] = 0
    flow_control_mask: Annotated[int, Field(32, "VLs without flow control", HEX, access=_RW)] = 0
    preempt_cap: Annotated[int, Field(8, "entries of the table of preempting VLs")] = 0
    reserved_9: Annotated[int, Field(3, "reserved")] = 0
    vl_cap: Annotated[int, Field(5, "virtual lanes that it has")] = 8
    vl_high_limit: Annotated[int, Field(16, "limit of the high-priority VLs", access=_RW)] = 0
    vl_preempting_limit: Annotated[int, Field(16, "limit of the preempting VLs", access=_RW)] = 0
    arb_high_cap: Annotated[int, Field(8, "entries of the high-priority table")] = 16
    arb_low_cap: Annotated[int, Field(8, "entries of the low-priority table")] = 16
    reserved_16: Annotated[int, Field(9, "reserved")] = 0
    led_enabled: Annotated[bool, Field(1, "the beacon is on", FLAG)] = False
    is_sm_configuration_started: Annotated[bool, Field(1, "a manager has begun to set the port up", FLAG)] = (
        False
    )
    neighbor_normal: Annotated[bool, Field(1, "the neighbour is ARMED or ACTIVE", FLAG)] = False
    offline_disabled_reason: Annotated[int, Field(4, "why the port is offline or disabled")] = 0
    reserved_18: Annotated[int, Field(8, "reserved")] = 0
    physical_state: Annotated[int, Field(4, "physical state", codes=PhysicalState, access=_RW)] = 0
    state: Annotated[int, Field(4, "logical state", codes=PortState, access=_RW)] = 0
    reserved_20: Annotated[int, Field(4, "reserved")] = 0
    port_type: Annotated[int, Field(4, "what its cable is", codes=PortType)] = PortType.STANDARD
    reserved_21: Annotated[int, Field(2, "reserved")] = 0
    collective_mask: Annotated[int, Field(3, "upper ones of a collective LID", access=_RW)] = 1
    multicast_mask: Annotated[int, Field(3, "upper ones of a multicast LID", access=_RW)] = 4
    mkey_protect: Annotated[int, Field(2, "what needs the M_Key: 2 and 3 reading too", access=_RW)] = 0
    reserved_22: Annotated[int, Field(2, "reserved")] = 0
    lmc: Annotated[int, Field(4, "it has 2**n LIDs", access=_RW)] = 0
    reserved_23: Annotated[int, Field(3, "reserved")] = 0
    master_sm_sl: Annotated[int, Field(5, "service level to the subnet manager", access=_RW)] = 0
    link_init_reason: Annotated[
        int, Field(4, "why the link is in INIT", codes=LinkInitReason, access=_RW)
    ] = 0
    enforce_inbound: Annotated[
        bool, Field(1, "partitions are enforced on what comes in", FLAG, access=_RW)
    ] = False
    enforce_outbound: Annotated[
        bool, Field(1, "partitions are enforced on what leaves", FLAG, access=_RW)
    ] = False
    reserved_24: Annotated[int, Field(2, "reserved")] = 0
    reserved_25: Annotated[int, Field(3, "reserved")] = 0
    operational_vls: Annotated[int, Field(5, "virtual lanes in use", access=_RW)] = 8
    pkey_8b: Annotated[int, Field(16, "P_Key of packets of 8B", HEX, access=_RW)] = 0
    pkey_10b: Annotated[int, Field(16, "upper bits of the P_Key of packets of 10B", HEX, access=_RW)] = 0
    mkey_violations: Annotated[int, Field(16, "SMPs with a wrong M_Key", access=_RW)] = 0
    pkey_violations: Annotated[int, Field(16, "packets with a wrong P_Key", access=_RW)] = 0
    qkey_violations: Annotated[int, Field(16, "packets with a wrong Q_Key", access=_RW)] = 0
    sm_trap_qp: Annotated[int, Field(32, "queue pair of traps to the subnet manager", access=_RW)] = 0
    sa_qp: Annotated[int, Field(32, "queue pair of the subnet administration", access=_RW)] = 1
    neighbor_port_num: Annotated[int, Field(8, "port of the neighbour")] = 0
    link_down_reason: Annotated[int, Field(8, "why the link went down last", access=_RW)] = 0
    neighbor_link_down_reason: Annotated[int, Field(8, "why, as the neighbour said", access=_RW)] = 0
    client_reregister: Annotated[bool, Field(1, "clients are to register again", FLAG, access=_RW)] = False
    multicast_pkey_trap_suppression: Annotated[int, Field(2, "traps of multicast P_Keys", access=_RW)] = 0
    subnet_timeout: Annotated[int, Field(5, "how long a packet may need, 4.096 us * 2**n", access=_RW)] = 0
    speed_supported: Annotated[int, Field(16, "speeds that it has", HEX)] = SPEED_25G
    speed_enabled: Annotated[int, Field(16, "speeds that it may use", HEX, access=_RW)] = SPEED_25G
    speed_active: Annotated[int, Field(16, "speed in use", HEX)] = 0
    width_supported: Annotated[int, Field(16, "widths that it has", HEX)] = WIDTH_4X
    width_enabled: Annotated[int, Field(16, "widths that it may use", HEX, access=_RW)] = WIDTH_4X
    width_active: Annotated[int, Field(16, "width in use", HEX)] = 0
    downgrade_supported: Annotated[int, Field(16, "widths that it may fall back to, at most", HEX)] = 0xF
    downgrade_enabled: Annotated[int, Field(16, "widths that it may fall back to", HEX, access=_RW)] = 0xF
    width_tx_active: Annotated[int, Field(16, "width in use to send", HEX)] = 0
    width_rx_active: Annotated[int, Field(16, "width in use to receive", HEX)] = 0
    reserved_68: Annotated[int, Field(1, "reserved")] = 0
    mode_supported: Annotated[int, Field(5, "link modes that it has; 4: OPA")] = MODE_STL
    mode_enabled: Annotated[int, Field(5, "link modes that it may use", access=_RW)] = MODE_STL
    mode_active: Annotated[int, Field(5, "link mode in use")] = MODE_STL
    reserved_70: Annotated[int, Field(4, "reserved")] = 0
    crc_supported: Annotated[int, Field(4, "CRC modes that it has")] = 7
    crc_enabled: Annotated[int, Field(4, "CRC modes that it may use", access=_RW)] = 7
    crc_active: Annotated[int, Field(4, "CRC mode in use")] = CRC_16
    port_mode: Annotated[int, Field(16, "modes of the port", HEX, access=_RW)] = 0
    formats_supported: Annotated[int, Field(16, "packet formats that it has; 2: 9B, 8: 16B", HEX)] = (
        FORMAT_9B | FORMAT_16B
    )
    formats_enabled: Annotated[int, Field(16, "packet formats that it may use", HEX, access=_RW)] = (
        FORMAT_9B | FORMAT_16B
    )
    reserved_78: Annotated[int, Field(2, "reserved")] = 0
    distance_supported: Annotated[int, Field(2, "flit distance modes that it has")] = DISTANCE_1 | DISTANCE_2
    distance_enabled: Annotated[int, Field(2, "flit distance modes that it may use", access=_RW)] = DISTANCE_1
    nest_tx_enabled: Annotated[int, Field(5, "nesting level to send", access=_RW)] = 0
    nest_rx_supported: Annotated[int, Field(5, "nesting level to receive")] = 0
    preempt_min_initial: Annotated[int, Field(16, "bytes before a preempted head", access=_RW)] = 0
    preempt_min_tail: Annotated[int, Field(16, "bytes before a preempted tail", access=_RW)] = 0
    large_packet_limit: Annotated[int, Field(8, "size of a packet that can be preempted", access=_RW)] = 0
    small_packet_limit: Annotated[int, Field(8, "size of a packet that can preempt", access=_RW)] = 0
    max_small_packet_limit: Annotated[int, Field(8, "the most of that")] = 0
    preemption_limit: Annotated[int, Field(8, "bytes of preemption, in 256", access=_RW)] = 0
    max_lid: Annotated[int, Field(32, "the highest LID", HEX, access=_RW)] = 0xBFFF
    port_error_action: Annotated[int, Field(32, "errors that take the link down", HEX, access=_RW)] = 0
    pass_through_egress_port: Annotated[
        int, Field(8, "port that everything passes to; 0: none", access=_RW)
    ] = 0
    reserved_97: Annotated[int, Field(7, "reserved")] = 0
    pass_through_dr_control: Annotated[bool, Field(1, "directed routes pass as well", FLAG, access=_RW)] = (
        False
    )
    mkey_lease_period: Annotated[
        int, Field(16, "seconds until a wrong M_Key opens the port; 0: never", access=_RW)
    ] = 0
    reserved_100: Annotated[int, Field(9, "reserved")] = 0
    vl15_init: Annotated[int, Field(12, "buffer of VL15, in units")] = 0x100
    vl15_credit_rate: Annotated[int, Field(5, "rate of credits of VL15", access=_RW)] = 18
    credit_ack: Annotated[int, Field(3, "unit in which credits come back")] = 0
    buffer_alloc: Annotated[int, Field(3, "unit of buffers, 8 * 2**n bytes")] = 3
    reserved_104: Annotated[int, Field(16, "reserved", HEX)] = 0
    bundle_next_port: Annotated[int, Field(8, "next port of the connector")] = 0
    bundle_lane: Annotated[int, Field(8, "first lane of the connector")] = 0
    master_sm_lid: Annotated[int, Field(32, "LID of the subnet manager", HEX, access=_RW)] = 0
    mkey: Annotated[int, Field(64, "management key", HEX, access=_RW)] = 0
    subnet_prefix: Annotated[int, Field(64, "upper half of GIDs", HEX, access=_RW)] = 0xFE80000000000000
    neighbor_mtu: Annotated[tuple[int, ...], Field(8, "MTU of two VLs each", HEX, count=16, access=_RW)] = (
        0x77,
    ) * 16
    xmit_q: Annotated[
        tuple[int, ...],
        Field(8, "of each VL, VLStallCount (3 bits) and HOQLife (5 bits)", HEX, count=32, access=_RW),
    ] = (0xF4,) * 32
    ipv6: Annotated[bytes, Field(128, "IPv6 address of its management", BYTES)] = bytes(16)
    ipv4: Annotated[bytes, Field(32, "IPv4 address of its management", BYTES)] = bytes(4)
    reserved_196: Annotated[bytes, Field(96, "reserved", BYTES)] = bytes(12)
    neighbor_node_guid: Annotated[int, Field(64, "GUID of the neighbour", HEX)] = 0
    capability_mask: Annotated[int, Field(32, "what runs on it", HEX)] = 0
    reserved_220: Annotated[int, Field(16, "reserved", HEX)] = 0
    capability_mask3: Annotated[int, Field(16, "what it can do", HEX)] = 0
    reserved_224: Annotated[int, Field(32, "reserved", HEX)] = 0
    overall_buffer_space: Annotated[int, Field(16, "buffer of all VLs, in units")] = 0x800
    replay_buffer_depth_high: Annotated[int, Field(8, "depth of the replay buffer, upper byte")] = 0
    replay_wire_depth_high: Annotated[int, Field(8, "depth of the wire, upper byte")] = 0
    diag_code: Annotated[int, Field(16, "diagnostic code", HEX)] = 0
    replay_buffer_depth: Annotated[int, Field(8, "depth of the replay buffer, lower byte")] = 0x80
    replay_wire_depth: Annotated[int, Field(8, "depth of the wire, lower byte")] = 0x20
    reserved_236: Annotated[int, Field(4, "reserved")] = 0
    mgmt_allowed: Annotated[bool, Field(1, "a manager may run behind it", FLAG)] = True
    neighbor_auth_bypass: Annotated[bool, Field(1, "the neighbour's firmware is not checked", FLAG)] = False
    neighbor_node_type: Annotated[int, Field(2, "what the neighbour is", codes=NeighborType)] = (
        NeighborType.HFI
    )
    reserved_237: Annotated[int, Field(4, "reserved")] = 0
    mtu_cap: Annotated[int, Field(4, "the largest MTU", codes=MtuCode)] = MtuCode.MTU_10240
    reserved_238: Annotated[int, Field(3, "reserved")] = 0
    response_time: Annotated[int, Field(5, "how long an answer takes, 4.096 us * 2**n")] = 16
    local_port_num: Annotated[int, Field(8, "the port that the question came by")] = 0
    reserved_240: Annotated[int, Field(16, "reserved", HEX)] = 0

    def mtu_code_of(self, vl: int) -> int:
        """Return the code of the MTU of a VL, 4 bits."""
        pair = self.neighbor_mtu[vl // 2]
        return pair & 0xF if vl % 2 else pair >> 4

    def mtu_of_vl(self, vl: int) -> int:
        """Return the MTU of a VL in bytes; 0: nothing leaves on it, or an unknown code."""
        return mtu_bytes(self.mtu_code_of(vl))
