"""What a fabric manager reads of ports after things went wrong, and that clearing is only its own affair."""

from __future__ import annotations

from hfi_sim.clock import ManualClock
from hfi_sim.counters import Drop
from hfi_sim.engine.outputs import BufferToken
from hfi_sim.fabric import Fabric
from hfi_sim.faults.manager import FaultManager
from hfi_sim.faults.syntax import parse_fault
from hfi_sim.hfi import HfiPort
from hfi_sim.link.config import FlowControl
from hfi_sim.pma.attributes import HAPPENED, RcvErrorCode
from hfi_sim.port_state import PortState
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from unit.hfi_sim.pma.pm_client import PmClient, counted

L4 = 0x55
FULL = 0xFFFF
GBIT = 1e9
"""A flit of 8 bytes takes 64 ns."""


class Bed:
    """Three hosts on one switch by links of 1 Gbit/s; the first one asks, from a link of its own."""

    def __init__(self, flow: FlowControl | None = None) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock)
        self.switch = self.fabric.add_switch("sw0", ports=4)
        self.manager = self._host("manager", 4, None)
        self.h1 = self._host("h1", 1, flow)
        self.h2 = self._host("h2", 2, flow)
        self.sm = SubnetManager(self.fabric, self.manager)
        self.sm.sweep()
        for port in (self.manager, self.h1, self.h2):
            self.sm.set_management(port, True)
        self.faults = FaultManager(self.fabric, self.clock)
        self.pm = PmClient(self.manager, self.clock)

    def _host(self, name: str, port_num: int, flow: FlowControl | None) -> HfiPort:
        port = self.fabric.add_hfi(name).ports[1]
        self.fabric.connect(port, self.switch.ports[port_num], rate_bps=GBIT, latency_s=0, flow=flow)
        port.register_l4(L4, self._take)
        return port

    def _take(self, _port: HfiPort, _packet: bytes, _token: BufferToken | None) -> None:
        return None

    def packet(self, source: HfiPort, dlid: int, *, size: int = 1000, **fields: int) -> bytes:
        values: dict[str, int] = {"l4": L4, "pkey": FULL, **fields}
        lrh = Lrh16B(source.lid, dlid, **values)  # type: ignore[arg-type]
        return build_packet(lrh, bytes(size - 21), self.fabric.icrc)

    def send(self, packets: int = 1, **fields: int) -> None:
        """Send packets from h1 to h2."""
        for _ in range(packets):
            self.h1.send(self.packet(self.h1, self.h2.lid, **fields))
            self.clock.advance(0.0001)
