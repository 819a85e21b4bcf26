"""A cable between two ports, as people configure it; what happens on it is the engine's."""

from __future__ import annotations

from dataclasses import replace

from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.errors import FabricError
from hfi_sim.base.instants import to_ns
from hfi_sim.base.link_modes import LinkMode, active_mode
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.driver import Driver
from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.rule import FaultRule
from hfi_sim.engine.link.vl_counters import VlCounters
from hfi_sim.engine.link.wire_counters import WireCounters
from hfi_sim.nodes.link_port import LinkPort


class LinkDirection:
    """One direction of a link, from `source` to `target`."""

    def __init__(self, link: Link, source: LinkPort, target: LinkPort, seed: int) -> None:
        self.link = link
        self.source = source
        self.target = target
        self.name = f"{source.name}->{target.name}"
        self._counters = PacketCounters()
        self.stream = RandomStream.named(seed, self.name)
        """What its faults draw from."""
        self.jitter_stream = RandomStream.named(seed, f"{self.name} jitter")
        self.number: DirectionId
        """Its number in the engine."""
        self._rules: dict[int, FaultRule] = {}

    @property
    def counters(self) -> PacketCounters:
        """What has passed it so far."""
        self.link.driver.count()
        return self._counters

    @property
    def rules(self) -> tuple[FaultRule, ...]:
        """The faults on it, in the order in which they were set."""
        return tuple(self._rules.values())

    def add_rule(self, rule: FaultRule) -> None:
        """Put a fault on it, behind those that are there; one with the same number is replaced where it stands."""
        self._rules[rule.number] = rule
        self._tell_rules()

    def remove_rule(self, number: int) -> None:
        """Take a fault off it; harmless when it is gone."""
        if self._rules.pop(number, None) is not None:
            self._tell_rules()

    def _tell_rules(self) -> None:
        driver = self.link.driver
        driver.engine.set_rules(driver.now, self.number, self.rules)
        driver.run_soon()

    def vl_counters(self) -> tuple[VlCounters, ...]:
        """Return what each VL has carried so far, and how long it has waited; index: VL.

        There is one VL, or as many as the link has, or 16 on a link without credits whose port was given a table
        (`set_sc_to_vl`). The near end's performance agent reads here what its port has sent, the far end's what its
        port has received.
        """
        driver = self.link.driver
        counters = driver.engine.vl_counters(driver.now, self.number)
        driver.run_soon()
        return counters

    def wire_counters(self) -> WireCounters:
        """Return what it counts beside packets and bytes: multicast, congestion marks, errors of the wire."""
        driver = self.link.driver
        counters = driver.engine.wire_counters(driver.now, self.number)
        driver.run_soon()
        return counters

    @property
    def lanes(self) -> LanesStatus | None:
        """Its virtual lanes as they are now; None on a link without credits."""
        return self.link.driver.engine.lanes(self.number)


class Link:
    """A cable. `up` is its state; `hold_down` changes it and tells both ports."""

    def __init__(self, a: LinkPort, b: LinkPort, driver: Driver, config: LinkConfig, *, seed: int) -> None:
        """Lay it, down. Args: as for `Fabric.connect`."""
        name = f"{a.name}--{b.name}"
        for problem in config.problems():
            raise FabricError(f"link {name}: {problem}")
        self.name = name
        self.ends = (a, b)
        self.driver = driver
        self.config = replace(config, up=False)
        """What it is set to; engines get less latency where a network between machines adds some (`network_s`)."""
        self.planned_bps = config.rate_bps
        """The rate that it is planned for; a fault may make it slower."""
        self.downed_by: set[str] = {"admin"}
        """Reasons that hold the link down; it is up if this is empty."""
        self.times_downed = 0
        """How often it went down."""
        self.has_credits = config.flow is not None
        """Whether it has credits, which stop a sender; they are set when the link is made."""
        self._network_s = 0.0
        ways = (LinkDirection(self, a, b, seed), LinkDirection(self, b, a, seed))
        self.directions = ways
        first = driver.engine.add_link(
            (a.engine_end, b.engine_end),
            self.config,
            (ways[0].counters, ways[1].counters),
            ((ways[0].stream, ways[0].jitter_stream), (ways[1].stream, ways[1].jitter_stream)),
        )
        for side, way in enumerate(ways):
            way.number = DirectionId(first + side)
        a.link = b.link = self

    def _reconfigure(self, config: LinkConfig) -> None:
        if config != self.config:
            self.config = config
            self._tell()

    def _tell(self) -> None:
        left_ns = max(self.config.latency_ns - to_ns(self._network_s), 0)
        config = replace(self.config, latency_ns=left_ns)
        self.driver.engine.set_link(self.driver.now, self.directions[0].number, config)
        self.driver.run_soon()

    @property
    def up(self) -> bool:
        """Whether nothing holds it down."""
        return self.config.up

    @property
    def flow(self) -> FlowControl | None:
        """How its credits are set up, each way, where the ports have nothing else; None: it has none."""
        return self.config.flow

    @flow.setter
    def flow(self, flow: FlowControl | None) -> None:
        """Set up the credits anew; what waits or is on its way stays.

        Raises:  FabricError: it has none and is to get some, or the other way round.
        """
        if (flow is not None) != self.has_credits:
            raise FabricError(f"link {self.name}: a link gets credits when it is laid, or never")
        self._reconfigure(replace(self.config, flow=flow))

    @property
    def rate_bps(self) -> float:
        """Bits per second, each way."""
        return self.config.rate_bps

    @rate_bps.setter
    def rate_bps(self, rate_bps: float) -> None:
        if rate_bps == self.rate_bps:
            return
        self._reconfigure(replace(self.config, rate_bps=rate_bps))
        for port in self.ends:
            port.speed_changed()

    @property
    def mode(self) -> LinkMode:
        """The speed and the width that it runs in."""
        return active_mode(self.rate_bps, self.planned_bps)

    @property
    def queue_bytes(self) -> int:
        """What may wait at the near end of a direction while its wire is busy, in bytes; more is dropped.

        A length in bytes stays as it is when the rate changes; any other keeps its time, so its bytes change.
        Setting it sets a length in bytes.
        """
        return self.config.queue_bytes

    @queue_bytes.setter
    def queue_bytes(self, queue_bytes: int) -> None:
        self._reconfigure(replace(self.config, queue=SizeOrTime(size=queue_bytes)))

    @property
    def network_s(self) -> float:
        """What a network between the machines of its ends adds, in seconds: so much less of its latency acts here."""
        return self._network_s

    @network_s.setter
    def network_s(self, network_s: float) -> None:
        if network_s != self._network_s:
            self._network_s = network_s
            self._tell()

    def hold_down(self, by: str, down: bool) -> bool:
        """Record whether `by` holds the link down; return whether the link changed.

        A packet that is on its way when it goes down is lost (link_down).
        """
        (self.downed_by.add if down else self.downed_by.discard)(by)
        up = not self.downed_by
        if up == self.up:
            return False
        self.times_downed += not up
        self._reconfigure(replace(self.config, up=up))
        for port in self.ends:
            port.link_changed(up)
        return True

    def direction_from(self, port: LinkPort) -> LinkDirection:
        """Return the direction in which `port` sends."""
        return self.directions[0] if port is self.ends[0] else self.directions[1]

    def far_end(self, port: LinkPort) -> LinkPort:
        """Return the port at the other end."""
        return self.ends[1] if port is self.ends[0] else self.ends[0]
