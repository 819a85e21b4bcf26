"""What is so now: NodeInfo, SwitchInfo and PortInfo of the ports and switches of a fabric.

They are put together of what the port, its link and its neighbour are, and of what only the agent knows
(`sma.settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hfi_sim.base.counters import Drop
from hfi_sim.base.link_modes import DOWN, FULL_MODE, LinkAbility, LinkMode, ability, planned_mode
from hfi_sim.base.types import Guid, PortState
from hfi_sim.nodes.hfi import Hfi, HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort, SwitchPort0
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.sma.node import NodeDescription, NodeInfo, NodeType, SwitchInfo
from hfi_sim.wire.sma.notice import CAPABILITIES
from hfi_sim.wire.sma.port_info import (
    CAP3_ASYNC_SC2VL,
    CAP3_SHARED_SPACE,
    CAP3_VLR,
    CAP_AUTO_MIGRATION,
    CAP_CM,
    CAP_IS_SM,
    CAP_NOTICE,
    CRC_14,
    DISTANCE_1,
    HOQ_LIFE,
    MTU_BYTES,
    MtuCode,
    NeighborType,
    PhysicalState,
    PortInfo,
    PortStateInfo,
    PortType,
)
from hfi_sim.wire.sma.tables import BufferControl

Port = HfiPort | SwitchPort | SwitchPort0
"""What has a PortInfo."""

VENDOR_ID: Final = 0x001175
NO_LOCAL_MEDIA: Final = 2
"""OfflineDisabledReason of a port without a cable."""
REVISION: Final = 0x11
PARTITION_CAP: Final = 64
"""Entries of the partition table of every port; more where one has been given more."""
_PKEYS_PER_BLOCK: Final = 32
_MAX_PORT_NUM: Final = 254
_CODE_OF_MTU: Final = {size: code for code, size in MTU_BYTES.items()}
BUFFER_UNIT: Final = 8 << PortInfo().buffer_alloc
"""Bytes in which ports count buffers."""
HFI_VLS: Final = 8
"""Data VLs of an HFI; there is VL15 beside them."""
HFI_BUFFER: Final = 0x880
"""Units of an HFI's buffer, where its link has no credits that say otherwise."""
HFI_CAPABILITIES: Final = CAP_NOTICE | CAP_CM | CAP_AUTO_MIGRATION
HFI_FACTS: Final[Mapping[str, object]] = {
    "crc_active": CRC_14,
    "distance_supported": DISTANCE_1,
    "enforce_inbound": True,
    "response_time": 3,
    "vl15_credit_rate": 0,
    "vl15_init": 0x110,
}
"""What PortInfo says of every HFI: its driver has it so."""
_PKEY_DROPS: Final = (Drop.RX_PKEY, Drop.SW_PKEY_IN, Drop.SW_PKEY_OUT)
_NORMAL: Final = (PortState.ARMED, PortState.ACTIVE)


def node_of(port: Port) -> Hfi | Switch:
    """Return the node that a port belongs to."""
    return port.hfi if isinstance(port, HfiPort) else port.switch


def port_num_of(port: Port) -> int:
    """Return the number of a port on its node."""
    if isinstance(port, HfiPort):
        return port.opa_port_num
    return port.port_num if isinstance(port, SwitchPort) else 0


def port_guid_of(port: Port) -> Guid:
    """Return the GUID of a port; all ports of a switch have that of the switch."""
    return port.guid if isinstance(port, HfiPort) else port.switch.node_guid


def neighbour_of(port: Port) -> HfiPort | SwitchPort | None:
    """Return the port at the other end of a cable that is up, or None."""
    link = None if isinstance(port, SwitchPort0) else port.link
    if link is None or not link.up or isinstance(port, SwitchPort0):
        return None
    far = link.far_end(port)
    return far if isinstance(far, HfiPort | SwitchPort) else None


def partition_cap_of(port: Port) -> int:
    """Return how many entries the partition table of a port has room for: whole blocks."""
    used = len(port.settings.pkeys if isinstance(port, SwitchPort) else port.pkeys.entries)
    return max(PARTITION_CAP, -(-used // _PKEYS_PER_BLOCK) * _PKEYS_PER_BLOCK)


def node_info_of(port: Port, in_port: int | None = None) -> NodeInfo:
    """Return the NodeInfo that a port gives. Args: in_port: by which one was asked; None: by the port itself."""
    node = node_of(port)
    is_switch = isinstance(node, Switch)
    hardware = node.generation
    return NodeInfo(
        node_type=NodeType.SWITCH if is_switch else NodeType.HFI,
        num_ports=min(len(node.ports), _MAX_PORT_NUM),
        system_image_guid=node.node_guid,
        node_guid=node.node_guid,
        port_guid=port_guid_of(port),
        partition_cap=partition_cap_of(port),
        device_id=hardware.switch_id if is_switch else hardware.device_id,
        revision=REVISION,
        local_port_num=port_num_of(port) if in_port is None else min(in_port, 0xFF),
        vendor_id=VENDOR_ID,
    )


def node_description_of(port: Port) -> NodeDescription:
    """Return the NodeDescription of a port's node: of a switch its name on this fabric."""
    return NodeDescription.of(port.hfi.description if isinstance(port, HfiPort) else port.switch.description)


def switch_info_of(switch: Switch) -> SwitchInfo:
    """Return the SwitchInfo that a manager has set; tops of tables that it left unset come from the tables."""
    info = switch.info
    if not info.linear_fdb_top and (top := len(switch.lft.entries) - 1) > 0:
        info = replace(info, linear_fdb_top=top)
    if not info.multicast_fdb_top and switch.mft:
        info = replace(info, multicast_fdb_top=multicast_lid_32(max(switch.mft)))
    cap = max(info.linear_fdb_cap, info.linear_fdb_top + 1)
    return info if cap == info.linear_fdb_cap else replace(info, linear_fdb_cap=cap)


def multicast_lid_32(mlid: int) -> int:
    """Return a multicast LID of 24 bits (0xF00000 and up) as attributes bear it, in 32: 0xF0000000 and up."""
    return 0xF0000000 | mlid & 0xFFFFF


def mode_of(port: Port) -> LinkMode:
    """Return the speed and the width that a port has now; port 0 of a switch has them without a cable."""
    if isinstance(port, SwitchPort0):
        return FULL_MODE
    return DOWN if port.link is None or not port.link.up else port.link.mode


def ability_of(port: Port) -> LinkAbility:
    """Return the speeds and widths that a port supports, by its generation and by the plan of its cable."""
    generation = node_of(port).generation
    if isinstance(port, SwitchPort0):
        return ability(FULL_MODE, generation)
    return ability(DOWN if port.link is None else planned_mode(port.link.planned_bps), generation)


def neighbor_mtu_of(port: Port) -> tuple[int, ...]:
    """Return the MTUs of all VLs as PortInfo has them: two in a byte; those of an HFI are of VLs 0 to 7, and 15."""
    if isinstance(port, HfiPort):
        mtus = list(port.vl_mtus) or [MTU_BYTES[MtuCode.MTU_10240]] * 15 + [MTU_BYTES[MtuCode.MTU_2048]]
        mtus[HFI_VLS:15] = [0] * (15 - HFI_VLS)
    elif isinstance(port, SwitchPort0) or not (mtus := list(port.vl_mtus)):
        return port.settings.info.neighbor_mtu
    codes = [int(_CODE_OF_MTU.get(mtu, MtuCode.NONE)) for mtu in mtus] + [0] * 16
    return tuple(codes[vl] << 4 | codes[vl + 1] for vl in range(0, 32, 2))


def xmit_q_of(port: Port) -> tuple[int, ...]:
    """Return how long packets of each VL may wait: as a manager has set it, or as the link of a switch has it."""
    told = port.settings.info.xmit_q
    if not isinstance(port, SwitchPort) or port.hoq_codes or port.link is None:
        return told
    flow = port.link.direction_from(port).planned.flow
    return told if flow is None else tuple(queue & ~HOQ_LIFE | flow.hoq_code for queue in told)


def pkey_drops_of(port: Port) -> int:
    """Return how many packets a port has dropped for their P_Key."""
    errors = port.errors()
    return sum(errors[drop].packets for drop in _PKEY_DROPS if drop in errors)


def buffer_space_of(port: Port) -> int:
    """Return what a port has as a buffer for all that it receives, in units: that of its link, if it has credits."""
    flow = None
    if not isinstance(port, SwitchPort0) and port.link is not None:
        flow = port.link.direction_to(port).planned.flow
    if flow is None:
        return HFI_BUFFER if isinstance(port, HfiPort) else port.settings.info.overall_buffer_space
    return min((flow.vls * flow.buffer_bytes + flow.shared_bytes) // BUFFER_UNIT, 0xFFFF)


def lanes_with_buffers(port: HfiPort) -> int:
    """Return how many data VLs a manager has given buffers: those are in use."""
    block = port.settings.tables.get((SubnetAttrId.BUFFER_CONTROL, 0))
    vls = () if block is None else BufferControl.parse(block).vls[:HFI_VLS]
    return sum(1 for vl in vls if vl["dedicated"] or vl["shared"])


def port_info_of(port: Port, in_port: int | None = None) -> PortInfo:
    """Return the PortInfo of a port. Args: in_port: by which port one was asked; None: by the port itself."""
    settings = port.settings
    states = port_state_info_of(port)
    far = neighbour_of(port)
    is_up = states.physical_state == PhysicalState.LINK_UP
    speed, width = mode_of(port)
    able = ability_of(port)
    changes: dict[str, object] = {}
    if isinstance(port, HfiPort | SwitchPort0):
        changes |= {"lid": port.lid, "lmc": port.lmc}
    if isinstance(port, HfiPort):
        changes |= HFI_FACTS
        changes |= {"master_sm_lid": port.sm_lid, "operational_vls": lanes_with_buffers(port)}
    if isinstance(port, SwitchPort):
        inbound, outbound = port.enforces
        changes |= {"enforce_inbound": inbound, "enforce_outbound": outbound, "preempt_cap": 0}
        if isinstance(far, HfiPort):
            changes |= {"lid": far.lid, "lmc": far.lmc}
    return replace(
        settings.info,
        led_enabled=states.led_enabled,
        is_sm_configuration_started=states.is_sm_configuration_started,
        neighbor_normal=states.neighbor_normal,
        offline_disabled_reason=states.offline_disabled_reason,
        physical_state=states.physical_state,
        state=states.state,
        port_type=PortType.FIXED if isinstance(port, SwitchPort0) else PortType.STANDARD,
        neighbor_port_num=0 if far is None else min(port_num_of(far), 0xFF),
        speed_supported=able.speeds,
        speed_enabled=settings.info.speed_enabled & able.speeds or able.mode.speed,
        speed_active=speed,
        width_supported=able.widths,
        width_enabled=settings.info.width_enabled & able.widths or able.mode.width,
        width_active=width,
        downgrade_supported=able.widths,
        downgrade_enabled=settings.info.downgrade_enabled & able.widths or able.widths,
        width_tx_active=width,
        width_rx_active=width,
        mode_active=settings.info.mode_enabled if is_up else 0,
        pkey_violations=min(max(pkey_drops_of(port) + settings.pkey_violations, 0), 0xFFFF),
        neighbor_mtu=neighbor_mtu_of(port),
        xmit_q=xmit_q_of(port),
        overall_buffer_space=buffer_space_of(port),
        neighbor_node_guid=0 if far is None else node_of(far).node_guid,
        mgmt_allowed=_allows_management(port, far),
        neighbor_node_type=NeighborType.SWITCH if isinstance(far, SwitchPort) else NeighborType.HFI,
        capability_mask=_capability_mask(port),
        capability_mask3=_capability_mask3(port),
        local_port_num=port_num_of(port) if in_port is None else min(in_port, 0xFF),
        **changes,  # type: ignore[arg-type]
    )


def _allows_management(port: Port, far: HfiPort | SwitchPort | None) -> bool:
    """Return, of an HFI's port, whether a manager may run there; of a switch's, whether one may behind it.

    Source: stl_sm_types.h of opa-ff: PortNeighborMode.
    """
    end = port if isinstance(port, HfiPort) else far
    return end.mgmt_allowed if isinstance(end, HfiPort) else True


def capabilities_of(port: HfiPort | SwitchPort0) -> bytes:
    """Return what a notice tells of a port whose capabilities have changed."""
    return CAPABILITIES.build(
        lid=port.lid, capability_mask=_capability_mask(port), capability_mask3=_capability_mask3(port)
    )


def _capability_mask(port: Port) -> int:
    if isinstance(port, SwitchPort):
        return 0
    if isinstance(port, SwitchPort0):
        return CAP_NOTICE
    return HFI_CAPABILITIES | (CAP_IS_SM if port.is_sm else 0)


def _capability_mask3(port: Port) -> int:
    if isinstance(port, HfiPort):
        return int(port.capability_mask3) | CAP3_SHARED_SPACE
    return CAP3_VLR | CAP3_ASYNC_SC2VL


def port_state_info_of(port: Port) -> PortStateInfo:
    """Return the states of a port."""
    info = port.settings.info
    far = neighbour_of(port)
    is_up = far is not None or isinstance(port, SwitchPort0)
    width = mode_of(port).width
    reason, physical_state = info.offline_disabled_reason, port.settings.physical_state
    if is_up:
        reason, physical_state = 0, PhysicalState.LINK_UP
    elif physical_state is PhysicalState.POLLING and port.link is None:  # type: ignore[union-attr]
        reason, physical_state = NO_LOCAL_MEDIA, PhysicalState.OFFLINE
    return PortStateInfo(
        led_enabled=info.led_enabled,
        is_sm_configuration_started=info.is_sm_configuration_started and is_up,
        neighbor_normal=far is not None and far.state in _NORMAL,
        offline_disabled_reason=reason,
        physical_state=physical_state,
        state=PortState.ACTIVE if isinstance(port, SwitchPort0) else port.state,
        width_tx_active=width,
        width_rx_active=width,
    )
