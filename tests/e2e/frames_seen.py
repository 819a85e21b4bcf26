"""Datagrams, and the frames that a host's kernel sees of them.

Usage: frames_seen.py watch INTERFACE COUNT | send ADDRESS COUNT | send-segmented ADDRESS COUNT
                      | route GROUP SOURCE FROM TO

`watch` prints "listening", then, once COUNT datagrams have come or none comes for ten seconds, a JSON list: bytes of
UDP payload in each frame, or -1 where its checksum is wrong. `route` forwards a multicast group between the interfaces
with the addresses FROM and TO until its input ends.
"""

from __future__ import annotations

import json
import socket
import struct
import sys

PORT = 5004
SIZE = 1320
ETH_P_IP = 0x0800
UDP_SEGMENT = 103
MRT_INIT, MRT_ADD_VIF, MRT_ADD_MFC = 200, 202, 204
MAX_VIFS = 32


def checksum(data: bytes) -> int:
    padded = data + bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def payload(frame: bytes) -> int | None:
    """Return the bytes of payload of a datagram to PORT, -1 for a wrong checksum, None for any other frame."""
    start = 14 + (frame[14] & 15) * 4
    end = 14 + int.from_bytes(frame[16:18], "big")
    if frame[23] != socket.IPPROTO_UDP or frame[start + 2 : start + 4] != PORT.to_bytes(2, "big"):
        return None
    pseudo = frame[26:34] + struct.pack("!BBH", 0, socket.IPPROTO_UDP, end - start)
    return end - start - 8 if checksum(pseudo + frame[start:end]) == 0xFFFF else -1


def watch(interface: str, count: str) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((interface, ETH_P_IP))
        sock.settimeout(10)
        print("listening", flush=True)
        seen: list[int] = []
        try:
            while sum(map(abs, seen)) < int(count) * SIZE:
                frame, (_, _, kind, *_) = sock.recvfrom(1 << 16)
                found = payload(frame)
                if kind != socket.PACKET_OUTGOING and found is not None:
                    seen.append(found)
        except TimeoutError:
            pass
    print(json.dumps(seen))


def sender() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
    return sock


def send(address: str, count: str) -> None:
    with sender() as sock:
        for number in range(int(count)):
            sock.sendto(bytes([number]) * SIZE, (address, PORT))


def send_segmented(address: str, count: str) -> None:
    with sender() as sock:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SIZE)
        sock.sendto(b"".join(bytes([number]) * SIZE for number in range(int(count))), (address, PORT))


def route(group: str, source: str, *interfaces: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP) as sock:
        sock.setsockopt(socket.IPPROTO_IP, MRT_INIT, 1)
        for number, address in enumerate(interfaces):
            vif = struct.pack("HBBI", number, 0, 1, 0) + socket.inet_aton(address) + bytes(4)
            sock.setsockopt(socket.IPPROTO_IP, MRT_ADD_VIF, vif)
        flow = socket.inet_aton(source) + socket.inet_aton(group) + struct.pack("H", 0)
        ttls = bytes([0, 1]).ljust(MAX_VIFS, b"\0")
        sock.setsockopt(socket.IPPROTO_IP, MRT_ADD_MFC, flow + ttls + bytes(2 + 16))
        print("listening", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    verbs = {"watch": watch, "send": send, "send-segmented": send_segmented, "route": route}
    verbs[sys.argv[1]](*sys.argv[2:])
