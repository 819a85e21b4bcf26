"""Where the parts of a management MAD stand: the headers of its class, then its attributes.

`describe_packet` takes `layers`; the Wireshark dissector opa_mgmt.lua has the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.mad.attributes import CLASS_VERSION_OPA, SubnetAttrId
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    DATA_OFFSET_VENDOR,
    RESPONSE_BIT,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
)
from hfi_sim.wire.mad.rmpp import RmppFlag, RmppType, rmpp_of
from hfi_sim.wire.mad.smp_header import DIRECTION, DirectedHeader, IbDirectedHeader, LidRoutedHeader
from hfi_sim.wire.sa.message import DATA_AT, OFFSET_UNIT, SaHeader
from opavnic.decode import meanings
from opavnic.decode.describe import MadPart
from opavnic.management.management_attributes import (
    ADMINISTRATION,
    ADMINISTRATION_IB,
    PERFORMANCE,
    SUBNET,
    SUBNET_IB,
    Kind,
)
from vema.attributes.attr_id import VALUE_KINDS

_SUBNET_CLASSES: Final = (MadClass.SUBN_LID, MadClass.SUBN_DIRECTED)
_DATA_IB, _END_IB = 64, 128
_AGGREGATE_HEADER: Final = 8
_COUNT_SHIFT: Final = 24


def layers(header: MadHeader, mad: bytes) -> Iterator[MadPart]:
    """Yield what a MAD holds behind its header: the name, the declaration and the first byte of each part.

    Args:  mad: as far as it is there; what it does not hold whole is left out.
    """
    found: Iterator[MadPart] = iter(())
    if header.mgmt_class in _SUBNET_CLASSES:
        found = _subnet(header, mad)
    elif header.mgmt_class == MadClass.SUBN_ADM and len(mad) >= DATA_AT:
        found = _administration(header, mad)
    elif header.mgmt_class == MadClass.PERFORMANCE and header.base_version != BASE_VERSION_IB:
        found = _performance(header, mad)
    elif header.mgmt_class == MadClass.EMA:
        found = _ethernet(header)
    for layer in found:
        if layer.start + layer.header.size > len(mad):
            return
        yield layer


def _subnet(header: MadHeader, mad: bytes) -> Iterator[MadPart]:
    directed = header.mgmt_class == MadClass.SUBN_DIRECTED
    status = header.status & ~DIRECTION if directed else header.status
    is_ib = header.base_version == BASE_VERSION_IB
    before: type[WireHeader] = LidRoutedHeader
    if directed:
        before = IbDirectedHeader if is_ib else DirectedHeader
    yield MadPart("SMP", before.HEADER, MadHeader.SIZE)
    start = MadHeader.SIZE + before.SIZE
    if is_ib:
        yield from _attributes(
            header.method, status, header.attr_id, header.attr_mod, SUBNET_IB, _DATA_IB, _END_IB
        )
        return
    if header.attr_id == SubnetAttrId.AGGREGATE:
        yield from _aggregate(header, mad, start)
    else:
        yield from _attributes(
            header.method, status, header.attr_id, header.attr_mod, SUBNET, start, len(mad)
        )


def _aggregate(header: MadHeader, mad: bytes, start: int) -> Iterator[MadPart]:
    for _ in range(header.attr_mod & 0xFF):
        if start + _AGGREGATE_HEADER > len(mad):
            return
        attr_id, length = int.from_bytes(mad[start : start + 2]), mad[start + 3] & 0x7F
        modifier = int.from_bytes(mad[start + 4 : start + 8])
        end = start + _AGGREGATE_HEADER + OFFSET_UNIT * length
        failed = mad[start + 2] & 0x80
        yield from _attributes(
            header.method, failed, attr_id, modifier, SUBNET, start + _AGGREGATE_HEADER, end
        )
        start = end


def _attributes(
    method: int, status: int, attr_id: int, modifier: int, kinds: Mapping[int, Kind], start: int, end: int
) -> Iterator[MadPart]:
    """Yield as many attributes as the modifier says; none of a question, or of an answer that says no."""
    kind = kinds.get(attr_id)
    if kind is None or method == Method.GET or (method & RESPONSE_BIT and status):
        return
    for index in range(max(1, modifier >> _COUNT_SHIFT)):
        at = start + index * kind.stride
        if at + kind.header.size > end:
            return
        yield from _with_inside(kind, at)


def _with_inside(kind: Kind, start: int) -> Iterator[MadPart]:
    yield MadPart(kind.header.title, kind.header, start)
    for name, inside in kind.inside.items():
        yield MadPart(inside.title, inside, start + kind.header.place(name).offset)


def _administration(header: MadHeader, mad: bytes) -> Iterator[MadPart]:
    yield MadPart("RMPP", RmppHeader.HEADER, MadHeader.SIZE)
    rmpp = rmpp_of(mad)
    if rmpp.active and rmpp.type != RmppType.DATA:
        return
    yield MadPart("SA", SaHeader.HEADER, MadHeader.SIZE + RmppHeader.SIZE)
    sa = SaHeader.parse(mad[MadHeader.SIZE + RmppHeader.SIZE :])
    kinds = ADMINISTRATION if header.class_version >= CLASS_VERSION_OPA else ADMINISTRATION_IB
    kind = kinds.get(header.attr_id)
    is_response = bool(header.method & RESPONSE_BIT)
    if kind is None or (is_response and header.status):
        return
    if not (is_response and rmpp.active):
        if is_response or header.method == Method.SET or sa.component_mask:
            yield from _with_inside(kind, DATA_AT)
        return
    stride = OFFSET_UNIT * sa.attribute_offset
    if stride < kind.header.size:
        return
    end = len(mad)
    if rmpp.rtime_flags & RmppFlag.LAST:
        end = min(end, DATA_AT - SaHeader.SIZE + rmpp.length)
    before = (max(rmpp.segment, 1) - 1) * (len(mad) - DATA_AT)
    start = DATA_AT + -before % stride
    while start + kind.header.size <= end:
        yield from _with_inside(kind, start)
        start += stride


def _performance(header: MadHeader, mad: bytes) -> Iterator[MadPart]:
    kind = PERFORMANCE.get(header.attr_id)
    is_response = bool(header.method & RESPONSE_BIT)
    if kind is None or (is_response and header.status):
        return
    start = MadHeader.SIZE
    if not is_response:
        yield MadPart(kind.question.title, kind.question, start)
        return
    yield MadPart(kind.head.title, kind.head, start)
    ports = 1 if kind.port is None else _ones(kind.head, "port_mask", mad)
    vls = 0 if kind.vl is None else _ones(kind.head, "vl_mask", mad)
    at = start + kind.head.size
    for _ in range(ports):
        for block in (kind.port, *(kind.vl,) * vls):
            if block is not None:
                yield MadPart(block.title, block, at)
                at += block.size


def _ethernet(header: MadHeader) -> Iterator[MadPart]:
    """Yield the attribute of an agent; none of a question, or of an answer that says no."""
    kind = VALUE_KINDS.get(header.attr_id)
    is_response = bool(header.method & RESPONSE_BIT)
    if kind is not None and header.method != Method.GET and not (is_response and header.status):
        yield MadPart(meanings.attribute(MadClass.EMA, header.attr_id), kind.HEADER, DATA_OFFSET_VENDOR)


def _ones(header: Header, name: str, mad: bytes) -> int:
    """Return how many bits of a mask are set."""
    place = header.place(name).in_slice
    return int.from_bytes(mad[MadHeader.SIZE + place.start : MadHeader.SIZE + place.stop]).bit_count()
