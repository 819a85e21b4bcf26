"""The desired virtual switches on the current fabric: members, MAC tables, multicast groups. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from vema.em.core.state import ManagedVesw, Port, Vport, member_addresses, table_events
from vema.em.core.steps import SERVED
from vema.em.core.turns import RecordLog, Turns
from vema.em.desired.desired import EmConfig
from vema.em.desired.mac_tables import VeswTable
from vema.em.desired.plan import VeswPlan, plan_vesws
from vema.em.desired.ports import PortFacts, Roster
from vema.em.store.persisted import SlotsRecord, Tombstone

_GROUP_PREFIX: Final = 0xFF15
NO_VESW: Final = 0
"""In place of a virtual switch's number: the group of the election of EMs."""


@dataclass(frozen=True, slots=True)
class Group:
    """The multicast group that a virtual switch is to have."""

    guids: frozenset[int]
    """GUIDs of the ports in it."""
    mlid: int
    """Its multicast LID, where the EM chooses; where the subnet manager does, this says nothing."""
    pkey: int
    mtu: int
    """Bytes of Ethernet payload that it is to carry."""


def group_gid(vesw_id: int, pkey: int) -> bytes:
    """Return the GID of the multicast group of a virtual switch: ff15:0:PKEY::ID, a transient one of the site.

    Source: the applications that opa-fm's settings name for VNICs mask the P_Key there; the number of the virtual
    switch in the rest is ours, since the sources of an Ethernet Manager are not published.
    """
    return (_GROUP_PREFIX << 112 | pkey << 80 | vesw_id).to_bytes(16)


SETTLE_S: Final = 1.0
"""How long a MAC table waits for members that do not answer, before it is sent without them."""


class VirtualSwitches:
    """All virtual switches of an EM. What a change affects gets a turn."""

    def __init__(
        self, ports: Mapping[int, Port], turns: Turns, log: RecordLog, slots: Iterable[SlotsRecord]
    ) -> None:
        """Begin with none.

        Args:  ports: those that are met, by GUID; they belong to the caller. slots: of an earlier life.
        """
        self.by_id: dict[int, ManagedVesw] = {}
        """In the order of the configuration."""
        self._told: dict[int, Group] = {}
        """The group of each virtual switch as last returned by `take_groups`."""
        self._groups_doubtful = True
        self._ports = ports
        self._turns = turns
        self._log = log
        self._slots = {record.vesw_id: record.slots for record in slots}
        self._member_of: dict[int, set[int]] = {}
        self._place: dict[int, int] = {}
        """Of each virtual switch in the configuration."""
        self._roster = Roster(())
        self._facts: list[PortFacts] | None = None
        self._group_lids: Mapping[int, int] | None = None

    @property
    def settled(self) -> bool:
        """Whether no MAC table has to be computed anew."""
        return all(vesw.dirty_since is None for vesw in self.by_id.values())

    # --- from the configuration and the ports --------------------------------------------------------------

    def set_group_lids(self, lids: Mapping[int, int] | None) -> bool:
        """Take the multicast LIDs by id of the virtual switch, or None: the EM chooses; return whether they are new."""
        changed = lids != self._group_lids
        self._group_lids = None if lids is None else dict(lids)
        return changed

    def ports_changed(self, now: float, config: EmConfig) -> None:
        """Hold the virtual switches against the ports that are there, if those are others."""
        if self._counting() != self._facts:
            self.replan(now, config)

    def _counting(self) -> list[PortFacts]:
        return [port.facts for port in self._ports.values() if port.counts]

    def replan(self, now: float, config: EmConfig, look: Callable[[Port], None] | None = None) -> None:
        """Hold the virtual switches against the configuration and the ports that are there.

        What has not changed is left as it is, and so are its members.

        Args:  look: called with each port that joins or leaves a virtual switch, before it is served again.
        """
        touched: set[int] = set()
        moved: set[int] = set()
        changed: dict[int, ManagedVesw] = {}
        plans = self._plans(config)
        for vesw_id in [vesw_id for vesw_id in self.by_id if vesw_id not in plans]:
            moved |= self._set_members(self.by_id.pop(vesw_id), frozenset())
            self._log.add(Tombstone(vesw_id))
        for vesw_id, plan in plans.items():
            vesw = self.by_id.get(vesw_id)
            if vesw is None:
                vesw = self.by_id[vesw_id] = ManagedVesw(plan, VeswTable(self._slots.pop(vesw_id, ())))
            elif vesw.plan is plan:
                continue
            moved |= self._take_plan(vesw, plan)
            touched |= vesw.guids
            self.table_changed(now, vesw_id)
            changed[vesw_id] = vesw
        touched |= moved
        self._keep_order(plans)
        for guid in [guid for guid in self._ports if guid in touched]:  # in the order of the ports
            port = self._ports[guid]
            if look is not None and guid in moved:
                look(port)
            if port.ready and port.in_service:
                self._serve_again(now, port, changed)
        for vesw in changed.values():
            self.settle(now, vesw)
        self._groups_doubtful = True

    def forget_groups(self) -> None:
        """Forget what `take_groups` has returned: another EM may have changed the groups."""
        self._told = {}

    def take_groups(self) -> dict[int, Group | None]:
        """Return the changes since the last call, by id of the virtual switch; None: it has no group any more."""
        if not self._groups_doubtful:
            return {}
        self._groups_doubtful = False
        wanted = {}
        for vesw_id, vesw in self.by_id.items():
            section = vesw.plan.section
            wanted[vesw_id] = Group(vesw.guids, section.mlid, section.pkey, section.mtu)
        changed: dict[int, Group | None] = {
            vesw_id: group for vesw_id, group in wanted.items() if self._told.get(vesw_id) != group
        }
        changed |= dict.fromkeys(self._told.keys() - wanted.keys())
        self._told = wanted
        return changed

    def _plans(self, config: EmConfig) -> dict[int, VeswPlan]:
        """Return the plans; those that are as before are the same objects."""
        known, moved = {vesw_id: vesw.plan for vesw_id, vesw in self.by_id.items()}, frozenset[str]()
        facts = self._counting()
        if facts != self._facts:
            self._facts, roster = facts, Roster(facts)
            moved, self._roster = roster.moved(self._roster), roster
        return plan_vesws(config, self._roster, self._group_lids, before=known, moved=moved)

    def _take_plan(self, vesw: ManagedVesw, plan: VeswPlan) -> frozenset[int]:
        """Give a virtual switch its plan; return the ports that join or leave."""
        vesw.plan = plan
        moved = self._set_members(vesw, frozenset(port.guid for port in plan.members))
        vesw.pending &= vesw.guids
        vesw.pending |= {guid for guid in vesw.guids & moved if self._ports[guid].life is SERVED}
        return moved

    def _set_members(self, vesw: ManagedVesw, guids: frozenset[int]) -> frozenset[int]:
        """Give a virtual switch its members; return those that join or leave."""
        before, vesw.guids = vesw.guids, guids
        for guid in before - guids:
            self._member_of[guid].discard(vesw.plan.vesw_id)
        for guid in guids - before:
            self._member_of.setdefault(guid, set()).add(vesw.plan.vesw_id)
        return before ^ guids

    def _keep_order(self, order: Iterable[int]) -> None:
        """Keep the virtual switches in the order of the configuration."""
        order = list(order)
        if order == list(self._place):
            return
        self._place = {vesw_id: place for place, vesw_id in enumerate(order)}
        ordered = {vesw_id: self.by_id[vesw_id] for vesw_id in order}
        self.by_id.clear()
        self.by_id.update(ordered)

    def _serve_again(self, now: float, port: Port, changed: Collection[int]) -> None:
        """Serve the vports of a port that are on virtual switches that have changed, or on none any more."""
        self.allot(port)
        for vport in port.vports.values():
            if vport.vesw_id in changed:
                vport.done = False
                self.watch(now, port, vport)
                self._turns.mark(port, vport)

    def allot(self, port: Port) -> None:
        """Give the port a vport for each virtual switch that it is a member of, and take away the others."""
        guid = port.facts.guid
        wanted = {vesw_id: self.by_id[vesw_id].plan.vports.get(guid, 0) for vesw_id in self._vesws_of(port)}
        for vport in port.allot(wanted):
            self._log.add(vport.record())
            self._turns.mark(port, vport)

    def _vesws_of(self, port: Port) -> list[int]:
        """Return the virtual switches that a port is a member of, in the order of the configuration."""
        return sorted(self._member_of.get(port.facts.guid, ()), key=self._place.__getitem__)

    def forget(self, guid: int) -> None:
        """Forget a port that is no member of any virtual switch."""
        self._member_of.pop(guid, None)

    # --- MAC tables ----------------------------------------------------------------------------------------

    def table_changed(self, now: float, vesw_id: int) -> None:
        """Have a MAC table computed anew, once the addresses of its members are known."""
        vesw = self.by_id.get(vesw_id)
        if vesw is not None and vesw.plan.learns and vesw.dirty_since is None:
            vesw.dirty_since = now
            self._turns.wake_at(now + SETTLE_S, -vesw_id)

    def watch(self, now: float, port: Port, vport: Vport) -> None:
        """Note whether a member's addresses are being read; a table waits for them."""
        vesw = self.by_id.get(vport.vesw_id)
        if vesw is None or port.facts.guid not in vesw.guids:
            return
        if not vesw.plan.learns or port.life is not SERVED:
            return
        if vport.fresh and vport.unicast.current and vport.multicast.current:
            vesw.pending.discard(port.facts.guid)
            self.settle(now, vesw)
        else:
            vesw.pending.add(port.facts.guid)

    def wait_for(self, port: Port) -> None:
        """Let the tables of a port's virtual switches wait for its addresses."""
        for vesw_id in self._member_of.get(port.facts.guid, ()):
            if port.vports_on(vesw_id):
                self.by_id[vesw_id].pending.add(port.facts.guid)

    def do_not_wait_for(self, now: float, port: Port) -> None:
        """Let no table wait for a port: it does not answer."""
        for vesw in map(self.by_id.__getitem__, self._vesws_of(port)):
            if port.facts.guid in vesw.pending:
                vesw.pending.discard(port.facts.guid)
                self.settle(now, vesw)

    def settle(self, now: float, vesw: ManagedVesw) -> None:
        """Compute a table whose members are known, or have kept it waiting for too long."""
        movement = vesw.table.movement
        if movement.release_at is not None and now >= movement.release_at:
            self.table_changed(now, vesw.plan.vesw_id)
        since = vesw.dirty_since
        if since is None or (vesw.pending and now < since + SETTLE_S):
            return
        if any(map(self._turns.queue.keeps_waiting, vesw.pending)):
            # it is the EM that has not come to ask them
            vesw.dirty_since = now
            self._turns.wake_at(now + SETTLE_S, -vesw.plan.vesw_id)
            return
        vesw.dirty_since = None
        before = vesw.table.conflicts, movement.held, vesw.table.left_out
        if vesw.table.update(member_addresses(vesw, self._ports), now):
            self._log.add(SlotsRecord(vesw.plan.vesw_id, tuple(vesw.table.slots())))
        self._log.extend(table_events(vesw, self._ports, *before))
        if movement.release_at is not None:
            self._turns.wake_at(movement.release_at, -vesw.plan.vesw_id)
        for guid in vesw.guids:
            port = self._ports[guid]
            for vport in port.vports_on(vesw.plan.vesw_id):
                unsettled = frozenset(mac for mac in vport.unsettled if movement.heir(mac) == guid)
                if unsettled != vport.unsettled:
                    vport.unsettled = unsettled
                    self._log.add(vport.record())
                self._turns.mark(port, vport)
