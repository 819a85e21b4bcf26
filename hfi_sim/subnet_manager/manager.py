"""The subnet manager: finds what is cabled, assigns LIDs, partitions and routes, and activates ports.

It programs the nodes directly where a real one sends SMPs (class 0x01/0x81): what a VNIC or an EM can see of it
is the same, the LIDs, the tables, the port events and its notices. With a port to run on it sees, as a real one
does, only what cables join to that port; what is cut off keeps its old tables and is out of service.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from hfi_sim.base.errors import FabricError
from hfi_sim.base.text import unknown_name
from hfi_sim.base.types import (
    PKEY_FULL_MANAGEMENT,
    PKEY_FULL_MEMBER,
    PKEY_LIMITED_MANAGEMENT,
    Guid,
    Lid,
    PortState,
)
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.notices import FabricChange, FabricNotice
from hfi_sim.nodes.cable import LinkPort
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort
from hfi_sim.routing import (
    DEFAULT_ENGINE,
    ENGINES,
    Routes,
    SwitchGraph,
    build_tables,
    find_cycle,
    refusal,
    safe_routes,
)
from hfi_sim.subnet_manager.groups import MulticastGroups, SweepView
from hfi_sim.subnet_manager.lanes import program_lanes
from hfi_sim.subnet_manager.lids import LidTable
from hfi_sim.subnet_manager.steering import Steering, check_steering, routes_of, steered

log = logging.getLogger("hfi_sim.subnet_manager")

MAX_LMC = 3


class NoticeKind(IntEnum):
    """Trap numbers of the subnet manager's notices (IB: GID in and out of service, capability mask change)."""

    PORT_IN_SERVICE = 64
    PORT_OUT_OF_SERVICE = 65
    CAPABILITY_CHANGE = 144


@dataclass(frozen=True, slots=True)
class SmNotice:
    """What the subnet manager tells its subscribers, an EM among them."""

    kind: NoticeKind
    port: HfiPort
    described: bool = False
    """With CAPABILITY_CHANGE: it is the description of the node that has changed."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How the subnet manager routes.

    Raises:  FabricError: an unknown engine, an LMC outside 0 to 3.
    """

    engine: str = DEFAULT_ENGINE
    """A name in `ENGINES`."""
    adaptive: bool = True
    """Let the entropy of a packet choose among equal paths; off: every LID has one path, and LIDs take turns."""
    lmc: int = 0
    """Each HFI port has 2**lmc LIDs, each with a path of its own where there are several."""
    may_deadlock: bool = False
    """Carry lossless traffic on routes that can deadlock, too."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise FabricError(unknown_name("routing engine", self.engine, ENGINES))
        if not 0 <= self.lmc <= MAX_LMC:
            raise FabricError(f"LMC {self.lmc} is not 0 to {MAX_LMC}")


class SubnetManager:
    """The subnet manager of a fabric. Once started by `sweep`, it sweeps by itself whenever the wiring changes."""

    def __init__(
        self,
        fabric: Fabric,
        port: HfiPort | None = None,
        *,
        routing: Routing | None = None,
    ) -> None:
        """Take charge of `fabric`.

        Args:    port: where it runs, a full member of the management partition; None sees the whole fabric.
        """
        self.fabric = fabric
        self.port = port
        self.routing = routing if routing is not None else Routing()
        self.engine = self.routing.engine
        """The engine that has found the routes of now: another one while that asked for does not fit."""
        self._lanes = 1
        """How many lanes the tables of ports are for."""
        self.steering: Steering = {}
        """What `steer` was told last."""
        self._lids = LidTable()
        self._pkeys: dict[Guid, tuple[int, ...]] = {}
        self._management: set[Guid] = set() if port is None else {port.guid}
        self.groups = MulticastGroups(lambda: self.view)
        """The multicast groups."""
        self._in_service: dict[Guid, HfiPort] = {}
        self._handlers: list[Callable[[SmNotice], None]] = []
        self.view: SweepView | None = None
        """What the last sweep has found; None before the first."""
        self.sweeps = 0
        """How many sweeps there were."""
        self._unsubscribe = fabric.on_change(self._fabric_changed)

    def stop(self) -> None:
        """Let go of the fabric: it keeps its tables, and this manager sweeps no more."""
        self._unsubscribe()

    def keep_lids(self, lids: Mapping[Guid, int]) -> None:
        """Reserve base LIDs by the GUID of port or switch, before the first sweep: they get them, and no other port.

        Raises:  FabricError: one is kept for two ports, or with LMC is not a multiple of their number.
        """
        switches = {switch.node_guid for switch in self.fabric.switches.values()}
        for guid, lid in lids.items():
            count = 1 if guid in switches else 1 << self.routing.lmc
            if lid % count:
                raise FabricError(
                    f"LID {lid:#x} is no multiple of {count}, the LIDs of a port with LMC {self.routing.lmc}"
                )
            self._lids.keep(guid, lid, count)

    def reserve_lids(self) -> None:
        """Give every node its LID, cabled or not: in any order of arrival, each subnet manager gives the same one.

        Raises:  FabricError: no LID is left.
        """
        for port in self.fabric.hfi_ports():
            self._lid_of(port)
        for switch in self.fabric.switches.values():
            self._lids.lid_of(switch.node_guid, 0)

    def _lid_of(self, port: HfiPort) -> Lid:
        return self._lids.lid_of(port.guid, self.routing.lmc)

    def is_in_service(self, port: HfiPort) -> bool:
        """Return whether an HFI port is ACTIVE and reachable."""
        return port.guid in self._in_service

    def partitions(self) -> list[int]:
        """Return the partitions that ports were put in besides the management one, as their full members' P_Keys."""
        pkeys = {pkey | PKEY_FULL_MEMBER for pkeys in self._pkeys.values() for pkey in pkeys}
        return sorted(pkeys - {PKEY_FULL_MANAGEMENT})

    # --- what an administrator says ------------------------------------------------------------------------

    def set_management(self, port: HfiPort, full: bool) -> None:
        """Make `port` a full (0xffff) or a limited (0x7fff) member of the management partition."""
        (self._management.add if full else self._management.discard)(port.guid)
        port.mgmt_allowed = full
        self._program_pkeys(port)

    def set_pkeys(self, port: HfiPort, pkeys: Iterable[int]) -> None:
        """Put `port` in partitions besides the management one, which every port is in."""
        self._pkeys[port.guid] = tuple(dict.fromkeys(pkeys))
        self._program_pkeys(port)

    def pkeys_of(self, port: HfiPort) -> tuple[int, ...]:
        """Return the partitions that `set_pkeys` has put `port` in."""
        return self._pkeys.get(port.guid, ())

    def forget(self, port: HfiPort) -> None:
        """Forget what was said of a port that is gone; its LIDs are kept for it a while."""
        self._pkeys.pop(port.guid, None)
        self._management.discard(port.guid)
        self._lids.retire(port.guid)

    def forget_switch(self, switch: Switch) -> None:
        """Keep the LID of a switch that is gone for it a while."""
        self._lids.retire(switch.node_guid)

    def _program_pkeys(self, port: HfiPort) -> None:
        full = (PKEY_FULL_MANAGEMENT,) if port.guid in self._management else ()
        port.set_pkeys((*full, PKEY_LIMITED_MANAGEMENT, *self.pkeys_of(port)))

    def subscribe(self, handler: Callable[[SmNotice], None]) -> Callable[[], None]:
        """Call `handler` for each notice; the returned function ends that."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def _notify(self, kind: NoticeKind, port: HfiPort, *, described: bool = False) -> None:
        for handler in tuple(self._handlers):
            handler(SmNotice(kind, port, described))

    def ports_in_service(self) -> list[HfiPort]:
        """Return the HFI ports that are ACTIVE and reachable, in the order of their LIDs."""
        return sorted(self._in_service.values(), key=lambda port: port.lid)

    # --- the sweep -----------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Look at the whole fabric and put it right: LIDs, partitions, tables, port states, then notices.

        Raises:  FabricError: no LID is left; at the first sweep, too, that the routing engine does not fit the fabric,
                 or that its routes can deadlock where links have credits.
        """
        first = self.view is None
        self.sweeps += 1
        view = self._discover()
        for port in view.ports:
            port.set_lid(self._lid_of(port), self.routing.lmc)
        for port in view.ports:
            port.sm_lid = self.port.lid if self.port is not None else port.lid
            self._program_pkeys(port)
        for switch in view.switches:
            switch.lid = self._lids.lid_of(switch.node_guid, 0)
        self._describe(view)
        self._program_tables(view, first)
        self.view = view
        for switch in view.switches:
            for switch_port in switch.ports.values():
                if switch_port.link is not None and switch_port.link.up:
                    switch_port.state = PortState.ACTIVE
        ends: list[EndPort] = [*view.ports, *(switch.port0 for switch in view.switches)]
        for end in ends:
            if end.state is PortState.INIT:
                end.set_state(PortState.ARMED)
                end.set_state(PortState.ACTIVE)
        self._update_service(view.ports)

    def _discover(self) -> SweepView:
        """Walk the cables that are up, from the port that it runs on, or from every node without one."""
        starts = list(self.fabric.hfi_ports()) if self.port is None else [self.port]
        found: dict[str, HfiPort] = {}
        switches: dict[str, Switch] = {}
        queue: deque[LinkPort] = deque(port for port in starts if port.link is not None and port.link.up)
        if self.port is None:
            switches = {name: switch for name, switch in self.fabric.switches.items() if switch.up}
        while queue:
            at = queue.popleft()
            if isinstance(at, HfiPort):
                if at.name in found or at.link is None:
                    continue
                found[at.name] = at
                queue.append(at.link.far_end(at))
            elif isinstance(at, SwitchPort) and at.switch.name not in switches and at.switch.up:
                switches[at.switch.name] = at.switch
                queue.extend(far for _, far in self.fabric.neighbours(at.switch))
        # in the order in which they were added to the fabric: LIDs do not depend on where the walk began
        ports = [port for port in self.fabric.hfi_ports() if port.name in found]
        reached = [switch for name, switch in self.fabric.switches.items() if name in switches]
        return SweepView(ports, reached, SwitchGraph(), {})

    def _describe(self, view: SweepView) -> None:
        """Fill in the graph of the switches and where the HFI ports are."""
        graph = view.graph
        index = {switch.name: graph.add(switch.name) for switch in view.switches}
        for switch in view.switches:
            at = index[switch.name]
            for own, far in self.fabric.neighbours(switch):
                if isinstance(far, HfiPort):
                    view.attached[far.guid] = (at, own.port_num)
                elif isinstance(far, SwitchPort) and far.switch.name in index:
                    graph.connect(at, own.port_num, index[far.switch.name], far.port_num)
                    flow = None if own.link is None else own.link.direction_from(own).planned.flow
                    if flow is not None:
                        graph.vls[at, own.port_num] = flow.vls
            graph.lids[at].append((switch.lid, 0))
        for port in view.ports:
            if port.guid in view.attached:
                at, port_num = view.attached[port.guid]
                graph.attach(at, port_num, range(port.lid, port.lid + (1 << port.lmc)))

    def _update_service(self, reached: list[HfiPort]) -> None:
        active = {port.guid: port for port in reached if port.state is PortState.ACTIVE}
        gone = [port for guid, port in self._in_service.items() if guid not in active]
        new = [port for guid, port in active.items() if guid not in self._in_service]
        self._in_service = active
        for port in gone:
            self._notify(NoticeKind.PORT_OUT_OF_SERVICE, port)
        for port in new:
            self._notify(NoticeKind.PORT_IN_SERVICE, port)

    def _fabric_changed(self, notice: FabricNotice) -> None:
        if self.view is None:
            return
        if notice.change in (FabricChange.CAPABILITY, FabricChange.DESCRIPTION):
            described = notice.change is FabricChange.DESCRIPTION
            for port in self._in_service.values():
                if port.name == notice.name:
                    self._notify(NoticeKind.CAPABILITY_CHANGE, port, described=described)
            return
        if notice.change is not FabricChange.TABLES and not notice.more:
            self.sweep()

    # --- routes --------------------------------------------------------------------------------------------

    def _program_tables(self, view: SweepView, first: bool) -> None:
        view.routes = self._route(view.graph, first)
        self._lanes = program_lanes(view, self._lanes)
        tables = build_tables(view.graph, view.routes, adaptive=self.routing.adaptive)
        tables = steered(view.graph, tables, self.steering)
        for switch, lft, mft in zip(view.switches, tables, self.groups.trees(view), strict=True):
            switch.program(lft, mft)

    def steer(self, steering: Steering) -> None:
        """Let packets to some LIDs leave switches by other ports than the routing engine has for them.

        It takes effect at once and lasts over sweeps, until the next call; where such a port has lost its link, the
        engine's way holds meanwhile. Nothing at all: the engine's ways everywhere.

        Args:    steering: by the name of a switch, the port for each LID.
        Raises:  FabricError: no such switch or port; a LID of none; packets would go round in a circle, or could
                 deadlock on links with credits. Nothing is changed then.
        """
        view = self.view
        if view is None or view.routes is None:
            raise FabricError("there are no routes yet: sweep first")
        check_steering(self.fabric, view.graph, steering)
        plain = build_tables(view.graph, view.routes, adaptive=self.routing.adaptive)
        ways = routes_of(view.graph, steered(view.graph, plain, steering), view.routes)
        if not self.routing.may_deadlock and (why := refusal(view.graph, ways, "of these ways")):
            raise FabricError(why)
        self.steering = {name: dict(ports) for name, ports in steering.items()}
        self.sweep()

    def _route(self, graph: SwitchGraph, first: bool) -> Routes:
        """Return the routes of a graph: those of the last sweep, where only hosts have come or gone since."""
        before = self.view
        if before is not None and before.routes is not None and graph.is_routed_as(before.graph):
            return before.routes
        engine = self.routing.engine
        try:
            routes = ENGINES[engine](graph)
            if not self.routing.may_deadlock and (why := refusal(graph, routes, engine)):
                raise FabricError(why)
        except FabricError as error:
            if first:
                raise
            engine, routes = safe_routes(graph)
            log.warning("%s; routing %s until the fabric is whole again", error, engine)
        self.engine = engine
        return routes

    def cycle(self) -> list[str]:
        """Return a cycle of channels that wait for each other, as `sw0:3`; empty: the routes are free of deadlock."""
        if self.view is None or self.view.routes is None:
            return []
        return find_cycle(self.view.graph, self.view.routes)
