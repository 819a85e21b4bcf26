"""What a lab file says of a host besides its place: number, addresses, sysctls, routes, qdiscs, commands."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from hfi_sim.base.text import nearest
from hfi_sim.netdev.base import IpInterface
from opavnic.lab.file.guest_model import is_apart
from opavnic.lab.file.qdisc_model import QdiscSection
from vema.base.sections import AS_WRITTEN, Section, Subnet, address_misfit, empty_is_default
from vema.em.desired.problems import KeyPath, Problem

LOOPBACK: Final = "lo"
OF_INTERFACE: Final = re.compile(r"net[./](?:ipv4|ipv6|mpls)[./](?:conf|neigh)[./](.+)[./][^./]+")
"""The sysctl of one interface, with the name of that."""
EVERY_KERNEL_HAS: Final = ("all", "default", LOOPBACK)
MAX_NUMBER: Final = 1 << 24
_SYSCTL: Final = re.compile(r"net(?:[./][A-Za-z0-9_:@-][A-Za-z0-9_.:@-]*)+")
_DEFAULT: Final = ipaddress.ip_network("0.0.0.0/0")
_ROUTE_WORDS: Final = ("via", "dev", "metric")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def _of_a_host(address: IpInterface) -> IpInterface:
    ip, network = address.ip, address.network
    if ip.is_multicast or ip.is_unspecified:
        raise ValueError(
            f"{ip} is {'a multicast address' if ip.is_multicast else 'no address'}: no host has it"
        )
    if (
        ip.version == 4
        and network.num_addresses > 2
        and ip in (network.network_address, network.broadcast_address)
    ):
        what = "the subnet itself" if ip == network.network_address else "the broadcast address of its subnet"
        raise ValueError(f"{address} is {what}; hosts have {network[1]} to {network[-2]}")
    return address


def _parse_address(value: object) -> IpInterface:
    if isinstance(value, ipaddress.IPv4Interface | ipaddress.IPv6Interface):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueError(f"{value!r} is not an address with its prefix length, such as 10.9.2.1/24")
    try:
        address = ipaddress.ip_interface(value)
    except ValueError as error:
        raise ValueError(
            f'"{value}" is not an address such as 10.9.2.1/24: {address_misfit(value)}'
        ) from error
    return _of_a_host(address)


def _parse_addresses(value: object) -> tuple[IpInterface, ...]:
    listed: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    found = () if value is None else tuple(map(_parse_address, listed))
    if twice := next((one for one in found if found.count(one) > 1), None):
        raise ValueError(f"{twice} appears twice")
    return found


_TEXT_OR_TEXTS: Final[list[dict[str, Any]]] = [
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
]
Addresses = Annotated[
    tuple[IpInterface, ...],
    BeforeValidator(_parse_addresses),
    PlainSerializer(lambda value: list(map(str, value)), when_used="json"),
    WithJsonSchema({"anyOf": [*_TEXT_OR_TEXTS, {"type": "null"}], "description": "10.9.2.77/24, or a list"}),
]


def _check_sysctls(values: dict[str, str]) -> dict[str, str]:
    for key in values:
        if not _SYSCTL.fullmatch(key):
            what = "not one of a network namespace" if "." in key or "/" in key else "no name of a sysctl"
            raise ValueError(f'"{key}" is {what}: a host has those below net., such as net.ipv4.ip_forward')
    return values


def _sysctl_value(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} should be a number, or text in quotes")
    return str(value)


def _parse_network(value: object) -> Subnet:
    if value == "default":
        return _DEFAULT
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    try:
        return ipaddress.ip_network(str(value))
    except ValueError as error:
        text = str(error)
        raise ValueError(
            f'"{value}" is not default or a destination such as 10.1.0.0/16'
            f"{': it has bits set behind its prefix' if 'host bits' in text else ''}"
        ) from None


def _parse_gateways(value: object) -> tuple[IpAddress, ...]:
    listed: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    for one in listed if value is not None else ():
        try:
            ipaddress.ip_address(str(one))
        except ValueError:
            told = str(one)
            why = "a gateway has no prefix length" if "/" in told else address_misfit(told)
            raise ValueError(f'via "{told}" is not an address such as 10.9.2.1: {why}') from None
    return () if value is None else tuple(ipaddress.ip_address(str(one)) for one in listed)


class HostRoute(Section):
    """A route of a host, as `ip route add` makes it."""

    to: Annotated[
        Subnet,
        BeforeValidator(_parse_network),
        PlainSerializer(str, when_used="json"),
        WithJsonSchema({"type": "string", "description": "default, or 10.1.0.0/16"}),
    ]
    via: Annotated[
        tuple[IpAddress, ...],
        BeforeValidator(_parse_gateways),
        PlainSerializer(lambda value: list(map(str, value)), when_used="json"),
        WithJsonSchema({"anyOf": _TEXT_OR_TEXTS, "description": "a gateway; several share the traffic"}),
    ] = ()
    dev: str | None = None
    """A virtual switch of the host; needed where `via` does not say the way."""
    metric: Annotated[int, Field(strict=True, ge=0, le=0xFFFFFFFF)] | None = None

    @model_validator(mode="after")
    def _has_a_way(self) -> HostRoute:
        if not self.via and self.dev is None:
            raise ValueError(f"route to {self.to}: via which gateway, or dev which virtual switch?")
        if len(self.via) > 1 and self.dev is not None:
            raise ValueError(
                f"route to {self.to}: with several gateways, dev is not said: each has its own way"
            )
        return self

    @model_serializer(mode="wrap")
    def _written(self, inner: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        return str(self) if info.context == AS_WRITTEN else inner(self)

    @property
    def destination(self) -> Subnet:
        """Where it leads; `default` in the IP version of its gateway."""
        version = self.via[0].version if self.via else self.to.version
        every = ipaddress.ip_network("::/0" if version == 6 else "0.0.0.0/0")
        return every if self.to.prefixlen == 0 else self.to

    def __str__(self) -> str:
        return " ".join(
            [
                "default" if self.to == _DEFAULT else str(self.to),
                *(f"via {gateway}" for gateway in self.via),
                *([] if self.dev is None else [f"dev {self.dev}"]),
                *([] if self.metric is None else [f"metric {self.metric}"]),
            ]
        )


def _route(value: object) -> object:
    """Return the keys of a route that is written as `ip route` has it: `10.1.0.0/16 via 10.9.2.1 dev blue`."""
    if not isinstance(value, str):
        if not isinstance(value, dict | HostRoute):
            raise ValueError(f"{value!r} is not a route such as 10.1.0.0/16 via 10.9.2.1")
        return value
    to, *words = value.split() or [""]
    said: dict[str, Any] = {"to": to}
    for key, told in zip(words[::2], [*words[1::2], None], strict=False):
        if key not in _ROUTE_WORDS:
            raise ValueError(f'"{value}": unknown word "{key}" ({nearest(key, _ROUTE_WORDS)})')
        if told is None:
            raise ValueError(f'"{value}": {key} what?')
        if key == "via":
            said.setdefault("via", []).append(told)
        else:
            if key == "metric" and not (told.isascii() and told.isdigit()):
                raise ValueError(f'"{value}": metric "{told}" is not a number from 0 to 4294967295')
            said[key] = int(told) if key == "metric" else told
    return said


def _words(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(word, str | int) for word in value):
        return tuple(map(str, value))
    raise ValueError(f"{value!r:.60} is not a command: a line for the shell, or a list of words")


Words = Annotated[str | tuple[str, ...], BeforeValidator(_words)]


class VnicCommand(Section):
    """A command that belongs to a VNIC: it is run again whenever the interface of that has been made anew."""

    run: Annotated[Words, WithJsonSchema({"anyOf": _TEXT_OR_TEXTS})]
    vnic: str
    """Its virtual switch; blue-2: the second one of the host there."""


def _command(value: object) -> object:
    return value if isinstance(value, VnicCommand | Mapping) else _words(value)


def _listed(value: object) -> object:
    return [] if value is None else [value] if isinstance(value, str) else value


Command = Annotated[
    str | tuple[str, ...] | VnicCommand,
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                *_TEXT_OR_TEXTS,
                {
                    "type": "object",
                    "properties": {"run": {"anyOf": _TEXT_OR_TEXTS}, "vnic": {"type": "string"}},
                    "required": ["run", "vnic"],
                    "additionalProperties": False,
                },
            ],
            "description": "a line for /bin/sh, or words; {run: ..., vnic: VESW}: at each new VNIC",
        }
    ),
]


class HostSetup(Section):
    """How a host is set up."""

    number: Annotated[int, Field(strict=True, ge=1, le=MAX_NUMBER)] | None = None
    """Which address of every `subnet` it gets; default: one more than the host before it, 1 for the first."""
    addresses: Annotated[dict[str, Addresses], BeforeValidator(empty_is_default)] = Field(
        default_factory=dict
    )
    """By virtual switch, or lo: its addresses, in place of those by its number. `blue: []` leaves it without any."""
    sysctls: Annotated[
        dict[
            str,
            Annotated[str, BeforeValidator(_sysctl_value), WithJsonSchema({"type": ["string", "integer"]})],
        ],
        AfterValidator(_check_sysctls),
        BeforeValidator(empty_is_default),
    ] = Field(default_factory=dict)
    """`net.ipv4.ip_forward: 1`. Those of interfaces are set once the interfaces are there."""
    routes: Annotated[
        list[Annotated[HostRoute, BeforeValidator(_route), WithJsonSchema({"type": ["string", "object"]})]],
        BeforeValidator(_listed),
    ] = Field(default_factory=list)
    """`10.1.0.0/16 via 10.9.2.1 dev blue metric 10`, or its keys; several `via` share the traffic."""
    qdiscs: Annotated[dict[str, QdiscSection], BeforeValidator(empty_is_default)] = Field(
        default_factory=dict
    )
    """By virtual switch: the queueing discipline of its VNIC there, `{kind: tbf, rate: 10M}`."""
    exec: Annotated[list[Command], BeforeValidator(_listed)] = Field(default_factory=list)
    """Commands that are run once its VNICs are up, one after the other. A lab does not start if one fails.
    `{run: ip link set red txqueuelen 500, vnic: red}` is run again when its VNIC on red comes back."""

    @property
    def changes_its_kernel(self) -> bool:
        """Whether it needs a kernel of its own to set up."""
        return bool(self.sysctls or self.routes or self.qdiscs or self.exec or LOOPBACK in self.addresses)


def host_numbers(hosts: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of hosts, from plain data or models: as given, else one more than that of the host before."""
    numbers: dict[str, int] = {}
    last = 0
    for name, host in hosts.items():
        told = host.get("number") if isinstance(host, Mapping) else getattr(host, "number", None)
        last = told if type(told) is int and told > 0 else last + 1
        numbers[str(name)] = last
    return numbers


def setup_problems(
    hosts: Mapping[str, Any],
    vnics: Mapping[str, list[str]],
    apps: Collection[str],
    vesws: Collection[str] = (),
) -> list[Problem]:
    """Return where the setup of hosts contradicts the rest of a lab file; values of a wrong type are skipped.

    What is said of a virtual switch that the host is not in waits until it joins.

    Args:  hosts: those of the file, as plain data. vnics: of each host, as the lab calls them: blue, blue-2.
           apps: hosts that belong to apps. vesws: the names of all virtual switches.
    """
    problems: list[Problem] = []
    by_number: dict[int, str] = {}
    for name, number in host_numbers(hosts).items():
        if (other := by_number.setdefault(number, name)) != name:
            problems.append(Problem(("hosts", name, "number"), f'{number} is already that of host "{other}"'))
    for name, host in hosts.items():
        if isinstance(host, Mapping) and any(host.get(key) for key in HostSetup.model_fields):
            its = [*vnics.get(str(name), []), *vesws]
            problems += _of_host(("hosts", str(name)), str(name), host, its, str(name) in apps)
    return problems


def _may_be(title: object, known: Collection[str]) -> bool:
    """Return whether a VNIC of that title may come: blue-3, where there is a virtual switch blue."""
    name, _, nth = str(title).rpartition("-")
    return title in known or (name in known and nth.isdigit())


def _of_host(
    path: KeyPath, name: str, host: Mapping[str, Any], vesws: list[str], is_app: bool
) -> Iterable[Problem]:
    for key in ("exec", "sysctls", "routes", "qdiscs"):
        if not host.get(key):
            continue
        if is_app:
            yield Problem((*path, key), f'host "{name}" belongs to an app: it has no kernel')
        elif not is_apart(host):
            yield Problem(
                (*path, key),
                "only for hosts with a namespace or kernel of the lab's own: it would stay behind",
            )
    addresses = host.get("addresses")
    for vesw in addresses if isinstance(addresses, Mapping) else ():
        if not _may_be(vesw, (*vesws, LOOPBACK)):
            known = nearest(str(vesw), list(dict.fromkeys([*vesws, LOOPBACK])))
            yield Problem(
                (*path, "addresses", vesw), f'host "{name}" is in no virtual switch "{vesw}" ({known})'
            )
        elif vesw == LOOPBACK and (is_app or not is_apart(host)):
            yield Problem(
                (*path, "addresses", vesw), "only for hosts with a namespace or kernel of the lab's own"
            )
    qdiscs = host.get("qdiscs")
    named: list[tuple[KeyPath, Any]] = [
        (("qdiscs", vesw), vesw) for vesw in (qdiscs if isinstance(qdiscs, Mapping) else ())
    ]
    for section, key in (("exec", "vnic"), ("routes", "dev")):
        its = host.get(section)
        for index, item in enumerate(its if isinstance(its, list) else ()):
            if isinstance(item, Mapping) and isinstance(item.get(key), str):
                named.append(((section, index, key), item[key]))
    for place, vesw in named:
        if not _may_be(vesw, vesws):
            known = nearest(str(vesw), list(dict.fromkeys(vesws)))
            yield Problem((*path, *place), f'host "{name}" is in no virtual switch "{vesw}" ({known})')
