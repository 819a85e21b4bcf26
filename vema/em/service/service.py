"""The EM on the MAD stack of a port: asyncio's clock, the subnet manager's notices, the database.

em = EthernetService(port.mad, topology, Store(path, wall_clock=time.time), clock=loop, guid=port.guid)
em.start(config)
...
em.restart()                 # as a process that is killed and started again; memory=False: without its database
em.stop()

Each turn handles what has arrived, writes records to the database, and only then sends the requests of `EmCore`: so a
restarted EM never knows less than its agents were told. A `CoreRunner` runs the turns, one per iteration of the event
loop. If the core raises, the EM stops: `failure` holds the exception, and no `wait_for` keeps waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.base.errors import HfiSimError
from hfi_sim.management.mad.agents import AgentRegistration, Done, MadRequest
from hfi_sim.wire.mad.header import Mad, MadClass, Method
from vema.base.types import EMA_OUI
from vema.em.core.core import EmCore
from vema.em.core.dialogue import Request
from vema.em.core.reasons import why_not
from vema.em.core.virtual_switches import Group
from vema.em.desired.desired import EmConfig
from vema.em.desired.election import Beat, Election, Role
from vema.em.desired.ports import Checked, PortFacts, Roster, contradictions, met_by
from vema.em.desired.problems import Problem
from vema.em.service.candidacy import Candidacy
from vema.em.service.interfaces import EmSubnet, MadTransport
from vema.em.service.preview import EmSnapshot, preview
from vema.em.service.verify import Difference, verify
from vema.em.store.database import Store, StoreWriter
from vema.em.store.persisted import EventRecord, Memory

log = logging.getLogger("vema.em")

TURN: Final = 32
"""Number of responses handled, vports served and MAC tables computed in one iteration of the event loop, so that a
large fabric does not block other tasks."""


async def _at_once() -> None:
    """Wait for no host."""


class EthernetService:
    """One EM: core, election and database, on one port."""

    def __init__(
        self,
        transport: MadTransport,
        topology: EmSubnet,
        store: Store,
        *,
        clock: Clock,
        guid: int,
        hear_traps: bool = True,
        name: str = "EM",
    ) -> None:
        """Prepare; nothing is sent before `start`.

        Args:  guid: of the port; decides between EMs of equal priority. hear_traps: False if the caller registers
               for traps and passes them to `trap`. name: for the log.
        """
        self.topology = topology
        self.transport = transport
        self.store = store
        self.core: EmCore | None = None
        self.on_applied: Callable[[], None] = lambda: None
        """Called when another configuration has been applied."""
        self.hosts_ready: Callable[[], Awaitable[None]] = _at_once
        """Waits until hosts can use what the agents have been told; for code that applies a configuration."""
        self._hear_traps = hear_traps
        self._clock = clock
        self._name = name
        self._runner = self._new_runner()
        self._inbox: deque[Callable[[EmCore, float], None]] = deque()
        """Traps and responses that have arrived and are not handled yet."""
        self._ports_changed = True
        self._registrations: list[AgentRegistration] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._watchers: list[Callable[[], bool]] = []
        self._candidacy = Candidacy(transport, topology, guid, self._heard)
        self._writer = StoreWriter(store)
        self._last_config = EmConfig()
        """The configuration that a restart without memory begins with: the starter still has the file."""
        self._life = 0
        """What an earlier life asked is not answered to a later one."""

    def _new_runner(self) -> CoreRunner:
        return CoreRunner(
            self._clock,
            name=self._name,
            step=self._turn,
            deadline=self._next_wake,
            on_timer=None,
            turn=1,
            on_failure=self._look_around,
        )

    # --- life ----------------------------------------------------------------------------------------------

    def start(self, config: EmConfig | None = None) -> None:
        """Start the manager.

        Args:    config: to begin with; None: the one that was applied last, or an empty one.
        Raises:  EmConfigError: this fabric cannot satisfy the configuration; nothing was sent.
                 StoreError: the database is damaged or cannot be written.
        """
        if self.core is not None:
            raise RuntimeError("the EM is running already: stop it first")
        memory = self.store.load()
        if config is not None:
            self.store.set_config(met_by(config, self.roster()).text)
        elif memory.config is not None:
            try:
                config = EmConfig.model_validate_json(memory.config)
            except ValueError as error:
                raise self.store.damaged(error) from error
        self._begin(config or EmConfig(), memory)

    def _begin(self, config: EmConfig, memory: Memory) -> None:
        if self._runner.ended:
            self._runner = self._new_runner()
        self.store.history = config.polling.history
        self._last_config = config
        now = self._runner.time()
        self.core = EmCore(config, memory, now=now)
        if self._hear_traps:
            self._registrations.append(
                self.transport.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], self.trap)
            )
        self._candidacy.stand(now, config.election)
        self._unsubscribe = self.topology.subscribe(self._on_topology)
        self._runner.poll_soon()

    def halt(self) -> None:
        """End as a process does that is killed: nothing is sent any more, the database stays, agents go on as they are.

        `restart` goes on from there. Halting twice does nothing.
        """
        for registration in self._registrations:
            self.transport.unregister_agent(registration)
        self._registrations.clear()
        self._candidacy.withdraw()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._runner.shutdown()
        if self.core is not None:
            self._last_config = self.core.config
        self.core = None
        self._inbox.clear()
        self._ports_changed = True
        self._life += 1
        self._look_around()

    def restart(self, *, memory: bool = True) -> None:
        """Halt, where it runs or has failed, and begin anew with the last configuration.

        Args:    memory: False: the database is lost; what agents have is then read from them.
        Raises:  StoreError: the database is damaged or cannot be written.
        """
        self.halt()
        if not memory:
            self.store.clear()
        self.store.set_config(self._last_config.model_dump_json())
        self._writer = StoreWriter(self.store)
        self._begin(self._last_config, self.store.load())

    @property
    def config(self) -> EmConfig:
        """The configuration in force; while this EM is halted, the one that a restart begins with."""
        return self._last_config if self.core is None else self.core.config

    def begin_with(self, config: EmConfig) -> None:
        """Let the next `restart` begin with a configuration that was changed while this EM is halted."""
        self._last_config = config

    def stop(self) -> None:
        """Halt for good, and close the database. Agents keep their configuration."""
        self.halt()
        self.store.close()

    def apply(self, config: EmConfig | Checked) -> None:
        """Replace the configuration.

        Args:    config: the new one; if it was `checked` for the current ports, it is not checked again.
        Raises:  EmConfigError: this fabric cannot satisfy it; the old one stays, and nothing was sent.
                 StoreError: it cannot be stored; the old one stays.
        """
        core, roster = self._running(), self.roster()
        if isinstance(config, EmConfig) or config.roster.ports != roster.ports:
            config = met_by(config if isinstance(config, EmConfig) else config.config, roster)
        text, config = config.text, config.config
        self.store.set_config(text)
        self.store.history = config.polling.history
        election_changes = config.election != core.config.election
        core.set_config(self._runner.time(), config)
        if election_changes:
            self._candidacy.stand(self._runner.time(), config.election)
        self._runner.poll_soon()
        self.on_applied()

    def _candidates(self) -> list[PortFacts]:
        """Return the ports that can be members: those of the fabric, and those that left it."""
        known = self.topology.known()
        there = {facts.guid for facts in known}
        met = () if self.core is None else self.core.ports.values()
        return known + [port.facts for port in met if port.facts.guid not in there]

    def _running(self) -> EmCore:
        if self.core is None:
            raise RuntimeError("the EM is not running")
        return self.core

    # --- state ---------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """Whether this EM is the master."""
        return Role.MASTER if self.election is None else self.election.role

    @property
    def election(self) -> Election | None:
        """The election among the EMs of the fabric; None: this one is alone."""
        return self._candidacy.election

    @property
    def converged(self) -> bool:
        """Whether every reachable agent is configured as desired."""
        if self.core is None or self.failure is not None or self._inbox or self._ports_changed:
            return False
        return self.core.converged

    @property
    def failure(self) -> Exception | None:
        """The exception that stopped this EM, if any. The log has the traceback."""
        return self._runner.failure

    async def wait_converged(self, timeout_s: float = 60.0) -> bool:
        """Wait until `converged`. Args: timeout_s: seconds. Returns: False after that time."""
        return await self.wait_for(lambda: self.converged, timeout_s)

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something is true of this EM.

        Args:    condition: is asked after each turn. timeout_s: seconds.
        Returns: False on a timeout, or if this EM has failed or is halted.
        """
        if condition():
            return True
        if self.failure is not None or self.core is None:
            return False
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def look() -> bool:
            ended = self.failure is not None or self.core is None
            if not reached.done() and ((met := not ended and condition()) or ended):
                reached.set_result(met)
            return reached.done()

        self._watchers.append(look)
        try:
            return await asyncio.wait_for(reached, timeout_s)
        except TimeoutError:
            return condition()
        finally:
            if look in self._watchers:
                self._watchers.remove(look)

    def preview(self, config: EmConfig) -> list[str]:
        """Return one line for each change that a configuration would make at an agent.

        Args:    config: is not applied.
        Raises:  EmConfigError: this fabric cannot satisfy it.
        """
        now = self.picture()
        return preview(met_by(config, now.roster).config, now)

    def picture(self) -> EmSnapshot:
        """Return a snapshot of what is known, for `preview`."""
        core = self._running()
        ports = tuple(port.copy() for port in core.ports.values())
        plans = {vesw_id: vesw.plan for vesw_id, vesw in core.vesws.items()}
        return EmSnapshot(self.roster(), ports, plans, self.topology.group_lids())

    def roster(self) -> Roster:
        """Return the ports that can be members now, for `checked`."""
        return Roster(self._candidates(), given=self.topology.given, open_ended=self.topology.open_ended)

    def contradictions(self) -> list[Problem]:
        """Return where what a fabric manager has set contradicts the configuration; on our own fabric, nothing."""
        if self.core is None or not self.topology.given:
            return []
        return contradictions(self.core.config, self.roster())

    def why_not(self, guid: int, vesw_id: int) -> str:
        """Return why a port has no VNIC that forwards on a virtual switch, from what is known; nothing is asked.

        Args:    guid: of the port. vesw_id: 12 bits.
        Returns: empty if it has one, or nothing is known.
        """
        if self.failure is not None:
            return "the Ethernet Manager has failed"
        if self.core is None:
            return "the Ethernet Manager has ended"
        if not self.topology.lid:
            return "the port of the EM has no LID: no fabric manager has brought it up"
        group = self.topology.why_not_in_group(vesw_id, guid)
        return why_not(self.core, guid, vesw_id, group, self.topology.given)

    async def verify(self) -> list[Difference]:
        """Read everything from all agents; return the differences from the configuration."""
        core = self._running()
        groups = {vesw.plan.mlid: self.topology.group_members(vesw.plan.mlid) for vesw in core.vesws.values()}
        found = [Difference("", None, str(problem)) for problem in self.contradictions()]
        return found + await verify(core.desired, list(core.ports.values()), self.request, groups)

    async def request(self, request: Request, *, retries: int | None = None) -> Mad | None:
        """Send one request beside those of the core, to read state only.

        Args:    retries: None: as the configuration says.
        Returns: the response; None if none came.
        """
        answer: asyncio.Future[Mad | None] = asyncio.get_running_loop().create_future()

        def done(mad: Mad | None) -> None:
            if not answer.done():
                answer.set_result(mad)

        limit = self._running().config.limits.retries if retries is None else retries
        self._submit(request, done, limit)
        return await answer

    # --- what arrives --------------------------------------------------------------------------------------

    def _on_topology(self) -> None:
        self._ports_changed = True
        self._runner.poll_soon()

    def trap(self, request: MadRequest) -> None:
        """Handle a trap of an agent, where `hear_traps` is off. Args: request: as the transport received it."""
        self._arrived(lambda core, now: core.trap(now, request.mad, request.slid))

    def _heard(self, election: Election, beat: Beat) -> None:
        election.heard(self._runner.time(), beat)
        self._runner.poll_soon()

    def _arrived(self, what: Callable[[EmCore, float], None]) -> None:
        if self.core is not None and self.failure is None:
            self._inbox.append(what)
            self._runner.poll_soon()

    # --- a turn --------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Do one turn; return whether there is more to do at once."""
        core = self.core
        if core is None:
            return False
        now = self._runner.time()
        for _ in range(min(TURN, len(self._inbox))):
            self._inbox.popleft()(core, now)
        if self._ports_changed:
            self._ports_changed = False
            core.set_sink(now, self.topology.lid)
            core.set_ports(now, self.topology.ports())
            core.set_group_lids(now, self.topology.group_lids())
        core.wake(now, TURN)
        self._candidacy.follow(now, core, self._writer.write)
        requests = core.next_requests(TURN)
        self._writer.write(core.take_records())
        if core.active:
            self._set_groups(core.take_groups())
        for wanted in requests:
            self._send(wanted)
        self._look_around()
        return bool(self._inbox) or core.has_more

    def _look_around(self) -> None:
        """Wake up those in `wait_for` whose condition is true or can no longer become true."""
        self._watchers = [look for look in self._watchers if not look()]

    def _next_wake(self) -> float | None:
        if self.core is None:
            return None
        times = [self.core.next_wake(), None if self.election is None else self.election.next_wake()]
        return min((time for time in times if time is not None), default=None)

    def _send(self, request: Request) -> None:
        retries = self._running().config.limits.retries
        life = self._life

        def done(mad: Mad | None) -> None:
            if life == self._life:
                self._arrived(lambda core, now: core.answer(now, request, mad))

        self._submit(request, done, retries)

    def _submit(self, request: Request, done: Done, retries: int) -> None:
        sl = self.topology.sl
        self.transport.submit(
            request.dlid, request.mad, done, timeout_s=request.timeout_s, retries=retries, sl=sl
        )

    def _set_groups(self, groups: dict[int, Group | None]) -> None:
        if not groups:
            return
        try:
            self.topology.set_groups(groups)
        except HfiSimError as error:
            log.warning("multicast groups: %s", error)
            self._writer.write([EventRecord("groups-refused", text=str(error))])
