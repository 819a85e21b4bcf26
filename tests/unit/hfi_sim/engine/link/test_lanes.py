"""Credits: nothing is lost, a full receiver stops its sender, lanes do not stop each other, marks of congestion."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.engine.events.outputs import Delivered, PortId
from hfi_sim.engine.link.arbiter import Buffers
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import Topology, clos
from hfi_sim.nodes.cable import Link
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B, sc_of
from hfi_sim.wire.packet import build_packet
from unit.hfi_sim.engine import hand_made

L4 = 0x55
TWO_LANES = FlowControl(vls=2, buffer_bytes=16384, fecn_bytes=8192)


class Bed:
    """Hosts on a Clos fabric with credits, what each received, and the way to send."""

    def __init__(self, flow: FlowControl = TWO_LANES, topology: Topology | None = None) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock)
        (topology or clos(2, 1, hosts_per_leaf=2)).build(self.fabric, link=LinkConfig(flow=flow))
        self.ports = {port.hfi.name: port for port in self.fabric.hfi_ports()}
        self.sm = SubnetManager(self.fabric, self.ports["h1"], routing=Routing(may_deadlock=True))
        self.sm.sweep()
        self.got: dict[str, list[bytes]] = {name: [] for name in self.ports}
        for port in self.ports.values():
            self.sm.set_pkeys(port, [0x8002])
            port.register_l4(L4, self._take)

    def _take(self, port: HfiPort, packet: bytes, _token: object) -> None:
        self.got[port.hfi.name].append(packet)

    def send(self, source: str, target: str, *, sc: int = 0, number: int = 0) -> Drop | None:
        lrh = Lrh16B(self.ports[source].lid, self.ports[target].lid, sc=sc, l4=L4, pkey=0x8002)
        return self.ports[source].send(
            build_packet(lrh, number.to_bytes(4, "big") + bytes(1000), self.fabric.icrc)
        )

    def lanes(self, source: str, target: str) -> LanesStatus:
        direction = next(
            d
            for link in self.fabric.links
            for d in link.directions
            if d.source.name.startswith(f"{source}:") and d.target.name.startswith(f"{target}:")
        )
        assert direction.lanes is not None
        return direction.lanes

    def numbers(self, name: str) -> list[int]:
        return [int.from_bytes(packet[16:20], "big") for packet in self.got[name]]


def test_stalled_host_stops_the_sender_and_loses_nothing() -> None:
    bed = Bed()
    stops: list[bool] = []
    bed.ports["h1"].on_flow(stops.append)
    bed.ports["h3"].stall()
    for number in range(200):
        assert bed.send("h1", "h3", number=number) is None
    bed.clock.advance(1)
    assert bed.got["h3"] == []
    assert stops == [True]
    assert bed.ports["h1"].tx_stopped
    assert bed.lanes("leaf1", "h3").credits[0] < 1100  # every buffer on the way is full
    assert bed.lanes("spine0", "leaf1").credits[0] < 1100
    assert bed.lanes("h1", "leaf0").credits[0] < 1100
    assert bed.fabric.balance() == {}

    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert bed.numbers("h3") == list(range(200))
    assert stops == [True, False]
    assert bed.fabric.drops() == {}
    assert bed.fabric.balance() == {}
    assert all(
        direction.lanes is not None and direction.lanes.credits[0] == 16384
        for link in bed.fabric.links
        for direction in link.directions
    )


def test_stalled_host_leaves_other_lanes_and_other_hosts_alone() -> None:
    bed = Bed()
    bed.ports["h3"].stall()
    for number in range(60):
        bed.send("h1", "h3", sc=0, number=number)
        bed.send("h1", "h4", sc=1, number=number)
        bed.send("h1", "h2", sc=1, number=number)
    bed.clock.advance(1)
    assert bed.numbers("h4") == list(range(60))
    assert bed.numbers("h2") == list(range(60))
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert bed.numbers("h3") == list(range(60))


def test_same_lane_behind_a_stalled_host_waits_too() -> None:
    bed = Bed(topology=clos(2, 1, hosts_per_leaf=2))
    bed.ports["h3"].stall()
    for number in range(80):
        bed.send("h1", "h3", number=number)
    for number in range(5):
        bed.send("h1", "h4", number=number)
    bed.clock.advance(1)
    assert bed.got["h4"] == []  # head-of-line blocking, as on a real lossless fabric
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert len(bed.got["h4"]) == 5


def test_sender_that_ignores_the_stop_drops_its_own() -> None:
    bed = Bed()
    link = bed.ports["h1"].link
    assert link is not None
    link.configure(replace(link.planned.up, queue=SizeOrTime(20000)))
    bed.ports["h3"].stall()
    for number in range(120):
        bed.send("h1", "h3", number=number)
    lost = link.direction_from(bed.ports["h1"]).counters.drops[Drop.LINK_OVERFLOW]
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert lost + len(bed.got["h3"]) == 120
    assert bed.fabric.balance() == {}


def test_two_senders_to_one_host_mark_fecn_and_answers_bring_becn_back() -> None:
    flow = FlowControl(buffer_bytes=32768, fecn_bytes=8192)
    bed = Bed(flow)
    for number in range(40):
        for source in ("h1", "h2", "h4"):
            bed.send(source, "h3", number=number)
    bed.clock.advance(1)
    marked = sum(Lrh16B.parse(packet).fecn for packet in bed.got["h3"])
    assert 0 < marked < 120
    assert bed.ports["h3"].congestion.fecn_received == marked
    assert bed.ports["h3"].rx.drops == {}  # the ICRC does not cover the mark
    for _ in range(2):
        bed.send("h3", "h1")
    bed.clock.advance(1)
    assert [Lrh16B.parse(packet).becn for packet in bed.got["h1"]] == [True, False]
    assert bed.ports["h1"].congestion.becn_received == 1
    assert bed.ports["h3"].congestion.becn_sent == 1


def test_uncongested_fabric_marks_nothing() -> None:
    bed = Bed()
    for number in range(5):
        bed.send("h1", "h3", number=number)
        bed.clock.advance(1)
    assert bed.ports["h3"].congestion.fecn_received == 0


def test_multicast_keeps_the_buffer_until_the_last_copy_has_left() -> None:
    bed = Bed(topology=clos(1, 1, hosts_per_leaf=3))
    mlid = bed.sm.groups.create()
    for port in bed.ports.values():
        bed.sm.groups.join(mlid, port)
    bed.ports["h3"].stall()
    lrh = Lrh16B(bed.ports["h1"].lid, mlid, l4=L4, pkey=0x8002)
    for _ in range(60):
        bed.ports["h1"].send(build_packet(lrh, bytes(1000), bed.fabric.icrc))
    bed.clock.advance(1)
    assert 0 < len(bed.got["h2"]) < 60
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert len(bed.got["h2"]) == len(bed.got["h3"]) == 60
    assert bed.fabric.balance() == {}


@pytest.mark.parametrize("up_again", [False, True])
def test_link_down_drops_what_waits_and_credits_come_back(up_again: bool) -> None:
    bed = Bed()
    bed.ports["h3"].stall()
    for number in range(100):
        bed.send("h1", "h3", number=number)
    link: Link | None = bed.ports["h3"].link
    assert link is not None
    bed.fabric.set_link(link, False)
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert bed.fabric.balance() == {}
    if up_again:
        bed.fabric.set_link(link, True)
        bed.got["h3"].clear()
        bed.send("h1", "h3", number=7)
        bed.clock.advance(1)
        assert bed.numbers("h3") == [7]
    assert bed.lanes("h1", "leaf0").credits[0] == 16384
    assert bed.lanes("leaf1", "h3").credits[0] == 16384


def _ring_bed(engine: str) -> Bed:
    """Everybody on a ring sends two switches ahead: the textbook circle of full buffers."""
    topology = Topology("ring")
    for number in range(5):
        topology.switch(f"sw{number}", ports=4)
        topology.hfi(f"h{number + 1}")
        topology.cable(f"h{number + 1}:1", f"sw{number}:1")
    for number in range(5):
        topology.cable(f"sw{number}:2", f"sw{(number + 1) % 5}:3")
    bed = Bed(FlowControl(buffer_bytes=16384), topology)
    bed.sm.stop()
    bed.sm = SubnetManager(bed.fabric, bed.ports["h1"], routing=Routing(engine=engine, may_deadlock=True))
    bed.sm.sweep()
    for port in bed.ports.values():
        bed.sm.set_pkeys(port, [0x8002])
    for _ in range(100):
        for number in range(5):
            bed.send(f"h{number + 1}", f"h{(number + 2) % 5 + 1}")
    bed.clock.advance(10)
    return bed


def test_ring_with_up_down_routes_delivers_all_and_min_hop_is_known_to_deadlock() -> None:
    safe = _ring_bed("up-down")
    assert safe.sm.cycle() == []
    assert sum(map(len, safe.got.values())) == 500
    risky = _ring_bed("min-hop")
    assert len(risky.sm.cycle()) == 5
    assert sum(map(len, risky.got.values())) < 500  # and it does: nobody will ever move again
    assert risky.fabric.balance() == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vls": 0}, "vls is 0, not 1 to 16"),
        ({"buffer_bytes": 1000}, "cannot hold the longest packet, 16376"),
        ({"sc_to_vl": (0, 0)}, "has 2 entries; there are 32"),
        ({"vls": 2, "sc_to_vl": (0,) * 31 + (2,)}, "SC 31 to VL 2; VLs are 0 to 1"),
    ],
)
def test_flow_control_out_of_range_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        FlowControl(**options)  # type: ignore[arg-type]


def test_sc_to_vl_map_puts_service_classes_where_it_says() -> None:
    assert FlowControl(vls=3).map()[:4] == (0, 1, 2, 0)
    assert FlowControl(vls=2, sc_to_vl=(1,) * 32).map()[0] == 1


# --- buffers that change while packets wait and are under way ------------------------------------------------


def occupied(bed: Bed) -> set[int]:
    """Return what is anywhere under way, in bytes."""
    return {
        each
        for link in bed.fabric.links
        for direction in link.directions
        if direction.lanes is not None
        for each in (*direction.lanes.occupied, *direction.lanes.waiting)
    }


def test_smaller_buffers_take_no_more_until_what_is_there_has_left() -> None:
    bed = Bed()
    out = bed.fabric.switches["leaf1"].ports
    (to_h3,) = (port for port in out.values() if port.link and bed.ports["h3"] in port.link.ends)
    bed.ports["h3"].stall()
    for number in range(60):
        bed.send("h1", "h3", number=number)
    bed.clock.advance(1)
    before = bed.lanes("leaf1", "h3")
    to_h3.set_buffers(Buffers((3000, 3000, *[0] * 14), (0,) * 16, 0))
    assert bed.lanes("leaf1", "h3").occupied == before.occupied
    assert bed.lanes("leaf1", "h3").credits == (0, 3000)
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    bed.ports["h3"].stall()
    for number in range(60, 120):
        bed.send("h1", "h3", number=number)
    bed.clock.advance(1)
    assert bed.lanes("leaf1", "h3").occupied == (2 * 1032, 0)
    to_h3.set_buffers(None)  # more room: what waits goes on at once
    bed.clock.advance(1)
    assert bed.lanes("leaf1", "h3").occupied == before.occupied
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert bed.numbers("h3") == list(range(120))
    assert occupied(bed) == {0}
    assert bed.fabric.drops() == {}
    assert bed.fabric.balance() == {}


def test_shared_room_is_for_who_comes_and_never_more_than_all_may_have() -> None:
    bed = Bed()
    (to_h3,) = (
        port
        for port in bed.fabric.switches["leaf1"].ports.values()
        if port.link and bed.ports["h3"] in port.link.ends
    )
    # VL 14 shares the lane of VL 0, VL 15 that of VL 1: what they have is added up
    to_h3.set_buffers(Buffers((1000, 1064, *[0] * 12, 1064, 1000), (3096, 4128, *[0] * 14), 5160))
    bed.ports["h3"].stall()
    for number in range(20):
        bed.send("h1", "h3", sc=0, number=number)
    bed.clock.advance(1)
    assert bed.lanes("leaf1", "h3").occupied == (5 * 1032, 0)
    for number in range(20):
        bed.send("h2", "h3", sc=1, number=number)
    bed.clock.advance(1)
    assert bed.lanes("leaf1", "h3").occupied == (5 * 1032, 4 * 1032)
    assert bed.lanes("leaf1", "h3").credits == (0, 0)
    bed.ports["h3"].resume()
    bed.clock.advance(1)
    assert len(bed.got["h3"]) == 40
    assert occupied(bed) == {0}
    assert bed.fabric.drops() == {}


def test_lane_without_any_room_still_sends_packet_by_packet() -> None:
    bed = Bed()
    for switch in bed.fabric.switches.values():
        for port in switch.ports.values():
            port.set_buffers(Buffers((0,) * 16, (0,) * 16, 0))
    for number in range(50):
        bed.send("h1", "h3", number=number)
        bed.send("h2", "h3", number=number, sc=1)
    bed.clock.advance(1)
    assert len(bed.got["h3"]) == 100
    assert bed.fabric.balance() == {}
    assert bed.fabric.drops() == {}


def test_credits_of_a_link_change_in_mid_run_and_each_packet_arrives() -> None:
    bed = Bed()
    bed.ports["h3"].stall()
    for number in range(200):
        bed.send("h1", "h3", number=number)
    flows = [
        FlowControl(vls=4, buffer_bytes=20_000),
        FlowControl(vls=1),
        FlowControl(vls=3, weights=(1, 2, 3)),
    ]
    for number, link in enumerate(bed.fabric.links):
        link.configure(LinkConfig(flow=flows[number % 3]))
        bed.clock.advance(0.001)
    bed.ports["h3"].resume()
    for number in range(200, 260):
        bed.send("h1", "h3", number=number)
    bed.clock.advance(1)
    assert bed.numbers("h3") == list(range(260))
    assert occupied(bed) == {0}
    assert bed.fabric.drops() == {}
    assert bed.fabric.balance() == {}
    with pytest.raises(FabricError, match="a direction gets credits when its link is laid, or never"):
        bed.fabric.links[0].configure(LinkConfig())
    assert bed.fabric.links[0].planned.up.flow == flows[0]


def test_lane_that_waited_for_shared_room_has_saved_up_nothing_when_another_returns_it() -> None:
    size, shared = 8192, 6
    flow = FlowControl(vls=3, buffer_bytes=2 * size, shared_bytes=shared * size)
    bed = hand_made.two_hosts(hand_made.link(flow=flow, queue_bytes=1 << 20))
    bed.takes = False
    held: list[Delivered] = []
    lanes: list[int] = []

    def run(until: int) -> None:
        """Take what comes on lane 0 at once, and hold the rest."""
        while bed.now < until:
            bed.now += 10_000
            for output in bed.run(bed.now):
                if isinstance(output, Delivered):
                    lane = sc_of(output.packet)
                    lanes.append(lane)
                    held.append(output)
                    if lane == 0:
                        bed.take(held.pop())

    def send(lane: int, count: int) -> None:
        for number in range(count):
            data = hand_made.packet(1, 2, number, size=size, sc=lane)
            assert bed.send(bed.now, PortId(0), data) is None

    send(2, 2 + shared)
    run(1_000_000)
    send(1, 2 + shared)
    send(0, 60)
    run(3_000_000)
    assert Counter(lanes)[1] == 2, "lane 2 has the shared room"
    assert 10 < Counter(lanes)[0] < 40
    before = len(lanes)
    for output in [output for output in held if sc_of(output.packet) == 2]:
        held.remove(output)
        bed.take(output)
    run(4_500_000)
    assert Counter(lanes[before : before + 8])[0] >= 4, "by turns, from the first packet on"
    assert Counter(lanes)[1] == 2 + shared
    while bed.now < 10_000_000:
        run(bed.now + 100_000)
        for output in held:
            bed.take(output)
        held.clear()
    assert len(lanes) == 2 * (2 + shared) + 60
    bed.run()
    bed.check_rest()
