"""A configuration beside the ports of a fabric: which port a member name means, and what contradicts the former."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from hfi_sim.base.text import hint
from vema.base.types import MAC_TABLE_ENTRIES, MAX_VESW_ID, MAX_VPORTS
from vema.em.desired.desired import EmConfig, EmConfigError, MacPolicy, VeswSection, parse_config
from vema.em.desired.problems import KeyPath, Problem, pkeys_text
from vema.em.desired.ranges import ALL, Spread, spread_vesws


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


def named_port(
    guid: int, name: str, hfi: str, host: str, opa_port_num: int, aliases: tuple[str, ...] = ()
) -> PortFacts:
    """Return a port of which only the names are known."""
    return PortFacts(guid, 0, name, hfi, host, opa_port_num, pkeys=None, lanes=(), aliases=aliases)


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
