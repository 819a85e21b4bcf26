"""A cable between two ports, as people configure it; what happens on it is the engine's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.errors import FabricError
from hfi_sim.base.instants import to_ns
from hfi_sim.base.link_modes import LinkMode, active_mode
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.driver import Driver
from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.rule import FaultRule
from hfi_sim.engine.link.two_way import LinkOptions, TwoWay
from hfi_sim.engine.link.vl_counters import VlCounters
from hfi_sim.engine.link.wire_counters import WireCounters
from hfi_sim.nodes.link_port import LinkPort


class LinkDirection:
    """One direction of a link, from `source` to `target`, with the options and faults of its own."""

    def __init__(self, link: Link, ends: tuple[LinkPort, LinkPort], planned: LinkConfig, seed: int) -> None:
        self.link = link
        self.source, self.target = ends
        self.name = f"{self.source.name}->{self.target.name}"
        self.planned = planned
        """Its options as it was laid, without faults: at `planned.rate_bps` its ports were to run."""
        self._counters = PacketCounters()
        self.stream = RandomStream.named(seed, self.name)
        """What its faults draw from."""
        self.jitter_stream = RandomStream.named(seed, f"{self.name} jitter")
        self.number: DirectionId
        """Its number in the engine."""
        self._rules: dict[int, FaultRule] = {}
        self._limits_bps: dict[str, float] = {}
        """Rates that faults leave it, by the name of each."""
        self._cut_by: set[str] = set()

    @property
    def counters(self) -> PacketCounters:
        """What has passed it so far."""
        self.link.driver.count()
        return self._counters

    # --- options -------------------------------------------------------------------------------------------

    @property
    def config(self) -> LinkConfig:
        """Its options as they are now: at the rate that faults leave it.

        A queue in bytes stays as it is when the rate changes; any other keeps its time, so its bytes change.
        """
        return replace(self.planned, rate_bps=self.rate_bps)

    @property
    def rate_bps(self) -> float:
        """Bits per second, as faults leave it."""
        return min([self.planned.rate_bps, *self._limits_bps.values()])

    @property
    def has_credits(self) -> bool:
        """Whether it has credits, which stop a sender; a direction gets them when its link is laid."""
        return self.planned.flow is not None

    @property
    def up(self) -> bool:
        """Whether it carries packets: the link is up, and nothing cuts this direction."""
        return self.link.up and not self._cut_by

    def limit_rate(self, by: str, rate_bps: float | None) -> bool:
        """Record the rate that `by` leaves it, None: any; return whether its rate changed. Tell with `Link.tell`."""
        before = self.rate_bps
        if rate_bps is None:
            self._limits_bps.pop(by, None)
        else:
            self._limits_bps[by] = rate_bps
        return self.rate_bps != before

    def cut(self, by: str, down: bool) -> None:
        """Record whether `by` lets nothing pass in this direction, while the ports at both ends do not notice.

        A packet that is on its way then is lost (link_down), as is every later one.
        """
        was_up = self.up
        (self._cut_by.add if down else self._cut_by.discard)(by)
        if self.up != was_up:
            self.link.tell((self,))

    # --- faults of packets ---------------------------------------------------------------------------------

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

    # --- looking -------------------------------------------------------------------------------------------

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
        """Its virtual lanes as they are now; None without credits."""
        return self.link.driver.engine.lanes(self.number)


class Link:
    """A cable. `up` is its state; `hold_down` changes it and tells both ports."""

    def __init__(self, a: LinkPort, b: LinkPort, driver: Driver, options: LinkOptions, *, seed: int) -> None:
        """Lay it, held down by "admin". Args: as for `Fabric.connect`."""
        name = f"{a.name}--{b.name}"
        planned = TwoWay.of(options)
        for problem in planned.problems():
            raise FabricError(f"link {name}: {problem}")
        self.name = name
        self.ends = (a, b)
        self.driver = driver
        self.downed_by: set[str] = {"admin"}
        """Reasons that hold the link down; it is up if this is empty."""
        self.times_downed = 0
        """How often it went down."""
        self._network_s = 0.0
        ways = (
            LinkDirection(self, (a, b), planned.up, seed),
            LinkDirection(self, (b, a), planned.down, seed),
        )
        self.directions = ways
        first = driver.engine.add_link(
            (a.engine_end, b.engine_end),
            planned.ways,
            (ways[0].counters, ways[1].counters),
            ((ways[0].stream, ways[0].jitter_stream), (ways[1].stream, ways[1].jitter_stream)),
        )
        for side, way in enumerate(ways):
            way.number = DirectionId(first + side)
        a.link = b.link = self

    # --- options -------------------------------------------------------------------------------------------

    @property
    def planned(self) -> TwoWay:
        """Its options as it was laid, without faults."""
        return TwoWay(up=self.directions[0].planned, down=self.directions[1].planned)

    def configure(self, options: LinkOptions) -> None:
        """Set its options anew; what waits or is on its way stays.

        Raises:  FabricError: an option is out of its range, or a direction would get credits, or lose them.
        """
        planned = TwoWay.of(options)
        for problem in planned.problems():
            raise FabricError(f"link {self.name}: {problem}")
        for way, config in zip(self.directions, planned.ways, strict=True):
            if (config.flow is not None) != way.has_credits:
                raise FabricError(
                    f"link {way.name}: a direction gets credits when its link is laid, or never"
                )
        before = [way.rate_bps for way in self.directions]
        for way, config in zip(self.directions, planned.ways, strict=True):
            way.planned = config
        self.tell(self.directions)
        if before != [way.rate_bps for way in self.directions]:
            self._speed_changed()

    @property
    def planned_bps(self) -> float:
        """The rate at which it was laid, of its slower direction."""
        return min(self.planned.rates_bps)

    @property
    def rate_bps(self) -> float:
        """Its rate as faults leave it, of its slower direction."""
        return min(way.rate_bps for way in self.directions)

    @property
    def mode(self) -> LinkMode:
        """The speed and the width that it runs in."""
        return active_mode(self.rate_bps, self.planned_bps)

    def limit_rate(self, ways: Iterable[LinkDirection], by: str, rate_bps: float | None) -> None:
        """Slow directions of this link down to a rate; None: `by` lets go. The smallest rate holds."""
        if changed := [way for way in ways if way.limit_rate(by, rate_bps)]:
            self.tell(changed)
            self._speed_changed()

    def _speed_changed(self) -> None:
        for port in self.ends:
            port.speed_changed()

    def tell(self, ways: Iterable[LinkDirection]) -> None:
        """Tell the engine how directions of this link are now."""
        for way in ways:
            config = way.config
            left_ns = max(config.latency_ns - to_ns(self._network_s), 0)
            self.driver.engine.set_link(
                self.driver.now, way.number, replace(config, latency_ns=left_ns), way.up
            )
        self.driver.run_soon()

    @property
    def network_s(self) -> float:
        """What a network between the machines of its ends adds, in seconds: so much less of its latency acts here."""
        return self._network_s

    @network_s.setter
    def network_s(self, network_s: float) -> None:
        if network_s != self._network_s:
            self._network_s = network_s
            self.tell(self.directions)

    # --- state ---------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether nothing holds it down."""
        return not self.downed_by

    def hold_down(self, by: str, down: bool) -> bool:
        """Record whether `by` holds the link down; return whether the link changed.

        A packet that is on its way when it goes down is lost (link_down).
        """
        was_up = self.up
        (self.downed_by.add if down else self.downed_by.discard)(by)
        if self.up == was_up:
            return False
        self.times_downed += was_up
        self.tell(self.directions)
        for port in self.ends:
            port.link_changed(self.up)
        return True

    def direction_from(self, port: LinkPort) -> LinkDirection:
        """Return the direction in which `port` sends."""
        return self.directions[0] if port is self.ends[0] else self.directions[1]

    def direction_to(self, port: LinkPort) -> LinkDirection:
        """Return the direction in which `port` receives."""
        return self.directions[1] if port is self.ends[0] else self.directions[0]

    def far_end(self, port: LinkPort) -> LinkPort:
        """Return the port at the other end."""
        return self.ends[1] if port is self.ends[0] else self.ends[0]
