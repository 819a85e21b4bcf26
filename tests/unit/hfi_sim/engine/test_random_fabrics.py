"""Random fabrics under random inputs, on every engine that is built: the same events, and the laws of any fabric.

An engine that is alone runs beside a second one of its kind: the same inputs give the same outputs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine_twins import Twins, built_engines
from hfi_sim.base.clock import NS_PER_S
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.base.types import LID_PERMISSIVE, SC_MANAGEMENT, PortState, is_multicast_lid
from hfi_sim.engine.api import Engine, EngineFactory
from hfi_sim.engine.config import HfiEnd, PortConfig, SwitchEnd, SwitchPortConfig
from hfi_sim.engine.events.outputs import BufferToken, Delivered, DirectionId, Observed, PortId, SwitchId
from hfi_sim.engine.link.arbiter import Arbitration, Buffers, Egress
from hfi_sim.engine.link.capture import MAX_SNAP, CaptureConfig, CaptureRing
from hfi_sim.engine.link.config import MAX_MTU, MAX_VLS, FlowControl, LinkConfig
from hfi_sim.engine.link.rule import FaultKind, FaultRule, Match
from hfi_sim.engine.link.two_way import TwoWay
from hfi_sim.engine.python import PythonEngine
from hfi_sim.routing.table import GROUP_BASE
from hfi_sim.wire import lrh16b
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE, Icrc
from hfi_sim.wire.lrh16b import Lrh16B, dlid_of, is_9b, pkey_of, sc_of, slid_of
from hfi_sim.wire.packet_9b import bare_9b, carry_9b
from unit.hfi_sim.engine.hand_made import (
    ACTIVE,
    ICRC,
    L4,
    PKEY,
    HandMade,
    Tally,
    packet,
    packet_9b,
    port_config,
    rule,
    table,
)

GROUP: Final = 0xF00001
LOST: Final = 7
"""A LID that tables may lead around in circles."""
RATES: Final = (
    100_000_000_000,
    1_000_000_000,
    1_000_000_000,
    7_777_777,
    99_999_999_977,
    1_000_000_000_000,
    3,
)
HOUR: Final = 3600 * NS_PER_S
LATENCIES: Final = (300, 0, 300, 1, 300, 20_000, 3_000_000, HOUR)
JITTERS: Final = (0, 0, 0, 5, 40_000, NS_PER_S)
QUEUES: Final = (1 << 20, 1 << 20, 40_000, 3000, 300, 0)
FLOWS: Final = (
    None,
    None,
    FlowControl(),
    FlowControl(buffer_bytes=16_376, fecn_bytes=0),
    FlowControl(vls=2, buffer_bytes=16400, fecn_bytes=500),
    FlowControl(vls=3, buffer_bytes=20_000, weights=(3, 1, 2), high=(2,), high_limit_bytes=600, fecn_bytes=0),
    FlowControl(vls=4, buffer_bytes=17_000, weights=(1, 2, 3, 7), high=(1, 3)),
    FlowControl(vls=2, buffer_bytes=16_376, shared_bytes=20_000),
    FlowControl(vls=16, buffer_bytes=16_376, fecn_bytes=40_000),
    FlowControl(vls=2, buffer_bytes=16_376, hoq_life_ns=5000),
    FlowControl(buffer_bytes=16_376, hoq_life_ns=1_000_000),
)
OTHER_FLOWS: Final = tuple(flow for flow in FLOWS if flow is not None)
"""What a link with credits may change to."""
SIZES: Final = (32, 64, 256, 2048, 9000, 16376)
PAUSES: Final = (0, 0, 0, 1, 100, 5000, 1_000_000, 2_000_000_000, HOUR)
MATCHES: Final = (
    Match(),
    Match(),
    Match(l4=L4),
    Match(sc=1),
    Match(dlid=16),
    Match(slid=24),
    Match(lid=17),
    Match(vesw_id=1),
    Match(attr_id=1),
    Match(attr_id=0, method=1),
    Match(l4=L4, lid=24, sc=0),
)
HOLD_NS: Final = (0, 40, 100_000, NS_PER_S)
ETHERNET: Final = {"l4": lrh16b.L4.ETHERNET, "head": bytes([0, 0, 1, 0])}
"""A packet of a virtual switch: VESW 1."""
MAD: Final = {"l4": lrh16b.L4.FM, "head": bytes([*range(8), 1, 0x34, 1, 1, *range(12), 0, 1])}
"""A packet of the fabric manager: attribute 1 by method 1."""
PKEYS: Final = (PKEY, 0x7FFF)
SWITCH_LIDS: Final = (8, 9, 10, 11)
STRAY: Final = (GROUP, GROUP, GROUP, GROUP + 1, LID_PERMISSIVE, LOST, LOST, 3000, 0, *SWITCH_LIDS)
"""DLIDs of packets that are not for one host."""

PORT_NUMS: Final = 24
"""More than any switch has ports."""
STATES: Final = (PortState.ACTIVE, PortState.INIT, PortState.ACTIVE, PortState.ARMED, PortState.DOWN)
SENT_PKEYS: Final = (PKEY, PKEY, PKEY, PKEY & 0x7FFF, 0xFFFF, 0x7FFF)
NO_LIMIT: Final = (MAX_MTU,) * MAX_VLS
SMALL: Final = Buffers((300, 20_000, 100, 0) * 4, (0,) * 16, 0)
SHARED: Final = Buffers((200, 0, 17_000, 64) * 4, (9000, 17_000, 0, 500) * 4, 18_000)
NO_ROOM: Final = Buffers((0,) * 16, (0,) * 16, 0)
EGRESSES: Final = (
    Egress(),
    Egress((1,) * 32),
    Egress((3, 2, 1, 0) * 8, (200, 2048, 0, 9000) * 4),
    Egress((), (200, 2048, MAX_MTU, 0) * 4),
    Egress((*range(16), *range(16)), NO_LIMIT),
    Egress((0,) * 15 + (15,) * 17, (200,) * 15 + (2048,)),
    Egress(arbitration=Arbitration((1, 3, 2, 200) * 4)),
    Egress(arbitration=Arbitration((0, 1, 0, 2) * 4, (5, 1, 0, 0) * 4, 300), buffers=SMALL),
    Egress((3, 2, 1, 0) * 8, arbitration=Arbitration((0,) * 16, (1, 0) * 8), buffers=SHARED),
    Egress((0,) * 15 + (15,) * 17, buffers=NO_ROOM),
    Egress(buffers=SHARED),
    Egress(hoq_codes=(0, 20, 8, 11) * 4),
    Egress(hoq_codes=(20,) * 16),
)
ENFORCED: Final = (
    None,
    None,
    PkeyTable.of(PKEYS),
    PkeyTable.of([PKEY & 0x7FFF, 0xFFFF]),
    PkeyTable.of([PKEY & 0x7FFF]),
)
SC_TABLES: Final = (
    (1,) * 32,
    (3, 2, 1, 0) * 8,
    (1, 15, *range(2, 32)),
    (15,) * 32,
    (*range(16, 32), *range(16)),
)
SERVICE_CHANNELS: Final = (0, 1, 2, 3, 0, 1, SC_MANAGEMENT)

T = TypeVar("T")
bytes_of = st.integers(0, 255)
Step = tuple[str, int, int, int, int]
steps = st.tuples(
    st.sampled_from(
        ["send"] * 4
        + ["burst"] * 4
        + ["rules"] * 5
        + ["all", "no rules", "flap", "flap", "rate", "flow", "flow", "tables", "loop", "switch"]
        + [
            "forget",
            "switch port",
            "stall",
            "port",
            "port 0",
            "port 0 sends",
            "directed",
            "hosts",
            "keep",
            "let go",
        ]
        + ["stray", "observe", "capture", "capture", "take", "run", "run", "jump"]
    ),
    bytes_of,
    bytes_of,
    bytes_of,
    st.sampled_from(PAUSES),
)

scripts = st.lists(steps, max_size=10) | st.lists(steps, min_size=25, max_size=60)


@dataclass
class Shape:
    """What a fabric is made of; numbers pick from the lists above."""

    switches: int
    hosts: list[int]
    """Of each, where it stands and its LMC."""
    trunks: list[tuple[int, int]]
    links: list[tuple[int, int, int, int, int]]
    """Rate, latency, jitter, queue, flow."""
    watched: bool
    """Whether every direction is observed; where none is, engines may do things late."""
    two_way: bool = False
    """Whether the directions of a link differ."""


shapes = st.builds(
    Shape,
    switches=st.integers(1, 4),
    hosts=st.lists(bytes_of, min_size=2, max_size=5),
    trunks=st.lists(st.tuples(bytes_of, bytes_of), max_size=6),
    links=st.lists(st.tuples(*[bytes_of] * 5), min_size=1, max_size=6),
    watched=st.booleans(),
    two_way=st.booleans(),
)


def pick(choices: Sequence[T], number: int) -> T:
    return choices[number % len(choices)]


class World:
    """A random fabric, what was done to it, and what came of it."""

    def __init__(self, shape: Shape, makers: dict[str, EngineFactory]) -> None:
        self.twins: Twins

        def make(icrc: Icrc) -> Engine:
            self.twins = Twins(makers, icrc)
            return self.twins

        self.bed = HandMade(make)
        self.sent = 0
        self.shape = shape
        self.configs: list[LinkConfig] = []
        """Of each direction."""
        self.up: list[bool] = []
        self.fastest: list[int] = []
        self.shortest: list[int] = []
        self.longest_queue: list[int] = []
        self.damaged: set[int] = set()
        """Directions that had a fault which changes packets."""
        self.remapped: set[int] = set()
        """Where directions lead whose service channels may have changed their virtual lanes."""
        self.all_seen = True
        """Whether every direction was observed all the time."""
        self.strays: set[bytes] = set()
        self.not_whole = 0
        """What it gave ports to send, and is not the packet that it was made as."""
        """Packets that came from outside."""
        self.into: list[SwitchId | PortId] = []
        """Where each direction leads; negative: -1 - port."""
        self.held: list[Delivered] = []
        self.kept: list[BufferToken] = []
        """Room that has one holder more."""
        self.ports: list[PortConfig] = []
        self.cables: dict[int, dict[int, int]] = defaultdict(dict)
        """Of each switch, where a port of it leads: another switch, or -1 - host."""
        self.rules = 0
        self.tallies = [Tally() for _ in range(3)]
        """What rules share."""
        switches = [self.bed.switch(0, {}) for _ in range(shape.switches)]
        for number, place in enumerate(shape.hosts):
            lmc = place % 3
            config = port_config(
                self.lid(number), lmc=lmc, pkeys=PkeyTable.of(SENT_PKEYS), multicast_lids=frozenset([GROUP])
            )
            port = self.bed.add_port(config)
            self.ports.append(config)
            switch = pick(switches, place // 3)
            self.cable(switch, -1 - port)
        self.port0: list[PortId] = []
        """Of each switch."""
        for switch in switches:
            self.port0.append(self.bed.port0(switch, SWITCH_LIDS[switch], state=PortState.DOWN))
        for a, b in shape.trunks:
            if pick(switches, a) != pick(switches, b):
                self.cable(pick(switches, a), pick(switches, b))
        for switch in switches:
            self.set_tables(switch)
        if not shape.watched:
            self.all_seen = False
            for number in range(len(self.into)):
                self.bed.engine.observe(0, DirectionId(number), False)
        self.captures: list[CaptureRing] = []
        self.ring = self.capture(range(len(self.into)), CaptureConfig(len(self.into), snap=20))
        """Captures everything from the beginning to the end."""

    def capture(self, ways: Iterable[int], config: CaptureConfig) -> CaptureRing:
        ring = self.bed.engine.capture_ring(config)
        for way in ways:
            self.bed.engine.attach(self.now, DirectionId(way), ring, way)
        self.captures.append(ring)
        return ring

    @property
    def now(self) -> int:
        return self.bed.now

    @staticmethod
    def lid(host: int) -> int:
        return 16 + 8 * host

    def cable(self, switch: SwitchId, other: int) -> None:
        """Lay a cable from a switch to another, or to a host."""
        number = len(self.configs) // 2
        options = TwoWay(up=self.config(number), down=self.config(number + self.shape.two_way))
        near = SwitchEnd(switch, self.plug(switch, other))
        if other < 0:
            self.bed.cable(HfiEnd(PortId(-1 - other)), near, options)
        else:
            self.bed.cable(SwitchEnd(SwitchId(other), self.plug(SwitchId(other), switch)), near, options)
        self.into += [switch, other]
        for config in options.ways:
            self.configs.append(config)
            self.up.append(True)
            self.fastest.append(config.whole_rate_bps)
            self.shortest.append(config.latency_ns)
            self.longest_queue.append(config.queue_bytes)

    def config(self, number: int) -> LinkConfig:
        rate, latency, jitter, queue, flow = pick(self.shape.links, number)
        return LinkConfig(
            rate_bps=pick(RATES, rate),
            latency_ns=pick(LATENCIES, latency),
            jitter_ns=pick(JITTERS, jitter),
            queue=SizeOrTime(pick(QUEUES, queue)),
            flow=pick(FLOWS, flow),
        )

    def plug(self, switch: SwitchId, other: int) -> int:
        port_num = len(self.cables[switch]) + 1
        self.cables[switch][port_num] = other
        self.bed.engine.set_switch_port(0, switch, port_num, ACTIVE)
        return port_num

    def set_tables(self, switch: SwitchId, odd: int = 0) -> None:
        """Program shortest paths, equal ones as groups. Args: odd: lead some LIDs elsewhere, perhaps in circles."""
        ports: dict[int, int] = {}
        groups: list[tuple[int, ...]] = []
        for host, place in enumerate(self.shape.hosts):
            choice = self.next_hops(switch, -1 - host)
            for lid in range(self.lid(host), self.lid(host) + (1 << place % 3)):
                if len(choice) > 1:
                    groups.append(choice)
                    ports[lid] = GROUP_BASE + len(groups) - 1
                elif choice:
                    ports[lid] = choice[0]
        every = sorted(self.cables[switch])
        if odd and every:
            ports[LOST] = pick(every, odd)
            ports[pick(sorted(ports), odd)] = pick(every, odd // 7)
        tree = frozenset(every[-3:] if odd % 3 == 2 else every[:3]) | ({0} if odd % 5 == 1 else set())
        self.bed.engine.set_tables(self.now, switch, table(ports, groups), {GROUP: tree})

    def next_hops(self, switch: int, target: int) -> tuple[int, ...]:
        distance = {target: 0}
        ring = [target]
        while ring:
            ring = [
                near
                for near, cables in self.cables.items()
                if near not in distance and any(far in ring for far in cables.values())
            ]
            distance |= dict.fromkeys(ring, max(distance.values()) + 1)
        here = distance.get(switch, 99)
        return tuple(
            number for number, far in self.cables[switch].items() if distance.get(far, 99) == here - 1
        )

    # --- steps ---------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        name, a, b, c, pause = step
        self.bed.now += pause
        action: Callable[[int, int, int], None] = getattr(self, "do_" + name.replace(" ", "_"))
        action(a, b, c)
        self.check()

    def make(self, a: int, b: int, c: int) -> tuple[PortId, bytes]:
        host = a % len(self.ports)
        to = b % len(self.ports)
        dlid = pick(
            (*[self.lid(to) + c % (1 << self.shape.hosts[to] % 3)] * 16, *STRAY),
            b // 5,
        )
        self.sent += 1
        slid = self.lid(host) if c % 64 < 63 else pick((5, LID_PERMISSIVE), b)
        alike = {
            "size": pick(SIZES, c),
            "sc": pick(SERVICE_CHANNELS, c),
            "becn": a % 8 == 5,
            "pkey": 9 if a == 6 else pick(SENT_PKEYS, a // 25),
        }
        form = pick(({}, {}, ETHERNET, MAD, MAD | {"head": MAD["head"][:9]}), a // 8)
        if b % 7 == 3:
            mad = MAD["head"][8:] if form is MAD else b""
            data = packet_9b(slid, dlid, self.sent, mad=mad, has_grh=c % 3 == 1, **alike)
        else:
            data = packet(slid, dlid, self.sent, entropy=a * b, **alike, **form)
        if a == 7:
            damaged = bytearray(data)
            damaged[b % len(data)] ^= 1 << c % 8
            data = bytes(damaged)
        return PortId(host), data

    def do_send(self, a: int, b: int, c: int) -> None:
        port, data = self.make(a, b, c)
        if a % 5 == 4:
            given = pick((data, data, data, data[:c], data + bytes(8)), b)
            self.not_whole += given != data
            self.bed.engine.send(self.now, port, given)
            return
        pkey = pkey_of(data) if a < 250 else 9
        self.bed.engine.inject(self.now, port, data, slid_of(data), dlid_of(data), pkey)

    def do_burst(self, a: int, b: int, c: int) -> None:
        for extra in range(40 - c % 40):
            self.do_send(a, b, c + extra)

    def do_all(self, a: int, b: int, c: int) -> None:
        for host in range(len(self.ports)):
            self.do_burst(host, a + host, 40 - c % 8)

    def do_stray(self, a: int, b: int, c: int) -> None:
        """Send what bears an address of somebody else: a port checks what it is told, and not the bytes."""
        _, data = self.make(a, b, c % 250)
        port = PortId(b % len(self.ports))
        self.strays.add(data[16:])
        lid = self.lid(port)
        self.bed.engine.inject(self.now, port, data, lid, lid, pick(PKEYS, c))

    def do_rules(self, a: int, b: int, c: int) -> None:
        direction = a % len(self.into)
        kinds = [FaultKind.LOSS, FaultKind.DUPLICATE, FaultKind.REORDER, FaultKind.CORRUPT, FaultKind.DELAY]
        rules = [self.rule(pick(kinds, b + each), b + each, c + each) for each in range(1 + c % 3)]
        if any(each.kind is FaultKind.CORRUPT for each in rules):
            self.damaged.add(direction)
        ways = {direction, direction ^ 1, 0} if b % 4 == 0 else {direction}
        if b % 4 == 1 and all(each.kind is not FaultKind.DUPLICATE for each in rules):
            ways = set(range(len(self.into)))
        for way in sorted(ways):
            self.damaged |= {way} if direction in self.damaged else set()
            self.bed.engine.set_rules(self.now, DirectionId(way), rules)

    def rule(self, kind: FaultKind, b: int, c: int) -> FaultRule:
        self.rules += 1
        many = c % 3 == 2  # once: copies of copies in a circle would take minutes
        made = rule(
            kind,
            self.rules,
            chance=pick((1.0, 0.5, 0.1, 0.0), c),
            match=pick(MATCHES, b // 5),
            skip=pick((0, 0, 2), c),
            count=1 if many else pick((None, None, 1, 5), b),
            delay_ns=pick((0, 1, 100_000), b),
            bits=pick((1, 3, 5000), c),
            copies=30 if many else 1,
            behind=pick((1, 2, 10), b),
            hold_ns=pick(HOLD_NS, c // 4),
        )
        return replace(made, tally=pick(self.tallies, b)) if b % 4 == 1 else made

    def do_no_rules(self, a: int, b: int, c: int) -> None:
        self.bed.engine.set_rules(self.now, DirectionId(a % len(self.into)), [])

    def do_flap(self, a: int, b: int, c: int) -> None:
        """Take a link, or a direction of it, down and mostly up again, or only the one or the other."""
        number = a % len(self.configs)
        if b % 2:  # best where something is held back
            ways = range(len(self.into))
            holding = [way for way in ways if self.bed.engine.is_holding(DirectionId(way))]
            number = pick(holding, a) if holding else number
        for _ in range(1 + (c % 4 > 0)):
            up = not self.up[number]
            for way in self.ways_of(number, b // 2):
                self.set_link(way, self.configs[way], up)

    def do_rate(self, a: int, b: int, c: int) -> None:
        for way in self.ways_of(a % len(self.configs), b // 7):
            changed = replace(
                self.configs[way],
                rate_bps=pick(RATES, b),
                latency_ns=pick(LATENCIES, b // 6),
                jitter_ns=pick(JITTERS, c // 6),
                queue=SizeOrTime(pick(QUEUES, c)),
            )
            self.set_link(way, changed, self.up[way])

    @staticmethod
    def ways_of(direction: int, choice: int) -> tuple[int, ...]:
        """Return both directions of a link, or one."""
        return (direction,) if choice % 3 == 0 else (direction & ~1, direction | 1)

    def do_flow(self, a: int, b: int, c: int) -> None:
        """Change the credits of one link, or of a direction, in the middle of everything, perhaps with its state."""
        for way in self.ways_of(a % len(self.configs), b // 5):
            if self.configs[way].flow is None:
                continue
            changed = replace(self.configs[way], flow=pick(OTHER_FLOWS, b))
            self.remapped.add(self.into[way])
            self.set_link(way, changed, self.up[way] if c % 4 else not self.up[way])

    def set_link(self, direction: int, config: LinkConfig, up: bool) -> None:
        self.configs[direction], self.up[direction] = config, up
        self.fastest[direction] = max(self.fastest[direction], config.whole_rate_bps)
        self.shortest[direction] = min(self.shortest[direction], config.latency_ns)
        self.longest_queue[direction] = max(self.longest_queue[direction], config.queue_bytes)
        self.bed.engine.set_link(self.now, DirectionId(direction), config, up)

    def do_tables(self, a: int, b: int, c: int) -> None:
        self.set_tables(SwitchId(a % self.shape.switches), b)

    def do_loop(self, a: int, b: int, c: int) -> None:
        for switch in range(self.shape.switches):
            self.set_tables(SwitchId(switch), a + switch)

    def do_switch(self, a: int, b: int, c: int) -> None:
        self.bed.engine.set_switch(self.now, SwitchId(a % self.shape.switches), b % 2 == 0)

    def do_switch_port(self, a: int, b: int, c: int) -> None:
        switch = SwitchId(a % self.shape.switches)
        config = SwitchPortConfig(
            pick(STATES, c), pick(EGRESSES, b // 4), pick(ENFORCED, a // 4), pick(ENFORCED, a // 16)
        )
        if c % 3:
            tables = {1 + (b + out) % 5: pick(SC_TABLES, c // 5 + out) for out in range(c % 3 * 2)}
            config = replace(config, sc_to_sc=tables)
        self.bed.engine.set_switch_port(self.now, switch, b % 4 + 1, config)
        if leads := self.cables[switch].get(b % 4 + 1):
            self.remapped.add(leads)

    def do_stall(self, a: int, b: int, c: int) -> None:
        self.bed.engine.stall_port(self.now, PortId(a % len(self.ports)), b % 2 == 0)

    def do_port(self, a: int, b: int, c: int) -> None:
        number = a % len(self.ports)
        groups = frozenset([GROUP]) if c % 2 else frozenset[int]()
        config = replace(
            self.ports[number], state=pick(STATES, b), egress=pick(EGRESSES, b // 5), multicast_lids=groups
        )
        self.bed.engine.set_port(self.now, PortId(number), config)

    def do_port_0(self, a: int, b: int, c: int) -> None:
        config = port_config(
            pick(SWITCH_LIDS, a if c % 5 else b),
            lmc=0,
            state=pick(STATES, b),
            pkeys=PkeyTable.of(PKEYS[: 1 + c % 2]),
            multicast_lids=frozenset([GROUP]) if c % 3 else frozenset(),
            any_group=not c % 5,
        )
        self.bed.engine.set_port(self.now, self.port0[a % len(self.port0)], config)

    def do_port_0_sends(self, a: int, b: int, c: int) -> None:
        port, data = self.from_port0(a, b, c)
        pkey = pkey_of(data) if a < 250 else 9
        self.bed.engine.inject(self.now, port, data, slid_of(data), dlid_of(data), pkey)

    def do_directed(self, a: int, b: int, c: int) -> None:
        port, data = self.from_port0(a, b, c)
        given = data if a < 250 else data[:b]
        self.not_whole += given != data
        self.bed.engine.direct(self.now, port, c % 5, given)

    def from_port0(self, a: int, b: int, c: int) -> tuple[PortId, bytes]:
        switch = a % len(self.port0)
        _, data = self.make(a, b, c)
        slid = pick((SWITCH_LIDS[switch], LID_PERMISSIVE), c)
        if is_9b(data):
            own = bytearray(bare_9b(data))
            own[6:8] = (slid & 0xFFFF).to_bytes(2)
            try:
                own = bytearray(carry_9b(bytes(own), ICRC))
            except WireError:  # it was damaged
                self.not_whole += 1
                return self.port0[switch], data
        else:
            own = bytearray(replace(Lrh16B.parse(data), slid=slid).build() + data[16:])
            icrc = ICRC.compute(own[:-TRAILER_SIZE], own[-1] & PAD_COUNT_MASK)
            own[-TRAILER_SIZE:-1] = icrc.to_bytes(4, "little")
        self.strays.add(bytes(own[16:]))
        return self.port0[switch], bytes(own)

    def do_hosts(self, a: int, b: int, c: int) -> None:
        """Let hosts keep the room of what they get, or release it."""
        self.bed.takes = a % 2 == 0
        if self.bed.takes:
            self.release()

    def release(self) -> None:
        held, self.held = self.held, []
        for output in held:
            self.bed.take(output)
        while self.kept:
            self.do_let_go(0, 0, 0)

    def do_keep(self, a: int, b: int, c: int) -> None:
        """Let a host share the room of something that it got, and take it itself or not."""
        if not self.held:
            self.bed.takes = False
            return
        output = self.held.pop(a % len(self.held))
        if output.token is not None:
            self.bed.engine.keep(output.token)
            self.kept.append(output.token)
        if b % 2:
            self.bed.take(output)
        else:
            self.held.append(output)

    def do_let_go(self, a: int, b: int, c: int) -> None:
        if self.kept:
            self.bed.engine.release(self.now, self.kept.pop(a % len(self.kept)))

    def do_observe(self, a: int, b: int, c: int) -> None:
        self.bed.engine.observe(self.now, DirectionId(a % len(self.into)), b % 3 > 0)
        self.all_seen = False

    def do_capture(self, a: int, b: int, c: int) -> None:
        """Begin a capture, or end one on some of its links."""
        ways = {each % len(self.into) for each in range(a, a + 1 + b % 4)}
        if c % 4 == 3 and len(self.captures) > 1:
            for way in ways:
                self.bed.engine.detach(self.now, DirectionId(way), pick(self.captures[1:], b))
            return
        config = CaptureConfig(
            len(self.into),
            match=pick(MATCHES, b // 5),
            snap=pick((1, 40, 5000, MAX_SNAP), c),
            limit=pick((None, None, 0, 3), a // 4),
            epoch_ns=a << 32,
            segments=2 + a % 3,
            segment_bytes=pick((60, 300, 20_000), b),
        )
        self.capture(ways, config)

    def do_take(self, a: int, b: int, c: int) -> None:
        for ring in self.captures:
            ring.take(a % 2 == 0)

    def do_forget(self, a: int, b: int, c: int) -> None:
        """Forget which packet was the first that a port has dropped."""
        switch = a % len(self.port0)
        end = SwitchEnd(SwitchId(switch), b % 5) if c % 3 else HfiEnd(PortId(b % len(self.ports)))
        self.bed.engine.forget_errors(self.now, end, tuple(Drop)[c % 7 :: 3])

    def do_run(self, a: int, b: int, c: int) -> None:
        self.bed.now += pick(PAUSES, a) + b * c
        self.keep_held(self.bed.run(self.now))

    def do_jump(self, a: int, b: int, c: int) -> None:
        self.bed.now += pick(PAUSES, a)
        self.bed.engine.handle_timeout(self.now)
        self.keep_held(self.bed.run(self.now))

    def keep_held(self, outputs: Sequence[object]) -> None:
        if not self.bed.takes:
            self.held += [output for output in outputs if isinstance(output, Delivered)]

    def rest(self) -> None:
        """Let everything come to its end."""
        for port in range(len(self.ports)):
            self.bed.engine.stall_port(self.now, PortId(port), False)
        self.keep_held(self.bed.run(self.now))
        self.bed.takes = True
        self.release()
        self.bed.run()
        if any(counters.in_flight for counters in self.bed.directions):
            # where routes form a circle, each lane in it can wait for room in the next: only a flap ends that
            assert any(config.flow is not None for config in self.configs)
            for direction, config in enumerate(self.configs):
                self.set_link(direction, config, False)
            self.bed.run()

    # --- laws ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare the engines, and hold what holds at any time against the first."""
        assert self.twins.deadline is None or self.twins.deadline >= 0
        self.twins.compare_counters()
        assert self.twins.difference is None, self.twins.difference
        assert [counters for counters in self.bed.counters() if counters.balance] == []
        for number in range(len(self.ports)):
            self.twins.is_stopped(PortId(number))
        self.check_port_errors()
        for number, limit in enumerate(self.longest_queue):
            self.twins.is_holding(DirectionId(number))
            self.check_vls(number)
            lanes = self.twins.lanes(DirectionId(number))
            if lanes is not None and number % 2 == 0 and self.into[number ^ 1] < 0:
                assert sum(lanes.waiting) <= limit
            if lanes is not None:
                assert all(credit >= 0 for credit in lanes.credits)

    def check_vls(self, number: int) -> None:
        """What VLs have carried is what their direction has; none has waited longer than there was time."""
        each = self.twins.vl_counters(self.now, DirectionId(number))
        total = self.bed.directions[number]
        assert sum(vl.packets for vl in each) == total.out_packets
        assert sum(vl.bytes for vl in each) == total.out_bytes
        for vl in each:
            assert min(vl.packets, vl.bytes, vl.discards, vl.overflows, vl.fecn, vl.becn) >= 0
            assert vl.overflows <= vl.discards
            assert 0 <= vl.wait_ns <= self.now
        wire = self.twins.wire_counters(self.now, DirectionId(number))
        assert (sum(vl.fecn for vl in each), sum(vl.becn for vl in each)) == (wire.fecn, wire.becn)
        assert wire.multicast <= total.out_packets
        assert total.drops.get(Drop.LINK_FAULT, 0) <= wire.errors
        assert wire.recent_errors <= wire.errors

    def check_port_errors(self) -> None:
        """What the ports of a switch have dropped, it has; it alone what came too early, or to nobody else's group."""
        for number in range(len(self.ports)):
            self.twins.port_errors(self.now, HfiEnd(PortId(number)))
        for switch, port0 in enumerate(self.port0):
            self.twins.port_errors(self.now, HfiEnd(port0))
            noted: Counter[Drop] = Counter()
            for port_num in range(PORT_NUMS):
                errors = self.twins.port_errors(self.now, SwitchEnd(SwitchId(switch), port_num))
                noted.update({drop: error.packets for drop, error in errors.items()})
            self.twins.count()
            drops = self.bed.switches[switch].drops
            for drop in (Drop.SW_PORT_DOWN, Drop.SW_NO_GROUP):
                assert noted[drop] <= drops.get(drop, 0)
            either = (Drop.SW_PORT_DOWN, Drop.SW_NO_GROUP, Drop.SW_DOWN)
            assert {drop: noted[drop] for drop in noted if drop not in either} == {
                drop: drops[drop] for drop in drops if drop not in either
            }

    def check_end(self) -> None:
        """Hold the laws of a fabric at rest against it."""
        self.check()
        assert self.twins.deadline is None
        self.bed.check_rest()
        if self.all_seen:
            self.check_time()
        self.check_order()
        self.check_sight()

    def check_sight(self) -> None:
        """Every packet that entered a direction, and every copy, was seen there once."""
        seen = Counter(output.direction for output in self.bed.outputs if isinstance(output, Observed))
        for number, counters in enumerate(self.bed.directions):
            entered = counters.in_packets + counters.copies
            if self.all_seen:
                assert seen[DirectionId(number)] == entered
            assert self.ring.counts()[number][0] == entered
        for ring in self.captures:
            ring.counts()
            assert isinstance(ring.is_complete, bool)
            while ring.take(True):
                pass
        self.check()

    def least(self, direction: int, size: int) -> int:
        """Return the shortest time in which a packet gets through a direction."""
        return size * 8 * NS_PER_S // self.fastest[direction] + self.shortest[direction]

    def check_time(self) -> None:
        """No packet is seen before the direction that it came through can have passed it on."""
        entered: dict[tuple[int, bytes], int] = {}
        for output in self.bed.outputs:
            if isinstance(output, Observed) and output.drop is None:
                key = output.direction, output.packet[16:]
                entered.setdefault(key, output.time)
        for place, data, time in self.observed_packets():
            if data[16:] in self.strays:
                continue
            came = [
                entered[number, data[16:]] + self.least(number, len(data))
                for number, into in enumerate(self.into)
                if into == place and (number, data[16:]) in entered
            ]
            if not came:
                assert self.damaged
                continue
            assert time >= min(came)

    def observed_packets(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield when a packet came out of a switch, or of the cable of a host: the element, the packet, the time."""
        for output in self.bed.outputs:
            if isinstance(output, Delivered):
                place = -1 - output.port
                if output.port in self.port0:
                    place = self.port0.index(output.port)
                yield place, output.packet, output.time
            elif (
                isinstance(output, Observed) and output.drop is None and output.direction not in self.damaged
            ):
                source = self.into[output.direction ^ 1]
                if source >= 0:
                    yield source, output.packet, output.time

    def check_order(self) -> None:
        """What reaches a host on one service channel kept the order in which it was seen on the last cable.

        Unless the channel got another virtual lane meanwhile: what waits in the old one does not hold up the new one.
        """
        for number, into in enumerate(self.into):
            if into >= 0 or not self.all_seen or into in self.remapped:
                continue
            for sc in {*SERVICE_CHANNELS}:
                seen = iter(
                    output.packet[16:]
                    for output in self.bed.outputs
                    if isinstance(output, Observed)
                    and output.direction == number
                    and output.drop is None
                    and sc_of(output.packet) == sc
                )
                got = [
                    output.packet[16:]
                    for output in self.bed.outputs
                    if isinstance(output, Delivered)
                    and output.port == -1 - into
                    and sc_of(output.packet) == sc
                ]
                assert all(data in seen for data in got)


def makers() -> dict[str, EngineFactory]:
    built = built_engines()
    return built if len(built) > 1 else {"python": PythonEngine, "again": PythonEngine}


@settings(max_examples=40)
@example(  # a packet for port 0 of a switch that is no MAD comes late where nobody watches
    Shape(switches=1, hosts=[0, 0], trunks=[], links=[(0, 0, 0, 0, 0)], watched=False),
    [("port 0", 0, 25, 0, 0), ("send", 0, 130, 0, 0)],
)
@example(  # packets arrive in rows ahead of their time behind one that had to come in its turn, and are seen on the way
    Shape(
        switches=4,
        hosts=[125, 119, 0, 0, 0],
        trunks=[(0, 0), (0, 27), (0, 42), (0, 83), (0, 97)],
        links=[(0, 0, 0, 0, 0), (0, 0, 0, 0, 0), (0, 0, 0, 5, 0)],
        watched=True,
    ),
    [
        ("send", 0, 0, 92, 0),
        ("send", 107, 0, 0, 0),
        ("send", 216, 0, 0, 0),
        ("port 0", 97, 0, 0, 0),
        ("send", 0, 0, 0, 3600 * NS_PER_S),
    ],
)
@given(shapes, scripts)
def test_random_fabric_is_the_same_on_every_engine_and_keeps_the_laws(
    shape: Shape, script: list[Step]
) -> None:
    compare(shape, script)


@pytest.mark.long
@settings(max_examples=2000)
@given(shapes, scripts)
def test_many_random_fabrics_are_the_same_on_every_engine_and_keep_the_laws(
    shape: Shape, script: list[Step]
) -> None:
    compare(shape, script)


def compare(shape: Shape, script: list[Step]) -> None:
    """Do a script on every engine, and check the laws."""
    assert is_multicast_lid(GROUP)
    world = World(shape, makers())
    for step in script:
        world.do(step)
    world.rest()
    world.check_end()
    assert world.bed.drops()[Drop.TX_MALFORMED] <= world.not_whole
