"""The load balancer as a node on a network: frames in and out of one port, sync messages to the control plane."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ejfat.control.ticks import Sample
from ejfat.live.neighbors import IpAddress, Neighbors
from ejfat.pipeline import Pipeline
from ejfat.wire.headers import SyncHeader
from hfi_sim.errors import WireError

log = logging.getLogger("ejfat.live.node")

OnForward = Callable[[bytes, bytes], None]
"""Told of every forwarded frame: as it came, as it leaves."""
OnSync = Callable[[int, int, Sample], None]
"""Told of a sync message: the UDP port it was sent to, its source id, the sample."""
_SYNC = b"LC"


class LbNode:
    """A pipeline between what a port receives and what it sends."""

    def __init__(
        self,
        pipeline: Pipeline,
        send: Callable[[bytes], object],
        *,
        mac: Callable[[], bytes],
        addresses: list[IpAddress],
        now: Callable[[], float],
        on_sync: OnSync,
    ) -> None:
        self.pipeline = pipeline
        self.neighbors = Neighbors(send, mac, addresses)
        self.on_forward: OnForward | None = None
        self.syncs = 0
        self.bad_syncs = 0
        self._send = send
        self._addresses = {address.packed for address in addresses}
        self._now = now
        self._on_sync = on_sync

    def receive(self, frame: bytes) -> None:
        """Take a frame from the port."""
        if (frame[42:44] == _SYNC or frame[62:64] == _SYNC) and self._receive_sync(frame):
            return
        if self.neighbors.receive(frame):
            return
        verdict = self.pipeline.process(frame)
        if verdict.frame is None or verdict.to_host:
            return
        if self.on_forward is not None:
            self.on_forward(frame, verdict.frame)
        self._send(verdict.frame)

    def _receive_sync(self, frame: bytes) -> bool:
        if frame[12:15] == b"\x08\x00\x45" and frame[23] == 17 and frame[30:34] in self._addresses:
            udp = 34
        elif frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[38:54] in self._addresses:
            udp = 54
        else:
            return False
        end = udp + int.from_bytes(frame[udp + 4 : udp + 6], "big")
        try:
            sync = SyncHeader.parse(frame[udp + 8 : end])
        except WireError as error:
            self.bad_syncs += 1
            log.debug("bad sync message: %s", error)
            return True
        self.syncs += 1
        port = int.from_bytes(frame[udp + 2 : udp + 4], "big")
        self._on_sync(port, sync.source_id, Sample(sync.event, self._now(), float(sync.rate_hz)))
        return True
