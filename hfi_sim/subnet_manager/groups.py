"""What a sweep of the subnet manager has found; multicast groups: members, and the trees that carry them along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import LID_MULTICAST_FIRST, LID_PERMISSIVE, Guid, Lid, is_multicast_lid
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch
from hfi_sim.routing import Routes, SpanningForest, SwitchGraph


@dataclass(slots=True)
class SweepView:
    """The nodes of one sweep, and the routes over it."""

    ports: list[HfiPort]
    switches: list[Switch]
    graph: SwitchGraph
    attached: dict[Guid, tuple[int, int]]
    """HFI port -> the switch (index) and the port of it that the cable ends at."""
    forest: SpanningForest | None = None
    routes: Routes | None = None


_ALL: Final = range(LID_MULTICAST_FIRST, LID_PERMISSIVE)


@dataclass(frozen=True, slots=True)
class Announced:
    """What subnet administration tells of a group that was not made by joining it."""

    mgid: bytes
    pkey: int
    mtu: int
    """Bytes of payload that it is to carry."""


class MulticastGroups:
    """The multicast groups of a subnet."""

    def __init__(self, view: Callable[[], SweepView | None]) -> None:
        """Begin without any. Args: view: what the last sweep has found; None: there was none."""
        self._view = view
        self._groups: dict[Lid, dict[Guid, HfiPort]] = {}
        self._senders: dict[Lid, set[Guid]] = {}
        """Ports that send and drop what they get: a switch takes packets of a group only from ports of its tree."""
        self._announced: dict[Lid, Announced] = {}
        self.on_announced: Callable[[Announced, bool], None] | None = None
        """Called with a group that is announced, or (False) no longer."""

    @property
    def announced(self) -> Mapping[Lid, Announced]:
        """The groups that subnet administration is to tell of."""
        return MappingProxyType(self._announced)

    def announce(self, mlid: int, what: Announced | None) -> None:
        """Have subnet administration tell of a group, or no longer."""
        before = self._announced.pop(Lid(mlid), None)
        if what is not None:
            self._announced[Lid(mlid)] = what
        if before != what:
            for group, begins in ((before, False), (what, True)):
                if group is not None and self.on_announced is not None:
                    self.on_announced(group, begins)

    def create(self, mlid: int | None = None, *, among: range = _ALL) -> Lid:
        """Make a group, at the lowest free LID of `among` unless `mlid` is given.

        Raises:  FabricError: not a multicast LID, already in use, or none is left.
        """
        if mlid is None:
            mlid = next((n for n in among if n not in self._groups), None)
            if mlid is None:
                raise FabricError("no multicast LID is left")
        _check(mlid)
        if mlid in self._groups:
            raise FabricError(f"multicast LID {mlid:#x} is in use")
        self._groups[Lid(mlid)] = {}
        return Lid(mlid)

    def delete(self, mlid: int) -> None:
        """Take a group away with all its members; harmless where there is none."""
        for port in tuple(self._groups.get(Lid(mlid), {}).values()):
            self.leave(mlid, port)
        self._senders.pop(Lid(mlid), None)
        self._groups.pop(Lid(mlid), None)
        self.announce(mlid, None)

    def join(self, mlid: int, port: HfiPort, *, receives: bool = True) -> None:
        """Add `port` to a group; the group is made where it does not exist.

        Args:  receives: False: it only sends.
        """
        group = self._groups.get(Lid(mlid))
        if group is None:
            group = self._groups[self.create(mlid)]
        senders = self._senders.setdefault(Lid(mlid), set())
        if port.guid in group and receives == (port.guid not in senders):
            return
        group[port.guid] = port
        if receives:
            senders.discard(port.guid)
            port.multicast_lids |= {mlid}
        else:
            senders.add(port.guid)
            port.multicast_lids -= {mlid}
        self.program((mlid,))

    def leave(self, mlid: int, port: HfiPort) -> None:
        """Take `port` out of a group; harmless where it is not in it."""
        group = self._groups.get(Lid(mlid))
        if group is not None and group.pop(port.guid, None) is not None:
            self._senders.get(Lid(mlid), set()).discard(port.guid)
            port.multicast_lids -= {mlid}
            self.program((mlid,))

    def assign(self, groups: Mapping[int, Iterable[HfiPort]]) -> None:
        """Give several groups the members they are to have, and program the switches once; no member: no group.

        Raises:  FabricError: not a multicast LID; nothing is changed.
        """
        for mlid in groups:
            _check(mlid)
        affected: dict[Guid, tuple[HfiPort, set[int], set[int]]] = {}
        for mlid, ports in groups.items():
            before = self._groups.pop(Lid(mlid), {})
            self._senders.pop(Lid(mlid), None)
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
        self.program(groups)

    def members(self, mlid: int) -> frozenset[Guid]:
        """Return the GUIDs of the ports in a group; none where there is no such group."""
        return frozenset(self._groups.get(Lid(mlid), ()))

    def trees(self, view: SweepView) -> list[dict[int, frozenset[int]]]:
        """Return the multicast table of each switch of a view."""
        tables: list[dict[int, frozenset[int]]] = [{} for _ in view.switches]
        for mlid in self._groups:
            for index, ports in self._tree(mlid, view).items():
                tables[index][mlid] = ports
        return tables

    def _tree(self, mlid: int, view: SweepView) -> dict[int, frozenset[int]]:
        """Return the ports of a group's tree for each switch that it touches."""
        members: dict[int, set[int]] = {}
        for guid in self._groups.get(Lid(mlid), ()):
            if guid in view.attached:
                switch, port_num = view.attached[guid]
                members.setdefault(switch, set()).add(port_num)
        if view.forest is None:
            view.forest = SpanningForest(view.graph, view.routes)
        return view.forest.prune(members)

    def program(self, mlids: Iterable[int]) -> None:
        """Bring the trees of some groups to the switches: each switch is programmed once, or not at all."""
        view = self._view()
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


def _check(mlid: int) -> None:
    if not is_multicast_lid(mlid):
        raise FabricError(f"LID {mlid:#x} is not a multicast LID (0xf00000 to 0xfffffe)")
