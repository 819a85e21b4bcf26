"""The desired state: the model of an EM file. It is checked before anything is sent, and all mistakes are listed.

It can also be built in Python: `EmConfig(vesws=[...])`. `fabric_problems` checks what depends on a fabric: members,
their partitions, the size of MAC tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
)

from hfi_sim.base.errors import InputError
from hfi_sim.base.quantities import parse_time
from hfi_sim.base.text import hint
from hfi_sim.base.types import (
    ETH_MTU_DEFAULT,
    ETH_MTU_MAX,
    ETH_MTU_MIN,
    LID_MULTICAST_FIRST,
    LIDS_OF_JOINED_GROUPS,
    is_multicast_lid,
)
from vema.attributes.vesw_port_info import PCP_VALUES
from vema.base.errors import VemaError
from vema.base.sections import PartitionKey, Section, Subnets, Time, empty_is_default
from vema.base.types import MAC_TABLE_ENTRIES, MAX_FABRIC_ID, MAX_VESW_ID, MAX_VPORTS
from vema.em.desired.election import ELECTION_GROUP
from vema.em.desired.problems import (
    KeyPath,
    Problem,
    default_port_problems,
    model_problems,
    pkeys_text,
    repeated,
    twice_problems,
    vesw_text,
)
from vema.em.desired.ranges import ALL, Spread, spread_vesws
from vema.em.desired.subnets import subnet_problems

AUTO: Final = "auto"


class EmConfigError(VemaError, InputError):
    """An invalid configuration, or one that the fabric cannot satisfy. `problems` lists all mistakes."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


# --- values --------------------------------------------------------------------------------------------------


def _check_mlid(value: object) -> object:
    if value is None or value == AUTO:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and is_multicast_lid(value):
        taken = LIDS_OF_JOINED_GROUPS
        if value in taken:
            raise ValueError(
                f"{value:#x} is one that subnet administration gives to groups of programs "
                f"({taken[0]:#x} to {taken[-1]:#x}); take one below, or auto"
            )
        if value == ELECTION_GROUP:
            raise ValueError(f"{value:#x} is the group by which Ethernet Managers elect their master")
        return value
    shown = f"{value:#x}" if isinstance(value, int) else repr(value)
    raise ValueError(f"{shown} is not a multicast LID (0xf00000 to 0xfffffe) and not auto")


def _each_of(name: str, limit: int) -> AfterValidator:
    def check(values: tuple[int, ...]) -> tuple[int, ...]:
        if len(values) != PCP_VALUES:
            raise ValueError(f"{len(values)} values; a {name} is given for each of {PCP_VALUES} priorities")
        for value in values:
            if not 0 <= value <= limit:
                raise ValueError(f"{name} {value} is not 0 to {limit}")
        return values

    return AfterValidator(check)


Duration = Annotated[Time, Field(lt=1e9)]
Routing = Annotated[int, Field(strict=True, ge=0, le=7)]
"""Routing control, 3 bits."""
ServiceChannel = Annotated[int, Field(strict=True, ge=0, le=31)]
VirtualLane = Annotated[int, Field(strict=True, ge=0, le=15)]
MacPolicy = Literal["learn", "locally-administered"]


_Empty = BeforeValidator(empty_is_default)


class FabricSection(Section):
    """Properties of the whole fabric."""

    id: Annotated[int, Field(strict=True, ge=0, le=MAX_FABRIC_ID)] = 0x001
    """10 bits; part of every locally administered MAC."""
    mtu: Annotated[int, Field(strict=True, ge=ETH_MTU_MIN, le=ETH_MTU_MAX)] = ETH_MTU_MAX
    """Largest Ethernet MTU that its links carry, in bytes."""


class TrapSection(Section):
    """How agents send their traps."""

    sl: Annotated[int, Field(strict=True, ge=0, le=31)] = 0
    """Service level."""


class PollingSection(Section):
    """Intervals of polls by the EM, in seconds; traps make it poll immediately."""

    interval: Duration = 10.0
    """Seconds between two polls of an agent; 0: rely only on traps."""
    audit: Duration = 600.0
    """Seconds in which every MAC table is read once and compared with its digest; 0: never."""
    counters: Duration = 0.0
    """Seconds between two readings of the counters of a vport; 0: never."""
    history: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1000
    """Readings kept for each vport."""


class LimitsSection(Section):
    """Limits for requests in flight, retries and timeouts."""

    in_flight: Annotated[int, Field(strict=True, ge=1, le=65536)] = 128
    """Requests in flight to all ports."""
    per_port: Annotated[int, Field(strict=True, ge=1, le=255)] = 4
    """Requests in flight to one port."""
    retries: Annotated[int, Field(strict=True, ge=0, le=100)] = 4
    """Number of retries of a request before its port counts as unreachable."""
    leave_hold: Duration = 5.0
    """Seconds for which the addresses of a port that left stay in the MAC tables of other ports."""


class ElectionSection(Section):
    """Several EMs on one fabric: the one with the highest priority, then the lowest GUID, is the master."""

    priority: Annotated[int, Field(strict=True, ge=0, le=15)] = 0
    heartbeat: Annotated[Duration, Field(gt=0)] = 0.5
    """Seconds between two heartbeats."""
    dead_after: Annotated[Duration, Field(gt=0)] = 5.0
    """Seconds of silence after which the master counts as dead."""


class RoutingControl(Section):
    """Routing control by kind of traffic, 0-7."""

    default: Routing = 0
    ipv4: Routing = 0
    ipv4_udp: Routing = 0
    ipv4_tcp: Routing = 0
    ipv6: Routing = 0
    ipv6_udp: Routing = 0
    ipv6_tcp: Routing = 0


class Lane(Section):
    """Service channel and virtual lane of frames without a VLAN tag."""

    sc: ServiceChannel = 0
    vl: VirtualLane = 0


class TrafficClass(Section):
    """Service channels and virtual lanes of one kind of frames; lists are indexed by the priority of the VLAN tag."""

    untagged: Annotated[Lane, _Empty] = Lane()
    pcp_to_sc: Annotated[tuple[int, ...], _each_of("service channel", 31)] = (0,) * PCP_VALUES
    pcp_to_vl: Annotated[tuple[int, ...], _each_of("virtual lane", 15)] = (0,) * PCP_VALUES


class Qos(Section):
    """Service channels and virtual lanes."""

    unicast: Annotated[TrafficClass, _Empty] = TrafficClass()
    multicast: Annotated[TrafficClass, _Empty] = TrafficClass()


class VeswSection(Section):
    """One virtual Ethernet switch."""

    id: Annotated[int, Field(strict=True, ge=1, le=MAX_VESW_ID)]
    name: Annotated[str, Field(min_length=1, max_length=64)]
    pkey: PartitionKey = 0xFFFF
    mtu: Annotated[int, Field(strict=True, ge=ETH_MTU_MIN, le=ETH_MTU_MAX)] = ETH_MTU_DEFAULT
    """Bytes of Ethernet payload."""
    subnet: Subnets = ()
    """The n-th host of the lab gets the n-th address, in each of a list. The EM makes no use of it."""
    members: Literal["all"] | list[str] = ALL
    """`all` hosts, or names: a host (the first port of its first HFI), an HFI (its first port), HFI:PORT, or a port
    GUID (0x...); or ranges of names: `h[1-16]`. A host may be there by several ports."""
    vports: Annotated[
        dict[str, Annotated[int, Field(strict=True, ge=1, le=MAX_VPORTS)]],
        BeforeValidator(lambda value: {} if value is None else value),
    ] = Field(default={})
    """Numbers of vports by member. A member that is not named has the lowest number free on its port, in the order of
    the virtual switches; a vport that is there keeps its number."""
    default_ports: list[str] = Field(default=[])
    """Members that receive unknown unicast, up to 16; flows are spread over them."""
    multicast_lid: Annotated[
        int | None,
        BeforeValidator(_check_mlid),
        WithJsonSchema({"anyOf": [{"type": "integer"}, {"enum": [AUTO, None]}]}),
    ] = None
    """The multicast LID, 0xF00000 to 0xFFFFFE, which no other has; 0xF01000 to 0xF013FF are reserved for groups that
    programs join. `auto`: 0xF00000 + id."""
    mac: MacPolicy | None = None
    """Overrides the policy for the whole file."""
    rc: Annotated[RoutingControl, _Empty] = RoutingControl()
    qos: Annotated[Qos, _Empty] = Qos()
    link: Literal["up", "down"] = "up"
    """down: members exist but drop all frames."""

    @property
    def mlid(self) -> int:
        """The multicast LID, explicit or automatic."""
        return LID_MULTICAST_FIRST + self.id if self.multicast_lid is None else self.multicast_lid


class EmConfig(Section):
    """A whole EM file."""

    fabric: Annotated[FabricSection, _Empty] = FabricSection()
    mac: MacPolicy = "locally-administered"
    """How members find each other: by the LIDs in their MAC addresses, or by MAC tables of learned addresses."""
    trap: Annotated[TrapSection, _Empty] = TrapSection()
    polling: Annotated[PollingSection, _Empty] = PollingSection()
    limits: Annotated[LimitsSection, _Empty] = LimitsSection()
    election: ElectionSection | None = None
    """Absent: this is the only EM, which is active at once."""
    vesws: Annotated[list[VeswSection], BeforeValidator(lambda value: [] if value is None else value)] = (
        Field(default=[])
    )

    def policy(self, vesw: VeswSection) -> MacPolicy:
        """Return the MAC policy of a virtual switch."""
        return vesw.mac or self.mac


# --- reading -------------------------------------------------------------------------------------------------


def parse_config(data: Any) -> EmConfig:
    """Check plain data (from YAML or JSON) and return the configuration.

    Raises:  EmConfigError: all mistakes that can be found without a fabric.
    """
    if not isinstance(data, dict):
        empty = "it is empty; " if data is None else ""
        text = f"{empty}an EM file is a mapping with keys such as fabric, mac and vesws"
        raise EmConfigError([Problem((), text)])
    if problem := _too_many_vesws(data):
        raise EmConfigError([problem])
    spread = Spread(data)
    spread_vesws(spread)
    if spread.problems:  # further checks would report names that were never spread
        raise EmConfigError(spread.problems)
    try:
        return _parse_spread(spread.data)
    except EmConfigError as error:
        raise EmConfigError(spread.place(error.problems)) from None


def _parse_spread(data: dict[str, Any]) -> EmConfig:
    problems = cross_problems(data)
    if "vesws" not in data:
        text = "vesws is missing: list all virtual switches; vesws: [] deletes all"
        problems.append(Problem((), text))
    try:
        config = EmConfig.model_validate(data)
    except ValidationError as error:
        raise EmConfigError([*model_problems(error, EmConfig, data), *problems]) from None
    if problems:
        raise EmConfigError(problems)
    return config


def _too_many_vesws(data: Mapping[str, Any]) -> Problem | None:
    """Return a problem if there are more virtual switches than ids; then nothing else about them is checked."""
    vesws = data.get("vesws")
    if not isinstance(vesws, list) or len(vesws) <= MAX_VESW_ID:
        return None
    message = f"{len(vesws)} virtual switches; an id has 12 bits, so a fabric has at most {MAX_VESW_ID}"
    return Problem(("vesws",), message)


def _automatic_lids(entries: list[tuple[int, dict[str, Any]]]) -> list[Problem]:
    """Return a problem for each group that is given the LID that another virtual switch has by its number."""
    automatic = {
        LID_MULTICAST_FIRST + vesw_id: vesw_text(number, vesw)
        for number, vesw in entries
        if vesw.get("multicast_lid") in (None, AUTO) and isinstance(vesw_id := vesw.get("id"), int)
    }
    found = []
    for number, vesw in entries:
        lid = vesw.get("multicast_lid")
        if isinstance(lid, int) and lid in automatic:
            message = f"{lid:#x} is that of {automatic[lid]}, by its id"
            found.append(Problem(("vesws", number, "multicast_lid"), message))
    return found


def cross_problems(data: Mapping[str, Any]) -> list[Problem]:
    """Return the contradictions in plain data; values of a wrong type are skipped."""
    vesws = data.get("vesws")
    entries = [(n, v) for n, v in enumerate(vesws if isinstance(vesws, list) else []) if isinstance(v, dict)]
    problems = twice_problems(entries)
    problems += repeated(entries, "multicast_lid", besides=AUTO) + _automatic_lids(entries)
    problems += subnet_problems(entries)
    fabric = data.get("fabric")
    limit = fabric.get("mtu") if isinstance(fabric, dict) else None
    for index, vesw in entries:
        mtu = vesw.get("mtu")
        if isinstance(mtu, int) and isinstance(limit, int) and mtu > limit:
            problems.append(Problem(("vesws", index, "mtu"), f"{mtu} is above the fabric's {limit}"))
        problems += _member_problems(index, vesw, len(problems))
    election = data.get("election")
    if isinstance(election, dict):
        problems += _election_problems(election)
    return problems


def _member_problems(index: int, vesw: dict[str, Any], before: int) -> list[Problem]:
    problems: list[Problem] = []
    names = vesw.get("members")
    seen: set[str] = set()
    for at, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str) and name in seen:
            problems.append(Problem(("vesws", index, "members", at), f'"{name}" appears twice'))
        seen.add(str(name))
    return problems + default_port_problems(index, vesw, before + len(problems))


def _election_problems(election: dict[str, Any]) -> list[Problem]:
    try:
        heartbeat = parse_time(election.get("heartbeat", 0.5))
        dead_after = parse_time(election.get("dead_after", 5.0))
    except ValueError:
        return []
    if dead_after < 3 * heartbeat:
        message = f"{dead_after:g} s is under three heartbeats of {heartbeat:g} s: a lost one would depose the master"
        return [Problem(("election", "dead_after"), message)]
    return []


# --- on a fabric ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionLane:
    """What a fabric manager gives one partition at one port."""

    pkey: int
    sl: int
    sc: int
    """15 and VL 15: the port may not send on this service level."""
    vl: int
    mtu: int
    """Bytes of a packet's payload on this lane."""


_NO_LANE: Final = 15


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What the subnet manager knows about an HFI port that announces Ethernet on fabric."""

    guid: int
    lid: int
    name: str
    """HFI:PORT."""
    hfi: str
    host: str
    opa_port_num: int
    pkeys: frozenset[int] | None = frozenset()
    """None: not known yet."""
    lanes: tuple[PartitionLane, ...] | None = None
    """One for each partition that a fabric manager gives a service level; None: there are no such levels."""
    aliases: tuple[str, ...] = ()
    """Further names of the port."""

    def lane_of(self, pkey: int) -> PartitionLane | None:
        """Return the lane of a partition, whether its members are full or limited."""
        return next((lane for lane in self.lanes or () if not (lane.pkey ^ pkey) & 0x7FFF), None)

    @property
    def labels(self) -> tuple[str, ...]:
        """The member names that mean this port on every fabric."""
        return (self.name, f"{self.guid:#x}", f"{self.guid:#018x}", *self.aliases)


class Roster:
    """All known ports, by their names in a configuration."""

    def __init__(self, ports: Iterable[PortFacts], *, given: bool = False, open_ended: bool = False) -> None:
        """Gather them.

        Args:  given: a fabric manager gives partitions and lanes; where they do not fit, nothing is refused.
               open_ended: ports may come whose names are not known yet, so no member is refused as unknown.
        """
        self.given = given
        self.open_ended = open_ended
        self._names: dict[str, PortFacts] = {}
        self.ports = sorted(ports, key=lambda port: (port.lid, port.guid))
        for port in self.ports:
            for label in port.labels:
                self._names[label] = port
        for port in sorted(self.ports, key=lambda port: (port.hfi, port.opa_port_num)):
            self._names.setdefault(port.hfi, port)
            self._names.setdefault(port.host, port)

    def find(self, name: str) -> PortFacts | None:
        """Return the port that a member name means, or None."""
        return self._names.get(name)

    def members(self, vesw: VeswSection) -> list[PortFacts]:
        """Return the known members of a virtual switch, each once, in the order of the configuration.

        `all` are all hosts, each by its first port.
        """
        if vesw.members == ALL:
            return [port for port in self.ports if self._names[port.host] is port]
        found = (self._names.get(name) for name in vesw.members)
        return list({port.guid: port for port in found if port is not None}.values())

    def moved(self, before: Roster) -> frozenset[str]:
        """Return the names whose facts are not the same object as before: their port may be another, or has changed."""
        names = self._names.keys() | before._names.keys()
        return frozenset(name for name in names if self._names.get(name) is not before._names.get(name))

    @property
    def names(self) -> list[str]:
        """Host names, the most common names of members."""
        return list(dict.fromkeys(port.host for port in self.ports))


def fabric_problems(config: EmConfig, roster: Roster) -> list[Problem]:
    """Return why a fabric with these ports cannot satisfy a configuration; empty if it can."""
    problems: list[Problem] = []
    vports: dict[int, int] = {}
    for index, vesw in enumerate(config.vesws):
        if vesw.members != ALL:
            problems += _unknown(("vesws", index, "members"), vesw.members, roster, len(problems))
        problems += _unknown(("vesws", index, "default_ports"), vesw.default_ports, roster, len(problems))
        members = roster.members(vesw)
        for port in members:
            vports[port.guid] = vports.get(port.guid, 0) + 1
            if not roster.given:
                problems += _contradictions(index, vesw, port)
        if config.policy(vesw) == "learn" and len(members) - 1 > MAC_TABLE_ENTRIES:
            message = (
                f"{len(members)} members with policy learn need {len(members) - 1} MAC table entries; a table "
                f"holds {MAC_TABLE_ENTRIES} (policy locally-administered needs none)"
            )
            problems.append(Problem(("vesws", index, "members"), message))
    for port in roster.ports:
        if vports.get(port.guid, 0) > MAX_VPORTS:
            message = (
                f"{port.name} would be in {vports[port.guid]} virtual switches; a port carries {MAX_VPORTS}"
            )
            problems.append(Problem(("vesws",), message))
    return problems


def contradictions(config: EmConfig, roster: Roster) -> list[Problem]:
    """Return where partitions and lanes of the members' ports contradict a configuration."""
    return [
        problem
        for index, vesw in enumerate(config.vesws)
        for port in roster.members(vesw)
        for problem in _contradictions(index, vesw, port)
    ]


def port_contradictions(vesw: VeswSection, port: PortFacts) -> list[str]:
    """Return where the partitions and lanes of one port contradict what a virtual switch needs."""
    return [problem.message for problem in _contradictions(0, vesw, port)]


def _contradictions(index: int, vesw: VeswSection, port: PortFacts) -> Iterator[Problem]:
    path: KeyPath = ("vesws", index, "pkey")
    if port.pkeys is None:
        return
    if vesw.pkey not in port.pkeys:
        is_said, table = "pkey" in vesw.model_fields_set, f"{port.name} ({pkeys_text(port.pkeys)})"
        what = (
            f"{'' if is_said else 'missing, and its default '}{vesw.pkey:#06x} is not in the table of {table}"
        )
        yield Problem(path if is_said else path[:-1], f"pkey {'' if is_said else 'is '}{what}")
        return
    if port.lanes is None:
        return
    lane = port.lane_of(vesw.pkey)
    if lane is None:
        yield Problem(path, f"no virtual fabric of the fabric manager gives pkey {vesw.pkey:#06x} an SL")
    elif _NO_LANE in (lane.sc, lane.vl):
        text = (
            f"SL {lane.sl} of pkey {vesw.pkey:#06x} has no SC at {port.name}: its virtual fabric is not there"
        )
        yield Problem(path, text)
    elif vesw.mtu > lane.mtu:
        text = f"{vesw.mtu} is above the {lane.mtu} that VL {lane.vl} of {port.name} carries (pkey {vesw.pkey:#06x})"
        yield Problem(("vesws", index, *(("mtu",) if "mtu" in vesw.model_fields_set else ())), text)


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that was fully checked for a fabric with certain ports."""

    config: EmConfig
    text: str
    """The configuration as stored in the database."""
    roster: Roster
    """The ports of the fabric."""


def met_by(config: EmConfig, roster: Roster) -> Checked:
    """Check a configuration for a fabric with these ports.

    Raises:  EmConfigError: the fabric cannot satisfy it.
    """
    if problems := fabric_problems(config, roster):
        raise EmConfigError(problems)
    return Checked(config, config.model_dump_json(), roster)


def checked(data: Any, roster: Roster) -> Checked:
    """Check plain data (from YAML or JSON) for a fabric with these ports and return the configuration.

    Raises:  EmConfigError: all mistakes, including those on this fabric.
    """
    try:
        config = parse_config(data)
    except EmConfigError as error:
        raise EmConfigError([*error.problems, *_also_wrong(data, error.problems, roster)]) from None
    return met_by(config, roster)


def _also_wrong(data: Any, found: Sequence[Problem], roster: Roster) -> list[Problem]:
    """Return the problems on the fabric of data that has other mistakes, `found`."""
    vesws = data.get("vesws") if isinstance(data, dict) else None
    if not isinstance(vesws, list) or len(vesws) > MAX_VESW_ID:
        return []
    mac: MacPolicy = "learn" if data.get("mac") == "learn" else "locally-administered"
    spread = Spread({"vesws": vesws})
    spread_vesws(spread)
    vesws = spread.data["vesws"]
    known = {problem.path for problem in found}
    understood = EmConfig(mac=mac, vesws=[_understood(at, vesw) for at, vesw in enumerate(vesws)])
    also = spread.place(fabric_problems(understood, roster))
    return [problem for problem in also if problem.path not in known]


def _understood(at: int, entry: object) -> VeswSection:
    """Return the valid parts of an entry with mistakes that refer to ports, under a unique id."""
    kept: dict[str, Any] = {"id": at + 1, "name": str(at), "members": []}
    if isinstance(entry, dict):
        for key in ("members", "default_ports", "pkey", "mac"):
            if key not in entry:  # what is not said is told as missing
                continue
            with suppress(ValidationError):
                VeswSection.model_validate({**kept, key: entry[key]})
                kept[key] = entry[key]
    return VeswSection.model_validate(kept)


def _unknown(path: KeyPath, names: Iterable[str], roster: Roster, before: int) -> list[Problem]:
    if roster.open_ended:
        return []
    unknown = [(at, name) for at, name in enumerate(names) if roster.find(name) is None]
    return [
        Problem((*path, at), f'unknown member "{name}"{hint(name, roster.names, before + number)}')
        for number, (at, name) in enumerate(unknown)
    ]
