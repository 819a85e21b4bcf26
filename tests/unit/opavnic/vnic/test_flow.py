"""The flow hash: what names a flow, and what does not."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.vnic.flow import entropy_of, flow_hash, flow_key

MACS = bytes.fromhex("020000000001020000000002")
KEY_MACS = MACS[6:] + MACS[:6]
IPV4 = bytes.fromhex("4500002800004000400600000a0000010a000002")
PORTS = bytes.fromhex("04d20050")
IPV6 = bytes.fromhex("6000000000141140") + bytes(range(32))


def frame(ethertype: str, payload: bytes = b"", tags: str = "") -> bytes:
    return (MACS + bytes.fromhex(tags + ethertype) + payload).ljust(60, b"\0")


@pytest.mark.parametrize("tags", ["", "81000005", "88a8000a81000005", "810000018100000281000003"])
def test_tcp_over_ipv4_is_named_by_addresses_protocol_and_ports_behind_any_tags(tags: str) -> None:
    key = flow_key(frame("0800", IPV4 + PORTS, tags))
    assert key == KEY_MACS + b"\x08\x00" + IPV4[12:20] + b"\x06" + PORTS


def test_udp_over_ipv6_is_named_by_addresses_next_header_and_ports() -> None:
    key = flow_key(frame("86dd", IPV6 + PORTS))
    assert key == KEY_MACS + b"\x86\xdd" + IPV6[8:40] + b"\x11" + PORTS


@pytest.mark.parametrize("flags", ["2000", "0001", "1fff", "3fff"])
def test_fragment_is_named_without_ports(flags: str) -> None:
    packet = IPV4[:6] + bytes.fromhex(flags) + IPV4[8:] + PORTS
    assert flow_key(frame("0800", packet)) == KEY_MACS + b"\x08\x00" + IPV4[12:20] + b"\x06"


def test_ports_stand_behind_ip_options() -> None:
    packet = b"\x46" + IPV4[1:] + b"optn" + PORTS
    assert flow_key(frame("0800", packet)).endswith(PORTS)


@pytest.mark.parametrize("first", [0x40, 0x44])
def test_header_length_that_cannot_be_gives_no_ports(first: int) -> None:
    packet = bytes([first]) + IPV4[1:] + PORTS
    assert flow_key(frame("0800", packet)) == KEY_MACS + b"\x08\x00" + IPV4[12:20] + b"\x06"


@pytest.mark.parametrize("protocol", [1, 47, 50, 132])
def test_other_protocols_are_named_without_ports(protocol: int) -> None:
    packet = IPV4[:9] + bytes([protocol]) + IPV4[10:] + PORTS
    assert flow_key(frame("0800", packet)) == KEY_MACS + b"\x08\x00" + IPV4[12:20] + bytes([protocol])


@pytest.mark.parametrize("ethertype", ["0806", "88cc", "0040"])
def test_other_frames_are_named_by_macs_and_ethertype(ethertype: str) -> None:
    assert flow_key(frame(ethertype, b"anything")) == KEY_MACS + bytes.fromhex(ethertype)


def test_tags_up_to_the_end_of_the_frame_are_no_error() -> None:
    for size in range(60, 70):
        flow_key((MACS + b"\x81\x00\x00\x01" * 15)[:size].ljust(size, b"\x81"))


@given(st.binary(min_size=60, max_size=200), st.binary(max_size=64))
def test_any_frame_has_a_hash_of_its_flow_alone(data: bytes, more: bytes) -> None:
    value = flow_hash(data)
    assert value == zlib.crc32(flow_key(data))
    if flow_key(data) == flow_key(data + more):
        assert flow_hash(data + more) == value


@given(st.binary(min_size=4, max_size=4))
def test_entropy_is_the_xor_of_the_bytes_of_the_hash(value: bytes) -> None:
    assert entropy_of(int.from_bytes(value)) == value[0] ^ value[1] ^ value[2] ^ value[3]


def test_flows_that_differ_in_one_port_take_all_entropies() -> None:
    """As many connections of one client to one server do."""
    ports = [port.to_bytes(2) + PORTS[2:] for port in range(0x8000, 0x9000)]
    found = Counter(entropy_of(flow_hash(frame("0800", IPV4 + pair))) for pair in ports)
    assert len(found) == 256
    assert max(found.values()) < 2 * len(ports) / 256
