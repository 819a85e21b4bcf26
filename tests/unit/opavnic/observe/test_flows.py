"""Flows by their packets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from opavnic.observe.rate_tables import HEADERS, MAX_FLOWS, OTHERS, SNAP, Flow, FlowTally, flow_of_packet

MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}


@pytest.mark.parametrize(
    ("frame", "flow"),
    [
        (IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=5, dport=80), Flow("TCP", "10.0.0.1:5", "10.0.0.2:80")),
        (Dot1Q(vlan=3) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=5, dport=6),
         Flow("UDP", "10.0.0.1:5", "10.0.0.2:6")),
        (IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(), Flow("ICMP", "10.0.0.1", "10.0.0.2")),
        (IP(src="10.0.0.1", dst="10.0.0.2", frag=9, proto=17) / (b"x" * 20), Flow("UDP", "10.0.0.1", "10.0.0.2")),
        (IPv6(src="fe80::1", dst="fe80::2") / TCP(sport=5, dport=80), Flow("TCP", "[fe80::1]:5", "[fe80::2]:80")),
        (ARP(), Flow("ARP", MACS["src"], MACS["dst"])),
    ],
)  # fmt: skip
def test_flow_is_named_by_its_innermost_addresses(frame: Ether, flow: Flow) -> None:
    packet = bytes(HEADERS) + bytes(Ether(**MACS) / frame)
    assert flow_of_packet(packet) == flow
    assert flow_of_packet(packet[:SNAP]) == flow


@given(st.binary(max_size=200))
def test_any_bytes_are_a_flow_or_none(data: bytes) -> None:
    flow_of_packet(data)


def test_flows_beyond_the_limit_are_counted_together() -> None:
    tally = FlowTally()
    for number in range(MAX_FLOWS + 5):
        frame = Ether(**MACS) / bytes(0)
        tally.add(bytes(HEADERS) + bytes(frame)[:6] + number.to_bytes(6, "big") + b"\x88\xb5", 100)
    tally.add(b"short", 5)
    assert len(tally.totals) == MAX_FLOWS + 1
    assert tally.totals[OTHERS] == (5, 500)
