"""The desired virtual switches on the current fabric: members, MAC tables, multicast groups. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from vema.em.core.groups import Groups
from vema.em.core.port_life import SERVED
from vema.em.core.record_log import RecordLog
from vema.em.core.state import ManagedVesw, Port, Vport, member_addresses, table_events
from vema.em.core.turns import Turns
from vema.em.desired.desired import EmConfig, PortFacts, Roster
from vema.em.desired.mac_tables import VeswTable
from vema.em.desired.plan import VeswPlan, plan_vesws
from vema.em.store.persisted import SlotsRecord, Tombstone

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
        self.groups = Groups()
        self._ports = ports
        self._turns = turns
        self._log = log
        self._slots = {record.vesw_id: record.slots for record in slots}
        self._member_of: dict[int, list[int]] = {}
        self._config: EmConfig | None = None
        self._facts: list[PortFacts] = []
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

    def fit(self, config: EmConfig) -> bool:
        """Return whether the plans were made from this configuration and the ports that are there now."""
        return config is self._config and self._counting() == self._facts

    def _counting(self) -> list[PortFacts]:
        return [port.facts for port in self._ports.values() if port.counts]

    def replan(self, now: float, config: EmConfig) -> None:
        """Hold the virtual switches against the configuration and the ports that are there."""
        self._config, self._facts = config, self._counting()
        plans = plan_vesws(config, Roster(self._facts), self._group_lids)
        for vesw_id in [vesw_id for vesw_id in self.by_id if vesw_id not in plans]:
            del self.by_id[vesw_id]
            self._log.add(Tombstone(vesw_id))
        touched: set[int] = set()
        changed: list[ManagedVesw] = []
        for vesw_id, plan in plans.items():
            vesw = self.by_id.get(vesw_id)
            if vesw is None:
                vesw = self.by_id[vesw_id] = ManagedVesw(plan, VeswTable(self._slots.pop(vesw_id, ())))
            elif vesw.plan == plan:
                continue
            touched |= self._take_plan(vesw, plan)
            self.table_changed(now, vesw_id)
            changed.append(vesw)
        order = {vesw_id: self.by_id[vesw_id] for vesw_id in plans}
        self.by_id.clear()
        self.by_id.update(order)
        self._member_of = {}
        for vesw_id, vesw in order.items():
            for guid in vesw.guids:
                self._member_of.setdefault(guid, []).append(vesw_id)
        for port in self._ports.values():
            orphans = any(vport.vesw_id and vport.vesw_id not in order for vport in port.vports.values())
            if port.ready and port.in_service and (orphans or port.facts.guid in touched):
                self._serve_again(now, port)
        for vesw in changed:
            self.settle(now, vesw)
        self.groups.doubt()

    def _take_plan(self, vesw: ManagedVesw, plan: VeswPlan) -> frozenset[int]:
        """Give a virtual switch its plan; return the members before and after."""
        before, vesw.guids = vesw.guids, frozenset(port.guid for port in plan.members)
        vesw.plan = plan
        vesw.pending &= vesw.guids
        for guid in vesw.guids - before:
            if self._ports[guid].life is SERVED:
                vesw.pending.add(guid)
        return vesw.guids | before

    def _serve_again(self, now: float, port: Port) -> None:
        self.allot(port)
        for vport in port.vports.values():
            vport.done = False
            self.watch(now, port, vport)
            self._turns.mark(port, vport)

    def allot(self, port: Port) -> None:
        """Give the port a vport for each virtual switch that it is a member of, and take away the others."""
        for vport in port.allot(self._member_of.get(port.facts.guid, ())):
            self._log.add(vport.record())
            self._turns.mark(port, vport)

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
        if vesw is None or not vesw.plan.learns or port.life is not SERVED:
            return
        if vport.fresh and vport.unicast.current and vport.multicast.current:
            vesw.pending.discard(port.facts.guid)
            self.settle(now, vesw)
        else:
            vesw.pending.add(port.facts.guid)

    def wait_for(self, port: Port) -> None:
        """Let the tables of a port's virtual switches wait for its addresses."""
        for vport in port.vports.values():
            if vport.vesw_id in self.by_id:
                self.by_id[vport.vesw_id].pending.add(port.facts.guid)

    def do_not_wait_for(self, now: float, port: Port) -> None:
        """Let no table wait for a port: it does not answer."""
        for vesw in self.by_id.values():
            if port.facts.guid in vesw.pending:
                vesw.pending.discard(port.facts.guid)
                self.settle(now, vesw)

    def settle(self, now: float, vesw: ManagedVesw) -> None:
        """Compute a table whose members are known, or have kept it waiting for too long."""
        since = vesw.dirty_since
        if since is None or (vesw.pending and now < since + SETTLE_S):
            return
        vesw.dirty_since = None
        before = vesw.table.conflicts, vesw.table.left_out
        if vesw.table.update(member_addresses(vesw, self._ports)):
            self._log.add(SlotsRecord(vesw.plan.vesw_id, tuple(vesw.table.slots())))
        self._log.extend(table_events(vesw, self._ports, *before))
        for guid in vesw.guids:
            port = self._ports[guid]
            for vport in port.vports_on(vesw.plan.vesw_id):
                self._turns.mark(port, vport)
