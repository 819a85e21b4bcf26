"""The part of one EM in the election among those of a fabric: its heartbeats leave, those of others arrive."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hfi_sim.base.errors import WireError
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT
from hfi_sim.management.mad.agents import AgentRegistration, MadRequest
from hfi_sim.wire.mad.header import Method
from vema.em.core.core import EmCore
from vema.em.desired.desired import ElectionSection
from vema.em.desired.election import ELECTION_CLASS, ELECTION_OUI, Beat, Election, Role
from vema.em.service.interfaces import EmSubnet, MadTransport
from vema.em.store.persisted import EventRecord

log = logging.getLogger("vema.em")


class Candidacy:
    """Lets the core of an EM be active while it is the master, or while there is no election."""

    def __init__(
        self, transport: MadTransport, topology: EmSubnet, guid: int, heard: Callable[[Election, Beat], None]
    ) -> None:
        """Args:  guid: of the EM's port. heard: called with each heartbeat of another EM."""
        self.election: Election | None = None
        self._transport = transport
        self._topology = topology
        self._guid = guid
        self._heard = heard
        self._registration: AgentRegistration | None = None
        self._tid = 0
        self._lids: dict[int, int] = {}
        """Where the heartbeats of other EMs came from last, by their GUIDs."""

    def stand(self, now: float, section: ElectionSection | None) -> None:
        """Begin to take part as the EM file says; None: there is no election."""
        if section is None:
            self.election = None
            return
        self.election = Election(
            guid=self._guid,
            priority=section.priority,
            heartbeat_s=section.heartbeat,
            dead_after_s=section.dead_after,
            now=now,
        )
        self._topology.join_election()
        if self._registration is None:
            self._registration = self._transport.register_agent(
                ELECTION_CLASS, ELECTION_OUI, [Method.SEND], self._on_beat
            )

    def withdraw(self) -> None:
        """Hear no heartbeats any more."""
        if self._registration is not None:
            self._transport.unregister_agent(self._registration)
            self._registration = None

    def follow(self, now: float, core: EmCore, write: Callable[[list[EventRecord]], None]) -> None:
        """Let the core be active or not, and send the heartbeats that are due. Args:  write: keeps a change of role."""
        election = self.election
        if election is None:
            core.set_active(now, True)
            return
        lids = self._topology.election_lids(self._lids.get(beat.guid, 0) for beat in election.peers())
        if lids is None:
            election.wait(now)
            core.set_active(now, False)
            return
        before = core.active
        election.wake(now)
        if election.role is Role.LEAVING and core.in_flight == 0:
            election.drained(now)
        core.set_active(now, election.check(now), trust_memory=False)
        if core.active != before:
            kind = "master" if core.active else "standby"
            log.info("EM %#x is %s", self._guid, kind)
            write([EventRecord(kind, text=f"EM {self._guid:#x}, priority {election.priority}")])
        for beat in election.take_beats():
            for lid in lids:
                self._tid += 1
                self._transport.send(lid, beat.build_mad(self._tid), sl=self._topology.sl)

    def _on_beat(self, request: MadRequest) -> None:
        if self.election is None:
            return
        try:
            beat = Beat.parse_mad(request.mad)
        except WireError as error:
            log.warning("heartbeat of LID %#x: %s", request.slid, error)
            return
        if request.pkey != PKEY_FULL_MANAGEMENT:
            log.warning("heartbeat of LID %#x: it may not manage this fabric", request.slid)
            return
        self._lids[beat.guid] = request.slid
        self._heard(self.election, beat)
