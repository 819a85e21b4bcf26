"""A cable, and the ports that can have one, as people configure them; what happens on it is the engine's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hfi_sim.base.clock import to_ns
from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.errors import FabricError
from hfi_sim.base.link_modes import SPEED_100G, Generation, LinkMode, active_mode, planned_mode
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.config import End, PortConfig, SwitchPortConfig
from hfi_sim.engine.driver import Driver
from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.engine.link.arbiter import Arbitration, Buffers
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.rule import FaultRule
from hfi_sim.engine.link.two_way import LinkOptions, TwoWay
from hfi_sim.engine.link.vl_counters import VlCounters, WireCounters


class OfGeneration:
    """An HFI or a switch: its generation follows from what its cables are planned for."""

    cn5000_cables = 0
    """Cables at its ports with lanes that only CN5000 has."""

    @property
    def generation(self) -> Generation:
        """The oldest generation that has the speeds of all its cables."""
        return Generation.CN5000 if self.cn5000_cables else Generation.OPA_100


class LinkPort(ABC):
    """A port that a cable fits into, and how packets leave by that."""

    name: str
    link: Link | None
    _config: PortConfig | SwitchPortConfig

    @property
    @abstractmethod
    def node(self) -> OfGeneration:
        """The HFI or the switch that it belongs to."""

    @property
    @abstractmethod
    def engine_end(self) -> End:
        """The port, as the engine knows it."""

    @abstractmethod
    def speed_changed(self) -> None:
        """Follow the link that now has another rate."""

    @abstractmethod
    def link_changed(self, up: bool) -> None:
        """Notice that the link came up or went down."""

    @abstractmethod
    def _configure(self, **changes: object) -> None:
        """Change the configuration, and tell the engine."""

    @property
    def sc_to_vl(self) -> tuple[int, ...]:
        """The table SC2VLt; empty: as the link has it."""
        return self._config.egress.sc_to_vl

    @property
    def vl_mtus(self) -> tuple[int, ...]:
        """The MTU of each of 16 VLs, in bytes; empty: no limits."""
        return self._config.egress.vl_mtus

    @property
    def arbitration(self) -> Arbitration | None:
        """How VLs share the wire of a link with credits; None: as the link has it."""
        return self._config.egress.arbitration

    @property
    def buffers(self) -> Buffers | None:
        """What VLs may occupy at the far end of a link with credits; None: as the link has it."""
        return self._config.egress.buffers

    @property
    def hoq_codes(self) -> tuple[int, ...]:
        """HOQLife of each of 16 VLs; empty: as the link has it."""
        return self._config.egress.hoq_codes

    def set_arbitration(self, arbitration: Arbitration | None) -> None:
        """Take the tables VLArb; None: VLs share the wire as the link has it.

        Without credits a link has one queue, and nothing to share. Shares used so far are forgotten.
        """
        if arbitration != self.arbitration:
            self._configure(egress=replace(self._config.egress, arbitration=arbitration))

    def set_buffers(self, buffers: Buffers | None) -> None:
        """Take BufferControl: what VLs may occupy at the far end of a link with credits; None: as the link has it.

        What is there already stays, even if it is more. A VL that has nothing there may always send one packet.
        """
        if buffers != self.buffers:
            self._configure(egress=replace(self._config.egress, buffers=buffers))

    def set_hoq_codes(self, codes: Sequence[int]) -> None:
        """Take HOQLife of each of 16 VLs: how long a packet may be the first of its VL at a switch's port; empty: as
        the link has it.

        Raises:  FabricError: another number of VLs.
        """
        if (codes := tuple(codes)) != self._config.egress.hoq_codes:
            self._configure(egress=replace(self._config.egress, hoq_codes=codes))

    def set_sc_to_vl(self, table: Sequence[int]) -> None:
        """Take a table SC2VLt: the VL of each of the 32 service channels; an empty one: as the link has it.

        Raises:  FabricError: another number of entries, a VL that is not 0 to 15.
        """
        self._configure(egress=replace(self._config.egress, sc_to_vl=tuple(table)))

    def set_vl_mtus(self, mtus: Sequence[int]) -> None:
        """Take the MTU of each of 16 VLs, in bytes (`MTU_HEADROOM`); 0: nothing leaves on it. Empty: no limits.

        Raises:  FabricError: another number of VLs, an MTU beyond 10240.
        """
        self._configure(egress=replace(self._config.egress, vl_mtus=tuple(mtus)))


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


def count_generation(link: Link, change: int) -> None:
    """Let both nodes of a cable that is laid, or taken away, know whether only CN5000 has its lanes."""
    if planned_mode(link.planned_bps).speed == SPEED_100G:
        for port in link.ends:
            port.node.cn5000_cables += change
