"""A TAP whose way out is blocked: what waits is bounded, here and in the kernel; what was taken arrives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess

import pytest

from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.fabric.topology import generate
from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.scenario import Scenario, ScenarioHost
from opavnic.scenario.link_layer import TapLink

FLOW = FlowControl(buffer_bytes=32768)
SIZE, MARKER = 1000, 500
RING = 1000
"""Frames that the kernel holds for a TAP: its txqueuelen."""
HEADERS = 14 + 20 + 8
NOISE = 20
"""Frames of IPv6 that hosts send by themselves."""
PATIENCE_S = 60


def dropped(host: ScenarioHost) -> int:
    """Return the TX dropped that the kernel of a host says of its interface."""
    link = host.vnic().link
    assert isinstance(link, TapLink)
    command = ["ip", "-j", "-s", "link", "show", "v1"]
    run = lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: E731
    return int(json.loads(run_in_namespace(link.namespace, run))[0]["stats64"]["tx"]["dropped"])


async def test_tap_whose_way_out_is_blocked_holds_a_bounded_number_of_frames() -> None:
    async with Scenario(generate("single-switch"), link=LinkConfig(flow=FLOW), real=True) as lab:
        await lab.em.vesw("blue", members=lab.hosts)
        h1, h2 = lab.hosts
        link = h1.vnic().link
        assert isinstance(link, TapLink)
        assert await h1.ping(h2) == 1  # ARP is done
        adapter = h1.vnic().adapter
        got: list[int] = []
        last = asyncio.Event()
        stopped = asyncio.Event()

        def take(frame: bytes) -> None:
            got.append(len(frame))
            if len(frame) == HEADERS + MARKER:
                last.set()

        h2.vnic().on_frame = take
        h1.port.on_flow(lambda is_stopped: stopped.set() if is_stopped else None)

        target = (h2.ip, 9)

        def open_socket() -> socket.socket:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            opened.setblocking(False)
            return opened

        async def send(count: int) -> int:
            """Send datagrams; return how many the kernel took."""
            accepted = 0
            for _ in range(count):
                with contextlib.suppress(BlockingIOError):
                    accepted += program.sendto(bytes(SIZE), target) == SIZE
                await asyncio.sleep(0)  # the fabric runs beside the program
            return accepted

        program = run_in_namespace(link.namespace, open_socket)
        with program:
            h2.stall()
            accepted = await send(3000)
            await asyncio.wait_for(stopped.wait(), PATIENCE_S)
            assert adapter.netdev.queue_stopped
            taken = adapter.tx.in_packets
            # a buffer at the far end of either link, and as much again that waits before the first
            assert taken * SIZE < 4 * FLOW.buffer_bytes
            accepted += await send(3000)
            assert adapter.tx.in_packets == taken  # however much the program sends
            lost = dropped(h1)
            assert accepted - taken - lost <= 2 * RING  # what the kernel holds for us

            h2.resume()
            while not last.is_set():  # what was sent before it has come, too
                with contextlib.suppress(BlockingIOError):
                    program.sendto(bytes(MARKER), target)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(last.wait(), 0.05)
            assert got.count(HEADERS + SIZE) == pytest.approx(accepted - lost, abs=NOISE)
            assert not adapter.netdev.queue_stopped
            # a manager that was kept waiting asks again, and then has one answer too many: no matter here
            assert [name for name in lab.fabric.drops() if not name.endswith(" mad")] == []
