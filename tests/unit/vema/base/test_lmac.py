"""The locally administered MAC address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from vema.base.lmac import Lmac, lid_of


def test_known_answer_builds_and_parses() -> None:
    mac = bytes.fromhex("062c00050000")

    assert Lmac(fabric_id=0x301, vesw_id=2, lid=5).build() == mac
    assert Lmac.parse(mac) == Lmac(0x301, 2, 5)


@given(st.integers(0, 0x3FF), st.integers(0, 0xFFF), st.integers(0, 0xFFFFFF), st.booleans())
def test_round_trip_keeps_everything(fabric_id: int, vesw_id: int, lid: int, group: bool) -> None:
    value = Lmac(fabric_id, vesw_id, lid, group)

    mac = value.build()

    assert Lmac.parse(mac) == value
    assert mac[0] & 2
    assert mac[0] & 1 == group
    assert lid_of(mac) == lid


@pytest.mark.parametrize("field", ["fabric_id", "vesw_id", "lid"])
def test_value_too_wide_is_refused_by_name(field: str) -> None:
    values = {"fabric_id": 0, "vesw_id": 0, "lid": 0} | {field: 0x1000000}
    with pytest.raises(ValueError, match=field):
        Lmac(**values).build()


@pytest.mark.parametrize("raw", ["001122334455", "0622", "06112233445566"])
def test_address_that_is_none_of_ours_is_a_wire_error(raw: str) -> None:
    with pytest.raises(WireError):
        Lmac.parse(bytes.fromhex(raw))
