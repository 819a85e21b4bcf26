"""The HFIs of hosts, and what the members of a virtual switch name of them: ports.

h2       the first port of a host         h2.2     the first port of an HFI
h2.2:1   a port                           0x...    a port by its GUID
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from hfi_sim.base.kept_numbers import pins_for
from hfi_sim.base.text import MISSPELT, closest, counted, hint
from hfi_sim.base.types import LID_MULTICAST_FIRST
from hfi_sim.fabric.topology.explicit import hfi_names
from hfi_sim.netdev.base import IpInterface
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX, interface_name
from vema.base.sections import Section, Subnet, parse_subnets
from vema.base.types import MAX_VPORTS
from vema.em.desired.problems import KeyPath, Problem, vesw_text

MAX_HFIS: Final = 16


def _listed(value: object) -> object:
    if value is None or isinstance(value, list | tuple):
        return tuple(value or ())
    return (value,)


_NUMBERS: Final = WithJsonSchema(
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}
)


class HfiKeys(Section):
    """What stands in the machine."""

    hfis: Annotated[int, Field(strict=True, ge=1, le=MAX_HFIS)] = 1
    ports: Annotated[int, Field(strict=True, ge=1, le=2)] = 1
    """Number of ports of each HFI."""
    guid: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=1, lt=1 << 64)], ...], BeforeValidator(_listed), _NUMBERS
    ] = ()
    """Node GUIDs of its HFIs, one or a list; default: the fabric's choice."""
    lid: Annotated[
        tuple[Annotated[int, Field(strict=True, ge=0, lt=LID_MULTICAST_FIRST)], ...],
        BeforeValidator(_listed),
        _NUMBERS,
    ] = ()
    """LIDs of its ports, HFI by HFI, one or a list; 0, and the default: the subnet manager's choice. Only the built-in
    subnet manager keeps them."""

    @model_validator(mode="after")
    def _ids_fit(self) -> HfiKeys:
        if len(self.guid) > self.hfis:
            raise ValueError(f"guid: {len(self.guid)} for {counted(self.hfis, 'HFI')}")
        if len(self.lid) > self.hfis * self.ports:
            raise ValueError(f"lid: {len(self.lid)} for {counted(self.hfis * self.ports, 'port')}")
        return self


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of a host of the lab file."""

    host: str
    name: str
    """HFI:PORT."""
    member: str
    """Its shortest name as a member."""


class HostPorts:
    """The ports of all hosts, by every name that means them as members."""

    def __init__(self, hosts: Mapping[str, Any], guids: Mapping[int, str] | None = None) -> None:
        """Args:  hosts: that section of a lab file, as plain data; values of a wrong type count as not there.
        guids: HFI:PORT by the GUID of the port; None: not known yet.
        """
        self._by_name: dict[str, HostPort] = {}
        self.of_host: dict[str, list[HostPort]] = {}
        """By host, HFI by HFI."""
        for host, told in hosts.items():
            for hfi in hfi_names(str(host), count_of(told, "hfis", MAX_HFIS)):
                for number in range(1, count_of(told, "ports", 2) + 1):
                    self._add(str(host), hfi, number)
        self._guids = guids

    def _add(self, host: str, hfi: str, number: int) -> None:
        name = f"{hfi}:{number}"
        port = HostPort(host, name, hfi if number == 1 else name)
        self.of_host.setdefault(host, []).append(port)
        for known in (name, port.member):
            self._by_name.setdefault(known, port)

    def find(self, member: str) -> HostPort | None:
        """Return the port that a member means; None: no port of the lab."""
        if is_guid(member) and self._guids is not None:
            return self._by_name.get(self._guids.get(int(member, 16), ""))
        return self._by_name.get(member)

    def awaits(self, member: str) -> bool:
        """Return whether a member is a GUID, and those of the lab are not known yet."""
        return self._guids is None and is_guid(member)

    @property
    def names(self) -> list[str]:
        """The names that people give members: hosts, and where there are several, HFIs and ports."""
        return [port.member for ports in self.of_host.values() for port in ports]


def rail_problems(index: int, vesw: Mapping[str, Any], ports: HostPorts, highest: int) -> list[Problem]:
    """Return what is wrong where a host has several VNICs in a virtual switch, in plain data: names and addresses.

    Args:  highest: the largest number of a host.
    """
    members = vesw.get("members")
    found = (
        ports.find(item) for item in (members if isinstance(members, list) else ()) if isinstance(item, str)
    )
    counts = Counter(port.host for port in dict.fromkeys(found) if port is not None)
    most = max(counts.values(), default=1)
    problems = []
    name = vesw.get("name")
    if (
        most > 1
        and isinstance(name, str)
        and len(last := interface_name(name, most - 1)) > INTERFACE_NAME_MAX
    ):
        host = counts.most_common(1)[0][0]
        text = (
            f'"{name}" is too long for a host with {most} VNICs there ({host}): the name of its interface {last} has '
            f"{len(last)} characters; interfaces have {INTERFACE_NAME_MAX}"
        )
        problems.append(Problem(("vesws", index, "name"), text))
    with suppress(ValueError):
        for subnet in parse_subnets(vesw.get("subnet")) if most > 1 else ():
            if highest + 2 <= subnet.num_addresses < most * highest + 2:
                text = f"{subnet} has too few addresses for {most} VNICs of each host"
                problems.append(Problem(("vesws", index, "subnet"), text))
    return problems


def member_problems(path: KeyPath, members: object, ports: HostPorts, before: int) -> list[Problem]:
    """Return a problem for each member that means no port, or one twice. Args: before: number of problems so far."""
    problems: list[Problem] = []
    seen: dict[HostPort, str] = {}
    for index, member in enumerate(members if isinstance(members, list) else []):
        if not isinstance(member, str) or ports.awaits(member):
            continue
        port = ports.find(member)
        if port is None:
            told = meant_member(member, ports) or hint(member, ports.names, before + len(problems))
            problems.append(Problem((*path, index), f'unknown host "{member}"{told}'))
        elif port in seen:
            same = "" if seen[port] == member else f': it is the port that "{seen[port]}" means'
            problems.append(Problem((*path, index), f'host "{member}" appears twice{same}'))
        if port is not None:
            seen.setdefault(port, member)
    return problems


def meant_member(member: str, ports: HostPorts) -> str:
    """Return what a member that is no port was meant to be; empty where that cannot be seen."""
    names = member.replace(",", " ").split()
    if len(names) > 1 and all(ports.find(name) for name in names):
        return f": several are a list, [{', '.join(names)}]"
    if closest(member, ["all"], MISSPELT):
        return ': all hosts are written "all"'
    host, dot, _ = member.partition(":")[0].partition(".")
    if its := ports.of_host.get(host):
        key = "hfis" if dot else "ports"
        named = ", ".join(port.member for port in its)
        return f' (host "{host}" has {counted(len(its), "port")}: {named}; its key {key} gives it more)'
    return ""


def vport_problems(
    entries: list[tuple[int, dict[str, Any]]], members: Mapping[int, list[HostPort]], driver_quirks: bool
) -> list[Problem]:
    """Return where a port would be on more virtual switches than it carries. Args: members: by index of `entries`."""
    problems = []
    on_port: dict[HostPort, list[tuple[int, dict[str, Any]]]] = {}
    for index, vesw in entries:
        for port in dict.fromkeys(members[index]):
            on_port.setdefault(port, []).append((index, vesw))
    for port, mine in on_port.items():
        what = f'host "{port.member}"'
        if len(mine) > MAX_VPORTS:
            path: KeyPath = ("vesws", mine[MAX_VPORTS][0], "members")
            text = f"{what} is in {len(mine)} virtual switches; a port carries {MAX_VPORTS}"
            problems.append(Problem(path, text))
        problems += _same_numbers(port, mine)
        taken: dict[int, str] = {}
        for index, vesw in mine if driver_quirks else ():
            vesw_id = vesw.get("id")
            if not isinstance(vesw_id, int):
                continue
            low = vesw_id & 0xFF
            if low in taken:
                problems.append(
                    Problem(
                        ("vesws", index, "id"),
                        f"{vesw_id:#x} has the same low 8 bits as the id of {taken[low]}, and both are on "
                        f"{what}: with driver_quirks only one of them comes up",
                    )
                )
            taken.setdefault(low, vesw_text(index, vesw))
    return problems


def _same_numbers(port: HostPort, vesws: list[tuple[int, dict[str, Any]]]) -> list[Problem]:
    """Return a problem for each vport of a port whose number is that of another one already."""
    problems = []
    seen: dict[int, tuple[int, str]] = {}
    for index, vesw in vesws:
        vports = vesw.get("vports")
        told = vports if isinstance(vports, Mapping) else {}
        for name in (name for name in (port.member, port.name) if name in told):
            here = index, vesw_text(index, vesw)
            if isinstance(told[name], int) and (other := seen.setdefault(told[name], here)) != here:
                text = f"{told[name]} is already the vport of {port.member} on {other[1]}"
                problems.append(Problem(("vesws", index, "vports", name), text))
    return problems


Membership = tuple[int, str]
"""The id of a virtual switch, and the port that is a member: HFI:PORT."""


def vport_numbers(
    memberships: Iterable[Membership], pinned: Mapping[Membership, int]
) -> dict[Membership, int]:
    """Return the number of each vport: as pinned, else the lowest one that is free on its port, in order."""
    taken: dict[str, set[int]] = {}
    for (_, port), number in pinned.items():
        taken.setdefault(port, set()).add(number)
    numbers = {}
    for membership in memberships:
        here = taken.setdefault(membership[1], set())
        number = pinned.get(membership) or next(free for free in count(1) if free not in here)
        here.add(number)
        numbers[membership] = number
    return numbers


def pinned_vports(numbers: Mapping[Membership, int]) -> dict[Membership, int]:
    """Return the numbers that must be written so that these follow. Args: numbers: in file order."""
    return pins_for(numbers, partial(vport_numbers, numbers))


def vnic_titles(
    entries: list[tuple[int, dict[str, Any]]], members: Mapping[int, list[HostPort]]
) -> dict[str, list[str]]:
    """Return the VNICs of each host as the lab calls them: blue, and blue-2 for its second one there."""
    titles: dict[str, list[str]] = {}
    for index, vesw in entries:
        there = Counter[str]()
        for port in dict.fromkeys(members[index]):
            titles.setdefault(port.host, []).append(interface_name(str(vesw.get("name")), there[port.host]))
            there[port.host] += 1
    return titles


@lru_cache(maxsize=1 << 13)
def address_in(subnet: Subnet, number: int) -> IpInterface:
    """Return an address of a subnet, with the prefix."""
    return ipaddress.ip_interface(f"{subnet[number]}/{subnet.prefixlen}")


def is_guid(member: str) -> bool:
    """Return whether a member is the GUID of a port: 0x and up to 16 hexadecimal digits."""
    digits = member.removeprefix("0x")
    return digits != member and 1 <= len(digits) <= 16 and set(digits.lower()) <= set("0123456789abcdef")


def count_of(told: Any, key: str, most: int) -> int:
    """Return the number of HFIs, or of ports of each, that plain data of a host say; 1 where they say nonsense."""
    value = told.get(key, 1) if isinstance(told, Mapping) else 1
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most else 1
