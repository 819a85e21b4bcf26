"""What an administrator reads of each virtual lane: what it carried, what it lost, and how long it had to wait."""

from __future__ import annotations

from dataclasses import replace

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.link.vl_counters import VlCounters
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import LinkDirection
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet

L4 = 0x55
BUFFER = 16384
MS = 1_000_000
"""In nanoseconds."""


class Bed:
    """Three hosts on one switch, by links of 1 Gbit/s and no latency: a byte takes 8 ns."""

    def __init__(self, flow: FlowControl | None) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock)
        self.switch = self.fabric.add_switch("sw0", ports=3)
        self.ports: list[HfiPort] = []
        for number in (1, 2, 3):
            port = self.fabric.add_hfi(f"h{number}").ports[1]
            self.fabric.connect(port, self.switch.ports[number], LinkConfig(1e9, latency_ns=0, flow=flow))
            port.register_l4(L4, self._take)
            self.ports.append(port)
        sm = SubnetManager(self.fabric)
        sm.sweep()
        for port in self.ports:
            sm.set_pkeys(port, [0x8005])

    def _take(self, _port: HfiPort, _packet: bytes, _token: BufferToken | None) -> None:
        return None

    def send(self, source: int, target: int, *, sc: int, size: int = 1000) -> None:
        """Send a packet of `size` bytes from one host to another."""
        lrh = Lrh16B(self.ports[source].lid, self.ports[target].lid, sc=sc, l4=L4, pkey=0x8005)
        self.ports[source].send(build_packet(lrh, bytes(size - 21), self.fabric.icrc))

    def to_switch(self, host: int) -> LinkDirection:
        link = self.ports[host].link
        return link.direction_from(self.ports[host])

    def from_switch(self, host: int) -> LinkDirection:
        link = self.ports[host].link
        return link.direction_from(self.switch.ports[host + 1])


def test_wait_grows_on_the_congested_vl_and_not_on_the_free_one() -> None:
    bed = Bed(FlowControl(vls=2, buffer_bytes=BUFFER))
    bed.ports[2].stall()
    for _ in range(60):
        bed.send(0, 2, sc=0)
    bed.clock.advance(0.001)
    for _ in range(10):
        bed.send(0, 1, sc=1)
        bed.clock.advance(0.0001)
    there = bed.to_switch(0)
    congested, free = there.vl_counters()
    assert free == VlCounters(packets=10, bytes=10_000, wait_ns=0, discards=0)
    # the buffers of two links take 32 packets, the last of them leaves 32 x 8 us after the first
    assert (congested.packets, congested.wait_ns) == (32, 2 * MS - 32 * 8000)
    bed.clock.advance(0.005)
    assert there.vl_counters()[0].wait_ns == congested.wait_ns + 5 * MS
    bed.ports[2].resume()
    bed.clock.advance(0.01)
    waited = there.vl_counters()[0].wait_ns
    bed.clock.advance(0.01)
    congested, free = there.vl_counters()
    assert (congested.packets, congested.wait_ns, free.wait_ns) == (60, waited, 0)
    assert bed.fabric.drops() == {}


def test_vl_waits_while_the_wire_is_busy_with_another() -> None:
    bed = Bed(FlowControl(vls=2))
    for sc in (0, 1, 0, 1):
        bed.send(0, 1, sc=sc)
    bed.clock.advance(0.001)
    first, second = bed.to_switch(0).vl_counters()
    # they take turns: each waits for what the other sends before its own last packet
    assert (first.wait_ns, second.wait_ns) == (8000, 16_000)
    assert first.packets == second.packets == 2


def test_one_vl_with_packets_of_its_own_on_the_wire_does_not_wait() -> None:
    for flow in (None, FlowControl()):
        bed = Bed(flow)
        for _ in range(20):
            bed.send(0, 1, sc=3)
        bed.clock.advance(0.001)
        assert bed.to_switch(0).vl_counters() == (VlCounters(20, 20_000, 0, 0),)


def test_table_of_a_port_says_which_vl_counts_on_a_link_without_credits() -> None:
    bed = Bed(None)
    bed.send(0, 1, sc=1)
    bed.clock.advance(0.001)
    out = bed.switch.ports[2]
    out.set_sc_to_vl([0, 1, *[2] * 29, 15])
    out.set_vl_mtus([2048, 2048, 2048, *[0] * 12, 2048])
    for sc, size in [(0, 1000), (1, 1000), (1, 1000), (1, 4000), (31, 104)]:
        bed.send(0, 1, sc=sc, size=size)
    bed.clock.advance(0.001)
    there = bed.from_switch(1).vl_counters()
    assert len(there) == 16
    assert there[0] == VlCounters(2, 2000, 0, 0)  # what came before the table, too
    assert there[1] == VlCounters(2, 2000, 0, discards=1)
    assert there[15] == VlCounters(1, 104, 0, 0)
    assert {there[vl] for vl in range(2, 15)} == {VlCounters(0, 0, 0, 0)}
    assert bed.to_switch(0).vl_counters() == (VlCounters(6, 8104, 0, 0),)


def test_table_that_changes_in_mid_flight_gives_every_credit_back_to_its_lane() -> None:
    bed = Bed(FlowControl(vls=2, buffer_bytes=BUFFER))
    bed.ports[1].stall()
    for _ in range(40):
        bed.send(0, 1, sc=0)
    bed.clock.advance(0.00002)
    for table in ([1] * 32, [0, 15] * 16, []):
        bed.ports[0].set_sc_to_vl(table)
        bed.switch.ports[2].set_sc_to_vl(table)
        bed.send(0, 1, sc=0)
        bed.send(0, 1, sc=1)
        bed.clock.advance(0.00001)
    bed.ports[1].resume()
    bed.clock.advance(0.01)
    for direction in (bed.to_switch(0), bed.from_switch(1)):
        lanes = direction.lanes
        assert lanes.credits == (BUFFER, BUFFER)
        assert sum(vl.packets for vl in direction.vl_counters()) == 46


def test_packets_that_a_full_queue_or_a_cut_link_drops_are_discards_of_their_vl() -> None:
    bed = Bed(None)
    link = bed.ports[0].link
    link.configure(replace(link.planned.up, queue=SizeOrTime(2500)))
    bed.ports[0].set_sc_to_vl([0, 1] * 16)
    for number in range(5):
        bed.send(0, 1, sc=number % 2)
    assert [vl.discards for vl in bed.to_switch(0).vl_counters()][:3] == [2, 1, 0]
    bed.fabric.set_link(link, False)
    there = bed.to_switch(0).vl_counters()
    assert [vl.discards for vl in there][:3] == [3, 2, 0]
    assert sum(vl.packets for vl in there) == 0
