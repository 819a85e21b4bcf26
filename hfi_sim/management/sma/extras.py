"""The attributes that change nothing on this fabric: beacon, cable, congestion control.

A link's latency is that of its cable, at 5 ns a metre: up to 3 m it is of copper, beyond that optical. Both ends of a
cable bear one serial number.

Source: SFF-8636, tables 6-15 and following (page 0 of QSFP28); for the last bytes, which are the vendor's: cs_cable of
opa-ff, stl_sm_types.h.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Final

from hfi_sim.base.clock import to_seconds
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma.node import AttributeRequest, SmaNode
from hfi_sim.nodes.switch import SwitchPort0
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadStatus
from hfi_sim.wire.sma.tables import (
    CABLE_INFO_SIZE,
    CCT_BLOCK,
    CONGESTION_INFO,
    LED_INFO,
    LOG_ENTRIES,
    SWITCH_CONGESTION_SETTING,
    HfiCongestionSetting,
)

_LED_ON: Final = 1 << 31
_CONTROL_BLOCKS: Final = 31
_BY_SL: Final = 1
_SWITCH_LOG_SIZE: Final = 1576
_HFI_LOG_SIZE: Final = 1548
_PORT_SETTING_SIZE: Final = 4


def led_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for LedInfo: the beacon of consecutive ports."""
    ports = node.ports(question)
    blocks = question.blocks(LED_INFO.size, len(ports))
    if question.is_set:
        for port, block in zip(ports, blocks, strict=True):
            is_on = bool(LED_INFO.parse(block).led_mask & _LED_ON)
            port.settings.info = replace(port.settings.info, led_enabled=is_on)
    masks = (_LED_ON if port.settings.info.led_enabled else 0 for port in ports)
    echoed = [LED_INFO.parse(block).reserved if question.is_set else 0 for block in blocks]
    pairs = zip(masks, echoed, strict=True)
    return b"".join(LED_INFO.build(led_mask=mask, reserved=reserved) for mask, reserved in pairs)


def cable_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for CableInfo: up to 64 bytes of the memory of a cable, within a page of 128."""
    modifier = question.attr_mod
    start, count = modifier >> 19 & 0xFFF, (modifier >> 13 & 0x3F) + 1
    port = node.port_at(modifier & 0xFF)
    if isinstance(port, SwitchPort0) or port.link is None:
        raise RefusedError(MadStatus.UNSUPPORTED)
    if start // CABLE_PAGE != (start + count - 1) // CABLE_PAGE:
        raise RefusedError
    content = cable_memory(port.link.name, to_seconds(port.link.direction_from(port).planned.latency_ns))
    return content[start : start + count].ljust(CABLE_INFO_SIZE, b"\0")


def congestion_info(node: SmaNode, _question: AttributeRequest) -> bytes:
    """Answer for CongestionInfo."""
    blocks = 0 if node.switch is not None else _CONTROL_BLOCKS
    return CONGESTION_INFO.build(control_table_cap=blocks, log_length=LOG_ENTRIES)


def switch_congestion_setting(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion setting of a switch."""
    node.the_switch()
    return _kept(node, question, SWITCH_CONGESTION_SETTING.size)


def switch_port_congestion_setting(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion settings of consecutive ports of a switch."""
    node.the_switch()
    ports = node.ports(question)
    key = (SubnetAttrId.SWITCH_PORT_CONGESTION_SETTING, 0)
    blocks = question.blocks(_PORT_SETTING_SIZE, len(ports))
    if question.is_set:
        for port, block in zip(ports, blocks, strict=True):
            port.settings.tables[key] = block
    return b"".join(port.settings.tables.get(key, bytes(_PORT_SETTING_SIZE)) for port in ports)


def hfi_congestion_setting(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion setting of an HFI, or of port 0."""
    tables, key = node.port.settings.tables, (int(question.attr_id), 0)
    if question.is_set:
        (block,) = question.blocks(HfiCongestionSetting.SIZE, 1)
        wanted = HfiCongestionSetting.parse(block)
        entries = tuple(entry | {"reserved": 0} for entry in wanted.entries)
        tables[key] = replace(wanted, port_control=0, entries=entries).build()
    kept = HfiCongestionSetting.parse(tables.get(key, bytes(HfiCongestionSetting.SIZE)))
    is_in_use = key in tables or (int(SubnetAttrId.HFI_CONGESTION_CONTROL), 0) in tables
    shown = replace(kept, port_control=_BY_SL if is_in_use else 0)
    return (replace(shown, entries=wanted.entries) if question.is_set else shown).build()


def hfi_congestion_control(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for blocks of the congestion control table of an HFI: the limit, then 64 entries each.

    A Set has the entries up to the limit, which is in its last block; those behind the limit are not looked at.
    """
    count, first = question.count, question.attr_mod & 0xFF
    size = 2 * CCT_BLOCK
    if not count or first + count > _CONTROL_BLOCKS or 2 + count * size > len(question.data):
        raise RefusedError
    tables, key = node.port.settings.tables, (int(SubnetAttrId.HFI_CONGESTION_CONTROL), 0)
    shown = tables.get(key, bytes(2 + _CONTROL_BLOCKS * size))
    if question.is_set:
        limit = int.from_bytes(question.data[:2])
        end = (first + count - 1) * CCT_BLOCK + limit % CCT_BLOCK + 1
        if limit + 1 > end:
            raise RefusedError
        sent = tables.setdefault((key[0], 1), bytes(_CONTROL_BLOCKS * size))
        start = first * CCT_BLOCK
        entries = question.data[2 : 2 + 2 * (end - start)]
        sent = sent[: 2 * start] + entries + sent[2 * end :]
        tables[key[0], 1] = sent
        valid = 2 * (limit + 1)
        shown = tables[key] = question.data[:2] + sent[:valid] + shown[2 + valid :]
    return shown[:2] + shown[2 + first * size : 2 + (first + count) * size]


def switch_congestion_log(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion log of a switch, which is empty."""
    node.the_switch()
    return _log(question, 1, _SWITCH_LOG_SIZE)


def hfi_congestion_log(_node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion log of an HFI, which is empty."""
    if question.is_set:
        raise RefusedError(MadStatus.UNSUPPORTED)
    if question.attr_mod:
        raise RefusedError
    return _log(question, 2, _HFI_LOG_SIZE)


def _log(question: AttributeRequest, kind: int, size: int) -> bytes:
    if question.is_set:
        raise RefusedError(MadStatus.UNSUPPORTED)
    return bytes([kind]).ljust(size, b"\0")


def _kept(node: SmaNode, question: AttributeRequest, size: int) -> bytes:
    tables = node.port.settings.tables
    if question.is_set:
        (tables[question.attr_id, 0],) = question.blocks(size, 1)
    return tables.get((question.attr_id, 0), bytes(size))


CABLE_PAGE: Final = 128
CABLE_MEMORY: Final = 4096
"""Bytes that a port can read of a plug."""
SECONDS_A_METRE: Final = 5e-9
COPPER_MAX_M: Final = 3
_LONGEST_M: Final = 255
_QSFP28: Final = 0x11
_NOT_SEPARABLE: Final = 0x23
_COPPER, _OPTICAL_850_NM = 0xA0, 0x00
_OPTICAL_CABLE: Final = 0x01
_850_NM: Final = (850 * 20).to_bytes(2)


def cable_length_m(latency_s: float) -> int:
    """Return how long a cable with a latency is, in metres; 1 to 255."""
    return min(max(1, round(latency_s / SECONDS_A_METRE)), _LONGEST_M)


def cable_memory(name: str, latency_s: float) -> bytes:
    """Return the memory of a plug: 128 bytes, then the pages from 0 on. Args: name: of the link."""
    metres = cable_length_m(latency_s)
    copper = metres <= COPPER_MAX_M
    page = bytearray(CABLE_PAGE)
    page[0] = _QSFP28
    page[2] = _NOT_SEPARABLE
    page[12] = 0xFF  # more than 25.4 Gbit/s a lane
    page[18] = metres
    page[19] = _COPPER if copper else _OPTICAL_850_NM
    page[20:36] = b"opavnic".ljust(16)
    page[40:56] = f"EMULATED-{'CU' if copper else 'AOC'}-{metres}M".encode().ljust(16)
    page[56:58] = b"A "
    if not copper:
        page[58:60] = _850_NM
        page[64] = _OPTICAL_CABLE
    page[63] = sum(page[:63]) & 0xFF
    page[68:84] = f"OV{zlib.crc32(name.encode()):08X}".encode().ljust(16)
    page[84:92] = b"260101  "
    page[94] = 103  # times 250 Mbit/s
    page[95] = sum(page[64:95]) & 0xFF
    page[122] = 0xAB  # certified
    page[124] = 2  # for 4 lanes of 25 Gbit/s
    return (bytes([_QSFP28]).ljust(CABLE_PAGE, b"\0") + bytes(page)).ljust(CABLE_MEMORY, b"\0")
