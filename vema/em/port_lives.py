"""The life of a port in the eyes of an EM: met, begun, paused, isolated, looked at again, gone. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hfi_sim.errors import WireError
from vema.em import dialogue
from vema.em.desired import PortFacts
from vema.em.dialogue import Request
from vema.em.persisted import Tombstone, VportRecord
from vema.em.record_log import RecordLog
from vema.em.state import Desired, Port, Vport
from vema.em.turns import Turns
from vema.em.virtual_switches import VirtualSwitches
from vema.errors import AgentError

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


class PortLives:
    """Tracks ports as they come, go, stop answering or answer nonsense."""

    def __init__(
        self,
        desired: Desired,
        vesws: VirtualSwitches,
        turns: Turns,
        log: RecordLog,
        remembered: Iterable[VportRecord],
    ) -> None:
        """Begin with no port; `remembered` are the vports of an earlier life."""
        self.trust_memory = True
        """Whether no other EM can have worked since what is remembered was written."""
        self.unanswered = 0
        """Requests that were given up."""
        self._desired = desired
        self._vesws = vesws
        self._turns = turns
        self._log = log
        self._remembered: dict[int, list[VportRecord]] = {}
        for record in remembered:
            self._remembered.setdefault(record.guid, []).append(record)

    # --- coming and going ----------------------------------------------------------------------------------

    def meet(self, fact: PortFacts) -> Port:
        """Return a port that was not seen before in this life."""
        port = Port(fact)
        records = self._remembered.pop(fact.guid, [])
        if records and self.trust_memory:
            port.vports = {record.vport_num: Vport.of(record) for record in records}
        else:
            self._log.add(*(Tombstone(record.key) for record in records))
            port.scan = 1
        return port

    def begin(self, now: float, port: Port) -> None:
        """Begin with a port anew: it joined, came back, changed, or this EM became the master."""
        port.epoch += 1
        port.doubt()
        port.busy = port.blocked = False
        if port.scan is not None:
            port.scan = 1
        for vport in port.vports.values():
            vport.busy = False
        self._vesws.wait_for(port)
        self._turns.mark_port(port)
        self._schedule_look(now, port, first=True)

    def come_back(self, now: float, port: Port, fact: PortFacts) -> None:
        """Take a port that was away, or that is in service with other facts."""
        was_away = not port.in_service
        port.facts, port.in_service, port.away_until = fact, True, None
        port.blocked = False
        if was_away:
            port.isolated, port.failures = "", 0
            self._log.event("port-joined", port)
        self.begin(now, port)

    def leave(self, now: float, port: Port) -> None:
        """Take a port out of service; its addresses stay in the tables of the others for a while."""
        port.in_service = False
        port.away_until = now + self._desired.config.limits.leave_hold
        self._stop(now, port, port.away_until)
        self._log.event("port-left", port)

    def forget(self, port: Port) -> None:
        """Take it that a port that is away does not come back."""
        port.away_until = None
        self._log.event("port-forgotten", port)

    def forget_vports(self, port: Port) -> None:
        """Have the vports of a port looked for: another EM may have made others."""
        self._log.add(*(Tombstone(vport.key) for vport in port.vports.values()))
        port.vports.clear()
        port.scan = 1

    # --- looking -------------------------------------------------------------------------------------------

    def look(self, now: float, port: Port) -> None:
        """Look at a port in service whose time has come."""
        if port.blocked:
            port.blocked, port.isolated = False, ""
        elif not all(vport.done for vport in port.vports.values()):
            self._turns.schedule(port, self._after_trap(now, port))  # it is being looked at already
            return
        port.doubt()
        self._turns.mark_port(port)
        if port.silent(now):
            self._turns.schedule(port, now + WHILE_SILENT_S)
        else:
            self._schedule_look(now, port)

    def look_beyond(self, port: Port) -> None:
        """Look for a vport that somebody else has made: at the first number that is free."""
        if port.scan is None:
            port.scan = port.next_unknown(1)
        port.ready = False
        self._turns.mark_port(port)

    def look_after_trap(self, now: float, port: Port) -> None:
        """Look again soon: a later change may not be told."""
        again = self._after_trap(now, port)
        if not port.blocked and (port.wake_at <= now or port.wake_at > again):
            self._turns.schedule(port, again)

    @staticmethod
    def _after_trap(now: float, port: Port) -> float:
        return now + (WHILE_SILENT_S if port.silent(now) else AFTER_TRAP_S)

    def _schedule_look(self, now: float, port: Port, *, first: bool = False) -> None:
        interval = self._desired.config.polling.interval
        if interval and self._turns.active:
            # ports that joined together are not looked at together
            share = 0.5 + (port.facts.guid * 0x9E3779B1 % 1024) / 2048 if first else 1.0
            self._turns.schedule(port, now + interval * share)

    # --- agents that do not answer, or make no sense --------------------------------------------------------

    def answers(self, port: Port) -> None:
        """Note an answer."""
        if port.failures:
            port.failures = 0
            self._log.event("port-answers", port)

    def not_answered(self, now: float, port: Port, vport: Vport | None, request: Request) -> None:
        """Take it that a request timed out, with all its retries; a Set may have been applied all the same."""
        self.unanswered += 1
        if not port.failures:
            self._log.event("port-silent", port, text=f"attribute {request.attr_id:#06x} unanswered")
        port.failures += 1
        if vport is not None:
            dialogue.lost(vport, request)
        self._stop(now, port, now + min(BACKOFF_S * 2 ** min(port.failures - 1, 10), BACKOFF_MAX_S))

    def refused(self, now: float, port: Port, vport: Vport | None, error: AgentError | WireError) -> None:
        """Ask again after a refusal, and isolate an agent that goes on refusing, or that makes no sense."""
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
        port.isolated = str(error)
        self._log.event("agent-isolated", port, vport, text=port.isolated)
        self._stop(now, port, now + min(ISOLATION_S * 2 ** min(port.strikes - 1, 10), ISOLATION_MAX_S))

    def _stop(self, now: float, port: Port, until: float) -> None:
        """Send nothing to a port until later; answers to what was sent are ignored."""
        port.epoch += 1
        port.doubt()
        port.busy, port.blocked = False, True
        self._turns.queue.forget(port.facts.guid)
        for vport in port.vports.values():
            vport.busy = False
        self._vesws.do_not_wait_for(now, port)
        self._turns.schedule(port, until)
