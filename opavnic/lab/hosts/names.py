"""The names of the hosts of a lab, as text for /etc/hosts. Sans-IO.

    h2           the address of h2 in the first virtual switch that the reader shares with it; IPv4 and IPv6, each its
    own h2.blue      its addresses in blue

The virtual switches are in the order of the VNICs of h2: those of the lab file, then those that an Ethernet Manager has
added. Each host reads its own file, because not all share a virtual switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from hfi_sim.netdev.base import IpInterface

LOCALHOST: Final = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NO_ADDRESS: Final = "127.0.1.1"
"""A host without an address in any virtual switch; Debian gives it to the name of a machine without a fixed address."""


NamedVnic = tuple[str, tuple[IpInterface, ...]]
"""A virtual switch, and the addresses of one host in it."""


class HostNames:
    """What the hosts of a lab are called at one moment.

    Hosts on the same virtual switches call the others alike: what they read is made once for all of them.
    """

    def __init__(self, vnics: Mapping[str, Sequence[NamedVnic]]) -> None:
        """Take the VNICs of all hosts of the lab, in their order."""
        self._vnics = vnics
        self._lines: dict[frozenset[str], str] = {}
        self._texts = {
            host: [(vesw, address.version, str(address.ip)) for vesw, found in its for address in found]
            for host, its in vnics.items()
        }

    def text(self, reader: str, before: str = LOCALHOST) -> str:
        """Return what /etc/hosts says on a host.

        Args:  before: the lines at its beginning.
        """
        shared = frozenset(vesw for vesw, _ in self._vnics.get(reader, ()))
        if shared not in self._lines:
            self._lines[shared] = "".join(self._lines_of(host, shared) for host in self._vnics)
        own = "" if self._texts.get(reader) else f"{_NO_ADDRESS} {reader}\n"
        head = before.rstrip("\n")
        return f"{head}\n# lab: what host {reader} calls the others\n{own}{self._lines[shared]}"

    def _lines_of(self, host: str, shared: Set[str]) -> str:
        its = self._texts[host]
        short = _short(its, shared)
        lines: dict[str, None] = {}
        for vesw, _, text in its:
            names = [host] if text in short else []
            if _NAME.fullmatch(vesw):  # a virtual switch that an EM has added may have any
                names.append(f"{host}.{vesw}")
            if names:
                lines[f"{text} {' '.join(names)}\n"] = None
        return "".join(lines)


def _short(addresses: Iterable[tuple[str, int, str]], shared: Set[str]) -> set[str]:
    """Return the addresses that a host's bare name stands for: one of each version at most."""
    found: dict[int, str] = {}
    for _, version, text in sorted(
        addresses, key=lambda address: address[0] not in shared
    ):  # stable: else in their own order
        found.setdefault(version, text)
    return set(found.values())
