"""The section `uplinks:` of a lab file: where virtual switches lead out of the lab."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hfi_sim.base.text import hint
from hfi_sim.base.types import MacAddr, mac_text, parse_mac
from opavnic.lab.file.guest_model import GUESTS_WITH_NAMESPACE
from opavnic.lab.file.sections import InterfaceName, LabName, also_accepts, check_name
from vema.base.sections import Section, empty_is_default
from vema.em.desired.problems import KeyPath, Problem
from vema.em.desired.subnets import subnets_in

KINDS: Final = ("bridge", "nic", "nat")


def _check_mac(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f'{value!r:.40} is no text: write a MAC address in quotes, "52:54:00:12:34:56"')
    mac = parse_mac(value)
    if mac[0] & 1 or not any(mac):
        raise ValueError(f"{value} is not the address of one station: it is a multicast address, or zero")
    return mac_text(mac)


UnicastMac = Annotated[str, BeforeValidator(_check_mac)]


class Uplink(Section):
    """One way out of a virtual switch, through the VNIC of one of its members: a bridge, a NIC, or NAT."""

    vesw: str
    host: str
    """The member whose VNIC leads out."""
    bridge: InterfaceName | None = None
    """A bridge where the host is: the VNIC becomes one of its ports."""
    nic: InterfaceName | None = None
    """An interface where the host is, without addresses: it and the VNIC become the ports of a bridge of the lab's."""
    nat: Annotated[bool, Field(strict=True)] = False
    """The host, with a namespace of its own, is the gateway of the other members: what they send leaves with an
    address of this machine."""
    mac: Literal["learn", "driver"] = "learn"
    """How members find what is behind a bridge. learn: the VNIC reports the addresses that the bridge learns, and the
    EM tells them to the members. driver: it reports its own only, as the driver does."""
    static: tuple[UnicastMac, ...] = ()
    """MAC addresses that are behind the bridge, whether they send or not."""
    flood: Annotated[bool, Field(strict=True)] = True
    """The VNIC is a default port: unknown unicast addresses without the local bit are sent to it."""

    @model_validator(mode="after")
    def _one_kind(self) -> Uplink:
        given = [kind for kind in KINDS if getattr(self, kind)]
        if len(given) != 1:
            said = " and ".join(given) if given else "none of them"
            raise ValueError(f"should be one of bridge: NAME, nic: NAME and nat: true, not {said}")
        return self

    @property
    def is_bridged(self) -> bool:
        """Whether the VNIC becomes the port of a bridge."""
        return not self.nat

    @property
    def static_macs(self) -> list[MacAddr]:
        """`static`, as addresses."""
        return [parse_mac(text) for text in self.static]


def uplink_problems(
    uplinks: object, hosts: Mapping[str, Any], vesws: Mapping[str, dict[str, Any]], before: int
) -> list[Problem]:
    """Return where uplinks contradict the rest of a lab file; values of a wrong type are skipped.

    Args:  uplinks: plain data of the section. hosts: those of the file. vesws: virtual switches by name. before: how
           many problems are known already.
    """
    entries = [
        (name, entry)
        for name, entry in (uplinks.items() if isinstance(uplinks, dict) else ())
        if isinstance(entry, dict)
    ]
    problems: list[Problem] = []
    vnics: dict[tuple[str, str], str] = {}
    ways: dict[tuple[str, str], str] = {}
    for name, entry in entries:
        path: KeyPath = ("uplinks", name)
        host, vesw = entry.get("host"), entry.get("vesw")
        problems += _unknown(path, "host", host, hosts, before + len(problems))
        problems += _unknown(path, "vesw", vesw, vesws, before + len(problems), "virtual switch")
        if not isinstance(host, str) or not isinstance(vesw, str) or host not in hosts or vesw not in vesws:
            continue
        problems += _place_problems(path, entry, host, hosts[host], vesw, vesws[vesw])
        if (other := vnics.setdefault((host, vesw), name)) != name:
            text = f'the VNIC of host "{host}" in "{vesw}" leads out by uplink "{other}" already'
            problems.append(Problem(path, text))
        for kind in ("bridge", "nic"):
            device = entry.get(kind)
            if not isinstance(device, str):
                continue
            place = _place(hosts[host], host)
            if (other := ways.setdefault((place, device), name)) != name:
                text = (
                    f'uplink "{other}" already leads to {device}: that would be a loop; '
                    "write one uplink for each bridge or NIC"
                )
                problems.append(Problem((*path, kind), text))
    return problems


def _unknown(
    path: KeyPath, key: str, name: object, known: Collection[str], before: int, what: str = ""
) -> list[Problem]:
    if not isinstance(name, str) or name in known:
        return []
    return [Problem((*path, key), f'unknown {what or key} "{name}"{hint(name, map(str, known), before)}')]


def _place_problems(
    path: KeyPath, entry: Mapping[str, Any], host: str, section: Any, vesw: str, its: Mapping[str, Any]
) -> list[Problem]:
    members = its.get("members")
    if isinstance(members, list) and host not in members:
        return [Problem((*path, "host"), f'host "{host}" is not a member of "{vesw}": add it there')]
    told = dict(section) if isinstance(section, dict) else {}
    if told.get("tap") is not None:
        return [Problem((*path, "host"), f'host "{host}" is a virtual machine: its VNIC leads to it alone')]
    if told.get("kernel") is not None:
        text = f'host "{host}" is a kernel of its own: uplinks need interfaces of this machine'
        return [Problem((*path, "host"), text)]
    if entry.get("nat") is not True:
        return []
    if told.get("netns", "own") != "own" or any(told.get(key) is not None for key in GUESTS_WITH_NAMESPACE):
        text = f'host "{host}" is not one of the lab\'s own: nat needs a host with a namespace of its own'
        return [Problem((*path, "host"), text)]
    if all(subnet.version == 6 for subnet in subnets_in(its).values()):
        return [Problem((*path, "nat"), f'"{vesw}" has no IPv4 subnet: nat translates IPv4 addresses')]
    return []


def _place(section: Any, host: str) -> str:
    """Return a word for the network namespace that a host is in: the same for hosts in the same one."""
    told = dict(section) if isinstance(section, dict) else {}
    netns = told.get("netns", "own")
    for key in GUESTS_WITH_NAMESPACE:
        if told.get(key) is not None:
            return f"{key} {told[key]}"
    return f"own {host}" if netns in ("own", None) else f"netns {netns}"


AUTO: Final = "auto"
OTHERS: Final = "*"
PlacedName = Annotated[str, AfterValidator(lambda name: name if name == OTHERS else check_name(name))]


def _placed(value: object) -> object:
    """Read `auto` as the place of all nodes; refuse another place of all others."""
    if value == AUTO:
        return {OTHERS: AUTO}
    if isinstance(value, dict) and value.get(OTHERS, AUTO) != AUTO:
        raise ValueError(f'"*": {value[OTHERS]!r} is not auto, the only place that all others may have')
    return empty_is_default(value)


class Cluster(Section):
    """How a lab is spread over machines that `opavnic up --cluster` and `opavnic node` bring together."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=1024)] | list[LabName] | None = None
    """How many machines it takes, the coordinator included, or their names. Without it, `--wait` says."""
    place: Annotated[dict[PlacedName, LabName], BeforeValidator(_placed), also_accepts(AUTO)] = Field(
        default_factory=dict
    )
    """Host or switch -> machine. The others are spread evenly, so that few links are cut; with `auto`, or `"*": auto`
    beside others, by load: machines carry by their processors, and links with little traffic are cut."""
    labels: Annotated[dict[LabName, list[LabName]], BeforeValidator(empty_is_default)] = Field(
        default_factory=dict
    )
    """Machine -> labels that it bears; `place` may name a label in place of a machine."""

    @property
    def by_load(self) -> bool:
        """Whether nodes that have no place are placed by load."""
        return OTHERS in self.place

    @property
    def named(self) -> dict[str, str]:
        """The nodes that have a place, by name."""
        return {name: where for name, where in self.place.items() if name != OTHERS}

    trust_members: Annotated[bool, Field(strict=True)] = False
    """Whether every machine may run programs on hosts of the others and set faults there, not only the coordinator."""
