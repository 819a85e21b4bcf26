"""The tables of ports: partitions, service levels, service channels and their virtual lanes; asked and set.

They take effect in the engine, but for those that say how others send: these are kept and read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.types import PKEY_LIMITED_MANAGEMENT, SC_MANAGEMENT, PortState
from hfi_sim.engine.link.arbiter import vls_without_table
from hfi_sim.engine.link.config import MAX_VLS, SERVICE_CHANNELS
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import Port, partition_cap_of
from hfi_sim.management.sma.node import AttributeRequest, SmaNode, of_ports
from hfi_sim.nodes.end_port import ONE_TO_ONE
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort, SwitchPort0
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadStatus
from hfi_sim.wire.sma.tables import PARTITION_TABLE, PKEYS_PER_BLOCK, SC_TO_SC_MULTISET

_HFI_PKEYS: Final = 16
"""Where an HFI must have the limited P_Key of management: an HFI1 has no more."""
_ASYNC: Final = 0x1000
"""Bit of the modifier of SCtoVLt: also in ARMED and ACTIVE; an HFI does not take it."""
_VL_BITS, _VLNT_BITS = 0x1F, 0xF
_HFI_VLNT: Final = bytes([*range(8), *[0] * 7, 15]).ljust(SERVICE_CHANNELS, b"\0")
"""SCtoVLnt of an HFI, until it is set."""
VL_MANAGEMENT: Final = 15
_NO_VL: Final = 12
"""What an HFI has in place of VL15 in SCtoVLt, but for SC15: nothing leaves so."""
_ALL_EGRESS: Final = 0x10000
_ALL_INGRESS: Final = 0x20000
_ONE_VL: Final = bytes(vls_without_table(None))


# --- partitions ----------------------------------------------------------------------------------------------


def partition_table(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for PartitionTable: consecutive blocks of one port."""
    port = node.port_at(question.attr_mod >> 16 & 0xFF)
    if node.switch is None and not question.count:
        raise RefusedError
    blocks = question.blocks(PARTITION_TABLE.size)
    first = (question.attr_mod & 0x7FF) * PKEYS_PER_BLOCK
    end = first + len(blocks) * PKEYS_PER_BLOCK
    if end > partition_cap_of(port):
        raise RefusedError
    table = list(_pkeys(port))
    table += [0] * (end - len(table))
    if question.is_set:
        table[first:end] = [pkey for block in blocks for pkey in PARTITION_TABLE.parse(block).pkeys]
        if isinstance(port, HfiPort) and PKEY_LIMITED_MANAGEMENT not in table[:_HFI_PKEYS]:
            raise RefusedError
        _set_pkeys(port, table)
        table = [*_pkeys(port), *([0] * end)]
    return b"".join(
        PARTITION_TABLE.build(pkeys=tuple(table[at : at + PKEYS_PER_BLOCK]))
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


def sl_to_sc(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SLtoSC."""
    _refuse_modifier(node, question)
    settings = node.port.settings
    if question.is_set:
        settings.sl_to_sc = _channels(node, question)
    return bytes(settings.sl_to_sc)


def sc_to_sl(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SCtoSL."""
    _refuse_modifier(node, question)
    settings = node.port.settings
    if question.is_set:
        settings.sc_to_sl = _channels(node, question)
    return bytes(settings.sc_to_sl)


def _refuse_modifier(node: SmaNode, question: AttributeRequest) -> None:
    """Refuse what an HFI does not take: any modifier."""
    if node.switch is None and question.attr_mod:
        raise RefusedError


def _channels(node: SmaNode, question: AttributeRequest) -> tuple[int, ...]:
    """Return the table that was sent; an HFI takes anything for a channel, also what there is not."""
    (block,) = question.blocks(SERVICE_CHANNELS, 1)
    return tuple(block) if node.switch is None else _channels_in(block)


def _channels_in(block: bytes) -> tuple[int, ...]:
    if max(block) >= SERVICE_CHANNELS:
        raise RefusedError
    return tuple(block)


def sc_to_sc(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SCtoSC: of one ingress port to consecutive egress ports, or the other way round."""
    switch = node.the_switch()
    modifier = question.attr_mod
    ingress, egress = modifier >> 8 & 0xFF, modifier & 0xFF
    is_all_in, is_all_out = bool(modifier & _ALL_INGRESS), bool(modifier & _ALL_EGRESS)
    blocks = question.blocks(SERVICE_CHANNELS)
    numbers = range(len(blocks))
    if not question.is_set:
        pairs = [(ingress, egress + number) for number in numbers]
        return b"".join(bytes(node.external(into).sc_to_sc.get(out, ONE_TO_ONE)) for into, out in pairs)
    pairs_of: list[tuple[Sequence[int], Sequence[int], tuple[int, ...]]] = []
    for number, block in zip(numbers, blocks, strict=True):
        first_in = ingress + number if is_all_out and not is_all_in else ingress
        first_out = egress if is_all_out else egress + number
        into = list(_range(switch.ports, first_in, is_all_in))
        out = list(_range(switch.ports, first_out, is_all_out))
        pairs_of.append((into, out, _channels_in(block)))
        if is_all_in and is_all_out:
            break
    _set_sc_to_sc(node, pairs_of)
    return b"".join(blocks)


_Tables = Sequence[tuple[Sequence[int], Sequence[int], tuple[int, ...]]]
"""Tables SCtoSC, each of all pairs of some ingress and some egress ports."""


def _set_sc_to_sc(node: SmaNode, tables: _Tables) -> None:
    """Set tables at the ports by which packets come in, all or, where a port is not there, none."""
    of_ports: dict[int, dict[int, tuple[int, ...]]] = {}
    for into, out, table in tables:
        for number in into:
            of_ports.setdefault(number, {}).update(dict.fromkeys(out, table))
    for number, by_egress in of_ports.items():
        for port_num in (number, *by_egress):
            node.external(port_num)
    for number, by_egress in of_ports.items():
        node.external(number).set_sc_to_sc(by_egress)


def _range(numbers: Iterable[int], first: int, is_all: bool) -> Iterator[int]:
    if not is_all:
        yield first
        return
    yield from (number for number in numbers if number >= max(first, 1))


def sc_to_sc_multiset(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SCtoSCMultiSet: blocks with a table each, for every pair of an ingress and an egress port."""
    node.the_switch()
    if not question.is_set:
        raise RefusedError(MadStatus.UNSUPPORTED)
    blocks = question.blocks(SC_TO_SC_MULTISET.size)
    wanted = [SC_TO_SC_MULTISET.parse(block) for block in blocks]
    tables = [(_bits(each.ingress), _bits(each.egress), _channels_in(bytes(each.scs))) for each in wanted]
    _set_sc_to_sc(node, tables)
    return b"".join(blocks)


def _bits(ports: bytes) -> list[int]:
    """Return the numbers of the bits that are set; bit 0 is the last of the last byte."""
    mask = int.from_bytes(ports, "big")
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


# --- the lanes of service channels ----------------------------------------------------------------------------


def sc_to_vlt(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SCtoVLt: by which virtual lane a port sends."""

    def write(port: Port, block: bytes) -> None:
        if isinstance(port, HfiPort):
            _refuse_in_use(port, question)
            port.settings.tables[SubnetAttrId.SC_TO_VLT, 0] = bytes(vl & _VL_BITS for vl in block)
            block = bytes(_lane(sc, vl & _VL_BITS) for sc, vl in enumerate(block))
        if max(block) >= MAX_VLS:
            raise RefusedError
        if isinstance(port, SwitchPort0):
            port.settings.tables[SubnetAttrId.SC_TO_VLT, 0] = block
        else:
            port.set_sc_to_vl(tuple(block))

    return of_ports(node, question, SERVICE_CHANNELS, sc_to_vl_of, write)


def _lane(sc: int, vl: int) -> int:
    """Return the lane that packets of a service channel leave on: there are data VLs, and VL15 for management."""
    return _NO_VL if vl >= MAX_VLS or (vl == VL_MANAGEMENT and sc != SC_MANAGEMENT) else vl


def _refuse_in_use(port: HfiPort, question: AttributeRequest) -> None:
    """Refuse to change by which lane an HFI sends once it may send."""
    if port.state in (PortState.ARMED, PortState.ACTIVE) or question.attr_mod & _ASYNC:
        raise RefusedError


def sc_to_vl_of(port: Port) -> bytes:
    """Return SCtoVLt of a port: the VL of each SC."""
    if isinstance(port, SwitchPort0):
        return port.settings.tables.get((SubnetAttrId.SC_TO_VLT, 0), _ONE_VL)
    kept = port.settings.tables.get((SubnetAttrId.SC_TO_VLT, 0))
    if isinstance(port, HfiPort) and kept is not None:
        return bytes(
            VL_MANAGEMENT if vl == _NO_VL and sc != SC_MANAGEMENT else vl for sc, vl in enumerate(kept)
        )
    if port.sc_to_vl:
        return bytes(port.sc_to_vl)
    return bytes(
        vls_without_table(None if port.link is None else port.link.direction_from(port).planned.flow)
    )


def sc_to_vl_kept(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SCtoVLr and SCtoVLnt, which say how others send; an HFI has no SCtoVLr."""
    if question.attr_id == SubnetAttrId.SC_TO_VLR:
        node.the_switch()

    def read(port: Port) -> bytes:
        initial = _HFI_VLNT if isinstance(port, HfiPort) else _ONE_VL
        return port.settings.tables.get((question.attr_id, 0), initial)

    def write(port: Port, block: bytes) -> None:
        if isinstance(port, HfiPort):
            if port.state in (PortState.ARMED, PortState.ACTIVE):
                raise RefusedError
            block = bytes(vl & _VLNT_BITS for vl in block)
        if max(block) >= SERVICE_CHANNELS:
            raise RefusedError
        port.settings.tables[question.attr_id, 0] = block

    return of_ports(node, question, SERVICE_CHANNELS, read, write)
