"""A worker of the demonstration keeps its pace, however late the event loop wakes it."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address
from typing import cast

import pytest

from ejfat.demo.nodes import UdpHost, WorkerNode


class _Host:
    address = IPv4Address("10.7.0.9")
    on_udp = None


@pytest.mark.looptime
async def test_worker_that_is_woken_late_works_through_what_its_pace_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = cast(UdpHost, _Host())
    worker = WorkerNode("w1", host, weight=1, port=1, capacity_hz=100, queue=500, on_event=lambda *_: None)
    worker._queue.extend([None] * 200)
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _period: sleep(0.2))
    serving = asyncio.create_task(worker._serve())
    await sleep(1.05)
    serving.cancel()
    assert worker.fill == pytest.approx(100 / 500, abs=2 / 500)
