"""Captures that other machines request: the reader polls for pieces of the capture file until it ends the capture."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.protocol.transport import NodeName, Transport
from opavnic.observe.capture import RING_LOOK_S, Capture
from opavnic.world.parts.capture_asked import AskedCapture
from opavnic.world.world import World

log = logging.getLogger("opavnic.cluster")

MAX_SERVED: Final = 16
"""Limit of captures that run for other machines at one time."""
PIECE: Final = 384 << 10
"""Bytes of captured data in a reply; small enough to fit a reply when written as base64."""
WAIT_S: Final = 0.5
"""How long a request waits for packets."""
FORGOTTEN_S: Final = 15.0
"""A capture that has not been polled for this long ends: its reader may have died."""


@dataclass(slots=True)
class _Served:
    reader: NodeName
    capture: Capture
    asked_at: float
    waiting: bytes
    """Captured, not sent yet."""
    has_statistics: bool = False
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> None:
        if not self.waiting:
            self.waiting = self.capture.take(True)
        if not self.waiting and self.is_over and not self.has_statistics:
            self.capture.stop()
            self.waiting = self.capture.take(True)
            if not self.waiting:
                self.has_statistics = True
                self.waiting = self.capture.statistics(final=True)

    @property
    def is_over(self) -> bool:
        return self.ending.is_set() or self.capture.is_complete


class ServedCaptures:
    """The captures that run here for other machines."""

    def __init__(self) -> None:
        self._served: dict[int, _Served] = {}
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of running captures."""
        return len(self._served)

    def start(self, reader: NodeName, world: World, body: Mapping[str, Any]) -> dict[str, Any]:
        """Start the capture that a machine requests. Raises InputError or FaultError if the request is invalid."""
        if len(self._served) >= MAX_SERVED:
            raise ClusterError(f"{MAX_SERVED} captures for other machines are running, the most there may be")
        query = {str(key): str(value) for key, value in dict(body.get("query", {})).items()}
        capture = AskedCapture.parse(query).start(world, ahead_s=float(body.get("ahead_s", 0.0)))
        self._last += 1
        now = asyncio.get_running_loop().time()
        self._served[self._last] = _Served(reader, capture, now, capture.head)
        if self._timer is None:
            self._forget()
        return {"number": self._last}

    async def more(self, reader: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for packets and return them."""
        loop = asyncio.get_running_loop()
        one = self._find(reader, body)
        until = loop.time() + WAIT_S
        one.take()
        while not one.waiting and not one.is_over and loop.time() < until:
            await asyncio.sleep(RING_LOOK_S)
            one.take()
        one.asked_at = loop.time()
        piece, one.waiting = one.waiting[:PIECE], one.waiting[PIECE:]
        if not piece and one.is_over:
            self._served.pop(int(body["number"]), None)
            return {"is_over": True}
        return {"data": base64.b64encode(piece).decode(), "is_over": False}

    def keep(self, reader: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a capture alive for a reader that has no room for data now."""
        self._find(reader, body).asked_at = asyncio.get_running_loop().time()
        return {}

    def end(self, reader: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Stop capturing; data not fetched yet can still be fetched."""
        one = self._find(reader, body)
        one.capture.stop()
        one.ending.set()
        return {}

    def lost(self, reader: NodeName) -> None:
        """End the captures of a machine that has left."""
        for number, one in list(self._served.items()):
            if one.reader == reader:
                one.capture.stop()
                del self._served[number]

    def close(self) -> None:
        """End all captures."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self._served.values():
            one.capture.stop()
        self._served.clear()

    def _find(self, reader: NodeName, body: Mapping[str, Any]) -> _Served:
        one = self._served.get(int(body.get("number", 0)))
        if one is None or one.reader != reader:
            raise ClusterError(f"{reader} has no capture with number {body.get('number')!r:.40} here")
        return one

    def _forget(self) -> None:
        """End captures that are no longer polled; repeat while any are left."""
        loop = asyncio.get_running_loop()
        for number, one in list(self._served.items()):
            if loop.time() - one.asked_at > FORGOTTEN_S:
                one.capture.stop()
                del self._served[number]
        self._timer = loop.call_later(FORGOTTEN_S / 4, self._forget) if self._served else None


class ClusterCapture:
    """A capture on another machine; satisfies `opavnic.world.remote_machines.RemoteCapture`."""

    def __init__(self, transport: Transport, machine: NodeName, number: int) -> None:
        self._transport = transport
        self._machine = machine
        self._number = number
        self._is_over = False

    @property
    def where(self) -> str:
        """The machine that captures."""
        return str(self._machine)

    async def more(self) -> bytes | None:
        """See RemoteCapture.more. The capture ends when its machine leaves."""
        if self._is_over:
            return None
        try:
            answer = await self._transport.ask(self._machine, "capture-more", {"number": self._number})
            piece = None if answer.get("is_over") else base64.b64decode(str(answer.get("data", "")))
        except (AskError, binascii.Error) as error:
            log.warning("the capture on %s has ended: %s", self._machine, error)
            piece = None
        self._is_over = piece is None
        return piece

    async def keep(self) -> None:
        """See RemoteCapture.keep."""
        with contextlib.suppress(AskError):  # `more` reports a capture that has ended
            await self._transport.ask(self._machine, "capture-keep", {"number": self._number})

    async def end(self) -> None:
        """See RemoteCapture.end."""
        if self._is_over:
            return
        try:
            await self._transport.ask(self._machine, "capture-end", {"number": self._number}, timeout_s=5.0)
        except AskError as error:
            log.info("the capture on %s is not ended: %s", self._machine, error)
