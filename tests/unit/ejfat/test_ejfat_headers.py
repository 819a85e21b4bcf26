from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.wire import headers as h
from ejfat.wire import layers
from hfi_sim.base.errors import WireError

u8, u16, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))

HEADERS = {
    h.LbHeaderV1: st.builds(h.LbHeaderV1, tick=u64, protocol=u8),
    h.LbHeaderV2: st.builds(h.LbHeaderV2, tick=u64, entropy=u16, protocol=u8, reserved=u16),
    h.LbHeaderV3: st.builds(h.LbHeaderV3, tick=u64, slot_select=u16, port_select=u16, protocol=u8),
    h.SegmentHeader: st.builds(
        h.SegmentHeader,
        data_id=u16,
        offset=u32,
        first=st.booleans(),
        last=st.booleans(),
        version=st.integers(0, 15),
        reserved=st.integers(0, 1023),
    ),
    h.ReHeader: st.builds(h.ReHeader, data_id=u16, offset=u32, length=u32, event=u64),
    h.SyncHeader: st.builds(h.SyncHeader, source_id=u32, event=u64, rate_hz=u32, unix_ns=u64, reserved=u8),
}
kinds = pytest.mark.parametrize("kind", HEADERS)


@kinds
@given(data=st.data())
def test_header_built_and_parsed_is_the_same(kind: Any, data: st.DataObject) -> None:
    header = data.draw(HEADERS[kind])
    wire = header.build()
    assert len(wire) == header.SIZE
    assert kind.parse(wire) == header


@kinds
@given(data=st.data())
def test_header_cut_at_any_length_is_a_wire_error(kind: Any, data: st.DataObject) -> None:
    wire = data.draw(HEADERS[kind]).build()
    for length in range(len(wire)):
        with pytest.raises(WireError):
            kind.parse(wire[:length])


@kinds
@given(raw=st.binary(max_size=40))
def test_header_of_any_bytes_is_a_value_or_a_wire_error(kind: Any, raw: bytes) -> None:
    try:
        header = kind.parse(raw)
    except WireError:
        return
    assert header.build() == raw[: header.SIZE]


@given(header=st.one_of(HEADERS[h.LbHeaderV1], HEADERS[h.LbHeaderV2], HEADERS[h.LbHeaderV3]))
def test_parse_lb_chooses_by_version(header: h.LbHeader) -> None:
    assert h.parse_lb(header.build() + b"behind") == header


@pytest.mark.parametrize(
    ("wire", "field"),
    [(b"LC\x01\x01" + bytes(8), "magic"), (b"LB\x04\x01" + bytes(12), "version"), (b"LB", "udplb")],
)
def test_parse_lb_of_other_bytes_names_the_field(wire: bytes, field: str) -> None:
    with pytest.raises(WireError) as caught:
        h.parse_lb(wire)
    assert caught.value.field == field


def test_build_with_value_too_wide_names_it() -> None:
    with pytest.raises(ValueError, match="tick 0x10000000000000000 does not fit 64 bits"):
        h.LbHeaderV1(tick=1 << 64).build()


def test_segment_header_flags_stand_where_the_document_draws_them() -> None:
    assert h.SegmentHeader(data_id=0xABC, offset=100, first=True).build().hex() == "00020abc00000064"
    assert h.SegmentHeader(data_id=0xABC, offset=100, last=True).build().hex() == "00010abc00000064"


def test_sync_with_bytes_behind_it_is_refused() -> None:
    wire = h.SyncHeader(source_id=1, event=2, rate_hz=3, unix_ns=4).build()
    with pytest.raises(WireError, match="after the message"):
        h.SyncHeader.parse(wire + b"\0")


@pytest.mark.parametrize(
    ("layer", "kind", "values"),
    [
        (layers.UDPLB, h.LbHeaderV1, {"tick": 7}),
        (layers.UDPLB2, h.LbHeaderV2, {"tick": 7, "entropy": 5}),
        (layers.UDPLB3, h.LbHeaderV3, {"tick": 7, "slot_select": 5, "port_select": 6}),
        (layers.EVIO6Seg, h.SegmentHeader, {"first": True, "last": True, "data_id": 9, "offset": 3}),
        (layers.EJFATRE, h.ReHeader, {"data_id": 1, "offset": 2, "length": 3, "event": 4}),
        (layers.EJFATSync, h.SyncHeader, {"source_id": 1, "event": 2, "rate_hz": 3, "unix_ns": 4}),
    ],
)
def test_layers_build_the_same_bytes(layer: Any, kind: Any, values: dict[str, int]) -> None:
    assert bytes(layer(**values)) == kind(**values).build()


def test_layers_dissect_by_port_and_version() -> None:
    from scapy.layers.inet import IP, UDP

    raw = bytes(
        IP(src="10.0.0.1", dst="10.0.0.2")
        / UDP(sport=1, dport=19522)
        / layers.UDPLB2(tick=3)
        / layers.EJFATRE()
    )
    packet = IP(raw)
    assert packet[layers.UDPLB2].tick == 3
    assert layers.EJFATRE in packet
