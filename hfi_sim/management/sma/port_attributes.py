"""PortInfo and PortStateInfo: asked and set. What is set takes effect in the engine at once.

Those of an HFI are hfi1's (`hfi_port`); those of switches, of which there is no such judge, are these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hfi_sim.base.types import LID_MULTICAST_FIRST, LID_PERMISSIVE, Lid, PortState
from hfi_sim.engine.link.config import MAX_MTU
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma import hfi_port
from hfi_sim.management.sma.facts import Port, pkey_drops_of, port_info_of, port_state_info_of
from hfi_sim.management.sma.hfi_port import SM_START, VL15, VL15_MTU, train
from hfi_sim.management.sma.lanes import arbitrate
from hfi_sim.management.sma.node import ALL_PORTS, AttributeRequest, SmaNode
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort, SwitchPort0
from hfi_sim.wire.sma.port_info import HOQ_LIFE, PhysicalState, PortInfo, PortStateInfo

PORT_INFO_STEP: Final = 248
"""Bytes from one PortInfo to the next."""
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
_TRAINED: Final = frozenset({PhysicalState.NOP, PhysicalState.POLLING, PhysicalState.DISABLED})


def port_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer a Get or a Set of PortInfo."""
    if isinstance(node.port, HfiPort):
        return hfi_port.port_info(node, node.port, question)
    ports = node.ports(question)
    room = [PORT_INFO_STEP] * (len(ports) - 1) + [PortInfo.SIZE]
    if sum(room) > len(question.data):
        raise RefusedError
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
    if isinstance(node.port, HfiPort):
        return hfi_port.port_state_info(node, node.port, question)
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
    assert not isinstance(port, HfiPort)  # noqa: S101 - see port_info
    invalid = False
    if isinstance(port, SwitchPort0):
        if (wanted.lid | wanted.master_sm_lid) & ~LID_PERMISSIVE:
            raise RefusedError
        invalid = not _may_have(wanted.master_sm_lid)
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
        _set_mtus(port, wanted)
        port.set_hoq_codes([queue & HOQ_LIFE for queue in wanted.xmit_q[:_VLS]])
        arbitrate(port)
    else:
        if _may_have(wanted.lid) and wanted.lid % (1 << wanted.lmc) == 0:
            port.set_lid(Lid(wanted.lid), wanted.lmc)
        else:
            invalid = True
        if _may_have(wanted.master_sm_lid):
            port.settings.trap_lid = wanted.master_sm_lid
    _set_states(node, port, wanted.physical_state, wanted.state, question)
    if invalid:
        raise RefusedError


def _may_have(lid: int) -> bool:
    """Return whether port 0 may be given a LID, or that of its manager: one of unicast."""
    return 0 < lid < LID_MULTICAST_FIRST


def _set_mtus(port: SwitchPort, wanted: PortInfo) -> None:
    mtus = [wanted.mtu_of_vl(vl) for vl in range(_VLS)]
    mtus[VL15] = max(mtus[VL15], VL15_MTU)
    port.set_vl_mtus(() if all(mtu == MAX_MTU for mtu in mtus[:VL15]) else mtus)


def _set_states(node: SmaNode, port: Port, physical: int, state: int, question: AttributeRequest) -> None:
    assert not isinstance(port, HfiPort)  # noqa: S101 - see port_state_info
    if question.attr_mod & SM_START and port.state is PortState.INIT:
        port.settings.info = replace(port.settings.info, is_sm_configuration_started=True)
    if isinstance(port, SwitchPort0):
        return
    if state in (0, PortState.DOWN):
        if physical or state:
            _set_physical(node, port, physical)
    elif state == PortState.ARMED and port.state in (PortState.INIT, PortState.ARMED):
        port.state = PortState.ARMED
    elif state == PortState.ACTIVE and port.state in (PortState.ARMED, PortState.ACTIVE):
        port.state = PortState.ACTIVE
    else:
        raise RefusedError


def _set_physical(node: SmaNode, port: SwitchPort, physical: int) -> None:
    if physical not in _TRAINED:
        raise RefusedError
    train(node, port, disabled=physical == PhysicalState.DISABLED)
