"""What the kernel says of bridges, read; and a network that nobody uses."""

from __future__ import annotations

import ipaddress
import struct

import pytest

from hfi_sim.base.types import parse_mac
from hfi_sim.netdev.bridging import FdbEntry, fdb_entry, unused_link_network
from hfi_sim.netdev.netlink import RTM_DELNEIGH, RTM_NEWLINK, RTM_NEWNEIGH

MAC = parse_mac("02:11:22:33:44:55")


def notice(
    *,
    family: int = 7,
    state: int = 2,
    flags: int = 0,
    mac: bytes = MAC,
    master: int | None = 3,
    vlan: int = 0,
) -> bytes:
    """Return a message of neighbours: header, struct ndmsg, attributes."""
    body = struct.pack("=BxxxiHBB", family, 5, state, flags, 0) + struct.pack("=HH", 4 + len(mac), 2) + mac
    body += bytes(-len(mac) % 4)
    if master is not None:
        body += struct.pack("=HHI", 8, 9, master)
    if vlan:
        body += struct.pack("=HHHxx", 6, 5, vlan)
    return struct.pack("=IHHII", 16 + len(body), RTM_NEWNEIGH, 0, 0, 0) + body


def test_address_that_a_bridge_learns_is_read() -> None:
    assert fdb_entry(RTM_NEWNEIGH, notice(vlan=7)) == FdbEntry(bridge=3, port=5, mac=MAC, vlan=7)
    assert fdb_entry(RTM_DELNEIGH, notice()) == FdbEntry(bridge=3, port=5, mac=MAC, vlan=0, gone=True)
    assert fdb_entry(RTM_NEWNEIGH, notice(state=0x80)) == FdbEntry(
        bridge=3, port=5, mac=MAC, vlan=0, local=True
    )


@pytest.mark.parametrize(
    "message",
    [
        notice(family=2),  # a neighbour of IPv4
        notice(flags=2),  # the device's own list
        notice(master=None),
        notice(mac=b"\x02\x11"),
        notice()[:28],
        notice()[:30],
    ],
)
def test_message_that_tells_nothing_of_a_bridge_is_passed_over(message: bytes) -> None:
    assert fdb_entry(RTM_NEWNEIGH, message) is None
    assert fdb_entry(RTM_NEWLINK, notice()) is None


def test_link_network_overlaps_nothing_that_is_taken() -> None:
    pool = ipaddress.IPv4Network("100.64.0.0/28")
    taken = [ipaddress.IPv4Network(text) for text in ("100.64.0.0/30", "100.64.0.6/32", "10.0.0.0/8")]
    assert unused_link_network(taken, pool) == ipaddress.IPv4Network("100.64.0.8/30")
    assert unused_link_network([ipaddress.IPv4Network("100.64.0.0/10")], pool) is None
