"""VLArb and BufferControl: how the virtual lanes of a link share its wire and the buffer at its far end; asked and set.

Both take effect on links with credits. The tables of preempting VLs change nothing here, as no packet is interrupted:
they are kept and read back, as is what stands where the engine has no VL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hfi_sim.engine.link.arbiter import Arbitration, Buffers
from hfi_sim.engine.link.config import MAX_VLS, FlowControl
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import BUFFER_UNIT, HFI_VLS, Port
from hfi_sim.management.sma.node import AttributeRequest, SmaNode, of_ports
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort0
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadStatus
from hfi_sim.wire.sma.tables import BUFFER_CONTROL_BLOCK, VL_ARB, BufferControl

_LOW: Final = 0
_HIGH: Final = 1
_PREEMPTING: Final = 2
_HFI_TURNS: Final = 2 * 16
"""Bytes of the turns that an HFI has, and keeps."""
_HFI_SECTIONS: Final = (_HFI_TURNS, _HFI_TURNS, 2 * 32, 0)
"""Bytes of each section that an HFI has."""
_NONE_PREEMPTS: Final = (b"\x0f\0" * 32).ljust(VL_ARB.size, b"\0")
"""What an HFI says of preempting VLs, which it has not."""
_SECTIONS: Final = 4
_LIMIT_UNIT: Final = 4096
"""Bytes of the limit of high priority. Source: InfiniBand architecture 14.2.5.6, PortInfo VLHighLimit."""
_NO_LIMIT: Final = 255
_VLS: Final = 32
"""Of the attributes."""
_VL15: Final = 15
_ANY: Final = BufferControl(
    0, 0x700, tuple({"dedicated": 0x10, "shared": 0x100} for _ in range(_VLS))
).build()
"""What a port without credits says that it has."""


def vl_arbitration(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for a section of VLArb."""
    section = question.attr_mod >> 16 & 0xFF
    if section >= _SECTIONS:
        raise RefusedError

    def read(port: Port) -> bytes:
        return _section_of(port, section)

    def write(port: Port, block: bytes) -> None:
        if isinstance(port, HfiPort):
            if section > _HIGH:
                has = _HFI_SECTIONS[section]
                raise RefusedError(MadStatus.UNSUPPORTED, read(port)[:has] + block[has:])
            block = block[:_HFI_TURNS].ljust(VL_ARB.size, b"\0")
        port.settings.tables[SubnetAttrId.VL_ARB, section] = block
        arbitrate(port)

    shown = of_ports(node, question, VL_ARB.size, read, write)
    if isinstance(node.port, HfiPort) and question.is_set:  # what the HFI has, over what was sent
        return shown[: _HFI_SECTIONS[section]] + question.data[_HFI_SECTIONS[section] : VL_ARB.size]
    return shown


def _section_of(port: Port, section: int) -> bytes:
    if isinstance(port, HfiPort) and section == _PREEMPTING:
        return _NONE_PREEMPTS
    return port.settings.tables.get((SubnetAttrId.VL_ARB, section), bytes(VL_ARB.size))


def arbitrate(port: Port) -> None:
    """Share the link of a port by its tables and the limit in its PortInfo; without tables, change nothing."""
    if isinstance(port, SwitchPort0):
        return
    low, high = (_weights(_section_of(port, section)) for section in (_LOW, _HIGH))
    limit = port.settings.info.vl_high_limit
    limit_bytes = None if limit >= _NO_LIMIT else limit * _LIMIT_UNIT
    port.set_arbitration(Arbitration(low, high, limit_bytes) if any((*low, *high)) else None)


def _weights(section: bytes) -> tuple[int, ...]:
    """Return the weight of each VL: of all its entries."""
    weights = [0] * _VLS
    for entry in VL_ARB.parse(section).entries:
        weights[entry["vl"]] += entry["weight"]
    return tuple(weights[:MAX_VLS])


def buffer_control(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for BufferControl."""
    key = (SubnetAttrId.BUFFER_CONTROL, 0)

    def read(port: Port) -> bytes:
        return port.settings.tables.get(key) or _buffers_of(port)

    def write(port: Port, block: bytes) -> None:
        if isinstance(port, HfiPort):
            block = _of_hfi(BufferControl.parse(block)).build()
        port.settings.tables[key] = block
        if not isinstance(port, SwitchPort0):
            port.set_buffers(_buffers_in(BufferControl.parse(block)))

    return of_ports(node, question, BufferControl.SIZE, read, write, BUFFER_CONTROL_BLOCK)


def _of_hfi(control: BufferControl) -> BufferControl:
    """Return what an HFI keeps of a BufferControl: of the VLs that it has."""
    none = {"dedicated": 0, "shared": 0}
    has = (*range(HFI_VLS), _VL15)
    vls = tuple(vl if number in has else none for number, vl in enumerate(control.vls))
    return replace(control, reserved=0, vls=vls)


def _buffers_in(control: BufferControl) -> Buffers:
    rooms = ([vl[name] * BUFFER_UNIT for vl in control.vls[:MAX_VLS]] for name in ("dedicated", "shared"))
    dedicated, shared = rooms
    return Buffers(tuple(dedicated), tuple(shared), control.overall_shared * BUFFER_UNIT)


def _buffers_of(port: Port) -> bytes:
    """Return what a port has before a manager sets it: the values of its link."""
    flow: FlowControl | None = None
    if not isinstance(port, SwitchPort0) and port.link is not None:
        flow = port.link.direction_from(port).planned.flow
    if flow is None:
        return _ANY
    shared = min(flow.shared_bytes // BUFFER_UNIT, 0xFFFF)
    own = min(flow.buffer_bytes // BUFFER_UNIT, 0xFFFF)
    there = {"dedicated": own, "shared": shared}
    none = {"dedicated": 0, "shared": 0}
    return BufferControl(0, shared, tuple(there if vl < flow.vls else none for vl in range(_VLS))).build()
