"""IPsec ESP in userland, for kernels without it: what a host sends by TCP and UDP to a peer leaves encrypted.

Usage: esp_gateway.py transport|tunnel OWN PEER

It makes the interface esp0, sends TCP and UDP for PEER there, and encrypts and decrypts (AES-CBC, HMAC-SHA1-96). Large
packets are cut into fragments once they are encrypted, as by the kernel. It prints "listening", and when its input has
ended and nothing comes any more, JSON: ESP packets sent, received, and those that failed their check.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path

from scapy.layers.inet import IP
from scapy.layers.ipsec import ESP, SecurityAssociation

DEVICE = "esp0"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MTU, SEGMENT = 9000, 1300
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0
QUIET_S = 1.0
KEY = bytes(range(16))


def association(mode: str, source: str, target: str) -> SecurityAssociation:
    header = IP(src=source, dst=target) if mode == "tunnel" else None
    return SecurityAssociation(
        ESP, spi=0x222, crypt_algo="AES-CBC", crypt_key=KEY, auth_algo="HMAC-SHA1-96", auth_key=KEY,
        tunnel_header=header,
    )  # fmt: skip


def interface(own: str, peer: str) -> int:
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("0")
    Path(f"/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6").write_text("1")
    for command in (
        f"ip link set {DEVICE} up mtu {MTU}",
        f"ip route add {peer} dev {DEVICE} src {own} advmss {SEGMENT} table 77",
        f"ip rule add to {peer} ipproto tcp lookup 77",
        f"ip rule add to {peer} ipproto udp lookup 77",
    ):
        subprocess.run(command.split(), check=True)
    Path(f"/proc/sys/net/ipv4/conf/{DEVICE}/rp_filter").write_text("0")
    return tun


def main(mode: str, own: str, peer: str) -> None:
    tun = interface(own, peer)
    out, back = association(mode, own, peer), association(mode, peer, own)
    wire = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ESP)
    wire.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    counts = {"sent": 0, "received": 0, "failed": 0}
    print("listening", flush=True)
    sources, patience = [tun, wire, sys.stdin], None
    while ready := select.select(sources, [], [], patience)[0]:
        if tun in ready:
            packet = IP(os.read(tun, 1 << 16))
            wire.sendto(bytes(out.encrypt(packet)[ESP]), (peer, 0))
            counts["sent"] += 1
        if wire in ready:
            counts["received"] += 1
            try:
                os.write(tun, bytes(back.decrypt(IP(wire.recv(1 << 16)))))
            except Exception:  # whatever a changed packet leads to
                counts["failed"] += 1
        if sys.stdin in ready:
            sources, patience = [tun, wire], QUIET_S
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
