"""The Ethernet Manager, sans-IO: responses, traps, ports and time come in; requests, groups and records go out.

    core = EmCore(config, memory, now=0.0)
    core.set_ports(now, facts); core.set_active(now, True)
    for request in core.next_requests(turns): send it, and hand what comes back to core.answer(...)
    core.wake(now, turns) when core.next_wake() says so; core.trap(now, mad, slid) for each trap

This module connects the others: `dialogue` derives the next request from the desired and the last seen state, by the
table in `steps`, `virtual_switches` tracks which vports a change affects, `port_lives` handles agents that come, go or
do not answer, by the table in `port_life`, and `turns` decides which port is served when.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import Mad
from vema.attributes.traps import notice_of
from vema.base.errors import AgentError
from vema.base.types import EthLinkStatus, TrapOpcode
from vema.em.core import dialogue
from vema.em.core.audit import Audit
from vema.em.core.dialogue import PORT, Effect, Request
from vema.em.core.messages import no_agent
from vema.em.core.port_lives import PortLives
from vema.em.core.state import SCAN_GAP, Desired, ManagedVesw, Port, Vport
from vema.em.core.steps import SERVED, Step
from vema.em.core.turns import RecordLog, Turns
from vema.em.core.virtual_switches import Group, VirtualSwitches
from vema.em.desired.desired import EmConfig
from vema.em.desired.ports import PortFacts
from vema.em.store.persisted import CountersRecord, Memory, Record, Tombstone

log = logging.getLogger("vema.em")

PORT_TURNS: Final = 16
"""Cost of a port's turn in turns of vports: it may create all its vports."""
FORGOTTEN_KEPT: Final = 256
"""Ports that have been away for too long and are still known, with their vports, in case they return."""
_COUNTERS: Final = (Step.SUMMARY, Step.ERRORS)


class EmCore:
    """One EM. It sends nothing before `set_active`: a standby only listens."""

    def __init__(self, config: EmConfig, memory: Memory, *, now: float) -> None:
        """Start with a configuration and the records of an earlier run."""
        self.config = config
        self.ports: dict[int, Port] = {}
        self.sets = 0
        """Sets sent."""
        self.gets = 0
        """Gets sent."""
        self._turns = Turns(config)
        self._log = RecordLog()
        self._vesws = VirtualSwitches(self.ports, self._turns, self._log, memory.slots)
        self.desired = Desired(config, 0, self._vesws.by_id)
        """The desired state for the current fabric."""
        self._lives = PortLives(self.desired, self._vesws, self._turns, self._log, memory.vports)
        self._by_lid: dict[int, int] = {}
        self._counters_at = now
        self._audit = Audit(config.polling.audit, now=now)

    # --- inputs --------------------------------------------------------------------------------------------

    def set_config(self, now: float, config: EmConfig) -> None:
        """Replace the configuration."""
        self._turns.queue.resize(in_flight=config.limits.in_flight, per_port=config.limits.per_port)
        before, self.config = self.config, config
        self.desired.config = config
        if config.polling.audit != before.polling.audit:
            self._audit.restart(config.polling.audit, now=now)
        if config.polling.counters != before.polling.counters:
            self._counters_at = now
        if config.trap != before.trap:
            self._doubt_all()
        if config == before:  # applied again, so that everything is looked over
            for port in self.ports.values():
                self._look_beyond(port)
        self._vesws.replan(now, config, self._look_beyond)

    def _look_beyond(self, port: Port) -> None:
        self._lives.look_beyond(port, SCAN_GAP)

    def set_sink(self, now: float, lid: int) -> None:
        """Set the LID that agents send traps to: the EM's own."""
        if lid != self.desired.sink_lid:
            self.desired.sink_lid = lid
            self._doubt_all()

    def _doubt_all(self) -> None:
        for port in self.ports.values():
            port.doubt()
            self._turns.mark_port(port)

    def set_active(self, now: float, active: bool, *, trust_memory: bool = True) -> None:
        """Become active, or stop.

        Args:  trust_memory: False if another EM may have been active since; the existing vports are then read from
               the agents.
        """
        if active == self.active:
            return
        self._turns.active = active
        self._lives.trust_memory = trust_memory
        self._vesws.forget_groups()
        self._audit.restart(self.config.polling.audit, now=now)
        for port in self.ports.values():
            self._turns.queue.forget(port.facts.guid)
            if active and not trust_memory:
                self._lives.forget_vports(port)
            if active and port.in_service:
                self._lives.begin(now, port)
        if active:
            self._vesws.replan(now, self.config)

    def set_ports(self, now: float, facts: Iterable[PortFacts]) -> None:
        """Set all ports that are in service and announce Ethernet on fabric."""
        there = {fact.guid: fact for fact in facts}
        for guid, port in self.ports.items():
            if guid not in there and port.in_service:
                self._lives.leave(now, port)
        for guid, fact in there.items():
            known = self.ports.get(guid)
            if known is None:
                known = self.ports[guid] = self._lives.meet(fact)
                self._lives.begin(now, known)
            elif not known.in_service or known.facts != fact:
                known.facts = fact
                self._lives.begin(now, known)
        self._by_lid = {port.facts.lid: guid for guid, port in self.ports.items() if port.in_service}
        self._vesws.ports_changed(now, self.config)

    def set_group_lids(self, now: float, lids: Mapping[int, int] | None) -> None:
        """Set the multicast LIDs that the subnet manager has given, by id of the virtual switch; None: the EM chooses.

        A virtual switch that has none yet is held down.
        """
        if self._vesws.set_group_lids(lids):
            self._vesws.replan(now, self.config)

    def trap(self, now: float, mad: bytes, slid: int) -> None:
        """Handle a trap from a LID."""
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
        self._vesws.watch(now, port, vport)
        self._turns.mark(port, vport)
        self._lives.look_after_trap(now, port)

    def answer(self, now: float, request: Request, mad: Mad | None) -> None:
        """Handle the response to a request, or None if none came after all retries."""
        self._turns.queue.finished(request.guid)
        port = self.ports.get(request.guid)
        if port is None:
            return
        if request.epoch != port.epoch:
            return  # sent before the port left or was reset
        vport = port.vports.get(request.vport_num)
        if request.step.about_port:
            port.busy = False
        elif vport is not None:
            vport.busy = False
        if mad is None or no_agent(mad):
            self._lives.not_answered(now, port, vport, request, mad)
            return
        self._lives.answers(port)
        try:
            if request.step.about_port:
                self._take_port_answer(now, port, request, mad)
            elif vport is not None and request.step is Step.AUDIT:
                self._audited(port, vport, self._audit.take(vport, request, mad))
            elif vport is not None:
                effect = dialogue.take_vport_answer(vport, request, mad)
                self._took(now, port, vport, effect)
        except (AgentError, WireError) as error:
            self._lives.refused(now, port, vport, error)

    def _drop_forgotten(self) -> None:
        """Drop ports that have been away for too long, beyond `FORGOTTEN_KEPT`: they come back as new ones, if ever."""
        forgotten = [port for port in self.ports.values() if not port.counts]
        for port in forgotten[:-FORGOTTEN_KEPT]:
            del self.ports[port.facts.guid]
            self._lives.drop(port)

    def wake(self, now: float, turns: int) -> None:
        """Do what is due at `now`, for at most `turns` ports and MAC tables; `next_wake` accounts for the rest.

        The limit matters because virtual switches created together are due together, and each table takes time.
        """
        for when, key in self._turns.due(now, turns):
            port = self.ports.get(key)
            if port is not None:
                if port.wake_at == when:
                    self._lives.due(now, port)
                    if not port.counts:
                        self._drop_forgotten()
            elif (vesw := self.vesws.get(-key)) is not None:
                self._vesws.settle(now, vesw)
        if self.active and (due := self._audit.wake(now, self.ports, self.vesws)) is not None:
            port = self.ports[due[0]]
            self._turns.mark(port, port.vports[due[1]])
        interval = self.config.polling.counters
        if interval and self.active and now >= self._counters_at:
            self._counters_at = now + interval
            for port in self.ports.values():
                for vport in port.vports.values():
                    if vport.done:
                        vport.counters_due = list(_COUNTERS)
                        self._turns.mark(port, vport)

    # --- outputs -------------------------------------------------------------------------------------------

    def next_requests(self, turns: int) -> list[Request]:
        """Return the requests to send now. About `turns` vports are served, many of which may need nothing.

        Write the records of `take_records` before sending the requests.
        """
        requests: list[Request] = []
        while turns > 0 and self.active and (turn := self._turns.queue.pop()) is not None:
            guid, num = turn
            turns -= PORT_TURNS if num == PORT else 1
            port = self.ports[guid]
            if port.life is not SERVED:
                continue
            request = self._port_turn(port) if num == PORT else self._vport_turn(port, port.vports.get(num))
            if request is not None:
                self._turns.queue.started(guid)
                if request.step.is_set:
                    self.sets += 1
                else:
                    self.gets += 1
                requests.append(request)
        return requests

    @property
    def has_more(self) -> bool:
        """Whether there may be more requests to send now."""
        return self.active and self._turns.queue.ready

    def take_records(self) -> list[Record]:
        """Return the records to write before the next request is sent."""
        return self._log.take()

    def take_groups(self) -> dict[int, Group | None]:
        """Return the multicast groups that changed, by id of the virtual switch; None deletes the group."""
        return self._vesws.take_groups()

    def next_wake(self) -> float | None:
        """Return when `wake` is due, or None."""
        times = [] if (due := self._turns.next_time()) is None else [due]
        if self.config.polling.counters and self.active:
            times.append(self._counters_at)
        if self.active and (audit_at := self._audit.next_wake()) is not None:
            times.append(audit_at)
        return min(times, default=None)

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return self._turns.queue.in_flight

    @property
    def deepest(self) -> int:
        """The largest number of requests that were in flight at once."""
        return self._turns.queue.deepest

    @property
    def vesws(self) -> dict[int, ManagedVesw]:
        """The virtual switches, by id."""
        return self._vesws.by_id

    @property
    def active(self) -> bool:
        """Whether this EM is active; a standby only listens."""
        return self._turns.active

    @property
    def unanswered(self) -> int:
        """Requests that no agent answered."""
        return self._lives.unanswered

    def vports(self) -> Iterator[tuple[Port, Vport]]:
        """Yield every vport with its port."""
        for port in self.ports.values():
            for vport in port.vports.values():
                yield port, vport

    @property
    def converged(self) -> bool:
        """Whether all ports in service, except isolated ones, are in the desired state, with no request in flight."""
        if not self.active or self._turns.queue.in_flight or self._turns.queue.waiting:
            return False
        # what is not done at a port that is served has a turn, or waits for a MAC table
        return self._vesws.settled and not self._lives.silent

    # --- turns ---------------------------------------------------------------------------------------------

    def _port_turn(self, port: Port) -> Request | None:
        if port.busy or port.ready:
            return None
        request = dialogue.next_of_port(self.desired, port)
        if request is None:
            port.ready = True
            self._vesws.allot(port)
            for vport in port.vports.values():
                self._turns.mark(port, vport)
        else:
            port.busy = True
        return request

    def _vport_turn(self, port: Port, vport: Vport | None) -> Request | None:
        if vport is None or vport.busy or not port.ready:
            return None
        request = dialogue.next_of_vport(self.desired, port, vport) or self._audit.request(port, vport)
        if request is not None:
            vport.busy, vport.done = True, False
            return request
        vesw = self.vesws.get(vport.vesw_id)
        if vesw is None:
            if vport.info is not None and vport.fresh:
                port.remove(vport.num)
                self._log.add(Tombstone(vport.key))
                self._log.event("vport-deleted", port, vport)
                self._vesws.allot(port)
        elif vesw.dirty_since is None or not vesw.plan.learns:
            vport.done = True
            port.refusals = 0
        return None

    def _take_port_answer(self, now: float, port: Port, request: Request, mad: Mad) -> None:
        found = dialogue.take_port_answer(port, request, mad)
        if found is not None:
            if port.vports_on(found.vesw_id):
                found.vesw_id = 0
            port.add(found)
            self._log.add(found.record())
        self._turns.mark_port(port)

    # --- the consequences of an answer ---------------------------------------------------------------------

    def _took(self, now: float, port: Port, vport: Vport, effect: Effect) -> None:
        if Effect.RESTARTED in effect:
            self._log.event("agent-restarted", port, vport)
            port.doubt()
            self._turns.mark_port(port)
        vesw = self.vesws.get(vport.vesw_id)
        if Effect.CONFIGURED in effect and vesw is not None:
            self._log.event("vport-configured", port, vport, text=f"configured on {vesw.plan.section.name!r}")
        if Effect.LINK in effect and vport.info is not None:
            up = vport.info.eth_link_status == EthLinkStatus.UP
            self._log.event("link-up" if up else "link-down", port, vport)
        if Effect.TABLE in effect and vesw is not None:
            self._log.event(
                "table-differs", port, vport, text=f"MAC table: digest {vport.digest:#x}, sent again"
            )
        if Effect.ADDRESSES in effect:
            vport.note_addresses(now)
            self._vesws.table_changed(now, vport.vesw_id)
        if effect & (Effect.RECORD | Effect.ADDRESSES):
            self._log.add(vport.record())
        if Effect.COUNTERS in effect:
            self._log.add(CountersRecord(vport.guid, vport.num, vport.vesw_id, vport.counters))
        self._vesws.watch(now, port, vport)
        self._turns.mark(port, vport)

    def _audited(self, port: Port, vport: Vport, wrong: list[int]) -> None:
        if vport.damaged:
            text = f"MAC table: section {', '.join(map(str, wrong))} does not match its digest, sent again"
            self._log.event("table-differs", port, vport, text=text)
        self._turns.mark(port, vport)
        if not self._audit.is_reading and vport.num == max(port.vports):
            self._lives.look_beyond(port, 1)  # in every round: one Get more
