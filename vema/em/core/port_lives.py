"""What an EM does in the lives of ports (`port_life`): joining, leaving, polls, backoff, isolation. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import Mad
from vema.base.errors import AgentError
from vema.em.core import dialogue
from vema.em.core.dialogue import Request
from vema.em.core.state import Desired, Port, Vport
from vema.em.core.steps import LIFE, SERVED, Life, LifeEvent
from vema.em.core.turns import RecordLog, Turns
from vema.em.core.virtual_switches import VirtualSwitches
from vema.em.desired.ports import PortFacts
from vema.em.store.persisted import Tombstone, VportRecord

AFTER_TRAP_S: Final = 1.2
"""Delay of a poll after a trap: agents suppress further traps for up to 1.074 s."""
WHILE_SILENT_S: Final = 0.25
"""Interval of polls of an agent that has used up its burst of traps and so does not report changes for a while."""
BACKOFF_S: Final = 1.0
BACKOFF_MAX_S: Final = 30.0
ISOLATION_S: Final = 30.0
ISOLATION_MAX_S: Final = 600.0
REFUSALS: Final = 3
"""Number of consecutive refused requests after which a port is isolated."""


class PortLives:
    """Tracks ports as they join, leave, stop answering or send invalid responses."""

    def __init__(
        self,
        desired: Desired,
        vesws: VirtualSwitches,
        turns: Turns,
        log: RecordLog,
        remembered: Iterable[VportRecord],
    ) -> None:
        """Start without ports; `remembered` are the vports of an earlier run."""
        self.trust_memory = True
        """Whether no other EM can have been active since the records were written."""
        self.unanswered = 0
        """Requests that no agent answered."""
        self.silent: set[int] = set()
        """GUIDs of the ports that have not answered and are left alone for a while."""
        self._desired = desired
        self._vesws = vesws
        self._turns = turns
        self._log = log
        self._remembered: dict[int, list[VportRecord]] = {}
        for record in remembered:
            self._remembered.setdefault(record.guid, []).append(record)

    # --- coming and going ----------------------------------------------------------------------------------

    def meet(self, fact: PortFacts) -> Port:
        """Return a new Port for a port that is seen for the first time in this run."""
        port = Port(fact)
        records = self._remembered.pop(fact.guid, [])
        if records and self.trust_memory:
            for record in records:
                port.add(Vport.of(record))
        else:
            self._log.add(*(Tombstone(record.key) for record in records))
            port.start_scan(1)
        return port

    def begin(self, now: float, port: Port) -> None:
        """Restart the dialogue with a port that joined, came back or changed, or after this EM became the master."""
        if port.in_service:
            self._enter(port, LifeEvent.RESTART)
        else:
            self._enter(port, LifeEvent.RETURN)
            port.failures = 0
            self._log.event("port-joined", port)
        port.restart()
        if port.scan is not None:
            port.start_scan(port.patience)
        self._vesws.wait_for(port)
        self._turns.mark_port(port)
        self._schedule_look(now, port, first=True)

    def leave(self, now: float, port: Port) -> None:
        """Handle a port that left; its addresses stay in the tables of the others for a while."""
        self._stop(now, port, LifeEvent.LEAVE, self._desired.config.limits.leave_hold)
        self._log.event("port-left", port)

    def drop(self, port: Port) -> None:
        """Forget a port that has been away for too long, with its vports."""
        self._log.add(*(Tombstone(vport.key) for vport in port.vports.values()))
        self._turns.queue.forget(port.facts.guid)
        self._vesws.forget(port.facts.guid)

    def _enter(self, port: Port, event: LifeEvent) -> None:
        port.life, port.isolated = LIFE.after(port.life, event), ""
        if port.life is Life.SILENT:
            self.silent.add(port.facts.guid)
        else:
            self.silent.discard(port.facts.guid)

    def forget_vports(self, port: Port) -> None:
        """Forget the vports of a port and scan for them: another EM may have created others."""
        self._log.add(*(Tombstone(vport.key) for vport in port.vports.values()))
        port.remove_all()
        port.start_scan(1)

    # --- polls ---------------------------------------------------------------------------------------------

    def due(self, now: float, port: Port) -> None:
        """Poll a port in service; give up waiting for one that left to come back."""
        was_served, port.wake_at = port.life is SERVED, math.inf
        self._enter(port, LifeEvent.DUE)
        if port.life is Life.FORGOTTEN:
            self._log.event("port-forgotten", port)
            self._vesws.replan(now, self._desired.config)
            return
        if was_served and not all(vport.done for vport in port.vports.values()):
            self._turns.schedule(port, self._after_trap(now, port))  # it is already being polled
            return
        port.doubt()
        self._turns.mark_port(port)
        if port.silent(now):
            self._turns.schedule(port, now + WHILE_SILENT_S)
        else:
            self._schedule_look(now, port)

    def look_beyond(self, port: Port, patience: int) -> None:
        """Look for vports that another EM has created, at as many free numbers past the last one known or found."""
        if port.scan is None:
            port.start_scan(patience)
        port.patience = max(port.patience, patience)
        port.ready = False
        self._turns.mark_port(port)

    def look_after_trap(self, now: float, port: Port) -> None:
        """Poll again soon, as the agent may suppress the trap for a later change."""
        again = self._after_trap(now, port)
        if port.life is SERVED and (port.wake_at <= now or port.wake_at > again):
            self._turns.schedule(port, again)

    @staticmethod
    def _after_trap(now: float, port: Port) -> float:
        return now + (WHILE_SILENT_S if port.silent(now) else AFTER_TRAP_S)

    def _schedule_look(self, now: float, port: Port, *, first: bool = False) -> None:
        interval = self._desired.config.polling.interval
        if interval and self._turns.active:
            # spread the polls of ports that joined together
            share = 0.5 + (port.facts.guid * 0x9E3779B1 % 1024) / 2048 if first else 1.0
            self._turns.schedule(port, now + interval * share)

    # --- agents that do not answer or are faulty -------------------------------------------------------------

    def answers(self, port: Port) -> None:
        """Note that a port has answered."""
        if port.failures:
            port.failures = 0
            self._log.event("port-answers", port)

    def not_answered(
        self, now: float, port: Port, vport: Vport | None, request: Request, mad: Mad | None
    ) -> None:
        """Handle a request that no agent answered: it timed out, or `mad` of the port's own says that it has none.

        After a timeout, a Set may or may not have been applied.
        """
        self.unanswered += 1
        if not port.failures:
            why = "unanswered" if mad is None else f"refused by the port: no agent ({mad.header.status:#06x})"
            self._log.event("port-silent", port, text=f"attribute {request.step.attr_id:#06x} {why}")
        port.failures += 1
        if vport is not None:
            dialogue.lost(vport, request)
        backoff_s = min(BACKOFF_S * 2 ** min(port.failures - 1, 10), BACKOFF_MAX_S)
        self._stop(now, port, LifeEvent.TIMEOUT, backoff_s)

    def refused(self, now: float, port: Port, vport: Vport | None, error: AgentError | WireError) -> None:
        """Retry after a refusal; isolate an agent that keeps refusing, or whose response is invalid."""
        port.refusals += 1
        status = getattr(error, "status", 0)
        if status and port.refusals < REFUSALS:
            if vport is not None:
                vport.fresh, vport.layout = False, None
                self._turns.mark(port, vport)
            else:
                self._turns.mark_port(port)
            return
        port.strikes, port.refusals = port.strikes + 1, 0
        self._log.event("agent-isolated", port, vport, text=str(error))
        isolation_s = min(ISOLATION_S * 2 ** min(port.strikes - 1, 10), ISOLATION_MAX_S)
        self._stop(now, port, LifeEvent.FAULT, isolation_s)
        port.isolated = str(error)

    def _stop(self, now: float, port: Port, event: LifeEvent, pause_s: float) -> None:
        """Send nothing to a port until `pause_s` have passed."""
        self._enter(port, event)
        port.restart()
        self._turns.queue.forget(port.facts.guid)
        self._vesws.do_not_wait_for(now, port)
        self._turns.schedule(port, now + pause_s)
