"""A source or a worker of the demonstration as a separate program on a host of the lab.

`python -m ejfat.demo.program ROLE JSON` reads commands as JSON lines on stdin and writes messages as JSON lines on
stdout.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from ipaddress import IPv4Address
from typing import Any

import grpc

from ejfat.demo.hosts import SocketUdpHost
from ejfat.demo.ledger import Ledger, event_data
from ejfat.demo.nodes import EventSource, Stream, WorkerNode

_NEWS_PERIOD_S = 0.1


def tell(news: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps(news, separators=(",", ":")) + "\n")
    sys.stdout.flush()


async def run_source(config: dict[str, Any], orders: asyncio.StreamReader) -> None:
    """Send from the given time until stdin closes; the messages say which ticks have been sent."""
    loop = asyncio.get_running_loop()
    host = SocketUdpHost(IPv4Address(config["ip"]))
    source = EventSource(host, config["data_id"], IPv4Address(config["lb"]), config["sync_port"], Ledger())
    started_at = loop.time() + config["start_unix"] - time.time()
    await source.start(Stream(config["rate_hz"], config["size"], config["first_tick"], started_at))

    async def news() -> None:
        while True:
            tell({"next_tick": source.next_tick})
            await asyncio.sleep(_NEWS_PERIOD_S)

    task = asyncio.create_task(news())
    await orders.read()
    await source.stop()
    task.cancel()
    tell({"next_tick": source.next_tick})
    host.close()


async def run_worker(config: dict[str, Any], orders: asyncio.StreamReader) -> None:
    """Work until stdin closes; the messages have the reassembled events and the fill level."""
    done: list[tuple[int, int, bool]] = []

    def on_event(_name: str, tick: int, data_id: int, data: bytes) -> None:
        done.append((tick, data_id, data == event_data(tick, data_id, config["size"])))

    host = SocketUdpHost(IPv4Address(config["ip"]), config["port"])
    worker = WorkerNode(
        config["name"],
        host,
        weight=config["weight"],
        port=config["port"],
        capacity_hz=config["capacity_hz"],
        queue=config["queue"],
        on_event=on_event,
    )
    async with grpc.aio.insecure_channel(config["control"]) as channel:
        await worker.start(channel, config["lb_id"], config["token"])

        async def news() -> None:
            while True:
                tell({"fill": worker.fill, "done": done})
                done.clear()
                await asyncio.sleep(_NEWS_PERIOD_S)

        task = asyncio.create_task(news())
        while line := await orders.readline():
            worker.capacity_hz = json.loads(line)["capacity_hz"]
        task.cancel()
        await worker.stop()
    tell({"fill": worker.fill, "done": done})
    host.close()


async def main(role: str, config: dict[str, Any]) -> None:
    """Run as a source or a worker until stdin closes."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    try:
        await (run_source if role == "source" else run_worker)(config, orders)
    finally:
        transport.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
