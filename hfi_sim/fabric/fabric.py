"""The fabric: all HFIs, switches and links, the engine that moves packets, and conservation over them.

fabric = Fabric(asyncio.get_running_loop(), seed=7)
switch = fabric.add_switch("sw0")
fabric.connect(fabric.add_hfi("h1").ports[1], switch.ports[1])
SubnetManager(fabric).sweep()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from hfi_sim.base.clock import Clock, ManualClock, to_seconds
from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.errors import FabricError
from hfi_sim.base.text import unknown_name
from hfi_sim.base.types import Guid, PortEvent
from hfi_sim.engine.api import Engine, EngineFactory
from hfi_sim.engine.driver import Driver, DriverFactory, EngineDriver
from hfi_sim.engine.events.outputs import (
    Delivered,
    Departed,
    DirectionId,
    FlowChanged,
    Observed,
    Output,
    PortId,
)
from hfi_sim.engine.link.capture import CaptureConfig, CaptureRing
from hfi_sim.engine.link.config import PLAIN_LINK
from hfi_sim.engine.link.two_way import LinkOptions
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.guids import GuidSpace
from hfi_sim.fabric.notices import FabricChange, FabricNotice, PacketObserver, TracedPacket
from hfi_sim.management.mad.stack import MadStack
from hfi_sim.management.pma.agent import METHODS, PerformanceAgent
from hfi_sim.management.pma.ports import counted_hfi, counted_switch
from hfi_sim.management.sma.agent import SubnetManagementAgent
from hfi_sim.management.smp.interface import SubnetInterface
from hfi_sim.nodes.cable import Link, LinkDirection, LinkPort, count_generation
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.hfi import Hfi, HfiPort, NetdevFactory
from hfi_sim.nodes.switch import Switch, SwitchPort, SwitchPort0
from hfi_sim.routing.table import MAX_PORTS
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.header import MadClass


class Fabric:
    """Nodes and cables. Without a clock, packets arrive immediately and requests never time out."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seed: int = 0,
        icrc: Icrc | None = None,
        timer_resolution_s: float | None = None,
        engine: EngineFactory = PythonEngine,
        driver: DriverFactory = EngineDriver,
        remote_nodes: Collection[str] = (),
    ) -> None:
        """Make an empty fabric.

        Args:  clock: an asyncio loop or another Clock; seed: for all random streams (`hfi_sim.base.random_stream`);
               timer_resolution_s: shorter delays are skipped (a real loop wakes up late, see `precise_loop`;
               0 on virtual time, where delays are exact); engine: makes what carries the packets; driver: makes what
               drives that; remote_nodes: nodes that the engine of another machine carries.
        """
        if timer_resolution_s is None:
            timer_resolution_s = 0.0 if clock is not None else float("inf")
        self.clock: Clock = clock if clock is not None else ManualClock()
        self.seed = seed
        self.icrc = icrc if icrc is not None else Icrc()
        self.timer_resolution_s = timer_resolution_s
        """Delays shorter than this, in seconds, are skipped."""
        self.engine: Engine = engine(self.icrc)
        self.driver: Driver = driver(self.engine, self.clock, timer_resolution_s, self._dispatch)
        self.hfis: dict[str, Hfi] = {}
        self.switches: dict[str, Switch] = {}
        self.links: list[Link] = []
        self.attached: dict[str, PacketCounters] = {}
        """Counters of elements above the ports (VNICs, ...) that are included in conservation."""
        self.before_counting: list[Callable[[], None]] = []
        """Called before counters are read: VNICs that are carried elsewhere add theirs here."""
        self._guids = GuidSpace()
        self._remote_nodes = frozenset(remote_nodes)
        self.on_departed: Callable[[Departed], None] = _no_carrier
        """Takes the packets that leave for another engine."""
        self.on_spent: Callable[[int], None] = lambda _number: None
        """Told the number of each fault that has hit as many packets as it was to."""
        self._ports: dict[PortId, EndPort] = {}
        self._agents: dict[PortId, SubnetManagementAgent] = {}
        """By number in the engine; directions likewise."""
        self._directions: dict[DirectionId, LinkDirection] = {}
        self._observers: list[PacketObserver] = []
        """Those of all links, cabled later or not."""
        self._watched: dict[LinkDirection, list[PacketObserver]] = {}
        self._captured: dict[CaptureRing, frozenset[LinkDirection]] = {}
        """What each capture looks at."""
        self._handlers: list[Callable[[FabricNotice], None]] = []
        self._held: list[FabricNotice] | None = None
        """Changes that are told later, together; None: at once."""

    # --- building ------------------------------------------------------------------------------------------

    def add_hfi(
        self, name: str, *, ports: int = 1, guid: int | None = None, netdevs: NetdevFactory | None = None
    ) -> Hfi:
        """Add an HFI.

        Args:    ports: 1 or 2. guid: of the node, 64 bits; None: a free one. netdevs: makes those of its host's VNICs.
        Raises:  FabricError: the name or the GUID is taken.
        """
        hfi = Hfi(
            name,
            self._claim(name, guid),
            ports=ports,
            icrc=self.icrc,
            driver=self.driver,
            netdevs=netdevs,
            is_remote=name in self._remote_nodes,
        )
        for port in hfi.ports.values():
            self._ports[port.number] = port
            self._add_management(port)
            agent = PerformanceAgent(partial(counted_hfi, port), default_port=port.opa_port_num, is_hfi=True)
            port.mad.register_agent(MadClass.PERFORMANCE, None, METHODS, agent.receive)
            port.read_counts = partial(agent.counts, port.opa_port_num)
            port.read_vl_counts = partial(agent.vl_counts, port.opa_port_num)
            port.on_announcement(self._announced)
        self.hfis[name] = hfi
        return hfi

    def add_switch(
        self, name: str, *, ports: int = 64, guid: int | None = None, description: str = ""
    ) -> Switch:
        """Add a switch with ports 1 to `ports`.

        Args:    description: what it says of itself; default: its name.
        Raises:  FabricError: the name or the GUID is taken; more ports than a forwarding table can hold.
        """
        if not 1 <= ports <= MAX_PORTS:
            raise FabricError(f"switch {name}: {ports} ports; a switch has 1 to {MAX_PORTS}")
        switch = Switch(
            name,
            self._claim(name, guid),
            ports,
            icrc=self.icrc,
            driver=self.driver,
            on_program=lambda switch: self._notify(FabricChange.TABLES, switch.name),
            is_remote=name in self._remote_nodes,
        )
        switch.description = description or name
        port0 = switch.port0
        self._ports[port0.number] = port0
        self._add_management(port0)
        agent = PerformanceAgent(partial(counted_switch, switch), default_port=0)
        port0.mad.register_agent(MadClass.PERFORMANCE, None, METHODS, agent.receive)
        self.switches[name] = switch
        return switch

    def _add_management(self, port: HfiPort | SwitchPort0) -> None:
        port.mad = MadStack(port, self.clock)
        interface = SubnetInterface(port, port.mad)
        self._agents[port.number] = SubnetManagementAgent(port, interface, self.clock, self.set_links)

    def end_management(self, port: HfiPort | SwitchPort0) -> None:
        """End the agent and the MAD stack of a port: no timer is left."""
        self._agents.pop(port.number).shutdown()
        port.mad.shutdown()

    def reserve(self, guids: Iterable[int]) -> None:
        """Keep GUIDs for nodes that will ask for them: others do not get them by chance."""
        self._guids.reserve(guids)

    def _claim(self, name: str, guid: int | None) -> Guid:
        if name in self.hfis or name in self.switches:
            raise FabricError(f"a node named {name!r} is already on the fabric")
        return self._guids.claim(name, guid)

    def connect(self, a: LinkPort, b: LinkPort, options: LinkOptions = PLAIN_LINK) -> Link:
        """Lay a cable between two free ports; it comes up.

        Args:    options: of both directions, or of each: up is from `a` to `b`.
        Raises:  FabricError: a port has a cable already, or both are the same; an option is out of range.
        """
        if a is b:
            raise FabricError(f"port {a.name} cannot be cabled to itself")
        for port in (a, b):
            if port.link is not None:
                raise FabricError(f"port {port.name} is already cabled ({port.link.name})")
        link = Link(a, b, self.driver, options, seed=self.seed)
        self.links.append(link)
        count_generation(link, 1)
        self._directions |= {direction.number: direction for direction in link.directions}
        for direction in link.directions:
            self._watch(direction, list(self._observers))
        self.set_link(link, True)
        return link

    # --- taking apart --------------------------------------------------------------------------------------

    def disconnect(self, links: Iterable[Link]) -> None:
        """Take cables away; what is on its way there is lost (link_down). Args: links: whose ports are free then."""
        gone = list(links)
        self.set_links(gone, False, by="taken away")
        for link in gone:
            for direction in link.directions:
                self._watch(direction, [])
                del self._directions[direction.number]
            count_generation(link, -1)
            for port in link.ends:
                port.link = None
        numbers = [direction.number for link in gone for direction in link.directions]
        self.driver.engine.forget(self.driver.now, (), numbers)
        self.links = [link for link in self.links if link not in gone]

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Take HFIs and switches off the fabric for good, with their cables.

        Args:    names: of the nodes.
        Raises:  FabricError: no node has that name.
        """
        nodes = [self._node(name) for name in names]
        ports = [port for node in nodes for port in node.ports.values() if port.link is not None]
        self.disconnect(dict.fromkeys(port.link for port in ports if port.link is not None))
        for node in nodes:
            if isinstance(node, Switch):
                self.set_switch(node, False)
                self.end_management(node.port0)
                del self._ports[node.port0.number]
                del self.switches[node.name]
            else:
                for port in node.ports.values():
                    self.end_management(port)
                    del self._ports[port.number]
                self.driver.engine.forget(self.driver.now, [port.number for port in node.ports.values()], ())
                del self.hfis[node.name]
            self._guids.release(node.name)

    def _node(self, name: str) -> Hfi | Switch:
        node = self.hfis.get(name) or self.switches.get(name)
        if node is None:
            raise FabricError(unknown_name("node", name, [*self.hfis, *self.switches]))
        return node

    @contextmanager
    def together(self) -> Iterator[None]:
        """Tell of changes when the context ends, as one: the subnet manager then sweeps once."""
        if self._held is not None:
            yield
            return
        held: list[FabricNotice] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for number, notice in enumerate(held, 1):
                self._notify(notice.change, notice.name, more=number < len(held))

    # --- watching ------------------------------------------------------------------------------------------

    def observe(
        self, observer: PacketObserver, directions: Iterable[LinkDirection] | None = None
    ) -> Callable[[], None]:
        """Call `observer` for each packet that enters a link; the returned function unsubscribes it.

        Args:  directions: None for all, including those of links cabled later.
        """
        if directions is None:
            self._observers.append(observer)
        for direction in self._directions.values() if directions is None else directions:
            self._watch(direction, [*self._watched.get(direction, ()), observer])

        def end() -> None:
            if observer in self._observers:
                self._observers.remove(observer)
            for direction, observers in tuple(self._watched.items()):
                if observer in observers:
                    self._watch(direction, [other for other in observers if other is not observer])

        return end

    def _watch(self, direction: LinkDirection, observers: list[PacketObserver]) -> None:
        was_watched = direction in self._watched
        if observers:
            self._watched[direction] = observers
        else:
            self._watched.pop(direction, None)
        if was_watched != bool(observers):
            self.driver.engine.observe(self.driver.now, direction.number, bool(observers))
            self.driver.run_soon()

    def capture(
        self, directions: Iterable[LinkDirection], config: CaptureConfig
    ) -> tuple[CaptureRing, Callable[[], None]]:
        """Copy the packets that enter links into a ring, until the returned function is called.

        Args:  directions: `config.interfaces` many; the place of each is its number as an interface.
        """
        captured = tuple(directions)
        engine = self.driver.engine
        ring = engine.capture_ring(config)
        for interface, direction in enumerate(captured):
            engine.attach(self.driver.now, direction.number, ring, interface)
        self._captured[ring] = frozenset(captured)
        self.driver.run_soon()

        def end() -> None:
            self._captured.pop(ring, None)
            for direction in captured:
                engine.detach(self.driver.now, direction.number, ring)
            self.driver.run_soon()

        return ring, end

    def _dispatch(self, output: Output) -> None:
        if isinstance(output, Delivered):
            _, number, packet, token, in_port = output
            if (receiver := self._ports.get(number)) is not None:
                receiver.deliver(packet, token, in_port)
        elif isinstance(output, Observed):
            if (direction := self._directions.get(output.direction)) is not None:
                observed = TracedPacket(to_seconds(output.time), direction.name, output.packet, output.drop)
                for observer in self._watched.get(direction, ()):
                    observer(observed)
        elif isinstance(output, FlowChanged):
            port = self._ports.get(output.port)
            if isinstance(port, HfiPort):  # port 0 of a switch has no link that could stop it
                port.update_flow_control()
        elif isinstance(output, Departed):
            self.on_departed(output)
        else:
            self.on_spent(output.rule)

    def set_link(self, link: Link, up: bool, by: str = "admin") -> None:
        """Bring a link up or down, and let the subnet manager know. Args: by: the requester, see `set_links`."""
        self.set_links([link], up, by)

    def set_links(self, links: Iterable[Link], up: bool, by: str = "admin") -> None:
        """Bring links up or down together, so that the subnet manager sweeps once.

        Args:  by: the requester. A link comes up once everyone that took it down has released it.
        """
        changed: list[Link] = []
        for link in links:
            if link.hold_down(by, not up):
                changed.append(link)
        change = FabricChange.LINK_UP if up else FabricChange.LINK_DOWN
        for number, link in enumerate(changed, 1):
            self._notify(change, link.name, more=number < len(changed))

    def set_switch(self, switch: Switch, up: bool) -> None:
        """Switch a switch off or on. Args: up: False: it loses its tables, and its links go down. True: it is back."""
        if switch.up == up:
            return
        switch.up = up
        if not up:
            switch.program({}, {})
        links = [port.link for port in switch.ports.values() if port.link is not None]
        self.set_links(links, up, by=f"switch {switch.name}")

    def remove_hfi(self, hfi: Hfi) -> None:
        """Pull an HFI out of its host: a fatal event, and all its cables are gone for good. Args: hfi: of `hfis`."""
        for port in hfi.ports.values():
            port.report(PortEvent.DEVICE_FATAL)
        links = [port.link for port in hfi.ports.values() if port.link is not None]
        self.set_links(links, False, by=f"hfi {hfi.name}")

    # --- looking -------------------------------------------------------------------------------------------

    def hfi_ports(self) -> Iterator[HfiPort]:
        """Yield every HFI port, in the order in which the HFIs were added."""
        for hfi in self.hfis.values():
            yield from hfi.ports.values()

    def neighbours(self, switch: Switch) -> Iterator[tuple[SwitchPort, LinkPort]]:
        """Yield each live cable of a switch as (its own port, the port at the far end). Args: switch: of `switches`."""
        for port in switch.ports.values():
            if port.link is not None and port.link.up:
                yield port, port.link.far_end(port)

    def on_change(self, handler: Callable[[FabricNotice], None]) -> Callable[[], None]:
        """Subscribe to changes. Args: handler: gets each. Returns: a function that unsubscribes it."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def _announced(self, port: HfiPort, described: bool) -> None:
        self._notify(FabricChange.DESCRIPTION if described else FabricChange.CAPABILITY, port.name)

    def _notify(self, change: FabricChange, name: str, *, more: bool = False) -> None:
        notice = FabricNotice(change, name, more)
        if self._held is not None:
            self._held.append(notice)
            return
        for handler in tuple(self._handlers):
            handler(notice)

    def count(self) -> None:
        """Let the engine, and VNICs that are carried elsewhere, add to the counters here."""
        self.driver.count()
        for add_up in self.before_counting:
            add_up()

    # --- conservation --------------------------------------------------------------------------------------

    def counters(self) -> Iterator[tuple[str, PacketCounters]]:
        """Yield the counters of every element, with its name."""
        self.count()
        for port in self.hfi_ports():
            yield f"{port.name} tx", port.tx
            yield f"{port.name} rx", port.rx
            yield f"{port.name} mad", port.mad.counters
        for switch in self.switches.values():
            yield switch.name, switch.counters
            if (port0 := switch.port0).is_used:
                yield f"{port0.name} tx", port0.tx
                yield f"{port0.name} rx", port0.rx
                yield f"{port0.name} mad", port0.mad.counters
        for link in self.links:
            for direction in link.directions:
                yield direction.name, direction.counters
        yield from self.attached.items()

    def balance(self) -> dict[str, int]:
        """Return the elements that violate conservation and by how many packets; empty if all is well."""
        return {name: counters.balance for name, counters in self.counters() if counters.balance}

    def drops(self) -> dict[str, dict[str, int]]:
        """Return all drops so far, by element and reason; elements without drops are left out."""
        return {
            name: {reason.value: count for reason, count in counters.drops.items()}
            for name, counters in self.counters()
            if counters.drops
        }


def _no_carrier(departed: Departed) -> None:
    """Refuse a packet for another engine: a fabric of several engines sets a carrier in place of this function."""
    raise FabricError(
        f"a packet left by link direction {departed.direction}, and no carrier to its engine is set"
    )
