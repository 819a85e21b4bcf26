"""The 28-byte header of reliable connections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.errors import WireError
from hfi_sim.reliable.header import LAYOUT, RcHeader, RcOpcode

HEADERS = st.builds(
    RcHeader,
    opcode=st.sampled_from(RcOpcode),
    flags=st.integers(0, 0xFF),
    tag=st.integers(0, 0xFFFF),
    dst_conn=st.integers(0, 0xFFFFFFFF),
    src_conn=st.integers(0, 0xFFFFFFFF),
    psn=st.integers(0, 0xFFFFFFFF),
    ack=st.integers(0, 0xFFFFFFFF),
    sack=st.integers(0, 0xFFFFFFFFFFFFFFFF),
)
FIELDS = ("opcode", "flags", "tag", "dst_conn", "src_conn", "psn", "ack", "sack")


@given(HEADERS)
def test_header_built_and_parsed_is_the_same_and_agrees_with_the_layout(header: RcHeader) -> None:
    wire = header.build()
    assert len(wire) == RcHeader.SIZE == LAYOUT.sizeof()
    assert RcHeader.parse(wire + b"more") == header
    assert LAYOUT.build({name: getattr(header, name) for name in FIELDS}) == wire


@pytest.mark.parametrize("length", range(RcHeader.SIZE))
def test_header_truncated_is_refused(length: int) -> None:
    with pytest.raises(WireError, match="28 are needed"):
        RcHeader.parse(RcHeader(RcOpcode.ACK).build()[:length])


@given(st.binary(max_size=64))
def test_any_bytes_give_a_header_or_a_wire_error(data: bytes) -> None:
    try:
        header = RcHeader.parse(data)
    except WireError:
        return
    assert data.startswith(header.build())


def test_header_field_too_wide_names_the_header() -> None:
    with pytest.raises(ValueError, match="does not fit the reliable connection header"):
        RcHeader(RcOpcode.DATA, tag=0x10000).build()
