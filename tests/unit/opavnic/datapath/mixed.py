"""One world several times, with everything that a fabric has: slow and fast links, credits, faults, LMC, changes.

A `Mixed` is a fabric of switches and hosts in Python, each host with a VNIC on one virtual switch. `NativeMixed` is the
same on the native engine with native VNICs, which sum each packet (`icrc: always`) or those that somebody looks at
(`auto`). All are on virtual time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.engine.api import EngineFactory
from hfi_sim.engine.link.capture import CaptureConfig, CaptureRing
from hfi_sim.engine.link.config import PLAIN_LINK, FlowControl, LinkConfig
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.nodes.cable import LinkPort
from hfi_sim.subnet_manager import Routing, SubnetManager
from opavnic.datapath.selection import load_native
from opavnic.datapath.snapshot import add_vnic, take_demux, take_vport
from opavnic.engine.threaded import carrier_engine, native_carrier
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.vnic_port import VnicPort
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState, VportNum

VESW = 2
PKEY = 0x8002
HEADER = 10
SETTLE_S = 10.0
_NEEDS_CSUM, _GSO_TCP4 = 1, 1
_TCP = 34
"""Where TCP begins in a frame."""

KINDS: dict[str, LinkConfig] = {
    "fast": PLAIN_LINK,
    "slow": LinkConfig(latency_ns=1_000_000),
    "narrow": LinkConfig(1e9),
    "jitter": LinkConfig(latency_ns=100_000, jitter_ns=1_000_000),
    "credits": LinkConfig(flow=FlowControl()),
    "marks": LinkConfig(flow=FlowControl(fecn_bytes=0)),
    "lanes": LinkConfig(1e9, flow=FlowControl(vls=4, weights=(1, 2, 3, 4), buffer_bytes=20_000)),
}


@dataclass(frozen=True)
class Plan:
    """What is built; the same plan builds the same fabric."""

    switches: int = 1
    hosts: int = 3
    ring: bool = False
    trunks: Sequence[str] = ("fast",)
    """Of the links between switches, in turn."""
    host_link: Sequence[str] = ()
    """By host; fast where nothing stands."""
    workers: int = 1
    """Of the native engine."""
    in_python: int = 0
    """Hosts, the last ones, whose VNICs are in Python on either engine."""
    lmc: int = 0
    adaptive: bool = False
    seed: int = 1


@dataclass
class Mixed:
    """The fabric in Python, the reference."""

    plan: Plan
    clock: ManualClock = field(default_factory=ManualClock)
    adapters: list[Adapter] = field(default_factory=list)
    vnic_ports: list[VnicPort] = field(default_factory=list)
    observed: dict[str, list[tuple[float, bytes, Drop | None]]] = field(default_factory=dict)
    """By direction, what observers have seen."""
    rings: list[CaptureRing] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = self.plan
        self.fabric = fabric = Fabric(
            self.clock, seed=plan.seed, timer_resolution_s=0.0, engine=self.engine()
        )
        self.switches = [fabric.add_switch(f"sw{number}", ports=8) for number in range(plan.switches)]
        for number in range(plan.switches if plan.ring else plan.switches - 1):
            ends = self.switches[number].ports[7], self.switches[(number + 1) % plan.switches].ports[8]
            fabric.connect(*ends, KINDS[plan.trunks[number % len(plan.trunks)]])
        for number in range(plan.hosts):
            hfi = fabric.add_hfi(f"h{number}", netdevs=memory_netdev)
            kind = plan.host_link[number] if number < len(plan.host_link) else "fast"
            far: LinkPort = self.switches[number % plan.switches].ports[1 + number // plan.switches]
            fabric.connect(hfi.ports[1], far, KINDS[kind])
        self.ports = [hfi.ports[1] for hfi in fabric.hfis.values()]
        routing = Routing(adaptive=plan.adaptive, lmc=plan.lmc, may_deadlock=plan.ring)
        self.sm = SubnetManager(fabric, self.ports[0], routing=routing)
        for port in self.ports:
            self.sm.set_pkeys(port, [PKEY])
        self.sm.sweep()
        self.group = self.sm.groups.create()
        self.faults = Faults(fabric)
        for port in self.ports:
            self.sm.groups.join(self.group, port)
            vnics = VnicPort(port, self.clock, attached=fabric.attached)
            self.vnic_ports.append(vnics)
            adapter = vnics.create_vnic(VportNum(1), lambda _vnic, _opcode: None)
            adapter.apply(
                VeswPortInfo(
                    fabric_id=0x301,
                    vesw_id=VESW,
                    def_port_mask=1,
                    pkey=PKEY,
                    u_mcast_dlid=self.group,
                    eth_mtu=1500,
                    base_mac=Lmac(0x301, VESW, port.lid).build(),
                    config_state=ConfigState.FORWARDING,
                    encap_slid=port.lid,
                    pcp_to_sc_uc=bytes(range(8)),
                    pcp_to_sc_mc=bytes(range(8)),
                )
            )
            adapter.netdev.open()
            self.adapters.append(adapter)

    def engine(self) -> EngineFactory:
        """Return what makes the engine."""
        return PythonEngine

    def lids(self) -> list[int]:
        """Return every LID that a frame can be sent to."""
        return [lid for port in self.ports for lid in range(port.lid, port.lid + (1 << port.lmc))]

    def send(self, sender: int, frame: bytes, header: bytes | None = None) -> None:
        """Let a host send one frame. Args: header: of virtio-net, of a frame that is to be cut into segments."""
        native = load_native()
        assert native is not None
        for each in [frame] if header is None else native.segment(header, frame):
            self.adapters[sender].ndo_start_xmit(each)

    def observe(self, way: int) -> None:
        """Look at what enters a direction from now on."""
        ways = [direction for link in self.fabric.links for direction in link.directions]
        self.fabric.observe(self.note, [ways[way % len(ways)]])

    def note(self, seen: TracedPacket) -> None:
        """Note what an observer sees."""
        self.observed.setdefault(seen.direction, []).append((seen.time_s, seen.packet, seen.drop))

    def capture(self, way: int, snap: int) -> None:
        """Capture what enters a direction from now on."""
        ways = [direction for link in self.fabric.links for direction in link.directions]
        ring, _ = self.fabric.capture([ways[way % len(ways)]], CaptureConfig(1, snap=snap))
        self.rings.append(ring)

    def captured(self) -> list[bytes]:
        """Return what the captures have kept since the last time."""
        return [ring.take(True) for ring in self.rings]

    def change(self, change: Callable[[Mixed], None]) -> None:
        """Change something: links, tables, faults."""
        change(self)

    def received(self) -> list[list[bytes]]:
        """Return what each host has received since the last time."""
        frames = []
        for adapter in self.adapters:
            received = netdev_of(adapter).received
            frames.append(list(received))
            received.clear()
        return frames

    def counted(self) -> dict[str, object]:
        """Return every counter there is, of traffic, drops, congestion and faults."""
        everything: dict[str, object] = {name: asdict(values) for name, values in self.fabric.counters()}
        for index, adapter in enumerate(self.adapters):
            everything[f"vnic {index}"] = adapter.counters.ethtool_stats()
        for port in self.ports:
            everything[f"{port.name} congestion"] = asdict(port.congestion)
        for link in self.fabric.links:
            for way in link.directions:
                everything[f"{way.name} stream"] = way.stream.state
                if way.lanes is not None:
                    everything[f"{way.name} marked"] = way.lanes.fecn_marked
        everything["faults"] = self.faults.show()
        return everything


@dataclass
class NativeMixed(Mixed):
    """The same on the native engine, with native VNICs."""

    icrc_always: bool = False
    """Whether each packet is summed."""

    def __post_init__(self) -> None:
        self._carrier = native_carrier(icrc_always=self.icrc_always, merge=False, workers=self.plan.workers)
        super().__post_init__()
        native = self.adapters[: max(len(self.adapters) - self.plan.in_python, 0)]
        self._index = {adapter: self._carrier.add_vport() for adapter in native}
        self.refresh()
        self.fabric.before_counting.append(self.sync)

    def engine(self) -> EngineFactory:
        return carrier_engine(self._carrier)

    def refresh(self) -> None:
        """Give the carrier the VNICs as they are now."""
        for vnics in self.vnic_ports[: len(self._index)]:
            for adapter in vnics.adapters.values():
                self._carrier.set_vport(self._index[adapter], take_vport(adapter), vnics.port.number)
            self._carrier.set_demux(vnics.port.number, *take_demux(vnics.demux, self._index))

    def sync(self) -> None:
        """Add what the carrier counted."""
        counts = self._carrier.collect(self.fabric.driver.now)
        for adapter, index in self._index.items():
            add_vnic(adapter, counts[index])

    def send(self, sender: int, frame: bytes, header: bytes | None = None) -> None:
        if sender >= len(self._index):
            return super().send(sender, frame, header)
        driver = self.fabric.driver
        self._carrier.transmit(driver.now, sender, frame, header)
        driver.run()
        return None

    def change(self, change: Callable[[Mixed], None]) -> None:
        super().change(change)
        self.refresh()

    def received(self) -> list[list[bytes]]:
        frames = super().received()
        for index, frame in self._carrier.take_frames():
            frames[index].append(frame[HEADER:])
        return frames


class Worlds:
    """The reference and the native ones, held to each other after every step."""

    def __init__(self, plan: Plan) -> None:
        self.reference = Mixed(plan)
        self.native = NativeMixed(plan)
        self.others = (NativeMixed(plan, icrc_always=True), self.native)
        self.sent = 0
        self.delivered = 0

    def send(self, sender: int, lid: int | None, size: int = 100, tag: int | None = None) -> None:
        """Send a frame with a number in it to a LID, or to all; all deliver the same."""
        frame = self._head(sender, lid)
        if tag is not None:
            frame += b"\x81\x00" + (tag << 13 | 5).to_bytes(2, "big")
        frame += b"\x88\xb5" + self.sent.to_bytes(4, "big")
        frame += bytes(max(size - len(frame), 46))
        self._all(lambda world: world.send(sender, frame))

    def send_large(self, sender: int, lid: int | None, payload: int, segment: int) -> None:
        """Send so many bytes of a TCP stream, which the VNIC cuts into segments."""
        ip = bytes((0x45, 0)) + (40 + payload).to_bytes(2, "big") + bytes((0, 1, 0x40, 0, 64, 6, 0, 0))
        ip += bytes((10, 0, 0, sender, 10, 0, 0, 9))
        tcp = (
            bytes((0, 80, 0, 81))
            + self.sent.to_bytes(4, "big")
            + bytes((0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0))
        )
        frame = self._head(sender, lid) + b"\x08\x00" + ip + tcp + bytes(range(251)) * (payload // 251 + 1)
        header = struct.pack("=BBHHHH", _NEEDS_CSUM, _GSO_TCP4, _TCP + 20, segment, _TCP, 16)
        self._all(lambda world: world.send(sender, frame[: _TCP + 20 + payload], header))

    def _head(self, sender: int, lid: int | None) -> bytes:
        self.sent += 1
        if self.reference.plan.workers > 1:
            # what happens in several workers at one instant has no common order: no two frames are sent at one
            self.advance((1_000 + self.sent * 37 % 1_009) * 1e-9)
        target = b"\xff" * 6 if lid is None else Lmac(0x301, VESW, lid).build()
        return target + bytes((2, 0, 0, 0, 0, sender))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._all(lambda world: world.clock.advance(seconds))

    def change(self, change: Callable[[Mixed], None]) -> None:
        """Change something in all of them."""
        self._all(lambda world: world.change(change))

    def _all(self, step: Callable[[Mixed], None]) -> None:
        for world in (self.reference, *self.others):
            step(world)
        expected = self.reference.received()
        for world in self.others:
            assert world.received() == expected, f"{world} after {self.sent} frames"
        self.delivered += sum(map(len, expected))

    def finish(self) -> None:
        """Let everything arrive; compare what was seen, and every counter."""
        self.advance(SETTLE_S)
        expected, captured = self.reference.counted(), self.reference.captured()
        for world in self.others:
            assert world.observed == self.reference.observed, world
            assert world.captured() == captured, world
            counted = world.counted()
            assert {name: value for name, value in counted.items() if value != expected[name]} == {
                name: value for name, value in expected.items() if value != counted[name]
            }
            assert world.fabric.balance() == {}
        assert self.reference.fabric.balance() == {}
