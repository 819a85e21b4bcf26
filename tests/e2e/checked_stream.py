"""A TCP stream whose bytes are checked: python checked_stream.py receive ADDRESS | send ADDRESS BYTES.

Both print {"bytes": ..., "sha256": ...}; the receiver prints "listening" first. The stream is pseudorandom, so
that damage cannot hide in repetition.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys

PORT = 5300
BLOCK = 1 << 20


def receive(address: str) -> tuple[int, str]:
    digest, total = hashlib.sha256(), 0
    with socket.create_server((address, PORT)) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(BLOCK):
                digest.update(data)
                total += len(data)
    return total, digest.hexdigest()


def send(address: str, size: int) -> tuple[int, str]:
    blocks = [random.Random(seed).randbytes(BLOCK) for seed in range(16)]
    digest, total = hashlib.sha256(), 0
    with socket.create_connection((address, PORT)) as connection:
        while total < size:
            block = blocks[total // BLOCK % 16][: size - total]
            connection.sendall(block)
            digest.update(block)
            total += len(block)
    return total, digest.hexdigest()


if __name__ == "__main__":
    done = receive(sys.argv[2]) if sys.argv[1] == "receive" else send(sys.argv[2], int(sys.argv[3]))
    print(json.dumps({"bytes": done[0], "sha256": done[1]}))
