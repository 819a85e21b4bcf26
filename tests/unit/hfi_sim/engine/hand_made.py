"""An engine built by hand: ports, switches and links in a few words, and everything that came out, in order."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from engine_twins import Twins, built_engines
from hfi_sim.base.clock import FOREVER
from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.base.random_stream import RandomStream, threshold
from hfi_sim.base.types import PortState
from hfi_sim.engine.api import Engine, EngineFactory
from hfi_sim.engine.config import End, HfiEnd, PortConfig, SwitchEnd, SwitchPortConfig
from hfi_sim.engine.events.outputs import (
    Delivered,
    DirectionId,
    FlowChanged,
    Observed,
    Output,
    PortId,
    SwitchId,
)
from hfi_sim.engine.link.config import MAX_DEFAULT_QUEUE_BYTES, LinkConfig
from hfi_sim.engine.link.rule import FaultKind, FaultRule, Match
from hfi_sim.engine.link.two_way import LinkOptions, TwoWay
from hfi_sim.engine.python import PythonEngine
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire import lrh16b
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import Lrh16B, dlid_of, slid_of
from hfi_sim.wire.packet import build_packet
from hfi_sim.wire.packet_9b import Bth, Deth, Lnh, Lrh9B, carry_9b, short_lid

ICRC = Icrc()
PKEY = 0x8001
L4 = 0x55
GBIT = 1_000_000_000
SECOND = 1_000_000_000
ACTIVE = SwitchPortConfig(PortState.ACTIVE)


def link(*, queue_bytes: int = MAX_DEFAULT_QUEUE_BYTES, **changes: Any) -> LinkConfig:
    """Return a direction of a link of 1 Gbit/s and 1 us, with changes."""
    return LinkConfig(**{"rate_bps": GBIT, "latency_ns": 1000, "queue": SizeOrTime(queue_bytes), **changes})


class Tally:
    """What a fault of a test has done."""

    def __init__(self) -> None:
        self.seen = 0
        self.hits = 0


def rule(kind: FaultKind, number: int = 1, *, chance: float = 1.0, **more: Any) -> FaultRule:
    """Return a fault that means every packet unless told otherwise."""
    return FaultRule(number, kind, threshold(chance), more.pop("match", Match()), Tally(), **more)


def packet(
    slid: int, dlid: int, number: int = 0, *, size: int = 64, head: bytes = b"", **fields: Any
) -> bytes:
    """Return a sealed packet that bears a number.

    Args:  size: of all of it, a multiple of 8; it is longer if the rest takes more. head: before the number.
           fields: of the 16B header.
    """
    lrh = Lrh16B(slid, dlid, **{"l4": L4, "pkey": PKEY, **fields})
    return build_packet(lrh, (head + number.to_bytes(4, "big")).ljust(size - 21, b"\0"), ICRC)


def packet_9b(
    slid: int,
    dlid: int,
    number: int = 0,
    *,
    size: int = 64,
    sc: int = 0,
    pkey: int = PKEY,
    becn: bool = False,
    mad: bytes = b"",
    has_grh: bool = False,
) -> bytes:
    """Return a 9B packet as links carry it, which bears a number. Args: size: of all of it, if that is enough."""
    lids = short_lid(slid), short_lid(dlid)
    assert lids[0] is not None
    assert lids[1] is not None
    headers = bytes(40) if has_grh else b""
    headers += Bth(pkey=pkey, becn=becn, dest_qp=1 if mad else 9).build() + Deth(src_qp=1).build()
    rest = (headers + mad + number.to_bytes(4, "big")).ljust(size - 28, b"\0")
    rest += bytes(-len(rest) % 4)
    lnh = Lnh.GRH if has_grh else Lnh.BTH
    lrh = Lrh9B(sc=sc & 15, lnh=lnh, dlid=lids[1], slid=lids[0], length_dw=(12 + len(rest)) // 4)
    return carry_9b(lrh.build() + rest + bytes(4), ICRC)


def number_of(sent: bytes) -> int:
    """Return the number that a packet bears."""
    return int.from_bytes(sent[16:20], "big")


def table(ports: Mapping[int, int], groups: Sequence[tuple[int, ...]] = ()) -> LinearTable:
    """Return a forwarding table."""
    entries = array("H", bytes(2 * (max(ports, default=-1) + 1)))
    for lid, port_num in ports.items():
        entries[lid] = port_num
    return LinearTable(entries, groups)


def every_engine(icrc: Icrc) -> Engine:
    """Make the Python engine, and where the native one is built, that beside it."""
    engines = built_engines()
    return Twins(engines, icrc) if len(engines) > 1 else PythonEngine(icrc)


class HandMade:
    """One engine, the counters of its elements, its outputs so far, and room that nobody releases by itself."""

    def __init__(self, make: EngineFactory = every_engine) -> None:
        self.engine = make(ICRC)
        self.ports: list[tuple[PacketCounters, PacketCounters, CongestionCounters]] = []
        self.switch_ports: set[PortId] = set()
        """Those of `ports` that are port 0 of a switch."""
        self.switches: list[PacketCounters] = []
        self.directions: list[PacketCounters] = []
        self.outputs: list[Output] = []
        self.now = 0
        """The latest time that the engine was told."""
        self.takes = True
        """Whether hosts release what they get at once."""

    # --- building ------------------------------------------------------------------------------------------

    def port(self, lid: int, **config: Any) -> PortId:
        """Add an active port with a LID."""
        return self.add_port(port_config(lid, **config))

    def add_port(self, config: PortConfig) -> PortId:
        """Add a port that is set up like this."""
        counters = (PacketCounters(), PacketCounters(), CongestionCounters())
        self.ports.append(counters)
        number = self.engine.add_port(*counters)
        self.engine.set_port(0, number, config)
        return number

    def port0(self, switch: SwitchId, lid: int, **config: Any) -> PortId:
        """Give a switch its port 0, active, with a LID."""
        counters = (PacketCounters(), PacketCounters(), CongestionCounters())
        self.ports.append(counters)
        number = self.engine.add_port0(switch, *counters)
        self.switch_ports.add(number)
        self.engine.set_port(0, number, port_config(lid, **config))
        return number

    def switch(self, ports: int, lft: Mapping[int, int] | LinearTable) -> SwitchId:
        """Add a switch with active ports 1 to `ports` and a table."""
        counters = PacketCounters()
        self.switches.append(counters)
        number = self.engine.add_switch(counters)
        for port_num in range(1, ports + 1):
            self.engine.set_switch_port(0, number, port_num, ACTIVE)
        self.engine.set_tables(0, number, lft if isinstance(lft, LinearTable) else table(lft), {})
        return number

    def cable(self, a: End, b: End, config: LinkOptions | None = None) -> DirectionId:
        """Lay an observed cable and return the direction from `a` to `b`."""
        configs = TwoWay.of(config if config is not None else link())
        counters = (PacketCounters(), PacketCounters())
        first = len(self.directions)
        self.directions += counters
        streams = [
            (RandomStream.named(1, f"{first + side}"), RandomStream.named(1, f"{first + side} jitter"))
            for side in (0, 1)
        ]
        number = self.engine.add_link((a, b), (configs.up, configs.down), counters, (streams[0], streams[1]))
        for side in (0, 1):
            self.engine.observe(0, DirectionId(number + side), True)
        return number

    # --- running -------------------------------------------------------------------------------------------

    def send(self, now: int, port: PortId, data: bytes) -> Drop | None:
        """Send a packet from a port."""
        self.now = max(self.now, now)
        return self.engine.inject(now, port, data, slid_of(data), dlid_of(data), PKEY)

    def run(self, until: int = FOREVER) -> list[Output]:
        """Do what is due, at each deadline by itself, and return what came of it.

        Nothing of it is late but what is for port 0 of a switch and no MAD, which deadlines do not cover: see
        `Engine.add_port0`.
        """
        new: list[Output] = []
        told = 0
        while True:
            while (output := self.engine.poll_output()) is not None:
                assert output.time >= told or self._may_be_late(output)
                new.append(output)
                if self.takes and isinstance(output, Delivered):
                    self.take(output)
            deadline = self.engine.deadline
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.engine.handle_timeout(deadline)
            told = deadline
        self.outputs += new
        return new

    def _may_be_late(self, output: Output) -> bool:
        return (
            isinstance(output, Delivered)
            and output.port in self.switch_ports
            and output.packet[8:9] != bytes([lrh16b.L4.FM])
        )

    def take(self, output: Delivered) -> None:
        """Let the host of a port take a packet, as HFI ports do."""
        rx = self.ports[output.port][1]
        rx.in_flight -= 1
        rx.out_packets += 1
        rx.out_bytes += len(output.packet)
        if output.token is not None:
            self.engine.release(self.now, output.token)

    # --- looking -------------------------------------------------------------------------------------------

    def delivered(self, port: PortId | None = None) -> list[Delivered]:
        """Return what hosts got, or one of them."""
        return [
            output
            for output in self.outputs
            if isinstance(output, Delivered) and (port is None or output.port == port)
        ]

    def observed(self, direction: DirectionId) -> list[Observed]:
        """Return what entered a direction."""
        return [
            output
            for output in self.outputs
            if isinstance(output, Observed) and output.direction == direction
        ]

    def flow(self) -> list[bool]:
        """Return how senders were stopped and let go on."""
        return [output.stopped for output in self.outputs if isinstance(output, FlowChanged)]

    def counters(self) -> list[PacketCounters]:
        """Return those of all elements."""
        self.engine.count()
        ends = [counters for tx, rx, _ in self.ports for counters in (tx, rx)]
        return [*ends, *self.switches, *self.directions]

    def drops(self) -> Counter[Drop]:
        """Return all drops."""
        total: Counter[Drop] = Counter()
        for counters in self.counters():
            total.update(counters.drops)
        return total

    def check_rest(self) -> None:
        """Every packet is accounted for, nothing is on its way, every credit is back, and engines agree."""
        assert [counters.balance for counters in self.counters() if counters.balance] == []
        assert [counters for counters in self.counters() if counters.in_flight] == []
        for number in range(len(self.directions)):
            lanes = self.engine.lanes(DirectionId(number))
            if lanes is not None:
                assert set(lanes.waiting) == {0}
                assert set(lanes.occupied) == {0}
        if isinstance(self.engine, Twins):
            self.engine.compare_counters()
            assert self.engine.difference is None, self.engine.difference


def port_config(lid: int, **more: Any) -> PortConfig:
    """Return an active port with a LID."""
    return PortConfig(**{"state": PortState.ACTIVE, "lid": lid, "pkeys": PkeyTable.of([PKEY]), **more})


def two_hosts(config: LinkConfig, make: EngineFactory = every_engine) -> HandMade:
    """Return ports 0 and 1 with LIDs 1 and 2 on one cable; direction 0 leads from port 0 to port 1."""
    bed = HandMade(make)
    a, b = bed.port(1), bed.port(2)
    bed.cable(HfiEnd(a), HfiEnd(b), config)
    return bed


def star(
    hosts: int,
    config: LinkConfig,
    last: LinkConfig | None = None,
    make: EngineFactory = every_engine,
) -> HandMade:
    """Return hosts with LIDs 1 and up on one switch; `last`: the cable of the last, if it is another."""
    bed = HandMade(make)
    switch = bed.switch(hosts, {lid: lid for lid in range(1, hosts + 1)})
    for lid in range(1, hosts + 1):
        port = bed.port(lid)
        bed.cable(HfiEnd(port), SwitchEnd(switch, lid), last if last is not None and lid == hosts else config)
    return bed
