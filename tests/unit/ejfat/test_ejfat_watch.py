"""What the load balancer learns from the network about itself: address conflicts, packets that did not arrive."""

from __future__ import annotations

import logging
from ipaddress import ip_address

import pytest

from ejfat.control.grpc.messages import status_reply
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from opavnic_bench.ejfat.frames import udp_packet

FOUR, SIX = ip_address("10.0.0.1"), ip_address("fd00::1")
WORKER4, WORKER6, ROUTER = ip_address("10.9.0.3"), ip_address("fd09::3"), b"\x02\0\0\0\0\xaa"


def app(number: int, sent: list[bytes]) -> LbApp:
    plane = PlaneConfig(mac=0x020000000000 + number, instances=(InstanceAddresses(FOUR, SIX),))
    made = LbApp(AppConfig(plane, "127.0.0.1:0", period_s=60), sent.append)
    made.program()
    return made


def mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


@pytest.mark.parametrize("version", [4, 6])
def test_two_load_balancers_with_one_address_notice_each_other(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[list[bytes]] = [[], []]
    first, second = app(1, sent[0]), app(2, sent[1])
    reservation = first.plane.reserve("run", now=0)
    announced = [f for f in second.node.watch.announcements() if (f[12:14] == b"\x08\x06") == (version == 4)]
    with caplog.at_level(logging.ERROR, "ejfat.live.node"):
        for frame in announced:
            first.receive(frame)
        for frame in sent[0]:
            second.receive(frame)
    address = str(FOUR if version == 4 else SIX)
    assert first.status()["conflicts"] == {address: mac(2)}
    assert second.status()["conflicts"] == {address: mac(1)}
    assert f"{mac(2)} says that it has {address} too" in caplog.text
    at = first.plane.conflicts[ip_address(address)].at
    (issue,) = status_reply(first.plane, reservation, at).healthIssues
    assert (issue.type, issue.severity) == ("address_conflict", "error")
    assert mac(2) in issue.message
    assert list(status_reply(first.plane, reservation, at + 61).healthIssues) == []


def test_what_others_have_and_what_comes_back_is_no_conflict() -> None:
    sent: list[bytes] = []
    one = app(1, sent)
    for frame in one.node.watch.announcements():
        one.receive(frame)
    assert one.status()["conflicts"] == {}
    request = bytearray(one.node.watch.announcements()[0])
    request[6:12] = request[22:28] = ROUTER
    request[28:32] = WORKER4.packed
    one.receive(bytes(request))
    assert one.status()["conflicts"] == {}


def unreachable(kind: int, code: int, source: str) -> bytes:
    """Return the message of a router that a packet from `source` did not arrive."""
    origin = ip_address(source)
    dst = FOUR if origin.version == 4 else SIX
    said = udp_packet(
        b"x", src=origin, dst=WORKER4 if origin.version == 4 else WORKER6, dst_port=10000, src_port=1
    )[2:]
    frame = bytearray(
        udp_packet(b"", src=WORKER4 if origin.version == 4 else WORKER6, dst=dst, dst_port=1, src_port=1)[:-8]
    )
    frame[2 + 9 if origin.version == 4 else 2 + 6] = 1 if origin.version == 4 else 58
    return b"\x02\0\0\0\0\x01" + ROUTER + bytes(frame) + bytes([kind, code, 0, 0, 0, 0, 0, 0]) + said


def test_unreachable_is_counted_by_reason_and_dropped_once() -> None:
    one = app(1, [])
    for frame in (
        unreachable(3, 3, "10.0.0.1"),
        unreachable(3, 3, "10.0.0.1"),
        unreachable(3, 77, "10.0.0.1"),
        unreachable(3, 1, "10.0.0.77"),
        unreachable(1, 4, "fd00::1"),
        unreachable(2, 0, "fd00::1"),
        unreachable(3, 3, "10.0.0.1")[:45],
    ):
        one.receive(frame)
    expected = {"icmpv4:code_77": 1, "icmpv4:port": 2, "icmpv6:port": 1, "icmpv6:too_big": 1}
    assert one.status()["unreachable"] == expected
    assert one.pipeline.counters.balance == 0
    assert one.pipeline.counters.dropped == 7


def test_ipv4_packet_with_the_protocol_of_icmpv6_is_no_neighbor_advertisement() -> None:
    sent: list[bytes] = []
    one = app(1, sent)
    one.plane.reserve("run", now=0)
    forged = bytearray(54) + b"\x88\0" + bytes(6) + WORKER6.packed + b"\x02\x01" + ROUTER
    forged[:14] = one.config.plane.mac.to_bytes(6) + ROUTER + b"\x08\0"
    forged[14], forged[23] = 0x45, 58
    before = one.pipeline.counters.rx_packets
    one.receive(bytes(forged))
    assert one.pipeline.counters.rx_packets == before + 1, "it is counted like any other frame"
