"""Captures that other machines request: the reader polls for pieces of the capture file until it ends the capture."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.machines.directory import MachineDirectory
from opavnic.cluster.machines.jobs import Jobs, RemoteJob
from opavnic.cluster.protocol.transport import NodeName
from opavnic.observe.capture import RING_LOOK_S, Capture
from opavnic.world.parts.capture import AskedCapture

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
    owner: NodeName
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

    def close(self) -> None:
        self.capture.stop()


class ServedCaptures(Jobs[_Served]):
    """The captures that run here for other machines."""

    def __init__(self, machine: MachineDirectory) -> None:
        """Register the request handlers."""
        super().__init__("capture", FORGOTTEN_S)
        self._machine = machine
        machine.verbs |= {
            "capture": self._start,
            "capture-more": self._more,
            "capture-keep": self.keep,
            "capture-end": self._stop,
        }

    async def _start(self, asker: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Start the capture that a machine requests. Raises InputError or FaultError if the request is invalid."""
        self._machine.check_trust(asker)
        if len(self) >= MAX_SERVED:
            raise ClusterError(f"{MAX_SERVED} captures for other machines are running, the most there may be")
        world = self._machine.share_here().world
        query = {str(key): str(value) for key, value in dict(body.get("query", {})).items()}
        capture = AskedCapture.parse(query).start(world, ahead_s=float(body.get("ahead_s", 0.0)))
        now = asyncio.get_running_loop().time()
        return {"number": self.add(_Served(asker, capture, now, capture.head))}

    async def _more(self, asker: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for packets and return them."""
        loop = asyncio.get_running_loop()
        one = self.find(asker, body)
        until = loop.time() + WAIT_S
        one.take()
        while not one.waiting and not one.is_over and loop.time() < until:
            await asyncio.sleep(RING_LOOK_S)
            one.take()
        one.asked_at = loop.time()
        piece, one.waiting = one.waiting[:PIECE], one.waiting[PIECE:]
        if not piece and one.is_over:
            self.remove(body)
            return {"is_over": True}
        return {"data": base64.b64encode(piece).decode(), "is_over": False}

    async def _stop(self, asker: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Stop capturing; data not fetched yet can still be fetched."""
        one = self.find(asker, body)
        one.capture.stop()
        one.ending.set()
        return {}


class ClusterCapture(RemoteJob):
    """A capture on another machine; satisfies `opavnic.world.fabric_views.RemoteCapture`."""

    async def more(self) -> bytes | None:
        """See RemoteCapture.more. The capture ends when its machine leaves."""
        if self._is_over:
            return None
        try:
            answer = await self._ask("more")
            piece = None if answer.get("is_over") else base64.b64decode(str(answer.get("data", "")))
        except (AskError, binascii.Error) as error:
            log.warning("the capture on %s has ended: %s", self._machine, error)
            piece = None
        self._is_over = piece is None
        return piece
