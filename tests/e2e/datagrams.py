"""Numbered datagrams. Usage: datagrams.py receive ADDRESS COUNT | send ADDRESS COUNT | FEATURE DEVICE on|off

`receive` prints "listening", then, after COUNT datagrams, "whole" or what was wrong with them.
"""

from __future__ import annotations

import socket
import sys

from hfi_sim.netdev.ethtool import set_feature

PORT = 5003
_SO_RCVBUFFORCE = 33


def datagram(number: int, count: int) -> bytes:
    """All have one size but the last, which is shorter."""
    return f"{number:06d}".encode() * (10 if number + 1 < count else 3)


def receive(address: str, count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 << 20)
        sock.bind((address, PORT))
        sock.settimeout(60)
        print("listening", flush=True)
        for number in range(count):
            found = sock.recv(65536)
            if found != datagram(number, count):
                print(f"datagram {number} was {found!r}")
                return
    print("whole")


def send(address: str, count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, PORT))
        for number in range(count):
            sock.send(datagram(number, count))


def main(verb: str, where: str, what: str) -> None:
    if verb.startswith("rx-"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            set_feature(sock, where, verb, what == "on")
    else:
        {"receive": receive, "send": send}[verb](where, int(what))


if __name__ == "__main__":
    main(*sys.argv[1:])
