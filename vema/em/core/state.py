"""What the EM knows about each port, vport and virtual switch, and what it wants them to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hfi_sim.base.types import MacAddr
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.traps import TRAP_BURST, TRAP_WINDOW_MS
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import MAX_VPORTS
from vema.em.core.steps import IN_SERVICE, Life, Step
from vema.em.desired.desired import EmConfig
from vema.em.desired.mac_tables import DIRTY, EMPTY, NO_TABLE, Conflict, MemberAddress, MemberTable, VeswTable
from vema.em.desired.movement import ABSENT, ASSIGNED, EARLIER, HOLD_S, MOVES, WINDOW_S, Owner
from vema.em.desired.plan import VeswPlan
from vema.em.desired.ports import PortFacts
from vema.em.store.persisted import NO_MAC, EventRecord, VportKey, VportRecord

DEFAULT_RESPONSE_TIME: Final = 18
"""The response-time value to assume until an agent has announced its own."""
SCAN_GAP: Final = 16
"""Numbers past the last known vport at which another one is looked for: another EM, or a person, may have left gaps."""
_RESPONSE_TIME_UNIT_S: Final = 4.096e-6
_TRANSIT_S: Final = 0.05
"""Allowance for the round trip."""
_TIMEOUT_MAX_S: Final = 20.0
_NOBODY: Final[Owner] = 0


def timeout_of(response_time: int) -> float:
    """Return how long to wait for a response, in seconds: 4.096 us * 2**value plus the round trip."""
    response_time_s = _RESPONSE_TIME_UNIT_S * (1 << response_time)
    return min(response_time_s + _TRANSIT_S, _TIMEOUT_MAX_S)


@dataclass(slots=True)
class MacList:
    """An address list of a netdev as it was last read, and whether that is current."""

    macs: tuple[MacAddr, ...] = ()
    read_gen: int | None = None
    """Generation count when `macs` was read; None: never."""
    agent_gen: int | None = None
    """The latest generation count reported by the agent."""
    stale: bool = False
    """Whether a trap has reported a change."""
    pages: list[MacAddr] = field(default_factory=list)
    """The part read so far of a list that takes several MADs."""
    pages_gen: int | None = None
    restarts: int = 0
    """Number of consecutive changes while it was read."""

    @property
    def current(self) -> bool:
        """Whether `macs` is current, as far as the EM knows."""
        return not self.stale and self.read_gen is not None and self.read_gen == self.agent_gen

    def forget(self) -> None:
        """Invalidate it: the vport is new."""
        self.read_gen, self.stale = None, False
        self.restart()

    def restart(self) -> None:
        """Start reading it again from the beginning."""
        self.pages, self.pages_gen = [], None


@dataclass(slots=True)
class TrapWindow:
    """Counts the traps of one vport like its agent, which sends no more in a window after a burst."""

    closes_at: float = 0.0
    count: int = 0

    def seen(self, now: float) -> None:
        """Count a trap."""
        if now >= self.closes_at:
            self.closes_at, self.count = now + TRAP_WINDOW_MS / 1000, 0
        self.count += 1

    def silent(self, now: float) -> bool:
        """Return whether the agent now suppresses traps."""
        return now < self.closes_at and self.count > TRAP_BURST


@dataclass(slots=True)
class Vport:
    """One vport of one port."""

    guid: int
    num: int
    vesw_id: int
    """The virtual switch that it should be on; 0: it is to be deleted. On a port, only `Port` sets it."""
    info: VeswPortInfo | None = None
    """The last VeswPortInfo from the agent."""
    fresh: bool = False
    """Whether `info` was read after the last event that may have changed it."""
    digest: int = EMPTY
    """The last known digest of the agent."""
    layout: tuple[int, ...] | None = None
    """Keys of the sections of the agent's table with `digest`; None: unknown."""
    damaged: bool = False
    """Whether the table does not match its digest; `layout` is what it contains, and it must be rewritten."""
    digests_lost: int = 0
    """Number of consecutive polls that found another digest than was written."""
    unicast: MacList = field(default_factory=MacList)
    multicast: MacList = field(default_factory=MacList)
    since: Mapping[MacAddr, float] = field(default_factory=dict)
    """When each of its unicast addresses was first read."""
    unsettled: frozenset[MacAddr] = frozenset()
    """Those that no MAC table accounts for yet. They are not recorded, so that after a restart they are new again."""
    base_mac: MacAddr = NO_MAC
    busy: bool = False
    """Whether a request about it is in flight."""
    done: bool = False
    """Whether nothing is left to do for it."""
    counters_due: list[Step] = field(default_factory=list)
    """Counters to read."""
    counters: dict[str, int] = field(default_factory=dict)
    """The last reading."""
    traps: TrapWindow = field(default_factory=TrapWindow)
    """Tells whether its agent may be suppressing traps."""

    @property
    def key(self) -> VportKey:
        """Port and number."""
        return (self.guid, self.num)

    def record(self) -> VportRecord:
        """Return its record, without the layout of a table that is being rewritten, and unsettled addresses."""
        unsettled = self.unsettled
        return VportRecord(
            self.guid,
            self.num,
            self.vesw_id,
            self.digest,
            None if self.digest == DIRTY else self.layout,
            tuple(mac for mac in self.unicast.macs if mac not in unsettled)
            if unsettled
            else self.unicast.macs,
            None if unsettled else self.unicast.read_gen,
            self.multicast.macs,
            self.multicast.read_gen,
            self.base_mac,
        )

    def note_addresses(self, now: float) -> None:
        """Note which unicast addresses are new in the list that has been read."""
        before, self.since = self.since, {mac: self.since.get(mac, now) for mac in self.unicast.macs}
        new = {mac for mac in self.since if mac not in before}
        self.unsettled = frozenset(new | self.unsettled & self.since.keys())

    @classmethod
    def of(cls, record: VportRecord) -> Vport:
        """Return a vport from the record of an earlier run of the EM."""
        return cls(
            record.guid,
            record.vport_num,
            record.vesw_id,
            digest=record.digest,
            layout=record.layout,
            unicast=MacList(record.uc_macs, record.uc_gen),
            since=dict.fromkeys(record.uc_macs, EARLIER),
            multicast=MacList(record.mc_macs, record.mc_gen),
            base_mac=record.base_mac,
        )


@dataclass(slots=True)
class Port:
    """One HFI port."""

    facts: PortFacts
    life: Life = Life.SERVED
    epoch: int = 0
    """Incremented at each restart of the dialogue; responses to requests of an earlier epoch are ignored."""
    class_port_info: ClassPortInfo | None = None
    """As read from the agent; None if it must be read again."""
    response_time: int = DEFAULT_RESPONSE_TIME
    scan: int | None = None
    """Next vport to read while scanning for existing vports; None if they are known."""
    patience: int = 1
    """Absent vports in a row, past the last known one, that end the scan."""
    absent: int = 0
    """Absent vports in a row, as far as the scan has come."""
    ready: bool = False
    """Whether its ClassPortInfo is right and its vports are known."""
    busy: bool = False
    """Whether a request about the port itself is in flight."""
    failures: int = 0
    """Number of consecutive unanswered requests."""
    isolated: str = ""
    """The faulty response because of which it is ISOLATED; otherwise empty."""
    refusals: int = 0
    """Number of consecutive refused requests."""
    strikes: int = 0
    """How often it was isolated."""
    wake_at: float = 0.0
    """The time of the next action: a poll, or the end of its state (see `Life`)."""
    _vports: dict[int, Vport] = field(default_factory=dict, init=False)
    _by_vesw: dict[int, list[Vport]] = field(default_factory=dict, init=False)
    """The same vports by virtual switch, in the same order, without those that are to be deleted."""

    @property
    def vports(self) -> Mapping[int, Vport]:
        """Its vports, by number."""
        return self._vports

    def copy(self) -> Port:
        """Return a copy with copies of its vports, for another thread."""
        port = replace(self)
        for vport in self._vports.values():
            port.add(replace(vport))
        return port

    def vports_on(self, vesw_id: int) -> Sequence[Vport]:
        """Return its vports on a virtual switch: one, if it is a member and the vport has been made."""
        return self._by_vesw.get(vesw_id, ())

    def add(self, vport: Vport) -> None:
        """Give the port a vport, in place of one of the same number."""
        self.remove(vport.num)
        self._vports[vport.num] = vport
        if vport.vesw_id:
            self._by_vesw.setdefault(vport.vesw_id, []).append(vport)

    def remove(self, num: int) -> None:
        """Take a vport from the port, if it is there."""
        vport = self._vports.pop(num, None)
        if vport is not None:
            self._leave_vesw(vport)

    def remove_all(self) -> None:
        """Take all vports from the port."""
        self._vports.clear()
        self._by_vesw.clear()

    def _leave_vesw(self, vport: Vport) -> None:
        """Take a vport that is to be deleted, or is gone, from the vports of its virtual switch."""
        if vport.vesw_id:
            here = self._by_vesw[vport.vesw_id]
            here.remove(vport)
            if not here:
                del self._by_vesw[vport.vesw_id]

    @property
    def in_service(self) -> bool:
        """Whether it is on the fabric."""
        return self.life in IN_SERVICE

    @property
    def counts(self) -> bool:
        """Whether its addresses belong in MAC tables and the port belongs in groups."""
        return self.life is not Life.FORGOTTEN

    def start_scan(self, patience: int) -> None:
        """Look for vports that are not known, from the first number on; see `patience`."""
        self.scan, self.patience, self.absent = self.next_unknown(1), patience, 0

    def go_on_scanning(self, num: int, *, exists: bool) -> None:
        """Look for the next vport, unless number `num` was the last one to be looked at."""
        self.absent = 0 if exists else self.absent + 1
        ends = self.absent >= self.patience and num > max(self.vports, default=0)
        self.scan = None if ends else self.next_unknown(num + 1)

    def next_unknown(self, num: int) -> int | None:
        """Return the first number from `num` on without a known vport, or None."""
        return next((free for free in range(num, MAX_VPORTS + 1) if free not in self.vports), None)

    def allot(self, wanted: Mapping[int, int]) -> list[Vport]:
        """Assign a vport to each of these virtual switches and release the others; return the changed vports.

        Args:  wanted: the number of the vport of each virtual switch; 0: the lowest one that is free. One whose number
               belongs to a vport that is being deleted waits for that.
        """
        belongs = wanted.keys()
        have = set(self._by_vesw)
        changed = [vport for vport in self.vports.values() if vport.vesw_id and vport.vesw_id not in belongs]
        for vport in changed:
            self._leave_vesw(vport)
            vport.vesw_id, vport.done = 0, False
        kept = {num for num in wanted.values() if num}
        free = (num for num in range(1, MAX_VPORTS + 1) if num not in self.vports and num not in kept)
        for vesw_id in (id_ for id_ in wanted if id_ not in have):
            num = wanted[vesw_id]
            if num in self.vports and not self.vports[num].vesw_id:
                continue
            if not num or num in self.vports:
                num = next(free, 0)
            if not num:
                break
            vport = Vport(self.facts.guid, num, vesw_id)
            self.add(vport)
            changed.append(vport)
        return changed

    def silent(self, now: float) -> bool:
        """Return whether the agent now suppresses traps of one of its vports."""
        return any(vport.traps.silent(now) for vport in self.vports.values())

    def doubt(self) -> None:
        """Invalidate what is known about its agent, so that it is read again."""
        self.class_port_info = None
        self.ready = False
        for vport in self.vports.values():
            vport.fresh = vport.done = False

    def restart(self) -> None:
        """Invalidate what is known about its agent, and ignore responses to earlier requests."""
        self.epoch += 1
        self.doubt()
        self.busy = False
        for vport in self.vports.values():
            vport.busy = False


@dataclass(slots=True)
class ManagedVesw:
    """One virtual switch."""

    plan: VeswPlan
    table: VeswTable
    guids: frozenset[int] = frozenset()
    """Its members."""
    pending: set[int] = field(default_factory=set)
    """Members whose address lists are being read, by GUID."""
    dirty_since: float | None = None
    """Since when the table must be recomputed; None if it is current."""

    def table_for(self, guid: int) -> MemberTable:
        """Return the desired MAC table of a member; empty if the virtual switch does not learn."""
        return self.table.table_for(guid) if self.plan.learns else NO_TABLE

    def entries(self) -> list[tuple[int, MacAddr, int, Owner]]:
        """Return slot, address, LID and owner of each entry in the tables of all members together."""
        return self.table.entries() if self.plan.learns else []

    def digest_for(self, guid: int) -> int:
        """Return the digest of that table."""
        return self.table.digest_for(guid) if self.plan.learns else NO_TABLE.digest


def member_addresses(vesw: ManagedVesw, ports: Mapping[int, Port]) -> dict[Owner, list[MemberAddress]]:
    """Return the addresses of each member of a virtual switch; its multicast addresses have no owner."""
    addresses: dict[Owner, list[MemberAddress]] = {}
    groups: dict[MacAddr, int] = {}
    for fact in vesw.plan.members:
        port = ports[fact.guid]
        for vport in port.vports_on(vesw.plan.vesw_id):
            there = port.in_service
            addresses[fact.guid] = [
                MemberAddress(vport.base_mac, fact.lid, ASSIGNED),
                *(
                    MemberAddress(mac, fact.lid, vport.since.get(mac, EARLIER) if there else ABSENT)
                    for mac in vport.unicast.macs
                ),
            ]
            groups |= dict.fromkeys(vport.multicast.macs, vesw.plan.mlid)
    addresses[_NOBODY] = [MemberAddress(mac, lid) for mac, lid in groups.items()]
    return addresses


def table_events(
    vesw: ManagedVesw,
    ports: Mapping[int, Port],
    conflicts: Sequence[Conflict],
    held: Sequence[MacAddr],
    left_out: Sequence[MacAddr],
) -> Iterator[EventRecord]:
    """Yield the events of a MAC table: addresses that move, or too often, that another member has, that do not fit.

    Args:  conflicts, held, left_out: the earlier ones, which have already been reported.
    """

    def event(kind: str, text: str) -> EventRecord:
        return EventRecord(kind, vesw_id=vesw.plan.vesw_id, text=text)

    def name(guid: Owner) -> str:
        return ports[guid].facts.name if guid in ports else "a port that is gone"

    table = vesw.table
    for mac, before, now in table.moves:
        yield event("address-moved", f"{mac.hex(':')} moved from {name(before)} to {name(now)}")
    for mac in table.movement.held:
        if mac not in held:
            text = (
                f"{mac.hex(':')} has moved {MOVES} times within {WINDOW_S:g} s; for {HOLD_S:g} s it stays at "
                f"{name(table.owner_of(mac))}, and at other members it is not reached"
            )
            yield event("address-flaps", text)
    for mac, keeper, other in table.conflicts:
        if (mac, keeper, other) not in conflicts:
            text = f"{mac.hex(':')} is the address given to {name(keeper)}, which keeps it; {name(other)} has it, too"
            yield event("address-conflict", text)
    if table.left_out and table.left_out != left_out:
        yield event("table-full", f"{len(table.left_out)} addresses do not fit in the MAC table")


@dataclass(slots=True)
class Desired:
    """The desired state for the current fabric."""

    config: EmConfig
    sink_lid: int
    """LID of the EM, the sink of traps."""
    vesws: Mapping[int, ManagedVesw] = field(default_factory=dict)
