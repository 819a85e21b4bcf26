"""The numbers, GUIDs and LIDs of hosts that come and go: a host that comes back has what it had."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Set
from typing import Any

from hfi_sim.base.kept_numbers import Remembered
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology.explicit import hfi_names
from opavnic.lab.file.host_setup import host_numbers
from opavnic.lab.file.members import Membership
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.sections import LabData


class HostNumbers:
    """Which number a new host of a running lab gets."""

    def __init__(self) -> None:
        self._gone: Remembered[str, int] = Remembered()

    def keep(self, host: str, number: int) -> None:
        """Keep the number of a host that goes for it."""
        self._gone.keep(host, number)

    def choose(self, host: str, data: LabData, used: Set[int] = frozenset()) -> int:
        """Return the number of a new host: the one that it had, else one more than all others, of those not kept.

        Where the subnets have no room for that, the number of the host that left first is kept no longer.

        Args:  used: further numbers that no host can have: see `used_numbers`.
        """
        there = set(host_numbers(data["hosts"]).values())
        before = self._gone.get(host)
        if before is not None and before not in there | used:
            return before
        most = _room(data)
        while True:
            taken = there | used | set(self._gone.values())
            number = max(there, default=0) + 1
            while number in taken:
                number += 1
            if number <= most:
                return number
            free = next((low for low in range(1, most + 1) if low not in taken), None)
            if free is not None:
                return free
            if self._gone.forget_oldest() is None:
                return number  # the subnets are full, which the check of the file says


class VportNumbers:
    """The numbers of vports that are gone: a member that comes back has the same one, if that is free."""

    def __init__(self) -> None:
        self._gone: Remembered[Membership, int] = Remembered()

    def keep(self, before: Mapping[Membership, int], after: Mapping[Membership, int]) -> None:
        """Keep the numbers of members that leave for them."""
        for membership, number in before.items():
            if membership not in after:
                self._gone.keep(membership, number)

    def again(self, members: Iterable[Membership], given: Mapping[Membership, int]) -> dict[Membership, int]:
        """Return the numbers of members that come back. Args:  given: those that others have, or are to have."""
        taken = {(port, number) for (_, port), number in given.items()}
        found: dict[Membership, int] = {}
        for membership in members:
            number = self._gone.get(membership)
            if number is not None and membership not in given and (membership[1], number) not in taken:
                found[membership] = number
                taken.add((membership[1], number))
        return found


def used_numbers(model: LabModel) -> set[int]:
    """Return the numbers whose addresses VNICs have, as hosts do and the second rails of others."""
    every = (address for addresses in model.vnic_addresses.values() for address in addresses)
    return {int(address.ip) - int(address.network.network_address) for address in every}


def _room(data: LabData) -> int:
    """Return the highest number of a host that every subnet has an address for."""
    subnets = [
        ipaddress.ip_network(subnet)
        for vesw in data.get("vesws") or ()
        for subnet in _listed(vesw.get("subnet"))
    ]
    return min((subnet.num_addresses - 2 for subnet in subnets), default=1 << 24)


def _listed(value: Any) -> Iterable[str]:
    return () if not value else (value,) if isinstance(value, str) else map(str, value)


def with_addresses_of(before: LabModel, after: LabModel, data: LabData) -> LabData:
    """Return data in which what stays keeps its addresses: those of second rails depend on the other hosts.

    Args:  after: the model of `data`.
    """
    had = before.vnic_addresses
    hosts = dict(data["hosts"])
    for (host, title), addresses in after.vnic_addresses.items():
        kept = had.get((host, title), addresses)
        told = title in before.hosts[host].addresses if host in before.hosts else False
        if kept != addresses and title not in after.hosts[host].addresses and not told:
            own = dict(hosts[host] or {})
            own["addresses"] = {**(own.get("addresses") or {}), title: [*map(str, kept)]}
            hosts[host] = own
    return data if hosts == data["hosts"] else {**data, "hosts": hosts}


def with_ids_of(running: LabData, wanted: LabData, fabric: Fabric) -> LabData:
    """Return the data of a file whose hosts say of GUIDs and LIDs what the running lab's say.

    Only where the file says what the fabric has, or nothing: another GUID or LID stays, as a difference.
    """
    hosts: LabData = {}
    for name, section in wanted["hosts"].items():
        own = dict(section or {})
        if name in running["hosts"] and _is_had(name, own, fabric):
            before = running["hosts"][name] or {}
            own = {key: value for key, value in own.items() if key not in ("guid", "lid")}
            own |= {key: before[key] for key in ("guid", "lid") if key in before}
        hosts[name] = own
    return {**wanted, "hosts": hosts}


def _is_had(host: str, section: Mapping[str, Any], fabric: Fabric) -> bool:
    """Return whether a fabric has the GUIDs and LIDs that a host is to have."""
    hfis = [fabric.hfis[name] for name in hfi_names(host, section.get("hfis", 1)) if name in fabric.hfis]
    lids = [port.lid for hfi in hfis for port in hfi.ports.values()]
    guids = zip(_numbers(section.get("guid")), hfis, strict=False)
    return all(told == hfi.node_guid for told, hfi in guids) and all(
        told in (0, lid) for told, lid in zip(_numbers(section.get("lid")), lids, strict=False)
    )


def _numbers(value: Any) -> Iterable[int]:
    return () if value is None else value if isinstance(value, list | tuple) else (value,)
