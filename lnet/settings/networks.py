"""The `networks` module parameter: `o2ib0(ib0,ib2),o2ib1(ib1,ib3)`, each network one group of interfaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from lnet.base.errors import NidError
from lnet.base.nid import Net

LNET_MAX_INTERFACES: Final = 16
"""Maximum number of interfaces in a group, and of addresses in a target."""

DEFAULT_INTERFACE: Final = "ib0"
"""Interface of a network without a list of interfaces, as in o2iblnd."""

_ITEM: Final = re.compile(r"\s*([A-Za-z0-9]+)\s*(\(([^()]*)\))?\s*(\[[^\[\]()]*\])?\s*(,|$)")
_NAME: Final = re.compile(r"\s*([^\s\[\]]*)\s*(\[[^\[\]]*\])?\s*")
_COMMA: Final = re.compile(r",(?![^\[]*\])")
_BETWEEN: Final = re.compile(r"[,\s]+(?![^\[]*\])")
_CPTS: Final = re.compile(r"\[(\d{1,3}(?:-\d{1,3})?(?:\s*,\s*\d{1,3}(?:-\d{1,3})?)*)?\]", re.ASCII)
_CPT: Final = re.compile(r"\d{1,3}", re.ASCII)
_INTERFACE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,31}")


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

    @classmethod
    def of(
        cls,
        net: Net,
        interfaces: Sequence[str],
        *,
        bonding: Bonding = Bonding.O2IBS,
        tunables: tuple[tuple[str, int], ...] = (),
        cpts: tuple[int, ...] | None = None,
    ) -> Self:
        """Return a group whose interfaces may have CPU partitions: ib0[0,1]; `cpts` are those of the network itself.

        Raises:  NidError: a malformed name or set of CPU partitions.
        """
        names, every = [], dict.fromkeys(cpts or ())
        for text in interfaces:
            match = _NAME.fullmatch(text)
            names.append(match[1] if match is not None else text)
            if match is not None and match[2]:
                every |= dict.fromkeys(parse_cpts(match[2]))
        return cls(net, tuple(names), bonding, tunables, tuple(every) or cpts)

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
        names = _COMMA.split(match[3]) if match[2] else [DEFAULT_INTERFACE]
        if any(group.net == net for group in groups):
            raise NidError(f"networks {text!r}: {net} appears twice")
        groups.append(NetworkGroup.of(net, names, cpts=parse_cpts(match[4]) if match[4] else None))
        at = match.end()
        more = match[5] == ","
    return groups


def split_list(text: str) -> list[str]:
    """Divide a list at commas and blanks, except for those within the brackets of a range or of CPU partitions."""
    return [word for word in _BETWEEN.split(text) if word]


def parse_cpts(text: str) -> tuple[int, ...]:
    """Read a set of CPU partitions: [0,2-5], or the number of one: 0. Raises: NidError: anything else."""
    if _CPT.fullmatch(text.strip()):
        return (int(text),)
    match = _CPTS.fullmatch(text.strip())
    if match is None:
        raise NidError(f"{text.strip()[:40]!r} is not a set of CPU partitions such as [0,1]")
    numbers: dict[int, None] = {}
    for part in (match[1] or "").split(","):
        low, dash, high = part.strip().partition("-")
        if low:
            numbers.update(dict.fromkeys(range(int(low), int(high if dash else low) + 1)))
    return tuple(numbers)
