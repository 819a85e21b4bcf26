"""The headers between the 16B header and what it carries."""

from __future__ import annotations

from hfi_sim.wire.lrh16b import L4, EthernetL4, FmHeader


def test_ethernet_known_values_are_little_endian() -> None:
    assert EthernetL4(vesw_id=0x102, reserved=0x304).build() == bytes.fromhex("04030201")


def test_fm_known_values_are_big_endian() -> None:
    assert FmHeader(dest_qp=1, src_qp=0x20304).build() == bytes.fromhex("0000000100020304")


def test_l4_names_have_the_document_values() -> None:
    assert {item.name: int(item) for item in L4} == {
        "FM": 0x08,
        "IB_LOCAL": 0x09,
        "IB_GLOBAL": 0x0A,
        "ETHERNET": 0x78,
        "EEPH": 0x79,
        "VENDOR_RC": 0x7A,
    }
