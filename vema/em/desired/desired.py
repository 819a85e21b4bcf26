"""The desired state: the model of an EM file. It is checked before anything is sent, and all mistakes are listed.

It can also be built in Python: `EmConfig(vesws=[...])`. `fabric_problems` checks what depends on a fabric: members,
their partitions, the size of MAC tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, WithJsonSchema

from hfi_sim.base.errors import InputError
from hfi_sim.base.quantities import parse_time
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
from vema.base.types import MAX_FABRIC_ID, MAX_VESW_ID, MAX_VPORTS
from vema.em.desired.election import ELECTION_GROUP
from vema.em.desired.problems import (
    Problem,
    default_port_problems,
    model_problems,
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
