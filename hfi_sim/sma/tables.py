"""The tables of ports: partitions, service levels and channels, virtual lanes; asked and set.

Those that the engine has take effect there. The others change nothing here; they are kept and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from hfi_sim.errors import FabricError
from hfi_sim.link.config import MAX_VLS, SERVICE_CHANNELS
from hfi_sim.mad.attributes import SubnetAttrId
from hfi_sim.pkeys import PkeyTable
from hfi_sim.sma.attributes.tables import (
    BUFFER_CONTROL_BLOCK,
    PKEYS_PER_BLOCK,
    BufferControl,
    PartitionTable,
    VlArb,
)
from hfi_sim.sma.facts import Port, partition_cap_of
from hfi_sim.sma.node import Node, Question, RefusedError
from hfi_sim.sma.settings import ONE_TO_ONE
from hfi_sim.switch import SwitchPort, SwitchPort0
from hfi_sim.types import SC_MANAGEMENT

ALL_PORTS: Final = 0x100
_ALL_EGRESS: Final = 0x10000
_ALL_INGRESS: Final = 0x20000
_SECTIONS: Final = 4
_IDENTITY: Final = bytes(ONE_TO_ONE)
_ONE_VL: Final = bytes(SC_MANAGEMENT if sc == SC_MANAGEMENT else 0 for sc in range(SERVICE_CHANNELS))
_UNITS: Final = 0x100
_BUFFERS: Final = BufferControl(
    0, 0x700, tuple({"dedicated": 0x10, "shared": _UNITS} for _ in range(SERVICE_CHANNELS))
).build()


# --- partitions ----------------------------------------------------------------------------------------------


def partition_table(node: Node, question: Question) -> bytes:
    """Answer for PartitionTable: consecutive blocks of one port."""
    port = node.port_at(question.attr_mod >> 16 & 0xFF)
    blocks = question.blocks(PartitionTable.SIZE)
    first = (question.attr_mod & 0x7FF) * PKEYS_PER_BLOCK
    end = first + len(blocks) * PKEYS_PER_BLOCK
    if end > partition_cap_of(port):
        raise RefusedError
    table = list(_pkeys(port))
    table += [0] * (end - len(table))
    if question.is_set:
        table[first:end] = [pkey for block in blocks for pkey in PartitionTable.parse(block).pkeys]
        _set_pkeys(port, table)
        table = [*_pkeys(port), *([0] * end)]
    return b"".join(
        PartitionTable(tuple(table[at : at + PKEYS_PER_BLOCK])).build()
        for at in range(first, end, PKEYS_PER_BLOCK)
    )


def _pkeys(port: Port) -> tuple[int, ...]:
    return port.settings.pkeys if isinstance(port, SwitchPort) else port.pkeys.entries


def _set_pkeys(port: Port, pkeys: Iterable[int]) -> None:
    table = PkeyTable.in_places(pkeys)
    if isinstance(port, SwitchPort):
        port.settings.pkeys = table.entries
        inbound, outbound = port.enforces
        port.enforce_pkeys(table.entries, inbound=inbound, outbound=outbound)
    else:
        port.set_pkeys(table)


# --- service levels and channels -----------------------------------------------------------------------------


def sl_to_sc(node: Node, question: Question) -> bytes:
    """Answer for SLtoSC."""
    settings = node.port.settings
    if question.is_set:
        settings.sl_to_sc = _channels(question)
    return bytes(settings.sl_to_sc)


def sc_to_sl(node: Node, question: Question) -> bytes:
    """Answer for SCtoSL."""
    settings = node.port.settings
    if question.is_set:
        settings.sc_to_sl = _channels(question)
    return bytes(settings.sc_to_sl)


def _channels(question: Question) -> tuple[int, ...]:
    (block,) = question.blocks(SERVICE_CHANNELS, 1)
    if max(block) >= SERVICE_CHANNELS:
        raise RefusedError
    return tuple(block)


def sc_to_sc(node: Node, question: Question) -> bytes:
    """Answer for SCtoSC: of one ingress port to consecutive egress ports, or the other way round."""
    switch = node.the_switch()
    modifier = question.attr_mod
    ingress, egress = modifier >> 8 & 0xFF, modifier & 0xFF
    is_all_in, is_all_out = bool(modifier & _ALL_INGRESS), bool(modifier & _ALL_EGRESS)
    blocks = question.blocks(SERVICE_CHANNELS)
    numbers = range(len(blocks))
    if not question.is_set:
        pairs = [(ingress, egress + number) for number in numbers]
        return b"".join(_sc_to_sc_of(node.external(into), out) for into, out in pairs)
    for number, block in zip(numbers, blocks, strict=True):
        first_in = ingress + number if is_all_out and not is_all_in else ingress
        first_out = egress if is_all_out else egress + number
        for into in _range(switch.ports, first_in, is_all_in):
            for out in _range(switch.ports, first_out, is_all_out):
                node.external(out)
                node.external(into).settings.tables[SubnetAttrId.SC_TO_SC, out] = block
        if is_all_in and is_all_out:
            break
    return b"".join(blocks)


def _range(numbers: Iterable[int], first: int, is_all: bool) -> Iterator[int]:
    if not is_all:
        yield first
        return
    yield from (number for number in numbers if number >= max(first, 1))


def _sc_to_sc_of(port: SwitchPort, egress: int) -> bytes:
    return port.settings.tables.get((SubnetAttrId.SC_TO_SC, egress), _IDENTITY)


# --- virtual lanes -------------------------------------------------------------------------------------------


def sc_to_vlt(node: Node, question: Question) -> bytes:
    """Answer for SCtoVLt: by which virtual lane a port sends."""

    def write(port: Port, block: bytes) -> None:
        if max(block) >= MAX_VLS:
            raise RefusedError
        if isinstance(port, SwitchPort0):
            port.settings.tables[SubnetAttrId.SC_TO_VLT, 0] = block
        else:
            port.set_sc_to_vl(tuple(block))

    return _of_ports(node, question, SERVICE_CHANNELS, _sc_to_vl_of, write)


def _sc_to_vl_of(port: Port) -> bytes:
    if isinstance(port, SwitchPort0):
        return port.settings.tables.get((SubnetAttrId.SC_TO_VLT, 0), _ONE_VL)
    if port.sc_to_vl:
        return bytes(port.sc_to_vl)
    if port.link is not None and port.link.flow is not None:
        return bytes(port.link.flow.map())
    return _ONE_VL


def sc_to_vl_kept(node: Node, question: Question) -> bytes:
    """Answer for SCtoVLr and SCtoVLnt, which say how others send."""

    def read(port: Port) -> bytes:
        return port.settings.tables.get((question.attr_id, 0), _ONE_VL)

    def write(port: Port, block: bytes) -> None:
        if max(block) >= SERVICE_CHANNELS:
            raise RefusedError
        port.settings.tables[question.attr_id, 0] = block

    return _of_ports(node, question, SERVICE_CHANNELS, read, write)


def vl_arbitration(node: Node, question: Question) -> bytes:
    """Answer for a section of VLArb."""
    section = question.attr_mod >> 16 & 0xFF
    if section >= _SECTIONS:
        raise RefusedError
    key = (SubnetAttrId.VL_ARB, section)

    def read(port: Port) -> bytes:
        return port.settings.tables.get(key, bytes(VlArb.SIZE))

    def write(port: Port, block: bytes) -> None:
        port.settings.tables[key] = block

    return _of_ports(node, question, VlArb.SIZE, read, write)


def buffer_control(node: Node, question: Question) -> bytes:
    """Answer for BufferControl."""
    key = (SubnetAttrId.BUFFER_CONTROL, 0)

    def read(port: Port) -> bytes:
        return port.settings.tables.get(key, _BUFFERS)

    def write(port: Port, block: bytes) -> None:
        port.settings.tables[key] = block

    return _of_ports(node, question, BufferControl.SIZE, read, write, BUFFER_CONTROL_BLOCK)


def _of_ports(
    node: Node,
    question: Question,
    size: int,
    read: Callable[[Port], bytes],
    write: Callable[[Port, bytes], None],
    step: int | None = None,
) -> bytes:
    """Answer for a block of each of consecutive ports; with the bit for all ports, a Set gives all the first one."""
    ports = node.ports(question)
    blocks = question.blocks(size, len(ports), step)
    if question.is_set:
        try:
            if question.attr_mod & ALL_PORTS and node.switch is not None:
                for port in node.all_ports(question):
                    write(port, blocks[0])
            else:
                for port, block in zip(ports, blocks, strict=True):
                    write(port, block)
        except FabricError:
            raise RefusedError from None
    return b"".join(read(port).ljust(step or size, b"\0") for port in ports)
