"""A MAD as header and data: bytes in, bytes out, another transaction id on the way."""

from __future__ import annotations

import pytest

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import Mad, MadHeader

HEADER = MadHeader(mgmt_class=0x34, method=1, tid=7, attr_id=0x11)


def test_build_then_parse_gives_the_same() -> None:
    mad = Mad(HEADER, b"data")
    assert mad.build() == HEADER.build() + b"data"
    assert Mad.parse(mad.build()) == mad


def test_build_under_another_transaction_id_changes_nothing_else() -> None:
    parsed = Mad.parse(Mad(HEADER, b"data").build(0x1122334455667788))
    assert parsed.header.tid == 0x1122334455667788
    assert Mad(HEADER, parsed.data) == Mad(HEADER, b"data")


@pytest.mark.parametrize("size", range(24))
def test_parse_truncated_header_is_a_wire_error(size: int) -> None:
    with pytest.raises(WireError):
        Mad.parse(bytes(size))
