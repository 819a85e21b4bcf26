"""PortInfo and PortStateInfo: asked and set. What is set takes effect in the engine at once.

Source: hfi1 mad.c of Linux: __subn_set_opa_portinfo, set_port_states, __subn_get_opa_psi.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hfi_sim.base.port_state import PortEvent, PortState
from hfi_sim.base.types import LID_MULTICAST_FIRST, LID_PERMISSIVE, Lid
from hfi_sim.engine.link.config import MAX_MTU
from hfi_sim.management.sma.facts import Port, pkey_drops_of, port_info_of, port_state_info_of
from hfi_sim.management.sma.lanes import arbitrate
from hfi_sim.management.sma.node import ALL_PORTS, AttributeRefusedError, AttributeRequest, SmaNode
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort, SwitchPort0
from hfi_sim.wire.sma.port_info import HOQ_LIFE, PhysicalState, PortInfo, PortStateInfo

PORT_INFO_STEP: Final = 248
"""Bytes from one PortInfo to the next."""
SM_START: Final = 0x200
"""Bit of the modifier: the subnet manager begins to set the port up."""
_VL15_MTU: Final = 2048
_VL15: Final = 15
_VLS: Final = 16

_ZERO_IS_NO_CHANGE: Final = frozenset(
    {
        "link_init_reason",
        "speed_enabled",
        "width_enabled",
        "downgrade_enabled",
        "mode_enabled",
        "crc_enabled",
        "formats_enabled",
        "distance_enabled",
        "operational_vls",
    }
)
_NOT_KEPT: Final = frozenset(
    {"lid", "lmc", "physical_state", "state", "client_reregister", "enforce_inbound"}
) | {"enforce_outbound", "pkey_violations"}
_KEPT: Final = tuple(
    name for name, field in PortInfo.HEADER.fields.items() if field.access == "RW" and name not in _NOT_KEPT
)
_NOT_FORWARDED: Final = frozenset({PhysicalState.NOP, PhysicalState.POLLING, PhysicalState.DISABLED})


def port_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer a Get or a Set of PortInfo."""
    ports = node.ports(question)
    room = [PORT_INFO_STEP] * (len(ports) - 1) + [PortInfo.SIZE]
    if sum(room) > len(question.data):
        raise AttributeRefusedError
    if question.is_set:
        if question.attr_mod & ALL_PORTS and node.switch is not None:
            wanted = PortInfo.parse(question.data)
            for port in node.all_ports(question):
                _set(node, port, wanted, question)
        else:
            blocks = question.blocks(PortInfo.SIZE, len(ports), PORT_INFO_STEP)
            for port, block in zip(ports, blocks, strict=True):
                _set(node, port, PortInfo.parse(block), question)
    return b"".join(_shown(port, question).build().ljust(PORT_INFO_STEP, b"\0") for port in ports)


def port_state_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer a Get or a Set of PortStateInfo."""
    ports = node.ports(question)
    blocks = question.blocks(PortStateInfo.SIZE, len(ports))
    if question.is_set:
        for port, block in zip(ports, blocks, strict=True):
            states = PortStateInfo.parse(block)
            _set_states(node, port, states.physical_state, states.state, question)
    return b"".join(port_state_info_of(port).build() for port in ports)


def _shown(port: Port, question: AttributeRequest) -> PortInfo:
    info = port_info_of(port, question.in_port)
    return info if question.shows_mkey else replace(info, mkey=0)


def _set(node: SmaNode, port: Port, wanted: PortInfo, question: AttributeRequest) -> None:
    invalid = False
    if isinstance(port, HfiPort | SwitchPort0):
        if (wanted.lid | wanted.master_sm_lid) & ~LID_PERMISSIVE:
            raise AttributeRefusedError
        invalid = not _may_have(port, wanted.master_sm_lid)
    before = port.settings.info
    port.settings.info = replace(
        before,
        **{
            name: value
            for name in _KEPT
            if (value := getattr(wanted, name)) or name not in _ZERO_IS_NO_CHANGE
        },
    )
    port.settings.pkey_violations = wanted.pkey_violations - pkey_drops_of(port)
    if isinstance(port, SwitchPort):
        port.enforce_pkeys(
            port.settings.pkeys, inbound=wanted.enforce_inbound, outbound=wanted.enforce_outbound
        )
    else:
        if _may_have(port, wanted.lid) and wanted.lid % (1 << wanted.lmc) == 0:
            port.set_lid(Lid(wanted.lid), wanted.lmc)
        else:
            invalid = True
        if _may_have(port, wanted.master_sm_lid):
            port.settings.trap_lid = wanted.master_sm_lid
            if isinstance(port, HfiPort):
                _tell_host(port, wanted)
    if not isinstance(port, SwitchPort0):
        _set_mtus(port, wanted)
        port.set_hoq_codes([queue & HOQ_LIFE for queue in wanted.xmit_q[:_VLS]])
        arbitrate(port)
    _set_states(node, port, wanted.physical_state, wanted.state, question)
    if invalid:
        raise AttributeRefusedError


def _may_have(port: HfiPort | SwitchPort0, lid: int) -> bool:
    """Return whether a port may be given a LID, or that of its manager: one of unicast, or none before it is ARMED.

    What else a Set says takes effect all the same, although its status says that it is invalid, as in hfi1. There a
    base LID that its LMC does not fit is taken; here it is left alone as well.
    """
    return (0 < lid < LID_MULTICAST_FIRST) or (lid == 0 and port.state in (PortState.DOWN, PortState.INIT))


def _tell_host(port: HfiPort, wanted: PortInfo) -> None:
    sm_lid = Lid(wanted.master_sm_lid)
    if sm_lid != port.sm_lid:
        port.sm_lid = sm_lid
        port.report(PortEvent.SM_CHANGE)
    if wanted.client_reregister:
        port.report(PortEvent.CLIENT_REREGISTER)


def _set_mtus(port: HfiPort | SwitchPort, wanted: PortInfo) -> None:
    mtus = [wanted.mtu_of_vl(vl) for vl in range(_VLS)]
    mtus[_VL15] = max(mtus[_VL15], _VL15_MTU)  # or the port could never be managed again
    port.set_vl_mtus(() if all(mtu == MAX_MTU for mtu in mtus[:_VL15]) else mtus)


def _set_states(node: SmaNode, port: Port, physical: int, state: int, question: AttributeRequest) -> None:
    if question.attr_mod & SM_START and port.state is PortState.INIT:
        port.settings.info = replace(port.settings.info, is_sm_configuration_started=True)
    if isinstance(port, SwitchPort0):
        return
    if state in (0, PortState.DOWN):
        if physical or state:
            _set_physical(node, port, physical)
    elif state == PortState.ARMED and port.state in (PortState.INIT, PortState.ARMED):
        _enter(port, PortState.ARMED)
    elif state == PortState.ACTIVE and port.state in (PortState.ARMED, PortState.ACTIVE):
        _enter(port, PortState.ACTIVE)
    else:
        raise AttributeRefusedError


def _enter(port: HfiPort | SwitchPort, state: PortState) -> None:
    if isinstance(port, HfiPort):
        port.set_state(state)
    else:
        port.state = state


def _set_physical(node: SmaNode, port: HfiPort | SwitchPort, physical: int) -> None:
    """Disable a port, or let it train anew: its link goes down, and comes up unless something else holds it down."""
    if physical not in _NOT_FORWARDED:
        raise AttributeRefusedError
    disabled = physical == PhysicalState.DISABLED
    port.settings.physical_state = PhysicalState.DISABLED if disabled else PhysicalState.POLLING
    if port.link is None:
        return
    by = f"subnet manager at {port.name}"
    if port.link.up:
        node.set_links([port.link], False, by)
    if not disabled:
        node.set_links([port.link], True, by)
