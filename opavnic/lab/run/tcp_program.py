"""A TCP transfer between two programs, for hosts without iperf3: `python -m opavnic.lab.run.tcp_program receive|send`.

The receiver prints `listening`, serves one connection until it ends, and prints what it received as JSON.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from typing import Final

PORT: Final = 5202
CHUNK: Final = 1 << 17


def receive(address: str) -> dict[str, float]:
    """Listen on `address`, serve one connection, and return how many bytes arrived in how many seconds."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, PORT), family=family) as server:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        connection, _ = server.accept()
        with connection:
            start = time.monotonic()
            total = 0
            buffer = bytearray(CHUNK)
            while got := connection.recv_into(buffer):
                total += got
            connection.sendall(total.to_bytes(8, "big"))
            return {"bytes": total, "seconds": time.monotonic() - start}


def send(address: str, seconds: float) -> dict[str, float]:
    """Send to a receiver at `address` for `seconds`; return how many bytes it acknowledged, and in how many seconds."""
    data = bytes(CHUNK)
    with socket.create_connection((address, PORT), timeout=30) as connection:
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        total = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
        return {"bytes": total, "seconds": time.monotonic() - start}


def main() -> None:
    """Run the role given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("receive", "send"))
    parser.add_argument("address")
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    result = (
        receive(arguments.address)
        if arguments.role == "receive"
        else send(arguments.address, arguments.seconds)
    )
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
