"""A reserved load balancer instance: its senders, workers and epochs.

Every method that changes something returns table updates. The caller applies the updates of a call in order and, if
the data plane supports it, together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import LbDrop
from ejfat.base.errors import BadRequestError, ControlError, ExhaustedError, UnknownError
from ejfat.control.assignment import Strategy, next_calendar
from ejfat.control.chains import Chain
from ejfat.control.epochs import demands as slot_demands
from ejfat.control.epochs import programming
from ejfat.control.epochs.calendar import TICKS, shares
from ejfat.control.epochs.demands import UNASSIGNED, SlotRange
from ejfat.control.epochs.epochs import EpochManager
from ejfat.control.epochs.programming import Rewrite, TableTarget
from ejfat.control.epochs.ticks import TickSample
from ejfat.control.feedback import MEAN_WEIGHT, reweigh
from ejfat.control.members import Session, SessionState, Worker
from ejfat.control.watch import TickWatch
from ejfat.tables.schema import Op, Update

_MEMBER_IDS = 0xFFFF
_MAX_SENDERS = 256
_MAX_SESSIONS = 512
_OVERDUE_S = 3.0
"""A boundary that is not expected within the lead plus this many seconds was mispredicted."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Tuning parameters of an instance."""

    lead_s: float = 0.8
    """Seconds from a decision to the predicted tick at which the new epoch begins."""
    quiescence_s: float = 2.0
    """Seconds for which an event may be in flight after the boundary of its epoch has been passed."""
    rest_s: float = 3.0
    """Seconds without a packet after which a run has ended: the next one may begin at any tick."""
    idle_s: float = 30.0
    """Seconds without a packet after which nothing is in flight, not even of a sender that was stopped."""
    min_change: int = 4
    """Minimum number of slots that must move for a new epoch. A member that joins or leaves always causes one."""
    fill_gain: float = 0.0
    """See `feedback.reweigh`."""


@dataclass(slots=True)
class ReservedInstance:
    """A reserved instance."""

    target: TableTarget
    name: str
    policy: Policy = field(default_factory=Policy)
    strategy: Strategy = Strategy.DYNAMIC
    expires_at: float | None = None
    """By the clock that does not step, as all times here; None: never."""
    family: int = 0
    """The IP version requested in the reservation, 4 or 6; 0: any that the instance has."""
    senders: set[IpAddress] = field(default_factory=set)
    sessions: dict[int, Session] = field(default_factory=dict)
    watch: TickWatch = field(default_factory=TickWatch)
    refusals: int = 0
    """Transitions that had to wait because there was no room for a calendar or a cover, or no valid boundary."""
    takebacks: int = 0
    """Epochs taken back because no tick would have reached their boundary soon."""
    epochs: EpochManager = field(init=False)
    next_session: int = 1
    next_member: int = 0
    next_chain: int = 1
    chains: dict[int, Chain] = field(default_factory=dict)
    """Where it is a worker itself, by number."""
    rewrites: dict[int, Rewrite] = field(default_factory=dict)
    """Members in the data plane's table, including those of ended sessions."""
    _scattered: str = ""
    """The seed of the last calendar; see `_seed`."""
    _touched: set[str] = field(default_factory=set)
    _reweighed_at: float | None = None

    def __post_init__(self) -> None:
        self.epochs = EpochManager(self.target)

    # senders

    def add_senders(self, addresses: Sequence[IpAddress]) -> list[Update]:
        """Allow senders, in addition to those already allowed.

        Raises:  ExhaustedError: more senders than the source filter can hold.
        """
        before = self.let_in
        wanted = before.union(addresses)
        if len(wanted) > _MAX_SENDERS:
            raise ExhaustedError(f"{len(wanted)} senders; the source filter holds {_MAX_SENDERS}")
        self.senders.update(addresses)
        self._touched.add("senders")
        return self._let_in_instead(before)

    def remove_senders(self, addresses: Sequence[IpAddress]) -> list[Update]:
        """Stop allowing senders; those that are not allowed anyway are ignored, as the public control plane does."""
        before = self.let_in
        self.senders.difference_update(addresses)
        self._touched.add("senders")
        return self._let_in_instead(before)

    @property
    def let_in(self) -> set[IpAddress]:
        """Addresses whose packets pass the source filter: senders, and the load balancers upstream."""
        return self.senders.union(*(chain.upstream for chain in self.chains.values()))

    def _let_in_instead(self, before: set[IpAddress]) -> list[Update]:
        """Return the updates of a source filter in which the addresses `before` are."""
        now = self.let_in
        return [
            programming.sender(self.target, address, op)
            for addresses, op in ((before - now, Op.DELETE), (now - before, Op.PUT))
            for address in sorted(addresses, key=str)
        ]

    # chains

    def add_chain(
        self, uri: str, session_id: str, token: str, data_ipv4: str, data_ipv6: str, registration: str = ""
    ) -> tuple[Chain, list[Update]]:
        """Keep a session upstream under the next number; see `Chain`.

        Raises:  ExhaustedError: the source filter has no room for the upstream load balancer.
        """
        before = self.let_in
        chain = Chain(self.next_chain, uri, session_id, token, data_ipv4, data_ipv6, registration)
        if len(before.union(chain.upstream)) > _MAX_SENDERS:
            raise ExhaustedError(f"{self.name} has {len(before)} senders, which fill the source filter")
        self.next_chain += 1
        self.chains[chain.number] = chain
        self._touched.add(f"chain/{chain.number}")
        return chain, self._let_in_instead(before)

    def rejoin(self, number: int, session_id: str, token: str) -> Chain:
        """Keep another session upstream in the place of one that ended there; return the chain.

        Raises:  UnknownError: there is no such chain.
        """
        if number not in self.chains:
            raise UnknownError(f"{self.name} has no chain {number}")
        chain = self.chains[number] = replace(self.chains[number], session_id=session_id, session_token=token)
        self._touched.add(f"chain/{number}")
        return chain

    def remove_chain(self, number: int, text: str) -> list[Update]:
        """Forget a session upstream.

        Raises:  UnknownError: there is none; the message quotes `text`.
        """
        before = self.let_in
        if self.chains.pop(number, None) is None:
            raise UnknownError(f"{self.name} has no chain {text!r}")
        self._touched.add(f"chain/{number}")
        return self._let_in_instead(before)

    # workers

    @property
    def ready(self) -> list[Session]:
        """Sessions of the workers that get slots in the next epoch: none that no sender can reach."""
        versions = self._sent_versions()
        return [
            session
            for session in self.sessions.values()
            if session.state is SessionState.READY and session.worker.ip.version in versions
        ]

    def is_reached(self, session: Session) -> bool:
        """Return whether any sender may send over the IP version of a worker; a packet never changes its version."""
        return session.worker.ip.version in self._sent_versions()

    def _sent_versions(self) -> set[int]:
        return {address.version for address in self.let_in} or {4, 6}

    def register(self, worker: Worker, now: float) -> tuple[Session, list[Update]]:
        """Open a session. Its rewrite is programmed at once, and it gets slots with the next epoch.

        Raises:  BadRequestError: the worker's values are invalid. ExhaustedError: the member table is full.
        """
        if len(self.rewrites) >= _MAX_SESSIONS:
            raise ExhaustedError(f"{self.name} has {_MAX_SESSIONS} members; the member table is full")
        worker.check()
        self._check_demands({self.next_session: worker.slot_demands}, {self.next_session: worker.name})
        weight = MEAN_WEIGHT * worker.weight
        session = Session(self.next_session, self._free_member(), worker, now, now, weight)
        self.next_session += 1
        self.sessions[session.session_id] = session
        self.rewrites[session.member_id] = session.rewrite
        self._touched |= {f"session/{session.session_id}", f"member/{session.member_id}"}
        return session, programming.member(self.target, session.rewrite, Op.PUT)

    def move(self, session_id: int, mac: int) -> list[Update]:
        """Send the packets of a worker to another MAC, which the same host has now.

        Raises:  UnknownError: no such session.
        """
        session = self.session(session_id)
        session.worker.mac = mac
        self.rewrites[session.member_id] = session.rewrite
        self._touched |= {f"session/{session_id}", f"member/{session.member_id}"}
        return programming.member(self.target, session.rewrite, Op.PUT)

    def demand_slots(self, wanted: Mapping[int, Sequence[SlotRange]]) -> None:
        """Replace the slot demands of sessions, from the next epoch on.

        Raises:  UnknownError: no such session. BadRequestError: no calendar can satisfy the demands, or the strategy
            does not support them. In either case nothing has changed.
        """
        sessions = {number: self.session(number) for number in wanted}
        self._check_demands(wanted, {number: session.worker.name for number, session in sessions.items()})
        for number, session in sessions.items():
            session.worker.slot_demands = tuple(wanted[number])
            self._touched.add(f"session/{number}")

    def _check_demands(self, wanted: Mapping[int, Sequence[SlotRange]], names: Mapping[int, str]) -> None:
        if not any(wanted.values()):
            return  # those of the others have been checked
        if self.strategy is Strategy.DYNAMIC:
            raise BadRequestError(
                f"{self.name} gives slots by weight (strategy dynamic); slot demands need static or explicit"
            )
        ready = {session.session_id: session.worker for session in self.ready}
        slot_demands.check(
            {number: worker.slot_demands for number, worker in ready.items()} | dict(wanted),
            {number: worker.name for number, worker in ready.items()} | dict(names),
        )

    def session(self, session_id: int) -> Session:
        """Return a session by number.

        Raises:  UnknownError: no such session.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise UnknownError(f"{self.name} has no session {session_id}")
        return session

    def deregister(self, session_id: int) -> None:
        """End a session; the next epoch gives its slots to others.

        Raises:  UnknownError: no such session.
        """
        self.session(session_id).step(SessionState.GONE)
        self._touched.add(f"session/{session_id}")

    def _free_member(self) -> int:
        while self.next_member in self.rewrites:
            self.next_member = (self.next_member + 1) % _MEMBER_IDS
        member_id = self.next_member
        self.next_member = (self.next_member + 1) % _MEMBER_IDS
        return member_id

    # time

    def observe(self, tick: int, packets: int, now: float, *, ahead: int = 0) -> None:
        """Record the ticks that the data plane has seen; see `TickWatch.observe`."""
        if self.watch.observe(tick, packets, now, ahead=ahead):
            self.epochs.observe(TICKS, now)  # let the retiring epochs run out

    def excuse(self, pause_s: float, now: float, packets: int, ahead: int, *, forget: bool = False) -> None:
        """Let a time in which nothing was evaluated, up to `now`, count neither as silence nor as progress of ticks.

        Args:    packets, ahead, forget: see `TickWatch.excuse`.
        """
        for session in self.sessions.values():
            session.reported_at = min(now, session.reported_at + pause_s)
        self.watch.excuse(now, packets, ahead, forget=forget)

    def sync(self, sender: IpAddress, source_id: int, sample: TickSample) -> LbDrop | None:
        """Accept a sync message, or return the reason for refusing it. Only messages from senders are accepted."""
        return self.watch.sync(sender, source_id, sample, allowed=sender in self.senders)

    def prepare(self, now: float) -> list[Update]:
        """Drain silent workers, clean up, reweigh and, if enough slots move, write the calendar of a new epoch."""
        for session in self.sessions.values():
            if session.age(now):
                self._touched.add(f"session/{session.session_id}")
        self.epochs.observe(self.watch.ticks.passed(now), now)  # not predicted ticks: events may be in flight
        self.watch.end_run(now, self.policy.rest_s)
        updates = self._retire(now)
        self._reweigh(now)
        updates += self._next_epoch()
        return updates + self._forget()

    def _is_resting(self, now: float) -> bool:
        """Return whether packets have come, and then none for so long that a run has ended."""
        return self.watch.rests(now, self.policy.rest_s)

    def _retire(self, now: float) -> list[Update]:
        """Return the updates that remove epochs whose events have run out, or can no longer become whole.

        While the senders rest, that is so for an epoch with a worker that has gone: an event of a stopped sender could
        be completed at another worker, but the next run's events for the one that has gone would be lost.
        """
        idle = self.watch.is_idle(now, self.policy.idle_s)
        updates = self.epochs.retire(now, self.policy.quiescence_s, idle=idle)
        if self._is_resting(now):
            there = {s.member_id for s in self.sessions.values() if s.state is not SessionState.GONE}
            there.add(UNASSIGNED)
            while any(not there.issuperset(old.epoch.members) for old in self.epochs.retiring):
                self.epochs.retiring[0].passed_at = now
                updates += self.epochs.retire(now, 0.0)
        return updates

    def connect(self, now: float) -> list[Update]:
        """Switch to the prepared epoch at a tick after all observed ones; no frame may pass during this call."""
        updates = self._take_back(now)
        return updates + self._connect(now)

    def is_waiting(self, now: float) -> bool:
        """Return whether `connect` has work to do."""
        return self.epochs.prepared is not None or self._is_overdue(now)

    def _is_overdue(self, now: float) -> bool:
        """Return whether no tick is expected to reach the start of the current epoch soon."""
        current, retiring = self.epochs.current, self.epochs.retiring
        if current is None or not retiring or retiring[-1].passed_at is not None:
            return False
        if self.watch.ticks.seen >= current.start or not self.watch.ticks.is_fresh(now):
            return False
        expected = self.watch.ticks.predict(now + self.policy.lead_s + _OVERDUE_S, now)
        return expected is not None and current.start > expected + 1

    def _take_back(self, now: float) -> list[Update]:
        updates: list[Update] = []
        while self._is_overdue(now):
            updates += self.epochs.withdraw()
            self.takebacks += 1
        return updates

    def _connect(self, now: float) -> list[Update]:
        current = self.epochs.current
        if self.epochs.prepared is None or current is None:
            return []
        expected = self.watch.ticks.predict(now + self.policy.lead_s, now)
        if self._is_resting(now):
            expected = max(self.watch.ticks.seen, current.start)  # the next run may begin with any tick
        # without any tick nothing is in flight: the new epoch may begin right after the start of the old one
        boundary = current.start + 1 if expected is None else expected + 1
        try:
            updates = self.epochs.connect(boundary)
            return updates + (self._retire(now) if self._is_resting(now) else [])
        except ControlError:
            self.refusals += 1
            return self.epochs.discard()

    def slots(self) -> dict[int, int]:
        """Return the number of slots of each session in the current epoch, by session id."""
        counts = shares(self.epochs.current.members) if self.epochs.current else {}
        return {session.session_id: counts.get(session.member_id, 0) for session in self.sessions.values()}

    def slots_by_member(self) -> dict[int, list[SlotRange]]:
        """Return the slots of each member in the current epoch."""
        current = self.epochs.current
        return slot_demands.ranges(current.members) if current else {}

    def _reweigh(self, now: float) -> None:
        before, self._reweighed_at = self._reweighed_at, now
        if before is None or self.strategy is not Strategy.DYNAMIC:
            return
        ready = {session.session_id: session for session in self.ready}
        if all(s.control == 0 and (self.policy.fill_gain == 0 or s.fill == 0) for s in ready.values()):
            return
        reports = {number: (session.fill, session.control) for number, session in ready.items()}
        weights = {number: session.weight for number, session in ready.items()}
        for number, weight in reweigh(weights, reports, now - before, self.policy.fill_gain).items():
            ready[number].weight = weight
            self._touched.add(f"session/{number}")

    def _seed(self) -> str:
        """Return by what slots are scattered; empty, unless packets come from a load balancer upstream."""
        upstream = sorted(str(address) for chain in self.chains.values() for address in chain.upstream)
        return f"{self.target.lb_id} {' '.join(upstream)}" if upstream else ""

    def _next_epoch(self) -> list[Update]:
        current, ready, seed = self.epochs.current, self.ready, self._seed()
        if not ready:
            return []  # keep the current epoch
        members = current.members if current is not None and seed == self._scattered else None
        calendar = next_calendar(self.strategy, ready, members, self.policy.min_change, seed)
        if calendar is None or (current is not None and calendar == current.members):
            return []
        try:
            updates = self.epochs.begin(calendar) if current is None else self.epochs.prepare(calendar)
            self._scattered = seed
            return updates
        except ControlError:
            self.refusals += 1
            return []

    def _forget(self) -> list[Update]:
        """Remove rewrites that neither a session nor a connected epoch needs."""
        needed = self.epochs.members_in_use
        for number, session in list(self.sessions.items()):
            if session.state is SessionState.GONE and session.member_id not in needed:
                del self.sessions[number]
                self._touched.add(f"session/{number}")
        needed |= {session.member_id for session in self.sessions.values()}
        updates: list[Update] = []
        for member_id in [member_id for member_id in self.rewrites if member_id not in needed]:
            updates += programming.member(self.target, self.rewrites.pop(member_id), Op.DELETE)
            self._touched.add(f"member/{member_id}")
        return updates

    # the whole instance

    def program(self) -> list[Update]:
        """Return the updates that program senders, members and epochs, for example after a restart."""
        updates = [
            programming.sender(self.target, address, Op.PUT) for address in sorted(self.let_in, key=str)
        ]
        for rewrite in self.rewrites.values():
            updates += programming.member(self.target, rewrite, Op.PUT)
        return updates + self.epochs.program()

    def clear(self) -> list[Update]:
        """Empty the instance; return the updates that remove its table entries."""
        updates = self.epochs.clear()
        for rewrite in self.rewrites.values():
            updates += programming.member(self.target, rewrite, Op.DELETE)
        updates += [programming.sender(self.target, address, Op.DELETE) for address in self.let_in]
        self.rewrites.clear()
        self.sessions.clear()
        self.senders.clear()
        return updates

    def resume(self, epochs: EpochManager, seen: int, now: float) -> None:
        """Go on with epochs that were connected before a restart, when `seen` was the largest tick."""
        self.epochs = epochs
        self.watch.resume(seen, now)

    def take_touched(self) -> set[str]:
        """Return what has changed since the last call: `senders`, `session/N`, `member/N`, `chain/N`."""
        touched, self._touched = self._touched, set()
        return touched
