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

from hfi_sim.cable import LinkPort
from hfi_sim.did_you_mean import unknown_name
from hfi_sim.end_port import EndPort
from hfi_sim.errors import FabricError
from hfi_sim.fabric import Fabric, FabricChange, FabricNotice
from hfi_sim.hfi import HfiPort
from hfi_sim.port_state import PortState
from hfi_sim.routing import ENGINES, Routes, SpanningForest, SwitchGraph, build_tables, find_cycle, up_down
from hfi_sim.switch import Switch, SwitchPort
from hfi_sim.types import (
    LID_MULTICAST_FIRST,
    LID_PERMISSIVE,
    PKEY_FULL_MANAGEMENT,
    PKEY_LIMITED_MANAGEMENT,
    Guid,
    Lid,
    is_multicast_lid,
)

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


@dataclass(frozen=True, slots=True)
class Routing:
    """How the subnet manager routes.

    Raises:  FabricError: an unknown engine, an LMC outside 0 to 3.
    """

    engine: str = "min-hop"
    """min-hop, up-down or fat-tree."""
    adaptive: bool = True
    """Let the entropy of a packet choose among equal paths; off: every LID has one path, and LIDs take turns."""
    lmc: int = 0
    """Each HFI port has 2**lmc LIDs, each with a path of its own where there are several."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise FabricError(unknown_name("routing engine", self.engine, ENGINES))
        if not 0 <= self.lmc <= MAX_LMC:
            raise FabricError(f"LMC {self.lmc} is not 0 to {MAX_LMC}")


@dataclass(slots=True)
class _View:
    """What one sweep has found, and the routes over it."""

    ports: list[HfiPort]
    switches: list[Switch]
    graph: SwitchGraph
    attached: dict[Guid, tuple[int, int]]
    """HFI port -> the switch (index) and the port of it that the cable ends at."""
    forest: SpanningForest | None = None
    routes: Routes | None = None


class SubnetManager:
    """The subnet manager of a fabric. Once started by `sweep`, it sweeps by itself whenever the wiring changes."""

    def __init__(
        self,
        fabric: Fabric,
        port: HfiPort | None = None,
        *,
        routing: Routing | None = None,
        lids: Mapping[str, int] | None = None,
    ) -> None:
        """Take charge of `fabric`.

        Args:    port: where it runs, a full member of the management partition; None sees the whole fabric.
                 lids: what `lid_table` of an earlier subnet manager returned, so that ports keep their LIDs.
        Raises:  FabricError: `lids` is not such a table.
        """
        self.fabric = fabric
        self.port = port
        self.routing = routing if routing is not None else Routing()
        self._lids = _read_lids(lids or {})
        self._taken: dict[int, Guid] = {lid: guid for guid, lid in self._lids.items()}
        self._next_lid: dict[int, int] = {}
        self._pkeys: dict[Guid, tuple[int, ...]] = {}
        self._management: set[Guid] = set() if port is None else {port.guid}
        self._groups: dict[Lid, dict[Guid, HfiPort]] = {}
        self._in_service: dict[Guid, HfiPort] = {}
        self._handlers: list[Callable[[SmNotice], None]] = []
        self._view: _View | None = None
        self._unsubscribe = fabric.on_change(self._fabric_changed)

    def stop(self) -> None:
        """Let go of the fabric: it keeps its tables, and nobody sweeps any more."""
        self._unsubscribe()

    def lid_table(self) -> dict[str, int]:
        """Return the base LID of every GUID ever seen, fit for JSON: what a successor needs to keep the LIDs."""
        return {f"{guid:#018x}": lid for guid, lid in self._lids.items()}

    # --- what an administrator says ------------------------------------------------------------------------

    def set_management(self, port: HfiPort, full: bool) -> None:
        """Make `port` a full (0xffff) or a limited (0x7fff) member of the management partition."""
        (self._management.add if full else self._management.discard)(port.guid)
        self._program_pkeys(port)

    def set_pkeys(self, port: HfiPort, pkeys: Iterable[int]) -> None:
        """Put `port` in partitions besides the management one, which every port is in."""
        self._pkeys[port.guid] = tuple(dict.fromkeys(pkeys))
        self._program_pkeys(port)

    def pkeys_of(self, port: HfiPort) -> tuple[int, ...]:
        """Return the partitions that `set_pkeys` has put `port` in."""
        return self._pkeys.get(port.guid, ())

    def _program_pkeys(self, port: HfiPort) -> None:
        full = (PKEY_FULL_MANAGEMENT,) if port.guid in self._management else ()
        port.set_pkeys((*full, PKEY_LIMITED_MANAGEMENT, *self.pkeys_of(port)))

    def subscribe(self, handler: Callable[[SmNotice], None]) -> Callable[[], None]:
        """Call `handler` for each notice; the returned function ends that."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def _notify(self, kind: NoticeKind, port: HfiPort) -> None:
        for handler in tuple(self._handlers):
            handler(SmNotice(kind, port))

    def ports_in_service(self) -> list[HfiPort]:
        """Return the HFI ports that are ACTIVE and reachable, in the order of their LIDs."""
        return sorted(self._in_service.values(), key=lambda port: port.lid)

    # --- multicast groups ----------------------------------------------------------------------------------

    def create_group(self, mlid: int | None = None) -> Lid:
        """Make a multicast group, at the lowest free LID from 0xF00000 unless `mlid` is given.

        Raises:  FabricError: not a multicast LID, already in use, or none is left.
        """
        if mlid is None:
            free = (n for n in range(LID_MULTICAST_FIRST, LID_PERMISSIVE) if n not in self._groups)
            mlid = next(free, None)
            if mlid is None:
                raise FabricError("no multicast LID is left")
        if not is_multicast_lid(mlid):
            raise FabricError(f"LID {mlid:#x} is not a multicast LID (0xf00000 to 0xfffffe)")
        if mlid in self._groups:
            raise FabricError(f"multicast LID {mlid:#x} is in use")
        self._groups[Lid(mlid)] = {}
        return Lid(mlid)

    def join(self, mlid: int, port: HfiPort) -> None:
        """Add `port` to a group; the group is made where it does not exist."""
        group = self._groups.get(Lid(mlid))
        if group is None:
            group = self._groups[self.create_group(mlid)]
        if port.guid not in group:
            group[port.guid] = port
            port.multicast_lids |= {mlid}
            self._program_groups((mlid,))

    def leave(self, mlid: int, port: HfiPort) -> None:
        """Take `port` out of a group; harmless where it is not in it."""
        group = self._groups.get(Lid(mlid))
        if group is not None and group.pop(port.guid, None) is not None:
            port.multicast_lids -= {mlid}
            self._program_groups((mlid,))

    def _tree(self, mlid: int, view: _View) -> dict[int, frozenset[int]]:
        """Return the ports of a group's tree for each switch that it touches."""
        members: dict[int, set[int]] = {}
        for guid in self._groups.get(Lid(mlid), ()):
            if guid in view.attached:
                switch, port_num = view.attached[guid]
                members.setdefault(switch, set()).add(port_num)
        if view.forest is None:
            view.forest = SpanningForest(view.graph)
        return view.forest.prune(members)

    def _program_groups(self, mlids: Iterable[int]) -> None:
        """Bring the trees of some groups to the switches: each switch is programmed once, or not at all."""
        view = self._view
        if view is None:
            return
        trees = {mlid: self._tree(mlid, view) for mlid in mlids}
        for index, switch in enumerate(view.switches):
            wanted = {mlid: tree.get(index) for mlid, tree in trees.items()}
            changed = {mlid: ports for mlid, ports in wanted.items() if switch.mft.get(mlid) != ports}
            if not changed:
                continue
            mft = {mlid: ports for mlid, ports in switch.mft.items() if mlid not in changed}
            mft.update((mlid, ports) for mlid, ports in changed.items() if ports is not None)
            switch.program(switch.lft, mft)

    def set_groups(self, groups: Mapping[int, Iterable[HfiPort]]) -> None:
        """Give several groups the members they are to have, and program the switches once; no member: no group.

        Raises:  FabricError: not a multicast LID; nothing is changed.
        """
        for mlid in groups:
            if not is_multicast_lid(mlid):
                raise FabricError(f"LID {mlid:#x} is not a multicast LID (0xf00000 to 0xfffffe)")
        affected: dict[Guid, tuple[HfiPort, set[int], set[int]]] = {}
        for mlid, ports in groups.items():
            before = self._groups.pop(Lid(mlid), {})
            members = {port.guid: port for port in ports}
            if members:
                self._groups[Lid(mlid)] = members
            for port in before.values():
                if port.guid not in members:
                    affected.setdefault(port.guid, (port, set(), set()))[1].add(mlid)
            for port in members.values():
                affected.setdefault(port.guid, (port, set(), set()))[2].add(mlid)
        for port, left, joined in affected.values():
            port.multicast_lids = (port.multicast_lids - left) | joined
        self._program_groups(groups)

    def group_members(self, mlid: int) -> frozenset[Guid]:
        """Return the GUIDs of the ports in a group; none where there is no such group."""
        return frozenset(self._groups.get(Lid(mlid), ()))

    # --- the sweep -----------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Look at the whole fabric and put it right: LIDs, partitions, tables, port states, then notices.

        Raises:  FabricError: no LID is left, or the routing engine does not fit the fabric (at the first sweep).
        """
        first = self._view is None
        view = self._discover()
        for port in view.ports:
            port.set_lid(self._lid_of(port.guid, self.routing.lmc), self.routing.lmc)
        for port in view.ports:
            port.sm_lid = self.port.lid if self.port is not None else port.lid
            self._program_pkeys(port)
        for switch in view.switches:
            switch.lid = self._lid_of(switch.node_guid, 0)
        self._describe(view)
        self._program_tables(view, first)
        self._view = view
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

    def _discover(self) -> _View:
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
        return _View(ports, reached, SwitchGraph(), {})

    def _describe(self, view: _View) -> None:
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
            graph.lids[at].append((switch.lid, 0))
        for port in view.ports:
            if port.guid in view.attached:
                at, port_num = view.attached[port.guid]
                graph.attach(at, port_num, range(port.lid, port.lid + (1 << port.lmc)))

    def _lid_of(self, guid: Guid, lmc: int) -> Lid:
        """Return the base LID of a port, the one it had where that is still right."""
        step = 1 << lmc
        lid = self._lids.get(guid)
        if lid is not None and lid % step == 0 and all(self._owns(guid, n) for n in range(lid, lid + step)):
            for n in range(lid, lid + step):
                self._taken[n] = guid
            return lid
        candidate = self._next_lid.get(step, step)
        while any(n in self._taken for n in range(candidate, candidate + step)):
            candidate += step
        if candidate + step > LID_MULTICAST_FIRST:
            raise FabricError("no unicast LID is left")
        if lid is not None:
            self._taken = {n: owner for n, owner in self._taken.items() if owner != guid}
        self._taken.update(dict.fromkeys(range(candidate, candidate + step), guid))
        self._next_lid[step] = candidate + step
        self._lids[guid] = Lid(candidate)
        return Lid(candidate)

    def _owns(self, guid: Guid, lid: int) -> bool:
        return self._taken.get(lid, guid) == guid

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
        if self._view is None:
            return
        if notice.change is FabricChange.CAPABILITY:
            for port in self._in_service.values():
                if port.name == notice.name:
                    self._notify(NoticeKind.CAPABILITY_CHANGE, port)
            return
        if notice.change is not FabricChange.TABLES and not notice.more:
            self.sweep()

    # --- routes --------------------------------------------------------------------------------------------

    def _program_tables(self, view: _View, first: bool) -> None:
        view.routes = self._route(view.graph, first)
        tables = build_tables(view.graph, view.routes, adaptive=self.routing.adaptive)
        mfts: list[dict[int, frozenset[int]]] = [{} for _ in view.switches]
        for mlid in self._groups:
            for index, ports in self._tree(mlid, view).items():
                mfts[index][mlid] = ports
        for switch, lft, mft in zip(view.switches, tables, mfts, strict=True):
            switch.program(lft, mft)

    def _route(self, graph: SwitchGraph, first: bool) -> Routes:
        try:
            return ENGINES[self.routing.engine](graph)
        except FabricError as error:
            if first:
                raise
            log.warning("%s; routing up-down until the fabric is whole again", error)
            return up_down(graph)

    def deadlock(self) -> list[str]:
        """Return a cycle of channels that wait for each other, as `sw0:3`; empty: the routes are free of deadlock."""
        if self._view is None or self._view.routes is None:
            return []
        return find_cycle(self._view.graph, self._view.routes)


def _read_lids(table: Mapping[str, int]) -> dict[Guid, Lid]:
    lids: dict[Guid, Lid] = {}
    owner: dict[int, str] = {}
    for guid, lid in table.items():
        if not isinstance(lid, int) or not 0 < lid < LID_MULTICAST_FIRST:
            raise FabricError(f"LID table: GUID {guid} has LID {lid!r}; a unicast LID is 1 to 0xefffff")
        if lid in owner:
            raise FabricError(f"LID table: LID {lid:#x} stands at both {owner[lid]} and {guid}")
        owner[lid] = guid
        try:
            lids[Guid(int(guid, 16))] = Lid(lid)
        except ValueError:
            raise FabricError(f"LID table: {guid!r} is not a GUID such as 0x0011750101000000") from None
    return lids
