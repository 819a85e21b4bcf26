"""Permanent neighbour entries: what hosts would find out of each other by ARP and neighbour discovery.

The kernel's tables have one limit for all network namespaces of the machine. Permanent entries do not count, so that a
large lab whose hosts all talk to each other takes nothing from others. The entries follow the addresses of the hosts.
What a lab lacks all the same because it is large, its notes say.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from ipaddress import IPv6Address
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.text import counted
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.neighbours import Address, NeighbourClient, NeighbourTable
from hfi_sim.netdev.tap import TapNetdev
from opavnic.lab.file.lab_sections import Vesw
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.world.host_backends.backend import HostBackend

log = logging.getLogger("opavnic.lab")

Table = Mapping[Address, MacAddr]
_UNIVERSAL = 0x02
"""The bit of the first octet of an address that an interface identifier has inverted (RFC 4291, appendix A)."""


class StaticNeighbours:
    """The entries of one lab."""

    def __init__(
        self,
        vnics: Callable[[], Iterable[HostVnic]],
        hosts: Mapping[str, HostBackend],
        vesws: Callable[[], Iterable[Vesw]],
    ) -> None:
        """Prepare; `refresh` sets the entries. Args: vnics, hosts, vesws: all of the lab, as they are then."""
        self._vnics = vnics
        self._hosts = hosts
        self._vesws = vesws
        self._tables: dict[int, Table] = {}
        self._given: dict[Netdev, int] = {}
        """The devices that have the entries of their virtual switch."""

    def refresh(self) -> None:
        """Give devices that are new all entries of their virtual switch, and the others what has changed."""
        link_local = {it.id: it.has_link_local for it in self._vesws() if it.neighbours == "static"}
        members: dict[int, list[tuple[str, TapNetdev]]] = {vesw_id: [] for vesw_id in link_local}
        for vnic in self._vnics() if link_local else ():
            vesw_id = 0 if vnic.adapter is None else vnic.adapter.vesw_id
            if vesw_id in members and isinstance(vnic.netdev, TapNetdev) and not vnic.netdev.moved_to:
                members[vesw_id].append((vnic.host, vnic.netdev))
        given: dict[Netdev, int] = {}
        for vesw_id, here in members.items():
            before, now = self._tables.get(vesw_id, {}), _table((one for _, one in here), link_local[vesw_id])
            self._tables[vesw_id] = now
            gone = [address for address in before if address not in now]
            new = {address: mac for address, mac in now.items() if before.get(address) != mac}
            for host, netdev in here:
                if self._given.get(netdev) == vesw_id:
                    self._give(host, netdev, gone, new)
                else:
                    self._give(host, netdev, [], now)
                given[netdev] = vesw_id
        self._given = given

    def _give(self, host: str, netdev: TapNetdev, gone: list[Address], new: Table) -> None:
        if not (gone or new):
            return
        try:
            with contextlib.closing(NeighbourClient(self._hosts[host].namespace)) as client:
                client.forget_permanent(netdev.ifindex, gone)
                client.set_permanent(netdev.ifindex, new)
        except NetdevError as error:
            log.warning("[%s] neighbours are not up to date: %s", host, error)


def _table(netdevs: Iterable[TapNetdev], link_local: bool) -> Table:
    """Return the addresses of devices; those that several have are left to ARP and neighbour discovery."""
    found = [
        (address, netdev.host_address) for netdev in netdevs for address in _addresses(netdev, link_local)
    ]
    times = Counter(address for address, _ in found)
    return {address: mac for address, mac in found if times[address] == 1}


def _addresses(netdev: TapNetdev, link_local: bool) -> Iterator[Address]:
    yield from (interface.ip for interface in netdev.ip_addresses)
    if link_local:
        yield link_local_address(netdev.host_address)


def link_local_address(mac: MacAddr) -> IPv6Address:
    """Return the link-local address that Linux gives an interface by default: that of its MAC address (EUI-64)."""
    identifier = bytes([mac[0] ^ _UNIVERSAL]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    return IPv6Address(b"\xfe\x80" + bytes(6) + identifier)


_SETTINGS: Final = "net.ipv{version}.neigh.default.gc_thresh{number}={value}"


def entries_needed(model: LabModel, kernels: Collection[str]) -> dict[int, int]:
    """Return the entries that a lab needs in the tables of IPv4 and of IPv6 when all of its hosts talk to each other.

    Args:  kernels: the hosts whose kernels share the tables of this machine.
    """
    needed = {4: 0, 6: 0}
    for vesw in model.vesws:
        here = sum(port.host in kernels for port in model.members_of(vesw))
        for version, entries in vesw.neighbour_entries.items() if vesw.neighbours == "kernel" else ():
            needed[version] += here * entries
    return needed


def limits_of_size(model: LabModel, kernels: Collection[str]) -> list[str]:
    """Return what a lab with TAPs does not have on this machine because of its size, a line each."""
    said = [
        f"{vesw.name} has {counted(len(vesw.members), 'member')}: they get no IPv6 link-local addresses "
        "(`link_local: true` gives them)"
        for vesw in model.vesws
        if vesw.link_local == "auto" and not vesw.has_link_local
    ]
    with contextlib.suppress(NetdevError), contextlib.closing(NeighbourClient()) as client:
        said += filter(None, [too_small(model, kernels, client.tables())])
    return said


def too_small(model: LabModel, kernels: Collection[str], tables: Mapping[int, NeighbourTable]) -> str:
    """Return which limits are too low for a lab and what to set, in one line; an empty string if none is.

    Args:  kernels: as for `entries_needed`. tables: those of the machine, by IP version.
    """
    needed = entries_needed(model, kernels)
    short = {version: table for version, table in tables.items() if needed[version] > table.hard_limit}
    if not short:
        return ""
    limits = ", ".join(f"IPv{version} {table.hard_limit}" for version, table in short.items())
    settings = []
    for version, table in short.items():
        soft = 1 << (needed[version] + table.entries - 1).bit_length()
        settings += [
            _SETTINGS.format(version=version, number=number, value=value)
            for number, value in ((2, soft), (3, 2 * soft))
        ]
    return (
        f"{counted(len(kernels), 'host')} that all talk to each other need {max(needed[it] for it in short)} neighbour "
        f"entries; this machine holds fewer, for all network namespaces together ({limits}), and refuses "
        f"packets beyond that: let the virtual switch have `neighbours: static`, or sysctl -w {' '.join(settings)}"
    )
