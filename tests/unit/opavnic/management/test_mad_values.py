"""Attributes as people write and read them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from opavnic.management.mad_values import assign, attribute_id, from_json, mad_json, to_json
from vema.attributes.attr_id import VALUE_KINDS, AttrId
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo


@pytest.mark.parametrize(("text", "number"), [("vesw-port-info", 0x11), ("0x20", 0x20), ("18", 0x12)])
def test_attribute_is_found_by_name_and_number(text: str, number: int) -> None:
    assert attribute_id(text) == number


@pytest.mark.parametrize(("text", "number"), [
    ("ClassPortInfo", 0x01), ("VeswPortInfo", 0x11), ("VeswPortMacEntries", 0x12), ("MacEntries", 0x12),
    ("IfaceUcastMacs", 0x13), ("iface-mcast-macs", 0x14), ("DELETE_VESW", 0x15), ("summarycounters", 0x20),
    ("ErrorCounters", 0x22),
])  # fmt: skip
def test_attribute_is_found_by_the_name_of_the_documents(text: str, number: int) -> None:
    assert attribute_id(text) == number


@pytest.mark.parametrize("text", ["vesw", "0x10000", "-1", "", "-", "Notice"])
def test_unknown_attribute_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an attribute|does not fit"):
        attribute_id(text)


def test_fields_are_replaced_by_kind() -> None:
    info = assign(
        VeswPortInfo(),
        [
            "eth_mtu=9000",
            "pkey=0x8002",
            "base_mac=06:2c:00:05:00:00",
            "u_ucast_dlid[2]=7",
            "pcp_to_sc_uc[7]=3",
        ],
    )
    assert (info.eth_mtu, info.pkey, info.base_mac.hex()) == (9000, 0x8002, "062c00050000")
    assert (info.u_ucast_dlid[2], info.pcp_to_sc_uc) == (7, bytes(7) + b"\3")


def test_entries_are_written_as_address_at_lid() -> None:
    section = assign(MacEntries(0, 0), ["offset=5", "digest=0x99", "entries=02:00:00:00:00:01@7,-"])
    assert section == MacEntries(5, 0x99, (MacEntry(b"\2\0\0\0\0\1", b"\xff" * 6, 0x700), None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mtu=5", 'no field "mtu"'),
        ("eth_mtu", "is not field=value"),
        ("eth_mtu=x", "eth_mtu: 'x' is not a whole number"),
        ("base_mac=1:2", "is not six"),
        ("pcp_to_sc_uc=00", "1 bytes, but the field has 8"),
        ("pcp_to_sc_uc=zz", "is not hex"),
        ("u_ucast_dlid[16]=1", "does not exist"),
    ],
)
def test_wrong_assignment_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("[", r"\[")):
        assign(VeswPortInfo(), [text])


def test_six_reserved_bytes_are_no_address() -> None:
    shown = to_json(VeswPortInfo(reserved_4=b"abcdef"))
    assert (shown["reserved_4"], shown["base_mac"]) == ("616263646566", "00:00:00:00:00:00")


@given(st.sampled_from(sorted(VALUE_KINDS)), st.binary(min_size=2008, max_size=2008))
def test_any_attribute_is_plain_data_or_an_error(attr_id: int, data: bytes) -> None:
    mad = bytes.fromhex("80348081") + bytes(12) + attr_id.to_bytes(2, "big") + bytes(22) + data
    assert json.dumps(mad_json(mad))
    with pytest.raises(WireError):
        mad_json(mad[:20])


@pytest.mark.parametrize(
    ("assignment", "right"),
    [
        ("vesw_id=65536", "vesw_id 0x10000 does not fit 16 bits (0 to 65535)"),
        ("pkey=-1", "pkey -0x1 does not fit 16 bits (0 to 65535)"),
        ("u_ucast_dlid[3]=0x100000000", "u_ucast_dlid[3] 0x100000000 does not fit 32 bits (0 to 4294967295)"),
        ("pcp_to_sc_uc[0]=256", "a byte is 0 to 255"),
        ("u_ucast_dlid=1,2", "u_ucast_dlid has 16 items, not 2"),
    ],
)
def test_value_that_does_not_fit_is_refused_with_its_field(assignment: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(assignment)}: .*{re.escape(right)}$"):
        assign(VeswPortInfo(), ["eth_mtu=9000", assignment])


@pytest.mark.parametrize(
    ("assignment", "right"),
    [
        ("offset=70000", "offset 0x11170 does not fit 16 bits (0 to 65535)"),
        ("entries=02:00:00:00:00:01@0x1000000", "a LID is 0 to 0xffffff"),
    ],
)
def test_section_that_does_not_fit_is_refused_with_its_field(assignment: str, right: str) -> None:
    with pytest.raises(ValueError, match=re.escape(right)):
        assign(MacEntries(0, 0), [assignment])


def test_mac_addresses_have_colons() -> None:
    assert to_json(VeswPortInfo())["base_mac"] == "00:00:00:00:00:00"
    assert AttrId.NOTICE in VALUE_KINDS


@pytest.mark.parametrize("kind", [VALUE_KINDS[AttrId.CLASS_PORT_INFO], VALUE_KINDS[AttrId.VESW_PORT_INFO]])
def test_plain_data_of_an_attribute_are_read_back(kind: Any) -> None:
    attribute = kind.parse(bytes(range(8)) + bytes(1000))
    assert from_json(attribute, json.loads(json.dumps(to_json(attribute)))) == attribute


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"speed": 1}, 'no field "speed"'),
        ({"eth_mtu": "wide"}, "eth_mtu: 'wide'"),
        ({"eth_mtu": 1 << 20}, "eth_mtu: 1048576"),
        ({"base_mac": 5}, "base_mac: 5"),
        ({"u_ucast_dlid": [1]}, "u_ucast_dlid"),
    ],
)
def test_plain_data_that_do_not_fit_are_refused_by_the_field(data: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_json(VeswPortInfo.parse(bytes(VeswPortInfo.SIZE)), data)
