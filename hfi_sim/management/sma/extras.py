"""The attributes that change nothing on this fabric: beacon, cable, congestion control."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hfi_sim.base.instants import to_seconds
from hfi_sim.management.sma import cable
from hfi_sim.management.sma.node import AttributeRefusedError, AttributeRequest, SmaNode
from hfi_sim.nodes.switch import SwitchPort0
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadStatus
from hfi_sim.wire.sma.congestion import (
    CCT_BLOCK,
    CongestionInfo,
    HfiCongestionSetting,
    SwitchCongestionSetting,
)
from hfi_sim.wire.sma.tables import CABLE_INFO_SIZE, LedInfo

_LED_ON: Final = 1 << 31
_CONTROL_BLOCKS: Final = 15
_SWITCH_LOG_SIZE: Final = 1576
_HFI_LOG_SIZE: Final = 1548
_PORT_SETTING_SIZE: Final = 4


def led_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for LedInfo: the beacon of consecutive ports."""
    ports = node.ports(question)
    blocks = question.blocks(LedInfo.SIZE, len(ports))
    if question.is_set:
        for port, block in zip(ports, blocks, strict=True):
            is_on = bool(LedInfo.parse(block).led_mask & _LED_ON)
            port.settings.info = replace(port.settings.info, led_enabled=is_on)
    return b"".join(LedInfo(_LED_ON if port.settings.info.led_enabled else 0).build() for port in ports)


def cable_info(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for CableInfo: up to 64 bytes of the memory of a cable, within a page of 128."""
    modifier = question.attr_mod
    start, count = modifier >> 19 & 0xFFF, (modifier >> 13 & 0x3F) + 1
    port = node.port_at(modifier & 0xFF)
    if isinstance(port, SwitchPort0) or port.link is None:
        raise AttributeRefusedError(MadStatus.UNSUPPORTED)
    if start // cable.PAGE != (start + count - 1) // cable.PAGE:
        raise AttributeRefusedError
    memory = cable.memory(port.link.name, to_seconds(port.link.direction_from(port).planned.latency_ns))
    return memory[start : start + count].ljust(CABLE_INFO_SIZE, b"\0")


def congestion_info(node: SmaNode, _question: AttributeRequest) -> bytes:
    """Answer for CongestionInfo."""
    return CongestionInfo(control_table_cap=0 if node.switch is not None else _CONTROL_BLOCKS).build()


def switch_congestion_setting(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion setting of a switch."""
    node.the_switch()
    return _kept(node, question, SwitchCongestionSetting.SIZE)


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
    return _kept(node, question, HfiCongestionSetting.SIZE)


def hfi_congestion_control(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for blocks of the congestion control table of an HFI: the limit, then 64 entries each."""
    count = question.count
    first = question.attr_mod & 0xFF
    if not count or first + count > _CONTROL_BLOCKS:
        raise AttributeRefusedError
    size = 2 * CCT_BLOCK
    limit, blocks = question.data[:2], question.blocks(2 + count * size, 1)[0][2:]
    tables = node.port.settings.tables
    attr_id = int(SubnetAttrId.HFI_CONGESTION_CONTROL)
    if question.is_set:
        tables[attr_id, -1] = limit
        for number in range(count):
            tables[attr_id, first + number] = blocks[number * size : (number + 1) * size]
    shown = (tables.get((attr_id, first + number), bytes(size)) for number in range(count))
    return tables.get((attr_id, -1), bytes(2)) + b"".join(shown)


def switch_congestion_log(node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion log of a switch, which is empty."""
    node.the_switch()
    return _log(question, 1, _SWITCH_LOG_SIZE)


def hfi_congestion_log(_node: SmaNode, question: AttributeRequest) -> bytes:
    """Answer for the congestion log of an HFI, which is empty."""
    if question.attr_mod:
        raise AttributeRefusedError
    return _log(question, 2, _HFI_LOG_SIZE)


def _log(question: AttributeRequest, kind: int, size: int) -> bytes:
    if question.is_set:
        raise AttributeRefusedError(MadStatus.UNSUPPORTED)
    return bytes([kind]).ljust(size, b"\0")


def _kept(node: SmaNode, question: AttributeRequest, size: int) -> bytes:
    tables = node.port.settings.tables
    if question.is_set:
        (tables[question.attr_id, 0],) = question.blocks(size, 1)
    return tables.get((question.attr_id, 0), bytes(size))
