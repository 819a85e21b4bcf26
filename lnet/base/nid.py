"""Network IDs (NIDs): `10.1.1.2@o2ib1`, an IPv4 address on a network.

On the wire a NID is 64 bits: network type (16), network number (16), address (32).
`o2ib` and `o2ib0` are the same network. Both are read; `o2ib` is printed, because Lustre prints no number 0.
Source: seed 004; the public lnet_nid_t, LNET_MKNID, the numbers of the network types, libcfs_net2str, libcfs_nid2str.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import AddressValueError, IPv4Address
from itertools import product
from math import prod
from typing import Self

from lnet.base.errors import NidError


class NetType(IntEnum):
    """Network types with their numbers on the wire and their names. Only o2ib is supported; NIDs of the others, and of
    types without a name, are read from the wire and printed as Lustre prints them."""

    TCP = 2
    O2IB = 5
    LO = 9
    GNI = 13
    GIP = 14
    PTLF = 15
    KFI = 16
    EFA = 18
    BXI3F = 19


_DECIMAL = frozenset({NetType.LO, NetType.GNI, NetType.PTLF, NetType.KFI, NetType.BXI3F})
"""Types whose addresses are printed as a number."""
_TYPES = {kind.name.lower(): kind for kind in NetType}
_NET = re.compile(rf"({'|'.join(_TYPES)})(\d{{0,9}})", re.ASCII)

_RANGED = re.compile(r"\[([^]]*)\]")
_NUMBERS = re.compile(r"(\d{1,3})(?:-(\d{1,3})(?:/(\d{1,3}))?)?", re.ASCII)
_ANY = (1 << 64) - 1
"""LNET_NID_ANY."""
MAX_RANGE = 128
"""The most NIDs that a range stands for (LNET_MAX_NIDS_PER_PEER)."""


@dataclass(frozen=True, slots=True, order=True)
class Net:
    """One network: its type (16 bits, a `NetType` if it has a name), and its number (16 bits)."""

    kind: int
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `o2ib0` or `o2ib`. Raises: NidError: not a network, or not of type o2ib."""
        match = _NET.fullmatch(text.strip())
        if match is None:
            raise NidError(f"{text!r} is not a network such as o2ib")
        if _TYPES[match[1]] is not NetType.O2IB:
            raise NidError(
                f"network {text.strip()!r} is not supported, only o2ib networks such as o2ib{match[2]}"
            )
        number = int(match[2] or 0)
        if number > 0xFFFF:
            raise NidError(f"network number {number} in {text!r} does not fit 16 bits")
        return cls(_TYPES[match[1]], number)

    def __str__(self) -> str:
        if self.kind not in set(NetType):
            return f"<{self.kind}:{self.number}>"
        return f"{NetType(self.kind).name.lower()}{self.number or ''}"


@dataclass(frozen=True, slots=True, order=True)
class Nid:
    """One NID: a network, and an address on it."""

    net: Net
    addr: IPv4Address

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `10.1.1.2@o2ib0`. Raises: NidError: not a NID."""
        addr, at, net = text.strip().partition("@")
        if not at:
            raise NidError(f"{text!r} is not a NID: it has no network, as in {text.strip()}@o2ib")
        try:
            return cls(Net.parse(net), parse_addr(addr))
        except NidError as error:
            raise NidError(f"{text!r} is not a NID: {error}") from None

    @classmethod
    def from_wire(cls, value: int) -> Self:
        """Read the 64-bit form of any network type."""
        kind = value >> 48 & 0xFFFF
        named = NetType(kind) if kind in set(NetType) else kind
        return cls(Net(named, value >> 32 & 0xFFFF), IPv4Address(value & 0xFFFFFFFF))

    @property
    def wire(self) -> int:
        """The 64-bit form."""
        return self.net.kind << 48 | self.net.number << 32 | int(self.addr)

    def __str__(self) -> str:
        if self.wire == _ANY:
            return "<?>"
        if self.net.kind not in set(NetType):
            return f"{int(self.addr):x}@{self.net}"
        return f"{int(self.addr) if self.net.kind in _DECIMAL else self.addr}@{self.net}"


def is_other_net(text: str) -> bool:
    """Return whether a text names a network of a kind that is not built here, such as tcp1 or kfi."""
    match = _NET.fullmatch(text.strip())
    return match is not None and _TYPES[match[1]] is not NetType.O2IB


def parse_nids(text: str) -> list[Nid]:
    """Read a NID, or a range of NIDs: `10.1.1.[2-5,9]@o2ib0`, `10.1.[1-2].[1-9/2]@o2ib0`.

    Raises:  NidError: not such a range, or more than 128 NIDs.
    """
    addr, at, net = text.strip().partition("@")
    if "[" not in addr:
        return [Nid.parse(text)]
    parts = _RANGED.split(addr)
    places = [_numbers(part, text) if index % 2 else [part] for index, part in enumerate(parts)]
    count = prod(len(place) for place in places)
    if count > MAX_RANGE:
        raise NidError(f"{text!r} has {count} NIDs, more than {MAX_RANGE}")
    return [Nid.parse("".join(map(str, chosen)) + at + net) for chosen in product(*places)]


def _numbers(text: str, whole: str) -> list[str]:
    found: dict[str, None] = {}
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or low > high or match[3] == "0":
            raise NidError(f"{whole!r}: [{text}] is not a range of numbers such as [1-4,9]")
        found.update(dict.fromkeys(map(str, range(low, high + 1, int(match[3] or 1)))))
    return list(found)


def parse_addr(text: str) -> IPv4Address:
    """Read an IPv4 address. Raises: NidError: not an IPv4 address."""
    try:
        return IPv4Address(text.strip())
    except AddressValueError:
        raise NidError(f"{text.strip()!r} is not an IPv4 address such as 10.1.1.2") from None
