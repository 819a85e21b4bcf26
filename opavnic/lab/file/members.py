"""What the members of a virtual switch name: ports of hosts.

h2       the first port of a host         h2.2     the first port of an HFI
h2.2:1   a port                           0x...    a port by its GUID
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hfi_sim.fabric.topology.explicit import hfi_names
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX, interface_name
from vema.base.sections import parse_subnets
from vema.em.desired.problems import Problem


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
            for hfi in hfi_names(str(host), _number(told, "hfis", 16)):
                for number in range(1, _number(told, "ports", 2) + 1):
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


def is_guid(member: str) -> bool:
    """Return whether a member is the GUID of a port: 0x and up to 16 hexadecimal digits."""
    digits = member.removeprefix("0x")
    return digits != member and 1 <= len(digits) <= 16 and set(digits.lower()) <= set("0123456789abcdef")


def _number(told: Any, key: str, most: int) -> int:
    value = told.get(key, 1) if isinstance(told, Mapping) else 1
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most else 1
