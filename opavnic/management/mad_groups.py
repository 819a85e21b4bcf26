"""Multicast groups of virtual switches, joined and left through the socket of a lab, as an Ethernet Manager does it.

Source: opa-fm, sa_McMemberRecord.c, for the MGID of a virtual switch: ff15:0:PKEY::ID.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hfi_sim.management.sa.client import status_text
from hfi_sim.subnet_manager.administration.scope import gid_of
from hfi_sim.wire.mad.attributes import SaAttrId, SaStatus
from hfi_sim.wire.mad.header import Mad, Method
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.records import McMemberRecord, NodeRecord
from hfi_sim.wire.sma.node import NodeInfo
from opavnic.management.mad_client import MadClient
from vema.base.errors import AgentError

_FULL_MEMBER: Final = 1
_NAMED: Final = ("mgid", "port_gid", "join_state")
_MADE: Final = (*_NAMED, "q_key", "pkey", "traffic_class", "sl")
_WHY: Final[dict[tuple[Method, int], str]] = {
    (
        Method.SET,
        SaStatus.INVALID,
    ): "the port lacks P_Key {pkey:#06x}, or the group is there with other values",
    (
        Method.SET,
        SaStatus.DENIED,
    ): "its members are chosen by the manager of the virtual switch, or this port may not "
    "speak for LID {lid:#x}",
    (Method.DELETE, SaStatus.INVALID): "LID {lid:#x} is not in the group of virtual switch {vesw} with P_Key "
    "{pkey:#06x}",
}
"""What a refusal of a membership means, as far as its status says."""
_MLID_BITS: Final = 0xFFFFF
_FIRST: Final = 0xF00000


def change_membership(
    client: MadClient, administration: int, method: Method, lid: int, *, pkey: int, vesw_id: int
) -> int:
    """Let a port join (Set) or leave (Delete) the group of a virtual switch; return the LID of the group, 24 bits.

    Args:    administration: the LID of the subnet administration. lid: the port's.
    Raises:  AgentError: no administration, no answer, or a refusal.
    """
    if not administration:
        raise AgentError("the subnet has no administration: no fabric manager has brought the port up")
    node = _ask(client, administration, Method.GET, SaAttrId.NODE_RECORD, NodeRecord(lid=lid), ("lid",))
    guid = NodeInfo.parse(node.one(NodeRecord).node_info).port_guid
    record = McMemberRecord(
        mgid=struct.pack(">QQ", 0xFF15 << 48 | pkey << 16, vesw_id),
        port_gid=gid_of(guid),
        pkey=pkey,
        join_state=_FULL_MEMBER,
    )
    named = _MADE if method is Method.SET else _NAMED
    why = {key: text.format(pkey=pkey, lid=lid, vesw=vesw_id) for key, text in _WHY.items()}
    answer = _ask(client, administration, method, SaAttrId.MC_MEMBER_RECORD, record, named, why)
    return _FIRST | answer.one(McMemberRecord).mlid & _MLID_BITS


def _ask(
    client: MadClient,
    administration: int,
    method: Method,
    attr_id: int,
    record: NodeRecord | McMemberRecord,
    named: tuple[str, ...],
    why: Mapping[tuple[Method, int], str] = MappingProxyType({}),
) -> SaMessage:
    request = SaMessage.request(method, attr_id, record, mask=record.mask(*named), tid=1)
    response = client.request(administration, request.build())
    what = f"{type(record).__name__} at LID {administration:#x}"
    if response is None:
        raise AgentError(f"{what}: the subnet administration does not answer")
    message = SaMessage.of(Mad.parse(response))
    if status := message.header.status:
        means = why.get((method, status), "")
        refusal = f"{what}: the subnet administration refuses: {status_text(status)}"
        raise AgentError(f"{refusal}: {means}" if means else refusal)
    return message
