"""The subnets of virtual switches in a file: they must not overlap, and hosts must be able to have addresses there."""

from __future__ import annotations

import ipaddress
from bisect import bisect_left, insort
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hfi_sim.base.types import ETH_MTU_DEFAULT
from vema.base.sections import Subnet, parse_subnet
from vema.em.desired.problems import KeyPath, Problem, vesw_text

IPV6_MTU_MIN: Final = 1280
"""RFC 8200, section 5: Linux disables IPv6 on an interface with a lower MTU."""

_NOT_FOR_HOSTS: Final[dict[Subnet, str]] = {
    ipaddress.ip_network("0.0.0.0/8"): 'reserved for "this host on this network"',
    ipaddress.ip_network("127.0.0.0/8"): "loopback",
    ipaddress.ip_network("224.0.0.0/4"): "multicast",
    ipaddress.ip_network("240.0.0.0/4"): "reserved",
    ipaddress.ip_network("::/127"): "loopback",
    ipaddress.ip_network("ff00::/8"): "multicast",
    ipaddress.ip_network("fe80::/10"): "link-local, where kernels choose addresses themselves",
}


def subnets_in(vesw: Mapping[str, Any]) -> dict[KeyPath, Subnet]:
    """Return the valid subnets of a virtual switch in plain data, by their paths from there."""
    said = vesw.get("subnet")
    listed = list(said) if isinstance(said, list | tuple) else [said]
    found: dict[KeyPath, Subnet] = {}
    for at, value in enumerate(listed):
        with suppress(ValueError):
            found[("subnet",) if len(listed) == 1 else ("subnet", at)] = parse_subnet(value)
    return found


def subnet_problems(
    entries: list[tuple[int, dict[str, Any]]], hosts: int = 0, highest: int = 0, last: str = ""
) -> list[Problem]:
    """Return what is wrong with the subnets of virtual switches, in plain data.

    Args:  entries: the virtual switches with their indices. hosts: how many need an address in each; 0: not known.
           highest: the number of the last of these addresses. last: the host that has it.
    """
    subnets: list[Subnet] = []
    paths: list[KeyPath] = []
    owners: list[str] = []
    mtus = []
    for index, vesw in entries:
        for path, subnet in subnets_in(vesw).items():
            subnets.append(subnet)
            paths.append(("vesws", index, *path))
            owners.append(vesw_text(index, vesw))
            mtus.append(vesw.get("mtu", ETH_MTU_DEFAULT))
    overlapping = overlaps(dict(enumerate(subnets)))
    problems = []
    for number, (subnet, path, mtu) in enumerate(zip(subnets, paths, mtus, strict=True)):
        if (other := overlapping.get(number)) is not None:
            problems.append(Problem(path, f"{subnet} overlaps {subnets[other]} of {owners[other]}"))
        if subnet.num_addresses < highest + 2:
            who = (
                f"{hosts or 'any'} hosts" if highest <= hosts else f'host "{last}", whose number is {highest}'
            )
            problems.append(Problem(path, f"{subnet} has too few addresses for {who}"))
        problems += [Problem(path, text) for text in _unfit(subnet, mtu)[:1]]
    return problems


def overlaps(subnets: Mapping[int, Subnet]) -> dict[int, int]:
    """Return, for each subnet that overlaps an earlier one in the file, the index of such an earlier one.

    If two subnets overlap, one contains the other. So each subnet is checked for an earlier one that contains it, by
    lookup of all its supernets, and for an earlier one inside it, by binary search for its first address.
    """
    found: dict[int, int] = {}
    taken: dict[tuple[int, int, int], int] = {}
    starts: list[tuple[int, int, int]] = []
    for index, subnet in subnets.items():
        version, first, last = subnet.version, int(subnet.network_address), int(subnet.broadcast_address)
        around = ((version, first & -1 << bits, bits) for bits in range(subnet.max_prefixlen + 1))
        other = next((taken[key] for key in around if key in taken), None)
        if other is None:
            after = bisect_left(starts, (version, first, 0))
            if after < len(starts) and starts[after][:2] <= (version, last):
                other = taken[starts[after]]
        if other is not None:
            found[index] = other
        key = (version, first, subnet.max_prefixlen - subnet.prefixlen)
        if key not in taken:
            taken[key] = index
            insort(starts, key)
    return found


def _unfit(subnet: Subnet, mtu: object) -> list[str]:
    """Return why no host can have an address in a subnet."""
    found = [
        f"{subnet} is {what}: hosts cannot have addresses there"
        for network, what in _NOT_FOR_HOSTS.items()
        if network.version == subnet.version and subnet.overlaps(network)
    ]
    if subnet.version == 6 and isinstance(mtu, int) and mtu < IPV6_MTU_MIN:
        found.append(f"{subnet} is IPv6, which needs an MTU of at least {IPV6_MTU_MIN}; it is {mtu} here")
    return found
