"""The load balancer as a node on a network: frames in and out of a port, sync messages to the control plane."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from ipaddress import ip_address

from ejfat.addresses import IpAddress
from ejfat.drops import Drop
from ejfat.live.neighbors import Neighbors
from ejfat.live.watch import Watch
from ejfat.pipeline import Pipeline
from ejfat.pipeline.ip import Ip
from ejfat.wire.headers import SyncHeader
from hfi_sim.errors import WireError

log = logging.getLogger("ejfat.live.node")

OnForward = Callable[[bytes, bytes], None]
"""Called with each forwarded frame: as received, and as sent."""
OnSync = Callable[[IpAddress, int, SyncHeader], Drop | None]
"""Called with the source address, the UDP destination port and a sync message; returns a reason to refuse it."""


class LbNode:
    """A pipeline attached to a port."""

    def __init__(
        self,
        pipeline: Pipeline,
        send: Callable[[bytes], object],
        *,
        mac: Callable[[], bytes],
        addresses: list[IpAddress],
        on_sync: OnSync,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.pipeline = pipeline
        self.neighbors = Neighbors(send, mac, addresses)
        self.watch = Watch(mac, addresses, now)
        self.on_forward: OnForward | None = None
        self.send = send
        """Sends a frame from the port."""
        self._addresses = {address.packed for address in addresses}
        self._on_sync = on_sync

    def receive(self, frame: bytes) -> None:
        """Handle a frame from the port."""
        self.watch.see(frame)
        if self.neighbors.receive(frame):
            return
        ip = self.pipeline.find_sync(frame)
        if ip is not None and ip.destination(frame) in self._addresses:
            self._receive_sync(frame, ip)
            return
        verdict = self.pipeline.process(frame)
        if verdict.frame is None or verdict.to_host:
            return
        if self.on_forward is not None:
            self.on_forward(frame, verdict.frame)
        self.send(verdict.frame)

    def _receive_sync(self, frame: bytes, ip: Ip) -> None:
        refusal: Drop | None = Drop.SYNC_MALFORMED
        try:
            sync = SyncHeader.parse(ip.payload(frame))
        except WireError as error:
            log.debug("bad sync message: %s", error)
        else:
            refusal = self._on_sync(ip_address(ip.source(frame)), ip.port(frame), sync)
        self.pipeline.count_sync(len(frame), refusal)
