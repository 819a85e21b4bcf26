"""Tables and frames that measurements and tests share."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

from ejfat.base.addresses import IpAddress
from ejfat.control.epochs import programming
from ejfat.control.epochs.calendar import spread
from ejfat.control.epochs.epochs import EpochManager
from ejfat.control.epochs.programming import Rewrite, TableTarget
from ejfat.events.event import Segmenter
from ejfat.tables.schema import Op, TableSet
from ejfat.wire.headers import LB_PORT
from hfi_sim.wire.internet_checksum import checksum

SENDER, LB, WORKER = IPv4Address("10.8.0.2"), IPv4Address("10.8.0.1"), IPv4Address("10.8.0.3")
_EVENTS = 2048
_LB_MAC = 0x020000000001
_SRC_MAC = bytes.fromhex("020000000002")
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_UDP = struct.Struct(">HHHH")


def make_tables(members: int = 4, *, worker: Rewrite | None = None, mac: int = _LB_MAC) -> TableSet:
    """Return tables that serve all versions with `members` members, or with one given worker."""
    tables = TableSet()
    target = TableTarget(0, with_v1=True)
    rewrites = (
        [worker]
        if worker
        else [Rewrite(n, 0x020000000100 + n, IPv4Address(f"10.8.1.{n + 1}"), 10000) for n in range(members)]
    )
    updates = programming.own_addresses(target, mac, [LB])
    updates.append(programming.sender(target, SENDER, Op.PUT))
    for rewrite in rewrites:
        updates += programming.member(target, rewrite, Op.PUT)
    updates += EpochManager(target).begin(spread({r.member_id: 512 // len(rewrites) for r in rewrites}))
    tables.apply(updates)
    return tables


def make_frames(version: int, payload: int, mac: int = _LB_MAC) -> list[bytes]:
    """Return one frame for each of two thousand ticks."""
    segmenter = Segmenter(version=version, mtu=9000)
    return [
        event_frames(
            segmenter, bytes(payload), tick=tick, data_id=1, event=tick, src=SENDER, dst=LB, dst_mac=mac
        )[0]
        for tick in range(1_000_000, 1_000_000 + _EVENTS)
    ]


def event_frames(
    segmenter: Segmenter,
    event_data: bytes,
    *,
    tick: int,
    data_id: int,
    event: int,
    src: IpAddress,
    dst: IpAddress,
    dst_mac: int,
    entropy: int = 0,
    src_port: int = 50000,
) -> list[bytes]:
    """Return the Ethernet frames of an event as a sender's host makes them."""
    ethernet = dst_mac.to_bytes(6, "big") + _SRC_MAC
    return [
        ethernet + udp_packet(payload, src=src, dst=dst, src_port=src_port, dst_port=LB_PORT)
        for payload in segmenter.payloads(
            event_data, tick=tick, data_id=data_id, event=event, entropy=entropy
        )
    ]


def udp_packet(
    payload: bytes,
    *,
    src: IpAddress,
    dst: IpAddress,
    src_port: int,
    dst_port: int,
) -> bytes:
    """Return the EtherType, the IP and UDP headers with valid checksums, and the payload."""
    length = 8 + len(payload)
    pseudo = src.packed + dst.packed + length.to_bytes(4, "big") + b"\x00\x00\x00\x11"
    udp = _UDP.pack(src_port, dst_port, length, 0)
    udp_sum = checksum(pseudo + udp + payload) or 0xFFFF
    udp = _UDP.pack(src_port, dst_port, length, udp_sum)
    if src.version == 6:
        ip = b"\x86\xdd\x60\x00\x00\x00" + length.to_bytes(2, "big") + b"\x11\x40" + src.packed + dst.packed
        return ip + udp + payload
    fields = (0x45, 0, 20 + length, 0, 0x4000, 64, 17)
    ip_sum = checksum(_IPV4.pack(*fields, 0, src.packed, dst.packed))
    return b"\x08\x00" + _IPV4.pack(*fields, ip_sum, src.packed, dst.packed) + udp + payload
