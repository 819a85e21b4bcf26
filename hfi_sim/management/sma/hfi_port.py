"""PortInfo and PortStateInfo of an HFI, as hfi1 takes and answers them.

What hfi1 has nothing of its own for (`_ECHOED`) reads as 0, and comes back as sent in the response to a Set. A Set that
is invalid in part takes effect for the rest, and its response shows the port.

Source: hfi1 mad.c of Linux: __subn_get_opa_portinfo, __subn_set_opa_portinfo, set_port_states,
port_states_transition_allowed; held to hfi1 by tests/vectors/hfi1-sma-1.jsonl.gz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hfi_sim.base.types import LID_MULTICAST_FIRST, LID_PERMISSIVE, Lid, PortEvent, PortState
from hfi_sim.engine.link.config import MAX_MTU
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import HFI_VLS, ability_of, pkey_drops_of, port_info_of, port_state_info_of
from hfi_sim.management.sma.lanes import arbitrate
from hfi_sim.management.sma.node import AttributeRequest, SmaNode, UnansweredError
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.wire.sma.port_info import MtuCode, PhysicalState, PortInfo, PortStateInfo, mtu_bytes

SM_START: Final = 0x200
"""Bit of the modifier: the subnet manager begins to set the port up."""
VL15: Final = 15
VL15_MTU: Final = 2048
"""The least of VL15: or the port could never be managed again."""
_WIDTH_RESET: Final = (0x0FFF, 0xFFFF)
"""As widths that are enabled: all that are supported."""
_HIGH_LIMIT: Final = 0xFF
_ACTIVE_OPTIMIZE: Final = 0x0040
"""The one bit of `port_mode` that an HFI has."""
_KEPT: Final = (
    "mkey",
    "mkey_lease_period",
    "mkey_protect",
    "port_error_action",
    "sa_qp",
    "sm_trap_qp",
    "subnet_prefix",
    "subnet_timeout",
)
"""Taken as they come."""
_CLEARED: Final = ("link_down_reason", "mkey_violations", "neighbor_link_down_reason", "qkey_violations")
"""Which a Set can only set to 0."""
_ECHOED: Final = (
    *(
        "reserved_18",
        "reserved_97",
        "reserved_104",
        "reserved_196",
        "reserved_220",
        "reserved_224",
        "reserved_240",
    ),
    *("diag_code", "flow_control_mask", "ipv4", "ipv6", "max_lid", "max_small_packet_limit", "bundle_lane"),
    *("pass_through_dr_control", "pass_through_egress_port", "pkey_10b"),
    *("pkey_8b", "preempt_cap", "preempt_min_initial", "preempt_min_tail", "preemption_limit", "xmit_q"),
    *("large_packet_limit", "small_packet_limit", "replay_buffer_depth_high", "replay_wire_depth_high"),
    *("vl_preempting_limit", "bundle_next_port"),
)
_BLANK: Final = {name: getattr(PortInfo.parse(bytes(PortInfo.SIZE)), name) for name in _ECHOED}

_ALLOWED, _IGNORED, _REFUSED = "allowed", "ignored", "refused"
_LOGICAL: Final[Mapping[int, Mapping[int, str]]] = {
    PortState.DOWN: {PortState.DOWN: _IGNORED},
    PortState.INIT: {PortState.INIT: _IGNORED, PortState.ARMED: _ALLOWED},
    PortState.ARMED: {PortState.ARMED: _IGNORED, PortState.ACTIVE: _ALLOWED},
    PortState.ACTIVE: {PortState.ARMED: _IGNORED, PortState.ACTIVE: _IGNORED},
}
"""What becomes of a logical state that is asked for, by the state that a port is in; else it is refused."""
_PHYSICAL: Final[Mapping[int, Mapping[int, str]]] = {
    PhysicalState.POLLING: {PhysicalState.POLLING: _ALLOWED, PhysicalState.DISABLED: _ALLOWED},
    PhysicalState.DISABLED: {PhysicalState.POLLING: _ALLOWED, PhysicalState.DISABLED: _IGNORED},
    PhysicalState.LINK_UP: {
        PhysicalState.POLLING: _ALLOWED,
        PhysicalState.DISABLED: _ALLOWED,
        PhysicalState.LINK_UP: _IGNORED,
    },
    PhysicalState.OFFLINE: {
        PhysicalState.POLLING: _IGNORED,
        PhysicalState.DISABLED: _ALLOWED,
        PhysicalState.OFFLINE: _IGNORED,
    },
}
"""Likewise of a physical state. DISABLED allows TEST, too, in which no port here can be."""


def port_info(node: SmaNode, port: HfiPort, question: AttributeRequest) -> bytes:
    """Answer a Get or a Set of PortInfo."""
    if question.count != 1 or len(question.data) < PortInfo.SIZE:
        raise RefusedError
    if not question.is_set:
        return _shown(port, question).build()
    wanted = PortInfo.parse(question.data)
    valid = not (wanted.lid | wanted.master_sm_lid) & ~LID_PERMISSIVE
    if valid:
        valid = _set(node, port, wanted, question)
    shown = replace(
        _shown(port, question),
        client_reregister=wanted.client_reregister,
        enforce_outbound=wanted.enforce_outbound,
        reserved_24=wanted.reserved_24,
        reserved_16=wanted.reserved_16 & ~1,  # its last bit is in a byte that hfi1 has
        **{name: getattr(wanted, name) for name in _ECHOED},
    )
    data = replace(shown, link_init_reason=shown.link_init_reason | wanted.link_init_reason).build()
    if not valid:
        raise RefusedError(data=data)
    return data


def port_state_info(node: SmaNode, port: HfiPort, question: AttributeRequest) -> bytes:
    """Answer a Get or a Set of PortStateInfo."""
    if question.count != 1 or len(question.data) < PortStateInfo.SIZE:
        raise RefusedError
    valid, wanted = True, PortStateInfo.parse(question.data)
    if question.is_set:
        valid = _set_states(node, port, wanted.state, wanted.physical_state, question)
    _begin(port, question)
    shown = replace(port_state_info_of(port), led_enabled=False)
    if question.is_set:
        shown = replace(shown, reserved_8=wanted.reserved_8)
    if not valid:
        raise RefusedError(data=shown.build())
    return shown.build()


def _begin(port: HfiPort, question: AttributeRequest) -> None:
    """Note that a manager begins, where the modifier says so."""
    if question.attr_mod & SM_START and port.state is PortState.INIT:
        port.settings.info = replace(port.settings.info, is_sm_configuration_started=True)


def _shown(port: HfiPort, question: AttributeRequest) -> PortInfo:
    _begin(port, question)
    info = replace(port_info_of(port, question.in_port), **_BLANK)
    return info if question.shows_mkey else replace(info, mkey=0)


def _set(node: SmaNode, port: HfiPort, wanted: PortInfo, question: AttributeRequest) -> bool:
    """Set what is valid; return whether all is."""
    info = replace(port.settings.info, **{name: getattr(wanted, name) for name in _KEPT})
    cleared: dict[str, Any] = {name: 0 for name in _CLEARED if not getattr(wanted, name)}
    info = replace(info, **cleared)
    info = replace(
        info,
        link_init_reason=wanted.link_init_reason or info.link_init_reason,
        port_mode=wanted.port_mode & _ACTIVE_OPTIMIZE,
        vl_high_limit=wanted.vl_high_limit & _HIGH_LIMIT,
    )
    info, valid = _modes(port, info, wanted)
    valid &= wanted.operational_vls <= HFI_VLS
    if not wanted.pkey_violations:
        port.settings.pkey_violations = -pkey_drops_of(port)
    port.settings.info = info
    valid &= _set_lids(port, wanted)
    valid &= _set_mtus(port, wanted)
    arbitrate(port)
    if wanted.client_reregister:
        port.report(PortEvent.CLIENT_REREGISTER)
    return _set_states(node, port, wanted.state, wanted.physical_state, question) and valid


def _modes(port: HfiPort, info: PortInfo, wanted: PortInfo) -> tuple[PortInfo, bool]:
    """Return the widths and speeds that are enabled, and whether all that were asked for are there."""
    valid, supported = True, ability_of(port).widths
    if wanted.width_enabled in _WIDTH_RESET:
        info = replace(info, width_enabled=supported)
    elif wanted.width_enabled & ~supported:
        valid = False
    elif wanted.width_enabled:
        info = replace(info, width_enabled=wanted.width_enabled)
    if wanted.downgrade_enabled in _WIDTH_RESET:
        info = replace(info, downgrade_enabled=supported)
    elif wanted.downgrade_enabled & ~supported:
        valid = False
    else:
        info = replace(info, downgrade_enabled=wanted.downgrade_enabled)
    if wanted.speed_enabled & wanted.speed_supported:
        info = replace(info, speed_enabled=wanted.speed_enabled)
    elif wanted.speed_enabled:
        valid = False
    return info, valid


def _may_have(port: HfiPort, lid: int) -> bool:
    """Return whether a port may be given a LID, or that of its manager: one of unicast, or none before it is ARMED."""
    return (0 < lid < LID_MULTICAST_FIRST) or (lid == 0 and port.state in (PortState.DOWN, PortState.INIT))


def _set_lids(port: HfiPort, wanted: PortInfo) -> bool:
    valid = _may_have(port, wanted.lid)
    if valid and wanted.lid % (1 << wanted.lmc) == 0:  # hfi1 takes a base LID that its LMC does not fit
        port.set_lid(Lid(wanted.lid), wanted.lmc)
    if not _may_have(port, wanted.master_sm_lid):
        return False
    port.settings.trap_lid = wanted.master_sm_lid
    sm_lid = Lid(wanted.master_sm_lid)
    if sm_lid != port.sm_lid or wanted.master_sm_sl != port.settings.info.master_sm_sl:
        port.sm_lid = sm_lid
        port.settings.info = replace(port.settings.info, master_sm_sl=wanted.master_sm_sl)
        port.report(PortEvent.SM_CHANGE)
    return valid


def _set_mtus(port: HfiPort, wanted: PortInfo) -> bool:
    """Set the MTUs of the data VLs and of VL15; a code that there is not means the largest."""
    codes = [wanted.mtu_code_of(vl) for vl in range(HFI_VLS)]
    valid = all(code <= MtuCode.MTU_10240 for code in codes)
    mtus = [mtu_bytes(code) if code <= MtuCode.MTU_10240 else MAX_MTU for code in codes]
    code = wanted.mtu_code_of(VL15)
    vl15 = max(mtu_bytes(code), VL15_MTU) if code <= MtuCode.MTU_10240 else VL15_MTU
    whole = [*mtus, *[0] * (VL15 - HFI_VLS), vl15]
    port.set_vl_mtus(() if all(mtu == MAX_MTU for mtu in mtus) and vl15 == VL15_MTU else whole)
    return valid


def _set_states(
    node: SmaNode, port: HfiPort, logical: int, physical: int, question: AttributeRequest
) -> bool:
    """Bring the port into another state, or let its link train anew; return whether that is valid.

    Raises:  UnansweredError: the link over which the request came is down.
    """
    if port.state is PortState.INIT:
        if question.attr_mod & SM_START and logical in (PortState.INIT, PortState.ARMED):
            _begin(port, question)
        elif logical == PortState.ARMED and not port_state_info_of(port).is_sm_configuration_started:
            return False
    now = port_state_info_of(port)
    of_logical = _LOGICAL[now.state].get(logical, _REFUSED) if logical else _ALLOWED
    of_physical = _PHYSICAL[now.physical_state].get(physical, _REFUSED) if physical else _ALLOWED
    if _REFUSED in (of_logical, of_physical):
        return False
    if of_logical == of_physical == _IGNORED:
        return True
    if now.physical_state == PhysicalState.OFFLINE and physical == PhysicalState.POLLING:
        return True
    valid = not physical or logical in (0, PortState.DOWN)
    if logical == PortState.ARMED:
        if port.state is PortState.INIT:
            port.set_state(PortState.ARMED)
        return valid
    if logical == PortState.ACTIVE:
        if now.neighbor_normal and port.state is PortState.ARMED:
            port.set_state(PortState.ACTIVE)
        return valid and now.neighbor_normal
    if logical == PortState.INIT:
        return False
    if not (physical or logical):
        return True
    if physical not in (0, PhysicalState.POLLING, PhysicalState.DISABLED):
        return False
    train(node, port, disabled=physical == PhysicalState.DISABLED)
    if now.physical_state == PhysicalState.LINK_UP and not question.is_local:
        raise UnansweredError
    return valid


def train(node: SmaNode, port: HfiPort | SwitchPort, *, disabled: bool) -> None:
    """Disable a port, or let it train anew: its link goes down, and comes up unless something else holds it down."""
    port.settings.physical_state = PhysicalState.DISABLED if disabled else PhysicalState.POLLING
    if port.link is None:
        return
    by = f"subnet manager at {port.name}"
    if port.link.up:
        node.set_links([port.link], False, by)
    if not disabled:
        node.set_links([port.link], True, by)
