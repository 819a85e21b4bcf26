"""The `networks` module parameter: `o2ib0(ib0,ib2),o2ib1(ib1,ib3)`, each network one group of interfaces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lnet.base.errors import NidError
from lnet.base.nid import Net

LNET_MAX_INTERFACES: Final = 16
"""Maximum number of interfaces in a group, and of addresses in a target."""

DEFAULT_INTERFACE: Final = "ib0"
"""Interface of a network without a list of interfaces, as in o2iblnd."""

_ITEM = re.compile(r"\s*([A-Za-z0-9]+)\s*(\(([^()]*)\))?\s*(,|$)")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,31}")


class Bonding(StrEnum):
    """How a network uses several devices."""

    O2IBS = "o2ibs"
    """Channel bonding: one NID for all of them."""
    MULTI_RAIL = "multi-rail"
    """A NID for each of them."""


@dataclass(frozen=True, slots=True)
class NetworkGroup:
    """A logical network interface group: a network and its interfaces, in order."""

    net: Net
    interfaces: tuple[str, ...]
    bonding: Bonding = Bonding.O2IBS
    tunables: tuple[tuple[str, int], ...] = ()
    """Tunables that are given: name and value, unchecked."""
    cpts: tuple[int, ...] | None = None
    """CPU partitions, if they are given."""

    def __post_init__(self) -> None:
        names = self.interfaces
        if not names:
            raise NidError(f"{self.net} has no interface")
        if len(names) > LNET_MAX_INTERFACES:
            raise NidError(f"{self.net} has {len(names)} interfaces; {LNET_MAX_INTERFACES} are allowed")
        for name in names:
            if not _INTERFACE.fullmatch(name):
                raise NidError(f"{name!r} in {self.net} is not an interface name such as ib0")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise NidError(f"interface {twice} appears twice in {self.net}")

    def __str__(self) -> str:
        return f"{self.net}({','.join(self.interfaces)})"


def parse_networks(text: str) -> list[NetworkGroup]:
    """Read the module parameter.

    Raises:  NidError: a syntax error (with its position), an unknown network, or a network that appears twice.
    """
    groups: list[NetworkGroup] = []
    at = 0
    more = bool(text.strip())
    while more:
        match = _ITEM.match(text, at)
        if match is None:
            raise NidError(f"networks {text!r}: expected NET(IF,IF) at {text[at:]!r}")
        net = Net.parse(match[1])
        names = match[3].split(",") if match[2] else [DEFAULT_INTERFACE]
        if any(group.net == net for group in groups):
            raise NidError(f"networks {text!r}: {net} appears twice")
        groups.append(NetworkGroup(net, tuple(name.strip() for name in names)))
        at = match.end()
        more = match[4] == ","
    return groups
