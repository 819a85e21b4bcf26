"""What the EM knows of each port, vport and virtual switch, and what it wants of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.types import MacAddr
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.desired import EmConfig, PortFacts
from vema.em.mac_tables import DIRTY, EMPTY, NO_TABLE, Address, Conflict, MemberTable, Owner, VeswTable
from vema.em.persisted import NO_MAC, EventRecord, VportKey, VportRecord
from vema.em.plan import VeswPlan
from vema.traps import TRAP_BURST, TRAP_WINDOW_MS
from vema.types import MAX_VPORTS

DEFAULT_RESPONSE_TIME: Final = 18
"""Response-time value that agents announce, before one has been asked."""
_RESPONSE_TIME_UNIT_S: Final = 4.096e-6
_TRANSIT_S: Final = 0.05
"""Allowance for the way there and back."""
_TIMEOUT_MAX_S: Final = 20.0
_NOBODY: Final[Owner] = 0


def timeout_of(response_time: int) -> float:
    """Return how long to wait for a response, in seconds: 4.096 us * 2**value, and the way there and back."""
    response_time_s = _RESPONSE_TIME_UNIT_S * (1 << (response_time & 0x1F))
    return min(response_time_s + _TRANSIT_S, _TIMEOUT_MAX_S)


@dataclass(slots=True)
class MacList:
    """An address list of a netdev, as it was read, and how far that can be believed."""

    macs: tuple[MacAddr, ...] = ()
    read_gen: int | None = None
    """Generation count under which `macs` was read; None: never."""
    agent_gen: int | None = None
    """The latest generation count that the agent has told."""
    stale: bool = False
    """A trap said that it changed."""
    pages: list[MacAddr] = field(default_factory=list)
    """What has been read of a list that takes several MADs."""
    pages_gen: int | None = None
    restarts: int = 0
    """How often in a row it changed while it was read."""

    @property
    def current(self) -> bool:
        """Whether `macs` is what the agent has, as far as the EM knows."""
        return not self.stale and self.read_gen is not None and self.read_gen == self.agent_gen

    def forget(self) -> None:
        """Believe nothing of it: the vport is new."""
        self.read_gen, self.stale = None, False
        self.restart()

    def restart(self) -> None:
        """Read it from the start."""
        self.pages, self.pages_gen = [], None


@dataclass(slots=True)
class TrapWindow:
    """The traps of one vport, counted as its agent counts them: after a burst it is silent for the window's rest."""

    closes_at: float = 0.0
    count: int = 0

    def seen(self, now: float) -> None:
        """Count a trap."""
        if now >= self.closes_at:
            self.closes_at, self.count = now + TRAP_WINDOW_MS / 1000, 0
        self.count += 1

    def silent(self, now: float) -> bool:
        """Return whether the agent holds back what it would say."""
        return now < self.closes_at and self.count > TRAP_BURST


@dataclass(slots=True)
class Vport:
    """One vport of one port."""

    guid: int
    num: int
    vesw_id: int
    """Where it belongs; 0: it is to be deleted."""
    info: VeswPortInfo | None = None
    """What the agent last said."""
    fresh: bool = False
    """`info` was read since there was reason to doubt it."""
    digest: int = EMPTY
    """The agent's digest, as last seen."""
    layout: tuple[int, ...] | None = None
    """Keys of the sections that the agent has under `digest`; None: not known."""
    damaged: bool = False
    """The table is not what its digest says; `layout` is what is there, and it is to be written again."""
    digests_lost: int = 0
    """Looks in a row that found another digest than was written."""
    unicast: MacList = field(default_factory=MacList)
    multicast: MacList = field(default_factory=MacList)
    base_mac: MacAddr = NO_MAC
    busy: bool = False
    """A request about it is on its way."""
    done: bool = False
    """Nothing is left to do for it."""
    counters_due: list[int] = field(default_factory=list)
    """Counter attributes to read."""
    counters: dict[str, int] = field(default_factory=dict)
    """The last reading."""
    traps: TrapWindow = field(default_factory=TrapWindow)
    """Whether its agent may be holding back traps."""

    @property
    def key(self) -> VportKey:
        """Port and number."""
        return (self.guid, self.num)

    def record(self) -> VportRecord:
        """Return what to remember of it; of a table that is being rewritten nothing can be."""
        return VportRecord(
            self.guid,
            self.num,
            self.vesw_id,
            self.digest,
            None if self.digest == DIRTY else self.layout,
            self.unicast.macs,
            self.unicast.read_gen,
            self.multicast.macs,
            self.multicast.read_gen,
            self.base_mac,
        )

    @classmethod
    def of(cls, record: VportRecord) -> Vport:
        """Return a vport as an earlier life of the EM knew it."""
        return cls(
            record.guid,
            record.vport_num,
            record.vesw_id,
            digest=record.digest,
            layout=record.layout,
            unicast=MacList(record.uc_macs, record.uc_gen),
            multicast=MacList(record.mc_macs, record.mc_gen),
            base_mac=record.base_mac,
        )


@dataclass(slots=True)
class Port:
    """One HFI port."""

    facts: PortFacts
    in_service: bool = True
    epoch: int = 0
    """Counts its lives on the fabric; answers to requests of an earlier one are ignored."""
    class_port_info: ClassPortInfo | None = None
    """As the agent has it; None: not read since there was reason to doubt it."""
    response_time: int = DEFAULT_RESPONSE_TIME
    scan: int | None = None
    """Next vport to look at, where it is not known which there are; None: known."""
    ready: bool = False
    """Its ClassPortInfo is right and its vports are known."""
    busy: bool = False
    """A request about the port itself is on its way."""
    vports: dict[int, Vport] = field(default_factory=dict)
    failures: int = 0
    """Requests in a row that were never answered."""
    blocked: bool = False
    """Nothing is sent to it until `wake_at`."""
    isolated: str = ""
    """Why nothing is sent to it: what its agent answered."""
    refusals: int = 0
    """Answers in a row that refused a request."""
    strikes: int = 0
    """How often it was isolated."""
    away_until: float | None = None
    """It left; until then its addresses stay in the tables of the others."""
    wake_at: float = 0.0
    """When something is to be done about it next: a look, the end of a pause, the end of its memory."""

    @property
    def counts(self) -> bool:
        """Whether its addresses belong into MAC tables and its port into groups."""
        return self.in_service or self.away_until is not None

    def next_unknown(self, num: int) -> int | None:
        """Return the first number from `num` on of which no vport is known; None: there is none."""
        return next((free for free in range(num, MAX_VPORTS + 1) if free not in self.vports), None)

    def allot(self, wanted: Collection[int]) -> list[Vport]:
        """Give the port a vport for each of these virtual switches, take away the others; return what changed."""
        belongs = set(wanted)
        have = {vport.vesw_id for vport in self.vports.values()}
        changed = [vport for vport in self.vports.values() if vport.vesw_id and vport.vesw_id not in belongs]
        for vport in changed:
            vport.vesw_id, vport.done = 0, False
        free = (num for num in range(1, MAX_VPORTS + 1) if num not in self.vports)
        for vesw_id, num in zip((id_ for id_ in wanted if id_ not in have), free, strict=False):
            vport = self.vports[num] = Vport(self.facts.guid, num, vesw_id)
            changed.append(vport)
        return changed

    def silent(self, now: float) -> bool:
        """Return whether a vport's agent holds back traps."""
        return any(vport.traps.silent(now) for vport in self.vports.values())

    def doubt(self) -> None:
        """Believe nothing of what its agent was last seen to have."""
        self.class_port_info = None
        self.ready = False
        for vport in self.vports.values():
            vport.fresh = vport.done = False


@dataclass(slots=True)
class Vesw:
    """One virtual switch."""

    plan: VeswPlan
    table: VeswTable
    guids: frozenset[int] = frozenset()
    """Its members."""
    pending: set[int] = field(default_factory=set)
    """Members whose address lists are being read, by GUID."""
    dirty_since: float | None = None
    """Since when the table has to be computed anew; None: it is right."""

    def table_for(self, guid: int) -> MemberTable:
        """Return the MAC table that a member is to have; one that learned before has to lose its entries."""
        return self.table.table_for(guid) if self.plan.learns else NO_TABLE

    def entries(self) -> list[tuple[int, MacAddr, int, Owner]]:
        """Return slot, address, LID and owner of what the tables of all members hold together."""
        return self.table.entries() if self.plan.learns else []

    def digest_for(self, guid: int) -> int:
        """Return the digest of that table."""
        return self.table.digest_for(guid) if self.plan.learns else NO_TABLE.digest


def member_addresses(vesw: Vesw, ports: Mapping[int, Port]) -> dict[Owner, list[Address]]:
    """Return the addresses of each member of a virtual switch; those of its group belong to nobody."""
    addresses: dict[Owner, list[Address]] = {}
    groups: dict[MacAddr, int] = {}
    for fact in vesw.plan.members:
        for vport in ports[fact.guid].vports.values():
            if vport.vesw_id == vesw.plan.vesw_id:
                macs = (vport.base_mac, *vport.unicast.macs)
                addresses[fact.guid] = [(mac, fact.lid) for mac in macs]
                groups |= dict.fromkeys(vport.multicast.macs, vesw.plan.section.mlid)
    addresses[_NOBODY] = list(groups.items())
    return addresses


def table_events(
    vesw: Vesw, ports: Mapping[int, Port], conflicts: Sequence[Conflict], left_out: Sequence[MacAddr]
) -> Iterator[EventRecord]:
    """Yield what a person should know of a MAC table: addresses of two members, and those without room.

    Args:  conflicts, left_out: what they were before, which has been said already.
    """
    for mac, keeper, other in vesw.table.conflicts:
        if (mac, keeper, other) in conflicts:
            continue
        names = [ports[guid].facts.name for guid in (keeper, other) if guid in ports]
        text = f"{mac.hex(':')} is at {' and at '.join(names)}; frames go to the first"
        yield EventRecord("address-conflict", vesw_id=vesw.plan.vesw_id, text=text)
    if vesw.table.left_out and vesw.table.left_out != left_out:
        text = f"{len(vesw.table.left_out)} addresses found no room in the MAC table"
        yield EventRecord("table-full", vesw_id=vesw.plan.vesw_id, text=text)


@dataclass(slots=True)
class Desired:
    """What is wanted, with the fabric as it is."""

    config: EmConfig
    sink_lid: int
    """LID of the EM: where traps go."""
    vesws: Mapping[int, Vesw] = field(default_factory=dict)
