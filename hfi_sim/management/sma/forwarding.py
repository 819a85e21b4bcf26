"""SwitchInfo and the forwarding tables of a switch: asked and set, block by block."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hfi_sim.base.types import LID_MULTICAST_FIRST
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.facts import switch_info_of
from hfi_sim.management.sma.node import AttributeRequest, SmaNode
from hfi_sim.nodes.switch import Switch
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire.sma.node import SwitchInfo
from hfi_sim.wire.sma.tables import (
    GROUPS_PER_BLOCK,
    LIDS_PER_BLOCK,
    LINEAR_BLOCK,
    MULTICAST_BLOCK,
    NO_PORT,
    PORTS_PER_POSITION,
)

_ALL_LINEAR: Final = 1 << 18
_ALL_MULTICAST: Final = 1 << 20
_KEPT: Final = tuple(
    name
    for name, field in SwitchInfo.HEADER.fields.items()
    if field.access == "RW" and name != "routing_enabled"
)


def switch_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for SwitchInfo."""
    switch = node.the_switch()
    if question.is_set:
        wanted = SwitchInfo.parse(question.data)
        info = switch.info
        if wanted.linear_fdb_top >= max(info.linear_fdb_cap, len(switch.lft.entries)):
            raise RefusedError
        info = replace(info, **{name: getattr(wanted, name) for name in _KEPT})
        if wanted.routing_enabled:
            info = replace(info, routing_enabled=wanted.routing_enabled)
        if wanted.port_state_change:
            info = replace(info, port_state_change=False)
        switch.info = info
    return switch_info_of(switch).build()


def linear_table(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for blocks of the linear forwarding table."""
    switch = node.the_switch()
    blocks = question.blocks(LINEAR_BLOCK.size)
    first = (question.attr_mod & 0x3FFFF) * LIDS_PER_BLOCK
    end = first + len(blocks) * LIDS_PER_BLOCK
    info = switch_info_of(switch)
    if end > -(-info.linear_fdb_cap // LIDS_PER_BLOCK) * LIDS_PER_BLOCK:
        raise RefusedError
    if question.is_set:
        ports = b"".join(blocks)
        if question.attr_mod & _ALL_LINEAR:
            rounds = max(info.linear_fdb_top + 1 - first, LIDS_PER_BLOCK) // LIDS_PER_BLOCK + 1
            ports = blocks[0] * min(rounds, (info.linear_fdb_cap - first) // LIDS_PER_BLOCK)
        _set_routes(switch, first, ports)
    return bytes(_route_of(switch, lid) for lid in range(first, end))


def _route_of(switch: Switch, lid: int) -> int:
    hops = switch.lft.next_hops(lid)
    if hops:
        return min(hops[0], NO_PORT)
    return 0 if lid and lid == switch.lid else NO_PORT


def _set_routes(switch: Switch, first: int, ports: bytes) -> None:
    entries = array("H", switch.lft.entries)
    end = first + len(ports)
    if len(entries) < end:
        entries.frombytes(bytes(entries.itemsize * (end - len(entries))))
    entries[first:end] = array("H", (0 if port == NO_PORT else port for port in ports))
    switch.program(LinearTable(entries, switch.lft.groups), switch.mft)


def multicast_table(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for blocks of the multicast forwarding table: 64 of the ports of 8 groups each."""
    switch = node.the_switch()
    blocks = question.blocks(MULTICAST_BLOCK.size)
    position = question.attr_mod >> 22 & 3
    first = (question.attr_mod & 0xFFFFF) * GROUPS_PER_BLOCK
    end = first + len(blocks) * GROUPS_PER_BLOCK
    if question.attr_mod & _ALL_MULTICAST:
        first &= 0xFFFFF
    if end > switch.info.multicast_fdb_cap:
        raise RefusedError
    if question.is_set:
        masks = [mask for block in blocks for mask in MULTICAST_BLOCK.parse(block).masks]
        if question.attr_mod & _ALL_MULTICAST:
            top = switch.info.multicast_fdb_top & 0xFFFFF
            rounds = max(top - first, 0) // GROUPS_PER_BLOCK + 1
            masks = masks[:GROUPS_PER_BLOCK] * min(rounds, switch.info.multicast_fdb_cap // 8)
        _set_groups(switch, first, position, masks)
    mlids = range(LID_MULTICAST_FIRST + first, LID_MULTICAST_FIRST + end, GROUPS_PER_BLOCK)
    return b"".join(
        MULTICAST_BLOCK.build(
            masks=tuple(_mask_of(switch.mft, mlid + number, position) for number in range(GROUPS_PER_BLOCK))
        )
        for mlid in mlids
    )


def _mask_of(mft: Mapping[int, frozenset[int]], mlid: int, position: int) -> int:
    low = position * PORTS_PER_POSITION
    return sum(1 << port - low for port in mft.get(mlid, ()) if low <= port < low + PORTS_PER_POSITION)


def _set_groups(switch: Switch, first: int, position: int, masks: list[int]) -> None:
    low = position * PORTS_PER_POSITION
    high = low + PORTS_PER_POSITION
    mft = dict(switch.mft)
    for mlid, mask in enumerate(masks, LID_MULTICAST_FIRST + first):
        others = {port for port in mft.get(mlid, ()) if not low <= port < high}
        ports = others | {low + bit for bit in range(PORTS_PER_POSITION) if mask >> bit & 1}
        if ports:
            mft[mlid] = frozenset(ports)
        else:
            mft.pop(mlid, None)
    switch.program(switch.lft, mft)
