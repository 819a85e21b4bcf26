"""What the kernel of a host sees of datagrams is what was sent: at a router, behind it, and at packet sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.frames_seen import SIZE
from native_module import needs_native
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.lab import Lab

PROGRAM = [sys.executable, str(Path(__file__).with_name("frames_seen.py"))]
COUNT = 20
GROUP = "239.1.1.1"
KINDS = {
    "one by one": ("send", "10.9.3.3"),
    "cut by UDP_SEGMENT": ("send-segmented", "10.9.3.3"),
    "to a group": ("send", GROUP),
}


@pytest_asyncio.fixture(params=["python", pytest.param("native", marks=needs_native)])
async def routed(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """A sender a, a router r of unicast and multicast, and a receiver b."""
    model = {
        "name": f"seen-{os.getpid()}",
        "datapath": request.param,
        "hosts": {"a": {}, "r": {}, "b": {}},
        "vesws": [
            {"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": ["a", "r"]},
            {"id": 3, "name": "red", "subnet": "10.9.3.0/24", "members": ["r", "b"]},
        ],
    }
    async with Lab(LabModel.model_validate(model)) as lab:
        await run(lab, "r", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        await run(lab, "a", "ip", "route", "add", "default", "via", "10.9.2.2")
        await run(lab, "b", "ip", "route", "add", "default", "via", "10.9.3.2")
        await run(
            lab, "a", "ping", "-c", "1", "-w", "20", "10.9.3.3"
        )  # all addresses are resolved from here on
        yield lab


async def run(lab: Lab, host: str, *command: str) -> None:
    done = await lab.run(host, list(command), timeout_s=30)
    assert done.returncode == 0, done.stdout + done.stderr


async def start(lab: Lab, host: str, *arguments: str) -> subprocess.Popen[str]:
    started = lab.popen(host, [*PROGRAM, *arguments], stdin=-1, stdout=-1)
    assert started.stdout is not None
    assert await asyncio.to_thread(started.stdout.readline) == "listening\n"
    return started


async def seen(watcher: subprocess.Popen[str]) -> list[int]:
    out, _ = await asyncio.to_thread(watcher.communicate)
    frames: list[int] = json.loads(out)
    return frames


async def test_router_and_sniffers_see_each_datagram_as_it_was_sent(routed: Lab) -> None:
    router = await start(routed, "r", "route", GROUP, "10.9.2.1", "10.9.2.2", "10.9.3.2")
    for kind, (verb, address) in KINDS.items():
        watchers = [
            await start(routed, "r", "watch", "blue", str(COUNT)),
            await start(routed, "b", "watch", "red", str(COUNT)),
        ]
        carrier = routed.world.carrier
        # what was sent while nothing passes arrives together, and could be merged
        with contextlib.nullcontext() if carrier is None else carrier.still():
            await run(routed, "a", *PROGRAM, verb, address, str(COUNT))
        assert [await seen(watcher) for watcher in watchers] == [[SIZE] * COUNT] * 2, kind
    await asyncio.to_thread(router.communicate, "")
    assert routed.world.fabric.balance() == {}
