"""The load balancer as a node on a network: frames in and out of a port, sync messages to the control plane."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from ipaddress import ip_address

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import LbDrop
from ejfat.live.neighbors import Neighbors
from ejfat.live.watch import FrameWatch
from ejfat.pipeline import Pipeline, Verdict
from ejfat.pipeline.packet import Packet, parse_packet
from ejfat.wire.headers import SyncHeader
from hfi_sim.base.errors import WireError

log = logging.getLogger("ejfat.live.node")

_TAKEN = Verdict(None)

OnForward = Callable[[bytes, bytes], None]
"""Called with each forwarded frame: as received, and as sent."""
OnSync = Callable[[IpAddress, int, SyncHeader], LbDrop | None]
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
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pipeline = pipeline
        self.neighbors = Neighbors(send, mac, addresses)
        self.watch = FrameWatch(mac, addresses, now)
        self.on_forward: OnForward | None = None
        self.send = send
        """Sends a frame from the port."""
        self._addresses = {address.packed for address in addresses}
        self._on_sync = on_sync

    def receive(self, frame: bytes) -> None:
        """Handle a frame from the port.

        What leaves for the load balancer itself, an instance downstream of another, comes back at once: no switch sends
        a frame back to where it came from. Each pass decrements the TTL or removes a header.
        """
        packet = parse_packet(frame)
        self.watch.see(packet)
        verdict = self._pass(packet)
        while verdict.frame is not None and verdict.comes_back:
            verdict = self._pass(parse_packet(verdict.frame))
        if verdict.frame is None or verdict.to_host:
            return
        if self.on_forward is not None:
            self.on_forward(frame, verdict.frame)
        self.send(verdict.frame)

    def _pass(self, packet: Packet) -> Verdict:
        """Take a frame once; return the verdict, without a frame if it was the node's own."""
        if self.neighbors.receive(packet):
            return _TAKEN
        if packet.is_sync(self.pipeline.sync_ports) and packet.destination in self._addresses:
            self._receive_sync(packet)
            return _TAKEN
        return self.pipeline.process_packet(packet)

    def _receive_sync(self, packet: Packet) -> None:
        refusal: LbDrop | None = LbDrop.SYNC_MALFORMED
        try:
            sync = SyncHeader.parse(packet.payload)
        except WireError as error:
            log.debug("bad sync message: %s", error)
        else:
            refusal = self._on_sync(ip_address(packet.source), packet.port, sync)
        self.pipeline.count_sync(len(packet.raw), refusal)
