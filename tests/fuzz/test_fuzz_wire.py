"""Any bytes at all: codecs give a value or a WireError and nothing else, the port check never raises."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad.fm_packet import parse_fm_payload
from hfi_sim.wire.mad.header import MadHeader, oui_of
from hfi_sim.wire.packet import Packet16B, build_packet, check_packet, strip
from opavnic.decode.describe import describe_frame, describe_packet

ICRC = Icrc()
PARSERS = [
    Lrh16B.parse,
    EthernetL4.parse,
    FmHeader.parse,
    MadHeader.parse,
    oui_of,
    parse_fm_payload,
    Packet16B.parse,
    describe_frame,
    lambda data: describe_packet(data, ICRC),
]


def near_packets() -> st.SearchStrategy[bytes]:
    """Bytes whose first checks pass often: a right L2, LT and Length in front of anything."""

    def shape(words: bytes, l4: int, length_error: int) -> bytes:
        data = bytearray(words.ljust(-(-len(words) // 8) * 8, b"\0"))
        length_qw = (len(data) // 8 + length_error) % 2048
        data[:16] = Lrh16B(1, 2, length_qw=length_qw, l4=l4).build()
        data[-1] &= 0x7F
        return bytes(data)

    return st.builds(
        shape,
        st.binary(min_size=24, max_size=120),
        st.sampled_from([0x78, 0x08, 0x55]),
        st.sampled_from([0, 0, 0, 1, -1, 2047]),
    )


ANY_BYTES = st.one_of(st.binary(max_size=120), near_packets())


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__qualname__)
@given(data=ANY_BYTES)
@settings(max_examples=300)
def test_parse_any_bytes_gives_a_value_or_wire_error(parse, data: bytes) -> None:  # type: ignore[no-untyped-def]
    try:
        value = parse(data)
    except WireError as error:
        fault = error
    else:
        assert value is not None
        return
    assert fault.reason
    assert 0 <= fault.offset <= len(data)


@given(ANY_BYTES)
@example(b"")
@settings(max_examples=1000)
def test_check_packet_any_bytes_never_raises_and_agrees_with_parse(data: bytes) -> None:
    for icrc in (None, ICRC):
        assert check_packet(data, icrc) in (None, Drop.RX_TRUNCATED, Drop.RX_L2, Drop.RX_LENGTH, Drop.RX_ICRC)
    try:
        packet = Packet16B.parse(data)
    except WireError:
        assert check_packet(data, None) is not None
        return
    assert check_packet(data, None) is None
    assert packet.build() == data
    assert strip(data) == packet.payload


@given(st.binary(min_size=8, max_size=300), st.binary(min_size=1, max_size=8), st.data())
@settings(max_examples=500)
def test_check_packet_overwritten_bytes_are_noticed_or_harmless(
    payload: bytes, damage: bytes, data: st.DataObject
) -> None:
    packet = build_packet(Lrh16B(5, 7, l4=0x78), payload, ICRC)
    at = data.draw(st.integers(0, len(packet) - len(damage)))
    damaged = packet[:at] + damage + packet[at + len(damage) :]

    if check_packet(damaged, ICRC) is None:
        assert strip(damaged) == payload
