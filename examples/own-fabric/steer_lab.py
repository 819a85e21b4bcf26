"""A program that routes a running lab over its HTTP API: packets to a host take the spine that carries least.

    opavnic up clos.yaml -d
    opavnic exec h1 -- ping -i 0.1 10.9.2.3 &
    python3 steer_lab.py steered h3 5

Nothing of opavnic is imported: any program that speaks HTTP over a Unix socket can do the same.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import sys
import time


class Lab(http.client.HTTPConnection):
    """The control API of a running lab."""

    def __init__(self, name: str) -> None:
        super().__init__("lab")
        self.path = os.path.join(os.environ.get("OPAVNIC_RUNTIME_DIR", "/run/opavnic"), name, "control.sock")

    def connect(self) -> None:
        """Connect to the Unix socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def ask(self, path: str, body: object = None) -> dict:
        """Get a page, or post a body; return the answer, or end with what was wrong."""
        self.request(
            "POST" if body is not None else "GET", path, json.dumps(body) if body is not None else None
        )
        answer = self.getresponse()
        data = json.loads(answer.read())
        if answer.status != 200:
            sys.exit(f"{path}: {data['error']}")
        return data

    def uplinks(self, leaf: str) -> dict[int, int]:
        """Return what a leaf has sent by each port that leads to a spine, in bytes."""
        sent = {}
        for way in self.ask(f"/lanes?on={leaf}")["directions"]:
            source, target = way["name"].split("->")
            if source.startswith(f"{leaf}:") and target.startswith("spine"):
                sent[int(source.partition(":")[2])] = sum(lane["bytes"] for lane in way["vls"])
        return sent


def main(lab: Lab, host: str, rounds: int, pause_s: float = 1.0) -> None:
    """Look at the uplinks of leaf0, and let packets to a host take the one that has carried least since."""
    before = lab.uplinks("leaf0")
    for _ in range(rounds):
        time.sleep(pause_s)
        now = lab.uplinks("leaf0")
        port = min(now, key=lambda number: now[number] - before[number])
        before = now
        lab.ask("/steering", {"ways": {"leaf0": {host: port}}})
        (way,) = lab.ask(f"/routes?from=h1&to={host}")["paths"]
        print(" -> ".join(way), flush=True)
    lab.ask("/steering", {"ways": {}})


if __name__ == "__main__":
    with contextlib.closing(Lab(sys.argv[1])) as running:
        main(running, sys.argv[2], int(sys.argv[3]), *map(float, sys.argv[4:]))
