"""Which attribute is answered by what, and Aggregate, which holds several.

Source: hfi1 mad.c of Linux: subn_get_opa_sma, subn_set_opa_sma, subn_get_opa_aggregate; stl_sm_types.h of opa-ff.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.management.mad.agents import RefusedError
from hfi_sim.management.sma import extras, forwarding, lanes, port_attributes, tables
from hfi_sim.management.sma.facts import node_description_of, node_info_of
from hfi_sim.management.sma.node import AttributeRequest, SmaNode
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadStatus

Answer = Callable[[SmaNode, AttributeRequest], bytes]

_MEMBER: Final = struct.Struct(">HHI")  # attribute, error and length in 8 bytes, modifier
_LENGTH: Final = 0x7F
MAX_MEMBERS: Final = 117
"""Attributes in an Aggregate."""


def _node_info(node: SmaNode, question: AttributeRequest) -> bytes:
    if question.attr_mod:
        raise RefusedError
    return node_info_of(node.port, question.in_port).build()


def _node_description(node: SmaNode, question: AttributeRequest) -> bytes:
    if question.attr_mod:
        raise RefusedError
    return node_description_of(node.port).build()


_ANSWERS: Final[dict[int, Answer]] = {
    SubnetAttrId.NODE_DESCRIPTION: _node_description,
    SubnetAttrId.NODE_INFO: _node_info,
    SubnetAttrId.SWITCH_INFO: forwarding.switch_info,
    SubnetAttrId.PORT_INFO: port_attributes.port_info,
    SubnetAttrId.PARTITION_TABLE: tables.partition_table,
    SubnetAttrId.SL_TO_SC: tables.sl_to_sc,
    SubnetAttrId.VL_ARB: lanes.vl_arbitration,
    SubnetAttrId.LINEAR_FORWARDING: forwarding.linear_table,
    SubnetAttrId.MULTICAST_FORWARDING: forwarding.multicast_table,
    SubnetAttrId.LED_INFO: extras.led_info,
    SubnetAttrId.CABLE_INFO: extras.cable_info,
    SubnetAttrId.SC_TO_SC: tables.sc_to_sc,
    SubnetAttrId.SC_TO_SC_MULTISET: tables.sc_to_sc_multiset,
    SubnetAttrId.SC_TO_SL: tables.sc_to_sl,
    SubnetAttrId.SC_TO_VLR: tables.sc_to_vl_kept,
    SubnetAttrId.SC_TO_VLT: tables.sc_to_vlt,
    SubnetAttrId.SC_TO_VLNT: tables.sc_to_vl_kept,
    SubnetAttrId.PORT_STATE_INFO: port_attributes.port_state_info,
    SubnetAttrId.BUFFER_CONTROL: lanes.buffer_control,
    SubnetAttrId.CONGESTION_INFO: extras.congestion_info,
    SubnetAttrId.SWITCH_CONGESTION_LOG: extras.switch_congestion_log,
    SubnetAttrId.SWITCH_CONGESTION_SETTING: extras.switch_congestion_setting,
    SubnetAttrId.SWITCH_PORT_CONGESTION_SETTING: extras.switch_port_congestion_setting,
    SubnetAttrId.HFI_CONGESTION_LOG: extras.hfi_congestion_log,
    SubnetAttrId.HFI_CONGESTION_SETTING: extras.hfi_congestion_setting,
    SubnetAttrId.HFI_CONGESTION_CONTROL: extras.hfi_congestion_control,
}
_READ_ONLY: Final = frozenset(
    {
        SubnetAttrId.NODE_DESCRIPTION,
        SubnetAttrId.NODE_INFO,
        SubnetAttrId.CABLE_INFO,
        SubnetAttrId.CONGESTION_INFO,
    }
)


def answer(node: SmaNode, question: AttributeRequest) -> tuple[int, bytes]:
    """Return the status and the data of the response, which may be none where it is not OK.

    Args:    question: with the whole data of the SMP.
    Raises:  UnansweredError: there is no response.
    """
    if question.attr_id == SubnetAttrId.AGGREGATE:
        return _aggregate(node, question)
    try:
        return MadStatus.OK, _one(node, question)
    except RefusedError as refused:
        return refused.status, refused.data


def _one(node: SmaNode, question: AttributeRequest) -> bytes:
    how = _ANSWERS.get(question.attr_id)
    if how is None or (question.is_set and question.attr_id in _READ_ONLY):
        raise RefusedError(MadStatus.UNSUPPORTED)
    try:
        data = how(node, question)
    except WireError:
        raise RefusedError from None  # shorter than the attribute
    if len(data) > len(question.data):
        raise RefusedError
    return data


def _aggregate(node: SmaNode, question: AttributeRequest) -> tuple[int, bytes]:
    """Answer a sequence of attributes, as far as the first that is refused; the response ends with it.

    None bears the error bit: hfi1 sets it for no status that there is.
    """
    members = question.attr_mod & 0xFF
    if not 1 <= members <= MAX_MEMBERS:
        return MadStatus.INVALID, b""
    data = bytearray(question.data)
    at = 0
    for _ in range(members):
        if at + _MEMBER.size > len(data):
            return MadStatus.INVALID, bytes(data)
        attr_id, length, attr_mod = _MEMBER.unpack_from(data, at)
        start = at + _MEMBER.size
        at = start + (length & _LENGTH) * 8
        if at > len(data):
            return MadStatus.INVALID, bytes(data)
        if not question.is_set:
            data[start:at] = bytes(at - start)
        member = replace(question, attr_id=attr_id, attr_mod=attr_mod, data=bytes(data[start:at]))
        try:
            given = _one(node, member)
        except RefusedError as refused:
            data[start : start + len(refused.data)] = refused.data
            return refused.status, bytes(data[:at])
        data[start:at] = given.ljust(at - start, b"\0")
    return MadStatus.OK, bytes(data[:at])
