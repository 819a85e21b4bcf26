"""The names of the hosts of a lab, as text for /etc/hosts. Sans-IO.

    h2           the address of h2 in the first virtual switch that the reader shares with it; IPv4 and IPv6, each its
    own h2.blue      its addresses in blue

The virtual switches are in the order of the VNICs of h2: those of the lab file, then those that an Ethernet Manager has
added. Each host reads its own file, because not all share a virtual switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hfi_sim.netdev.base import IpInterface

LOCALHOST: Final = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NO_ADDRESS: Final = "127.0.1.1"
"""A host without an address in any virtual switch; Debian gives it to the name of a machine without a fixed address."""


NamedVnic = tuple[str, tuple[IpInterface, ...]]
"""A virtual switch, and the addresses of one host in it."""


def hosts_text(reader: str, vnics: Mapping[str, Sequence[NamedVnic]], before: str = LOCALHOST) -> str:
    """Return what /etc/hosts says on a host.

    Args:  reader: the host. vnics: those of all hosts of the lab, in their order. before: the lines at its beginning.
    """
    shared = {vesw for vesw, _ in vnics.get(reader, ())}
    lines = [before.rstrip("\n"), f"# lab: what host {reader} calls the others"]
    for host, its in vnics.items():
        short = _short(its, shared)
        if host == reader and not short:
            short = {_NO_ADDRESS}
            lines.append(f"{_NO_ADDRESS} {host}")
        for vesw, addresses in its:
            for text in _texts(addresses):
                names = [host] if text in short else []
                if _NAME.fullmatch(vesw):  # a virtual switch that an EM has added may have any
                    names.append(f"{host}.{vesw}")
                if names:
                    lines.append(f"{text} {' '.join(names)}")
    return "\n".join(lines) + "\n"


def _short(vnics: Iterable[NamedVnic], shared: set[str]) -> set[str]:
    """Return the addresses that a host's bare name stands for: one of each version at most."""
    found: dict[int, str] = {}
    for _, addresses in sorted(
        vnics, key=lambda vnic: vnic[0] not in shared
    ):  # stable: else in their own order
        for address in addresses:
            found.setdefault(address.version, str(address.ip))
    return set(found.values())


def _texts(addresses: Iterable[IpInterface]) -> list[str]:
    return list(dict.fromkeys(str(address.ip) for address in addresses))
