"""The simplest UDP relay: receives and sends without any lookup. Runs as a separate program.

`python -m opavnic_bench.ejfat.relay PORT TARGET_PORT`: it prints `ready` and relays on the loopback until it is killed.
"""

from __future__ import annotations

import socket
import sys

_LARGEST = 65535
LOOPBACK = "127.0.0.1"


def relay(port: int, target_port: int) -> None:
    """Relay datagrams from one port of the loopback to another, forever."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as target,
    ):
        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        source.bind((LOOPBACK, port))
        target.connect((LOOPBACK, target_port))
        sys.stdout.write(f"ready {source.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            data = source.recv(_LARGEST)
            target.send(data)


if __name__ == "__main__":
    relay(int(sys.argv[1]), int(sys.argv[2]))
