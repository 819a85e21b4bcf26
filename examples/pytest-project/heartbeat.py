"""The program of this project: each member tells the others that it lives, and notices who has fallen silent.

It knows nothing of fabrics: it is given a function that sends a frame, and is called with each frame that comes.
"""

import asyncio
from collections.abc import Callable

ETHERTYPE = b"\x88\xb5"  # reserved by IEEE 802 for experiments
BROADCAST = b"\xff" * 6


class Heartbeat:
    """One member. `run` beats until it is cancelled; `receive` takes frames."""

    def __init__(self, mac: str, send: Callable[[bytes], object], every_s: float = 1.0, lost_after: int = 3):
        self.frame = BROADCAST + bytes.fromhex(mac.replace(":", "")) + ETHERTYPE + bytes(46)
        self.send = send
        self.every_s = every_s
        self.lost_after = lost_after
        self.heard: dict[str, float] = {}

    async def run(self) -> None:
        """Beat."""
        while True:
            self.send(self.frame)
            await asyncio.sleep(self.every_s)

    def receive(self, frame: bytes) -> None:
        """Take a frame, whatever it is."""
        if frame[12:14] == ETHERTYPE:
            self.heard[frame[6:12].hex(":")] = asyncio.get_running_loop().time()

    def alive(self) -> set[str]:
        """Return the addresses of members that were heard of lately."""
        since = asyncio.get_running_loop().time() - self.lost_after * self.every_s
        return {mac for mac, heard in self.heard.items() if heard >= since}
