"""What the codec of the reliable connections' header does beyond its declaration."""

from __future__ import annotations

import pytest

from hfi_sim.base.errors import WireError
from hfi_sim.wire.reliable_header import RcFlags, RcHeader, RcOpcode


def test_known_values_are_big_endian() -> None:
    header = RcHeader(RcOpcode.DATA, RcFlags.LAST, tag=3, dst_conn=7, src_conn=8, psn=9, ack=10, sack=0x55)

    assert header.build() == bytes.fromhex("04010003 00000007 00000008 00000009 0000000a 0000000000000055")


@pytest.mark.parametrize("opcode", [0, 8, 0xFF])
def test_unknown_opcode_is_refused(opcode: int) -> None:
    with pytest.raises(WireError, match=f"unknown opcode {opcode:#04x}"):
        RcHeader.parse(bytes([opcode]) + bytes(RcHeader.SIZE - 1))
