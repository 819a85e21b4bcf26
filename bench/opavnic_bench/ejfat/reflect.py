"""The plain forwarder beside `--interface`: sends each IPv4 frame back to where it came from, without any lookup.

It reads and writes as the load balancer's port does, in Python or in a native thread.
`python -m opavnic_bench.ejfat.reflect INTERFACE python|native`: it prints `ready` and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import sys

from ejfat.live.ports import PacketPort


async def reflect(interface: str, by: str) -> None:
    """Send frames back until cancelled. Swapped addresses have the same checksums."""
    port = PacketPort(interface)
    gone = asyncio.Event()

    def back(frame: bytes) -> None:
        if frame[12:14] == b"\x08\x00":
            port.send(frame[6:12] + frame[:6] + frame[12:26] + frame[30:34] + frame[26:30] + frame[34:])

    if by == "native":
        from opavnic import _native

        threads = _native.EjfatReflector(port.filenos(), port.medium)
        threads.start()
        port.open()
    else:
        port.start(back, lambda _reason: gone.set())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await gone.wait()
    port.close()


if __name__ == "__main__":
    asyncio.run(reflect(*sys.argv[1:]))
