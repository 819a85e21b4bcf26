"""Sections of a lab file beside that of the fabric: hosts, virtual switches, managers, datapath, apps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from hfi_sim.base.text import nearest
from hfi_sim.base.types import ETH_MTU_DEFAULT, ETH_MTU_MAX, ETH_MTU_MIN
from hfi_sim.netdev.base import IpInterface
from opavnic.datapath.selection import EngineWanted
from opavnic.lab.file.guest_model import GuestKeys
from opavnic.lab.file.host_setup import EVERY_KERNEL_HAS, LOOPBACK, OF_INTERFACE, HostSetup, IpAddress
from opavnic.lab.file.members import HfiKeys
from opavnic.lab.file.sections import MEMBERS_SCHEMA, InterfaceName, Schema
from opavnic.world.host_backends.given import interface_name
from vema.base.sections import PartitionKey, Section, Subnet
from vema.em.desired.desired import VeswSection
from vema.em.desired.problems import KeyPath, Problem

MAX_WORKERS: Final = 256


def _or_word(value: object, kind: type[Section], key: str, expected: str) -> object:
    """Return a section as a mapping; a file may give one word in its place, the value of `key`. Raises ValueError."""
    if value is None:
        return {}
    if not isinstance(value, str | dict | kind):
        raise ValueError(f"should be {expected}, not {value!r:.60}")
    return {key: value} if isinstance(value, str) else value


def em_section(value: object) -> object:
    """Return the section `em` as a mapping. Raises ValueError: it is neither that nor a word."""
    value = "off" if value is False else value  # YAML 1.1 reads `off` as false
    return _or_word(value, Em, "mode", "builtin, external, off, or a mapping with keys such as mode and mac")


def subnet_manager_section(value: object) -> object:
    """Return the section `subnet_manager` as a mapping. Raises ValueError: it is neither that nor a word."""
    return _or_word(value, SubnetManagement, "mode", "builtin, external, or a mapping with the key mode")


def datapath_section(value: object) -> object:
    """Return the section `datapath` as a mapping. Raises ValueError: it is neither that nor a word."""
    expected = "auto, python, native, or a mapping with the keys engine, workers and merge_udp"
    return _or_word(value, Datapath, "engine", expected)


def _workers(value: object) -> object:
    if value == "auto" or (
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WORKERS
    ):
        return value
    raise ValueError(f"should be auto or a number from 1 to {MAX_WORKERS}, not {value!r:.60}")


class Host(HfiKeys, HostSetup, GuestKeys):
    """One machine with HFIs: a network namespace of the lab's own, or something that was there before."""

    may_manage: Annotated[bool, Field(strict=True)] | None = None
    """Whether its programs may manage the fabric: its ports are full members of the management partition (0xffff).

    Fabric managers and most tools of Omni-Path need that. Where no host says that it may, every host may with
    `subnet_manager: external`, and the first one, as the head node of a rack, otherwise.
    """


class Em(Section):
    """How the VNICs are configured."""

    mode: Annotated[
        Literal["builtin", "external", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML 1.1 reads `off` as false
    ] = "builtin"
    """builtin: by the lab's own Ethernet Manager; external: by one of yours, over mad.sock; off: not at all."""
    mac: Literal["locally-administered", "learn"] = "locally-administered"
    """How members find each other: by the LIDs in their MAC addresses, or by MAC tables of learned addresses."""
    sets_need_full_member: Annotated[bool, Field(strict=True)] = True
    """Agents refuse Sets from ports that are not full members of the management partition, and Gets from outside it.
    The driver refuses neither."""


class SubnetManagement(Section):
    """The subnet manager that brings the fabric up: it gives LIDs, P_Keys and routes, and activates ports."""

    mode: Literal["builtin", "external"] = "builtin"
    """builtin: the lab's own subnet manager; external: a fabric manager such as opafmd that you start on a host."""


class IcrcModel(Section):
    """The ICRC of packets."""

    polynomial: Annotated[int, Field(strict=True, ge=1, le=0xFFFFFFFF)] = 0x04C11DB7
    """CRC-32 polynomial in normal notation; the default is that of the IBA."""
    links: Literal["auto", "always"] = "auto"
    """auto: the native datapath computes the ICRC of a packet where it can be seen or can matter; always: of each."""


class Datapath(Section):
    """What carries the packets."""

    engine: EngineWanted = "auto"
    """auto: native where it can be had, else python."""
    workers: Annotated[
        int | Literal["auto"],
        BeforeValidator(_workers),
        WithJsonSchema(
            {"anyOf": [{"enum": ["auto"]}, {"type": "integer", "minimum": 1, "maximum": MAX_WORKERS}]}
        ),
    ] = "auto"
    """Threads that carry packets; auto: one for every four processors, at most one for each host, at least one.

    The engine in Python has one. If that is fewer, the lab runs and `opavnic status` says so.
    """
    merge_udp: Annotated[bool, Field(strict=True)] = False
    """Merge datagrams of a flow that arrive together, as `ethtool -K NAME rx-udp-gro-forwarding on` in each host does.

    Faster, but programs that capture, filter or forward in a host see the merged datagrams. The engine in Python merges
    nothing.
    """


class AppModel(Section):
    """An app that runs in the lab's own process on a host, which then has neither TAPs nor a namespace."""

    kind: str
    """The name of an installed part, such as ejfat-lb."""
    host: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Options defined by the part."""


# --- what of hosts cannot work -----------------------------------------------------------------------------


def reach_problems(
    hosts: Mapping[str, Host],
    subnets: dict[str, tuple[Subnet, ...]],
    addresses: Callable[[], Mapping[tuple[str, str], Iterable[IpInterface]]],
    *,
    has_uplinks: bool,
) -> Iterator[Problem]:
    """Yield what of the setup of hosts cannot work, on any virtual switch that they may join.

    Args:  subnets: of each virtual switch. addresses: returns those of all VNICs, by host and name.
    """
    own: dict[str, set[IpAddress]] = {}
    if any(host.routes for host in hosts.values()):
        for (name, _), its in addresses().items():
            own.setdefault(name, set()).update(address.ip for address in its)
    for name, host in hosts.items():
        path: KeyPath = ("hosts", name)
        if host.addresses:
            yield from _outside(path, host, subnets)
        if host.routes:
            yield from _unreachable(path, host, None if has_uplinks else subnets, own.get(name, set()))
        if host.sysctls and not host.exec and not has_uplinks and host.is_apart:
            yield from _of_no_interface(path, host, list(subnets))


def _outside(path: KeyPath, host: Host, subnets: dict[str, tuple[Subnet, ...]]) -> Iterator[Problem]:
    for title, addresses in host.addresses.items():
        base, _, nth = title.rpartition("-")
        its = subnets.get(title) or (subnets.get(base, ()) if nth.isdigit() else ())
        for version in (4, 6):
            here = [address for address in addresses if address.version == version]
            within = [subnet for subnet in its if subnet.version == version]
            if here and within and not any(address.ip in subnet for address in here for subnet in within):
                text = f"{here[0]} is outside of {within[0]}, the subnet of {title}: no other host would reach it"
                yield Problem((*path, "addresses", title), text)
        if title != LOOPBACK and (own := next((one for one in addresses if one.ip.is_loopback), None)):
            yield Problem((*path, "addresses", title), f"{own} is loopback: it belongs under {LOOPBACK}")


def _unreachable(
    path: KeyPath, host: Host, subnets: dict[str, tuple[Subnet, ...]] | None, own: set[IpAddress]
) -> Iterator[Problem]:
    """Yield routes that appear twice, and those by gateways that are on no network of a host, or are the host.

    Args:  subnets: None: there are others, behind uplinks.
    """
    seen = set()
    for index, route in enumerate(host.routes):
        here = (*path, "routes", index)
        if (way := (route.destination, route.metric)) in seen:
            yield Problem(
                here, f"a route to {str(route).split()[0]} appears twice: give one of them another metric"
            )
        seen.add(way)
        if gateway := next((one for one in route.via if one in own), None):
            yield Problem(here, f"the gateway {gateway} is the host itself")
    if subnets is None or not all(subnets.values()):
        return  # what addresses there will be is not known
    links = [subnet for its in subnets.values() for subnet in its]
    links += [address.network for given in host.addresses.values() for address in given]
    links += [route.destination for route in host.routes if not route.via]
    for index, route in enumerate(host.routes):
        for gateway in route.via:
            if not gateway.is_link_local and not any(gateway in link for link in links):
                text = f"no virtual switch leads to the gateway {gateway}: it is in none of their subnets"
                yield Problem((*path, "routes", index), text)


def _of_no_interface(path: KeyPath, host: Host, vesws: list[str]) -> Iterator[Problem]:
    """Yield sysctls of interfaces that nothing makes."""
    known = [*vesws, *EVERY_KERNEL_HAS]
    for key in host.sysctls:
        found = OF_INTERFACE.fullmatch(key)
        if found is None or found[1] in known or found[1] in host.addresses:
            continue
        base, _, nth = found[1].rpartition("-")
        if not (base in vesws and nth.isdigit() and interface_name(base, 1)):
            text = f'no interface "{found[1]}" will be there ({nearest(found[1], known)})'
            yield Problem((*path, "sysctls", key), text)


MANY_MEMBERS: Final = 256
"""Members of a virtual switch beyond which its VNICs get no IPv6 link-local addresses unless they are asked for."""
MAX_STATIC_ENTRIES: Final = 1 << 20
"""Static neighbours of a virtual switch: those of 1000 hosts, in half a GiB of the kernel's memory."""


def _check_members(members: list[str]) -> list[str]:
    if not members:
        raise ValueError("a virtual switch without members carries nothing: list its hosts")
    return members


class Vesw(VeswSection):
    """One virtual Ethernet switch and its members: what an EM file knows of it, and its addresses on hosts."""

    name: InterfaceName
    """Also the name of its interface on every member."""
    pkey: PartitionKey = 0x8001
    """The partition of its members. 0xffff is the management partition: its members may configure every agent."""
    mtu: Annotated[int, Field(strict=True, ge=ETH_MTU_MIN, le=ETH_MTU_MAX)] = ETH_MTU_DEFAULT
    """Bytes of Ethernet payload."""
    members: Annotated[list[str], AfterValidator(_check_members), Schema(MEMBERS_SCHEMA)]
    """`all` hosts, or names: a host (the first port of its first HFI), an HFI (`h1.2`: its first port), HFI:PORT
    (`h1.2:1`), or the GUID of a port (0x...); or ranges of names: `h[1-16]`. A host may be there by several ports."""
    link_local: Annotated[bool, Field(strict=True)] | Literal["auto"] = "auto"
    """Whether kernels give its VNICs IPv6 link-local addresses; each one is announced to all members several times.
    auto: in a virtual switch of at most 256 members, or with an IPv6 subnet."""
    neighbours: Literal["kernel", "static"] = "kernel"
    """How hosts learn each other's MAC addresses. kernel: by ARP and neighbour discovery; static: each has permanent
    entries for all others from the start, half a KiB each, which do not count in the kernel's limit."""

    @property
    def has_link_local(self) -> bool:
        """Whether kernels give its VNICs IPv6 link-local addresses."""
        if self.link_local != "auto":
            return self.link_local
        return len(self.members) <= MANY_MEMBERS or any(subnet.version == 6 for subnet in self.subnet)

    @property
    def neighbour_entries(self) -> dict[int, int]:
        """How many neighbour entries of IPv4 and IPv6 each member has when all talk to each other."""
        others = len(self.members) - 1
        version_6 = sum(subnet.version == 6 for subnet in self.subnet) + self.has_link_local
        return {4: others * (len(self.subnet) - version_6 + self.has_link_local), 6: others * version_6}

    @model_validator(mode="after")
    def _entries_are_not_too_many(self) -> Self:
        entries = sum(self.neighbour_entries.values()) * len(self.members)
        if self.neighbours == "static" and entries > MAX_STATIC_ENTRIES:
            raise ValueError(
                f"{entries} static neighbours are more than {MAX_STATIC_ENTRIES}: leave them to the kernel, and raise "
                "its limits"
            )
        return self
