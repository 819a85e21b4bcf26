"""The demonstration's handles of its sources and workers that run as programs on hosts of a lab."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import grpc

from ejfat.demo.ledger import Ledger
from ejfat.demo.nodes import Stream
from opavnic.lab.run.lab import Lab

_START_S = 30.0
_END_S = 10.0


class _DemoProgram:
    """A running `ejfat.demo.program`; its messages are passed to the event loop."""

    def __init__(
        self,
        lab: Lab,
        host: str,
        role: str,
        config: dict[str, Any],
        on_news: Callable[[dict[str, Any]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_news = on_news
        self._ended = asyncio.Event()
        command = [sys.executable, "-m", "ejfat.demo.program", role, json.dumps(config)]
        self._process: Popen[str] = lab.popen(host, command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def order(self, order: dict[str, Any]) -> None:
        """Send the program a command."""
        assert self._process.stdin is not None  # noqa: S101 - opened with a pipe
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()

    async def end(self) -> None:
        """Tell it to end and handle its last messages; kill it if it does not end."""
        assert self._process.stdin is not None  # noqa: S101 - opened with a pipe
        try:
            self._process.stdin.close()
            await asyncio.wait_for(self._ended.wait(), _END_S)
        except (TimeoutError, BrokenPipeError):
            self._process.kill()
        await asyncio.to_thread(self._process.wait)
        await asyncio.to_thread(self._reader.join)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - opened with a pipe
        for line in self._process.stdout:
            self._loop.call_soon_threadsafe(self._on_news, json.loads(line))
        self._loop.call_soon_threadsafe(self._ended.set)


class ProcessSource:
    """A source on a host."""

    def __init__(self, lab: Lab, host: str, config: dict[str, Any], ledger: Ledger) -> None:
        self.next_tick = 0
        self._lab, self._host, self._config, self._ledger = lab, host, config, ledger
        self._program: _DemoProgram | None = None

    async def start(self, stream: Stream) -> None:
        """Start the program; it starts sending when the stream starts."""
        start_unix = time.time() + stream.started_at - asyncio.get_running_loop().time()
        config = self._config | {
            "start_unix": start_unix,
            "rate_hz": stream.rate_hz,
            "size": stream.size,
            "first_tick": stream.first_tick,
        }
        self.next_tick = stream.first_tick
        self._program = _DemoProgram(self._lab, self._host, "source", config, self._take)

    async def stop(self) -> None:
        """Stop sending; afterwards the ledger has everything that was sent."""
        if self._program is not None:
            program, self._program = self._program, None
            await program.end()

    def _take(self, news: dict[str, Any]) -> None:
        for tick in range(self.next_tick, news["next_tick"]):
            self._ledger.sent.add((tick, self._config["data_id"]))
        self.next_tick = max(self.next_tick, news["next_tick"])


class ProcessWorker:
    """A worker on a host."""

    def __init__(self, lab: Lab, host: str, config: dict[str, Any], ledger: Ledger) -> None:
        self.name = host
        self.fill = 0.0
        self.alive = True
        self._lab, self._config, self._ledger = lab, config, ledger
        self._program: _DemoProgram | None = None
        self._started = asyncio.Event()

    async def start(self, channel: grpc.aio.Channel, lb_id: str, token: str) -> None:
        """Start the program and wait until it has registered.

        Raises:  TimeoutError: it has not registered in time.
        """
        config = self._config | {"lb_id": lb_id, "token": token, "name": self.name}
        self._program = _DemoProgram(self._lab, self.name, "worker", config, self._take)
        await asyncio.wait_for(self._started.wait(), _START_S)

    def slow_down(self, capacity_hz: float) -> None:
        """Process fewer parts per second from now on."""
        if self._program is not None:
            self._program.order({"capacity_hz": capacity_hz})

    def kill(self) -> None:
        """Kill the program."""
        self.alive = False
        if self._program is not None:
            self._program.kill()

    async def stop(self) -> None:
        """Tell the program to end, and wait for it."""
        if self._program is not None:
            program, self._program = self._program, None
            await program.end()

    def _take(self, news: dict[str, Any]) -> None:
        self.fill = news["fill"]
        for tick, data_id, intact in news["done"]:
            self._ledger.received(self.name, tick, data_id, intact)
        self._started.set()
