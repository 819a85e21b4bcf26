"""A port of the fabric that belongs to a kernel: its VNICs and queue pair 1 are the kernel's. Sans-IO.

Subnet management (queue pair 0) and performance management stay with the port: with hfi1, too, they are the
device's affair.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.counters import Drop
from hfi_sim.base.port_state import CapabilityMask3, PortEvent
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.packet import seal_packet
from opavnic.kernel.wire import WireKind, build_frame, parse_frame, state_of

log = logging.getLogger("opavnic.kernel.port")
_SHORTEST: Final = 32


@dataclass(slots=True)
class KernelCounters:
    """Packets between a port and its kernel."""

    to_kernel: int = 0
    from_kernel: int = 0
    refused: int = 0
    """Of the kernel's, those that the port did not let out; the port counts why."""
    malformed: int = 0
    """Of the kernel's, those that are no 16B packets."""


class KernelPort:
    """One port, from its handing over until `close`."""

    def __init__(self, port: HfiPort, send: Callable[[bytes], None]) -> None:
        """Give a port without VNICs to a kernel. Args:  send: takes frames for the kernel.

        Raises:  FabricError: the port has a handler of Ethernet packets.
        """
        self.counters = KernelCounters()
        self.ready = False
        """Whether the kernel's driver has announced Ethernet on fabric since it came."""
        self._port = port
        self._send = send
        port.register_l4(L4.ETHERNET, self._to_kernel)
        port.mad.give_gsi_to(self._give)
        self._leave = port.subscribe(self._changed)
        self._tell()
        send(build_frame(WireKind.HELLO, bytes(4)))

    def close(self) -> None:
        """Take the port back; what the kernel has announced is withdrawn. May be called twice."""
        self._leave()
        self._leave = _nothing
        self._port.mad.give_gsi_to(None)
        self._port.unregister_l4(L4.ETHERNET)
        self._announce(0)

    def take(self, frame: bytes) -> None:
        """Take a frame of the kernel; frames of another kind are passed over."""
        found = parse_frame(frame)
        if found is None:
            return
        if found.kind == WireKind.PACKET:
            self._from_kernel(found.body)
        elif found.kind in (WireKind.HELLO, WireKind.CAPS):
            if found.kind == WireKind.HELLO:
                self._announce(0)  # a driver that comes has lost what an EM gave the one before it
                self._tell()
            self._announce(int.from_bytes(found.body))

    def _announce(self, mask: int) -> None:
        announced = CapabilityMask3.ETH_ON_FABRIC_SUPPORTED
        self.ready = bool(mask & announced)
        if self.ready:
            self._port.announce(announced)
        else:
            self._port.withdraw(announced)

    def _changed(self, _event: PortEvent) -> None:
        self._tell()

    def _tell(self) -> None:
        self._send(build_frame(WireKind.STATE, state_of(self._port)))

    def _to_kernel(self, _port: EndPort, packet: bytes, _token: BufferToken | None) -> Drop | None:
        self._give(packet)
        return None

    def _give(self, packet: bytes) -> None:
        self.counters.to_kernel += 1
        self._send(build_frame(WireKind.PACKET, packet))

    def _from_kernel(self, body: bytes) -> None:
        self.counters.from_kernel += 1
        if len(body) < _SHORTEST or len(body) % 8:
            self.counters.malformed += 1
            return
        end = len(body) - TRAILER_SIZE - (body[-1] & PAD_COUNT_MASK)
        drop = self._port.send(seal_packet(body[:end], self._port.icrc))
        if drop is not None:
            self.counters.refused += 1
            log.debug("[%s] a packet of the kernel was refused: %s", self._port.name, drop.value)


def _nothing() -> None:
    """Do nothing."""
