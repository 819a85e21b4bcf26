"""The Ethernet Manager, sans-IO: answers, traps, ports and time come in; requests, groups and records go out.

    core = EmCore(config, memory, now=0.0)
    core.set_ports(now, facts); core.set_active(now, True)
    for request in core.next_requests(turns): send it, and hand what comes back to core.answer(...)
    core.wake(now) when core.next_wake() says so; core.trap(now, mad, slid) for each trap

What there is to do follows from what is wanted and what was seen, see `dialogue`; what this module adds is who
is affected by a change, when to look again, and what to do with agents that do not answer or make no sense.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator
from typing import Final

from hfi_sim.errors import WireError
from hfi_sim.mad.message import Mad
from vema.em import dialogue
from vema.em.audit import Audit
from vema.em.desired import EmConfig, PortFacts, Roster
from vema.em.dialogue import PORT, Effect, Request
from vema.em.groups import Groups
from vema.em.mac_tables import VeswTable
from vema.em.persisted import CountersRecord, EventRecord, Gone, Memory, Record, SlotsRecord, VportRecord
from vema.em.plan import plan_vesws
from vema.em.state import Desired, Port, Vesw, Vport, member_addresses, table_events
from vema.em.vport_queue import WorkQueue
from vema.errors import AgentError
from vema.traps import notice_of
from vema.types import AttrId, EthLinkStatus, TrapOpcode

log = logging.getLogger("vema.em")

SETTLE_S: Final = 1.0
"""How long a MAC table waits for members that do not answer, before it is sent without them."""
AFTER_TRAP_S: Final = 1.2
"""When to look again after a trap: agents hold back further ones for up to 1.074 s."""
WHILE_SILENT_S: Final = 0.25
"""When to look again at an agent whose burst of traps is used up: until its window closes, a change is not told."""
BACKOFF_S: Final = 1.0
BACKOFF_MAX_S: Final = 30.0
ISOLATION_S: Final = 30.0
ISOLATION_MAX_S: Final = 600.0
REFUSALS: Final = 3
"""Refused requests in a row after which a port is isolated."""
PORT_TURNS: Final = 16
"""Turns of vports that the turn of a port counts for: it may make all its vports."""
_COUNTERS: Final = (AttrId.SUMMARY_COUNTERS, AttrId.ERROR_COUNTERS)


class EmCore:
    """One EM. It sends nothing before `set_active`: a standby only listens."""

    def __init__(self, config: EmConfig, memory: Memory, *, now: float) -> None:
        """Begin with a configuration and with what an earlier life has left."""
        self.config = config
        self.active = False
        self.ports: dict[int, Port] = {}
        self.unanswered = 0
        """Requests that were given up."""
        self.sets = 0
        """Sets sent."""
        self.gets = 0
        """Gets sent."""
        self._vesws: dict[int, Vesw] = {}
        self._desired = Desired(config, 0, self._vesws)
        limits = config.limits
        self._queue = WorkQueue[int, int](in_flight=limits.in_flight, per_port=limits.per_port)
        self._records: list[Record] = []
        self._groups = Groups()
        self._timers: list[tuple[float, int, int]] = []
        self._timer_number = 0
        self._by_lid: dict[int, int] = {}
        self._remembered: dict[int, list[VportRecord]] = {}
        for record in memory.vports:
            self._remembered.setdefault(record.guid, []).append(record)
        self._slots = {record.vesw_id: record.slots for record in memory.slots}
        self._trust_memory = True
        self._member_of: dict[int, list[int]] = {}
        self._counters_at = now
        self._audit = Audit(config.polling.audit, now=now)

    # --- inputs --------------------------------------------------------------------------------------------

    def set_config(self, now: float, config: EmConfig) -> None:
        """Want something else from now on."""
        self._queue.resize(in_flight=config.limits.in_flight, per_port=config.limits.per_port)
        trap_changes = config.trap != self.config.trap
        if config.polling.audit != self.config.polling.audit:
            self._audit.restart(config.polling.audit, now=now)
        self.config = self._desired.config = config
        self._counters_at = now
        for port in self.ports.values():
            if trap_changes:
                port.doubt()
            self._look_beyond(port)
        self._replan(now)

    def set_sink(self, now: float, lid: int) -> None:
        """Have traps sent to this LID: the EM's own."""
        if lid != self._desired.sink_lid:
            self._desired.sink_lid = lid
            for port in self.ports.values():
                port.doubt()
                self._mark_port(port)

    def set_active(self, now: float, active: bool, *, trust_memory: bool = True) -> None:
        """Begin to work, or stop.

        Args:  trust_memory: False where another EM may have worked since; which vports there are is then asked
               of the agents.
        """
        if active == self.active:
            return
        self.active = active
        self._trust_memory = trust_memory
        self._groups.forget()
        self._audit.restart(self.config.polling.audit, now=now)
        for port in self.ports.values():
            self._queue.forget(port.facts.guid)
            if active and not trust_memory:
                self._records += [Gone(vport.key) for vport in port.vports.values()]
                port.vports.clear()
                port.scan = 1
            if active and port.in_service:
                self._begin(now, port)
        if active:
            self._replan(now)

    def set_ports(self, now: float, facts: Iterable[PortFacts]) -> None:
        """Take the ports that are in service now and announce Ethernet on fabric: all of them."""
        there = {fact.guid: fact for fact in facts}
        for guid, port in self.ports.items():
            if guid not in there and port.in_service:
                self._leave(now, port)
        for guid, fact in there.items():
            known = self.ports.get(guid)
            if known is None:
                known = self.ports[guid] = self._meet(fact)
                self._begin(now, known)
            elif not known.in_service or known.facts != fact:
                back = not known.in_service
                known.facts, known.in_service, known.away_until = fact, True, None
                known.blocked = False
                if back:
                    known.isolated, known.failures = "", 0
                    self._event("port-joined", known)
                self._begin(now, known)
        self._by_lid = {port.facts.lid: guid for guid, port in self.ports.items() if port.in_service}
        self._replan(now)

    def trap(self, now: float, mad: bytes, slid: int) -> None:
        """Take a trap that came from a LID."""
        try:
            notice = notice_of(mad)
        except WireError as error:
            log.warning("trap of LID %#x: %s", slid, error)
            return
        port = self.ports.get(self._by_lid.get(slid, 0))
        vport = None if port is None else port.vports.get(notice.vport_num)
        if not self.active or port is None or vport is None:
            return
        if notice.opcode == TrapOpcode.UCAST_MACS_CHANGED:
            vport.unicast.stale = True
        elif notice.opcode == TrapOpcode.MCAST_MACS_CHANGED:
            vport.multicast.stale = True
        else:
            vport.fresh = False
        vport.traps.seen(now)
        self._watch(now, port, vport)
        self._mark(port, vport)
        again = self._after_trap(now, port)
        if not port.blocked and (port.wake_at <= now or port.wake_at > again):
            self._schedule(port, again)

    def answer(self, now: float, request: Request, mad: Mad | None) -> None:
        """Take the response to a request, or None where there was none after all retries."""
        self._queue.finished(request.guid)
        port = self.ports.get(request.guid)
        if port is None:
            return
        if request.epoch != port.epoch:
            return  # asked of an earlier life of the port
        vport = port.vports.get(request.vport_num)
        if request.about_port:
            port.busy = False
        elif vport is not None:
            vport.busy = False
        if mad is None:
            self._unanswered(now, port, vport, request)
            return
        if port.failures:
            port.failures = 0
            self._event("port-answers", port)
        try:
            if request.about_port:
                self._take_port_answer(now, port, request, mad)
            elif vport is not None and request.attr_id == AttrId.MAC_ENTRIES and not request.is_set:
                self._audited(port, vport, self._audit.take(vport, request, mad))
            elif vport is not None:
                effect = dialogue.take_vport_answer(vport, request, mad)
                self._took(now, port, vport, effect)
        except (AgentError, WireError) as error:
            self._refused(now, port, vport, error)

    def wake(self, now: float) -> None:
        """Do what is due at `now`."""
        while self._timers and self._timers[0][0] <= now:
            when, _, key = heapq.heappop(self._timers)
            port = self.ports.get(key)
            if port is not None:
                if port.wake_at == when:
                    self._wake_port(now, port)
            elif (vesw := self._vesws.get(-key)) is not None:
                self._settle(now, vesw)
        if self.active and (due := self._audit.wake(now, self.ports, self._vesws)) is not None:
            port = self.ports[due[0]]
            self._mark(port, port.vports[due[1]])
        interval = self.config.polling.counters
        if interval and self.active and now >= self._counters_at:
            self._counters_at = now + interval
            for port in self.ports.values():
                for vport in port.vports.values():
                    if vport.done:
                        vport.counters_due = list(_COUNTERS)
                        self._mark(port, vport)

    # --- outputs -------------------------------------------------------------------------------------------

    def next_requests(self, turns: int) -> list[Request]:
        """Return requests to send now: about as many vports have their turn, most of which may need nothing.

        Records that come before the requests must be written first.
        """
        requests: list[Request] = []
        while turns > 0 and self.active and (turn := self._queue.pop()) is not None:
            guid, num = turn
            turns -= PORT_TURNS if num == PORT else 1
            port = self.ports[guid]
            if port.blocked:
                continue
            request = self._port_turn(port) if num == PORT else self._vport_turn(port, port.vports.get(num))
            if request is not None:
                self._queue.started(guid)
                if request.is_set:
                    self.sets += 1
                else:
                    self.gets += 1
                requests.append(request)
        return requests

    @property
    def has_more(self) -> bool:
        """Whether there may be more requests to send now."""
        return self.active and self._queue.ready

    def take_records(self) -> list[Record]:
        """Return what has to be written before the next request is sent."""
        records, self._records = self._records, []
        return records

    def take_groups(self) -> dict[int, frozenset[int]]:
        """Return the multicast groups that changed: group LID -> GUIDs of its ports; empty: delete it."""
        return self._groups.take(self._vesws.values())

    def next_wake(self) -> float | None:
        """Return when `wake` is due, or None."""
        times = [self._timers[0][0]] if self._timers else []
        if self.config.polling.counters and self.active:
            times.append(self._counters_at)
        if self.active and (audit_at := self._audit.next_wake()) is not None:
            times.append(audit_at)
        return min(times, default=None)

    @property
    def in_flight(self) -> int:
        """Requests on their way."""
        return self._queue.in_flight

    @property
    def deepest(self) -> int:
        """The most requests that were on their way at once."""
        return self._queue.deepest

    @property
    def vesws(self) -> dict[int, Vesw]:
        """The virtual switches, by id."""
        return self._vesws

    @property
    def desired(self) -> Desired:
        """What is wanted, with the fabric as it is."""
        return self._desired

    def vports(self) -> Iterator[tuple[Port, Vport]]:
        """Yield every vport with its port."""
        for port in self.ports.values():
            for vport in port.vports.values():
                yield port, vport

    @property
    def converged(self) -> bool:
        """Whether every port in service that is not isolated is as it should be, and nothing is on its way."""
        if not self.active or self._queue.in_flight or self._queue.waiting:
            return False
        if any(vesw.dirty_since is not None for vesw in self._vesws.values()):
            return False
        live = (port for port in self.ports.values() if port.in_service and not port.isolated)
        return all(port.ready and all(vport.done for vport in port.vports.values()) for port in live)

    # --- the life of a port --------------------------------------------------------------------------------

    def _meet(self, fact: PortFacts) -> Port:
        """Return a port that was not seen before in this life."""
        port = Port(fact)
        records = self._remembered.pop(fact.guid, [])
        if records and self._trust_memory:
            port.vports = {record.vport_num: Vport.of(record) for record in records}
        else:
            self._records += [Gone(record.key) for record in records]
            port.scan = 1
        return port

    def _begin(self, now: float, port: Port) -> None:
        """Begin with a port anew: it joined, came back, changed, or this EM became the master."""
        port.epoch += 1
        port.doubt()
        port.busy = port.blocked = False
        if port.scan is not None:
            port.scan = 1
        for vport in port.vports.values():
            vport.busy = False
            if vport.vesw_id in self._vesws:
                self._vesws[vport.vesw_id].pending.add(port.facts.guid)
        self._mark_port(port)
        self._schedule_look(now, port, first=True)

    def _leave(self, now: float, port: Port) -> None:
        port.in_service = False
        port.away_until = now + self.config.limits.leave_hold
        self._stop(now, port, port.away_until)
        self._event("port-left", port)

    def _stop(self, now: float, port: Port, until: float) -> None:
        """Send nothing to a port until later; answers to what was sent are ignored."""
        port.epoch += 1
        port.doubt()
        port.busy, port.blocked = False, True
        self._queue.forget(port.facts.guid)
        for vport in port.vports.values():
            vport.busy = False
        for vesw in self._vesws.values():
            if port.facts.guid in vesw.pending:
                vesw.pending.discard(port.facts.guid)
                self._settle(now, vesw)
        self._schedule(port, until)

    def _wake_port(self, now: float, port: Port) -> None:
        if not port.in_service:
            port.away_until = None
            self._event("port-forgotten", port)
            self._replan(now)
            return
        if port.blocked:
            port.blocked, port.isolated = False, ""
        elif not all(vport.done for vport in port.vports.values()):
            self._schedule(port, self._after_trap(now, port))  # it is being looked at already
            return
        port.doubt()
        self._mark_port(port)
        if port.silent(now):
            self._schedule(port, now + WHILE_SILENT_S)
        else:
            self._schedule_look(now, port)

    def _look_beyond(self, port: Port) -> None:
        """Look for a vport that somebody else has made: at the first number that is free."""
        if port.scan is None:
            port.scan = port.next_unknown(1)
        port.ready = False
        self._mark_port(port)

    @staticmethod
    def _after_trap(now: float, port: Port) -> float:
        return now + (WHILE_SILENT_S if port.silent(now) else AFTER_TRAP_S)

    def _port_turn(self, port: Port) -> Request | None:
        if port.busy or port.ready:
            return None
        request = dialogue.next_of_port(self._desired, port)
        if request is None:
            port.ready = True
            self._allot(port)
            for vport in port.vports.values():
                self._mark(port, vport)
        else:
            port.busy = True
        return request

    def _vport_turn(self, port: Port, vport: Vport | None) -> Request | None:
        if vport is None or vport.busy or not port.ready:
            return None
        request = dialogue.next_of_vport(self._desired, port, vport) or self._audit.request(port, vport)
        if request is not None:
            vport.busy, vport.done = True, False
            return request
        vesw = self._vesws.get(vport.vesw_id)
        if vesw is None:
            if vport.info is not None and vport.fresh:
                del port.vports[vport.num]
                self._records.append(Gone(vport.key))
                self._event("vport-deleted", port, vport)
                self._allot(port)
        elif vesw.dirty_since is None or not vesw.plan.learns:
            vport.done = True
            port.refusals = 0
        return None

    def _take_port_answer(self, now: float, port: Port, request: Request, mad: Mad) -> None:
        found = dialogue.take_port_answer(port, request, mad)
        if found is not None:
            taken = {vport.vesw_id for vport in port.vports.values()}
            found.vesw_id = 0 if found.vesw_id in taken else found.vesw_id
            port.vports[found.num] = found
            self._records.append(found.record())
        self._mark_port(port)

    def _allot(self, port: Port) -> None:
        """Give the port a vport for each virtual switch that it is a member of, and take away the others."""
        for vport in port.allot(self._member_of.get(port.facts.guid, ())):
            self._records.append(vport.record())
            self._mark(port, vport)

    # --- the consequences of an answer ---------------------------------------------------------------------

    def _took(self, now: float, port: Port, vport: Vport, effect: Effect) -> None:
        if Effect.RESTARTED in effect:
            self._event("agent-restarted", port, vport)
            port.doubt()
            self._mark_port(port)
        vesw = self._vesws.get(vport.vesw_id)
        if Effect.CONFIGURED in effect and vesw is not None:
            self._event("vport-configured", port, vport, text=f"configured on {vesw.plan.section.name!r}")
        if Effect.LINK in effect and vport.info is not None:
            up = vport.info.eth_link_status == EthLinkStatus.UP
            self._event("link-up" if up else "link-down", port, vport)
        if Effect.TABLE in effect and vesw is not None:
            self._event("table-differs", port, vport, text=f"MAC table: digest {vport.digest:#x}, sent again")
        if Effect.ADDRESSES in effect:
            self._soil(now, vport.vesw_id)
        if effect & (Effect.RECORD | Effect.ADDRESSES):
            self._records.append(vport.record())
        if Effect.COUNTERS in effect:
            self._records.append(CountersRecord(vport.guid, vport.num, vport.vesw_id, vport.counters))
        self._watch(now, port, vport)
        self._mark(port, vport)

    def _audited(self, port: Port, vport: Vport, wrong: list[int]) -> None:
        if vport.damaged:
            text = f"MAC table: section {', '.join(map(str, wrong))} not as its digest says, sent again"
            self._event("table-differs", port, vport, text=text)
        self._mark(port, vport)
        if not self._audit.is_reading and vport.num == max(port.vports):
            self._look_beyond(port)

    def _unanswered(self, now: float, port: Port, vport: Vport | None, request: Request) -> None:
        self.unanswered += 1
        if not port.failures:
            self._event("port-silent", port, text=f"attribute {request.attr_id:#06x} unanswered")
        port.failures += 1
        if vport is not None:
            dialogue.lost(vport, request)
        self._stop(now, port, now + min(BACKOFF_S * 2 ** min(port.failures - 1, 10), BACKOFF_MAX_S))

    def _refused(self, now: float, port: Port, vport: Vport | None, error: AgentError | WireError) -> None:
        port.refusals += 1
        status = getattr(error, "status", 0)
        if status and port.refusals < REFUSALS:
            if vport is not None:
                vport.fresh, vport.layout = False, None
                self._mark(port, vport)
            else:
                self._mark_port(port)
            return
        port.strikes, port.refusals = port.strikes + 1, 0
        port.isolated = str(error)
        self._event("agent-isolated", port, vport, text=port.isolated)
        self._stop(now, port, now + min(ISOLATION_S * 2 ** min(port.strikes - 1, 10), ISOLATION_MAX_S))

    # --- MAC tables ----------------------------------------------------------------------------------------

    def _replan(self, now: float) -> None:
        """Hold the virtual switches against the configuration and the ports that are there."""
        roster = Roster(port.facts for port in self.ports.values() if port.counts)
        plans = plan_vesws(self.config, roster)
        for vesw_id in [vesw_id for vesw_id in self._vesws if vesw_id not in plans]:
            del self._vesws[vesw_id]
            self._records.append(Gone(vesw_id))
        touched: set[int] = set()
        soiled: list[Vesw] = []
        for vesw_id, plan in plans.items():
            vesw = self._vesws.get(vesw_id)
            if vesw is None:
                vesw = self._vesws[vesw_id] = Vesw(plan, VeswTable(self._slots.pop(vesw_id, ())))
            elif vesw.plan == plan:
                continue
            before, vesw.guids = vesw.guids, frozenset(port.guid for port in plan.members)
            vesw.plan = plan
            vesw.pending &= vesw.guids
            for guid in vesw.guids - before:
                if self.ports[guid].in_service and not self.ports[guid].blocked:
                    vesw.pending.add(guid)
            touched |= vesw.guids | before
            self._soil(now, vesw_id)
            soiled.append(vesw)
        order = {vesw_id: self._vesws[vesw_id] for vesw_id in plans}
        self._vesws.clear()
        self._vesws.update(order)
        self._member_of = {}
        for vesw_id, vesw in order.items():
            for guid in vesw.guids:
                self._member_of.setdefault(guid, []).append(vesw_id)
        for port in self.ports.values():
            orphans = any(vport.vesw_id and vport.vesw_id not in order for vport in port.vports.values())
            if port.ready and port.in_service and (orphans or port.facts.guid in touched):
                self._allot(port)
                for vport in port.vports.values():
                    vport.done = False
                    self._watch(now, port, vport)
                    self._mark(port, vport)
        for vesw in soiled:
            self._settle(now, vesw)
        self._groups.doubt()

    def _soil(self, now: float, vesw_id: int) -> None:
        """Have a MAC table computed anew, once the addresses of its members are known."""
        vesw = self._vesws.get(vesw_id)
        if vesw is not None and vesw.plan.learns and vesw.dirty_since is None:
            vesw.dirty_since = now
            self._timer(now + SETTLE_S, -vesw_id)

    def _watch(self, now: float, port: Port, vport: Vport) -> None:
        """Note whether a member's addresses are being read; a table waits for them."""
        vesw = self._vesws.get(vport.vesw_id)
        if vesw is None or not vesw.plan.learns or port.blocked:
            return
        if vport.fresh and vport.unicast.current and vport.multicast.current:
            vesw.pending.discard(port.facts.guid)
            self._settle(now, vesw)
        else:
            vesw.pending.add(port.facts.guid)

    def _settle(self, now: float, vesw: Vesw) -> None:
        """Compute a table whose members are known, or have kept it waiting for too long."""
        since = vesw.dirty_since
        if since is None or (vesw.pending and now < since + SETTLE_S):
            return
        vesw.dirty_since = None
        before = vesw.table.conflicts, vesw.table.left_out
        if vesw.table.update(member_addresses(vesw, self.ports)):
            self._records.append(SlotsRecord(vesw.plan.vesw_id, tuple(vesw.table.slots())))
        self._records += table_events(vesw, self.ports, *before)
        for guid in vesw.guids:
            port = self.ports[guid]
            for vport in port.vports.values():
                if vport.vesw_id == vesw.plan.vesw_id:
                    self._mark(port, vport)

    # --- turns and timers ----------------------------------------------------------------------------------

    def _mark(self, port: Port, vport: Vport) -> None:
        if port.ready and not port.blocked:
            self._queue.mark(port.facts.guid, vport.num)

    def _mark_port(self, port: Port) -> None:
        if self.active and not port.blocked:
            self._queue.mark(port.facts.guid, PORT)

    def _timer(self, when: float, guid: int) -> None:
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, guid))

    def _schedule(self, port: Port, when: float) -> None:
        port.wake_at = when
        self._timer(when, port.facts.guid)

    def _schedule_look(self, now: float, port: Port, *, first: bool = False) -> None:
        interval = self.config.polling.interval
        if interval and self.active:
            # ports that joined together are not looked at together
            share = 0.5 + (port.facts.guid * 0x9E3779B1 % 1024) / 2048 if first else 1.0
            self._schedule(port, now + interval * share)

    def _event(self, kind: str, port: Port, vport: Vport | None = None, *, text: str = "") -> None:
        num, vesw_id = (None, None) if vport is None else (vport.num, vport.vesw_id or None)
        log.info("[%s%s] %s %s", port.facts.name, "" if num is None else f" vport {num}", kind, text)
        self._records.append(EventRecord(kind, port.facts.name, num, vesw_id, text))
