"""The headers between the 16B header and what it carries."""

from __future__ import annotations

import pytest
from hypothesis import given

from hfi_sim.errors import WireError
from hfi_sim.wire.l4 import ETHERNET_LAYOUT, FM_LAYOUT, L4, EthernetL4, FmHeader
from unit.hfi_sim.wire.wire_strategies import bits


def test_ethernet_known_values_are_little_endian() -> None:
    assert EthernetL4(vesw_id=0x102, reserved=0x304).build() == bytes.fromhex("04030201")


def test_fm_known_values_are_big_endian() -> None:
    assert FmHeader(dest_qp=1, src_qp=0x20304).build() == bytes.fromhex("0000000100020304")


@given(bits(16), bits(16))
def test_ethernet_any_values_equal_the_declaration(vesw_id: int, reserved: int) -> None:
    built = EthernetL4(vesw_id, reserved).build()

    assert built == ETHERNET_LAYOUT.build({"vesw_id": vesw_id, "reserved": reserved})
    assert EthernetL4.parse(built + b"frame") == EthernetL4(vesw_id, reserved)
    assert len(built) == EthernetL4.SIZE == ETHERNET_LAYOUT.sizeof()


@given(bits(24), bits(24), bits(8), bits(8))
def test_fm_any_values_equal_the_declaration(dest_qp: int, src_qp: int, dest_res: int, src_res: int) -> None:
    header = FmHeader(dest_qp, src_qp, dest_res, src_res)
    values = {"dest_qp": dest_qp, "src_qp": src_qp, "dest_reserved": dest_res, "src_reserved": src_res}

    built = header.build()

    assert built == FM_LAYOUT.build(values)
    assert FmHeader.parse(built + b"mad") == header
    assert len(built) == FmHeader.SIZE == FM_LAYOUT.sizeof()


@pytest.mark.parametrize("size", range(4))
def test_ethernet_truncated_raises_wire_error(size: int) -> None:
    with pytest.raises(WireError, match="the Ethernet L4 header needs 4"):
        EthernetL4.parse(bytes(size))


@pytest.mark.parametrize("size", range(8))
def test_fm_truncated_raises_wire_error(size: int) -> None:
    with pytest.raises(WireError, match="the FM header needs 8"):
        FmHeader.parse(bytes(size))


def test_build_value_too_wide_names_the_field() -> None:
    with pytest.raises(ValueError, match="vesw_id 0x10000 does not fit 16 bits"):
        EthernetL4(0x10000).build()
    with pytest.raises(ValueError, match="src_qp 0x1000000 does not fit 24 bits"):
        FmHeader(1, 1 << 24).build()


def test_l4_names_have_the_document_values() -> None:
    assert {item.name: int(item) for item in L4} == {
        "FM": 0x08,
        "IB_LOCAL": 0x09,
        "IB_GLOBAL": 0x0A,
        "ETHERNET": 0x78,
        "EEPH": 0x79,
        "VENDOR_RC": 0x7A,
    }
