"""Hosts that are more than a namespace of the lab: network namespaces, processes, containers and virtual machines that
were there before the lab, and kernels that the lab starts.

The lab puts its VNICs there and takes them away again. It never ends what it has not started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from opavnic.kernel.drivers import HFI1, HFIS, OPA_VNIC, LinuxDriver
from opavnic.lab.file.sections import InterfaceName
from vema.base.sections import Section
from vema.em.desired.problems import Problem

Engine = Literal["podman", "docker"]
_NETNS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]*")
GUESTS_WITH_NAMESPACE: Final = ("pid", "container")
"""Keys of a host that name a guest with a network namespace."""
_KEYS: Final = (*GUESTS_WITH_NAMESPACE, "tap", "kernel")


def _check_netns(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() and ".." not in path.parts:
        return name
    if not _NETNS.fullmatch(name):
        raise ValueError(
            f'"{name}" should be own, host, the name of a network namespace as `ip netns` lists it, or an absolute path'
        )
    return name


def _named(pattern: str, what: str) -> AfterValidator:
    """Return the check of a name by a pattern. Args: what: what another one is not, for messages."""

    def check(name: str) -> str:
        if not re.fullmatch(pattern, name):
            raise ValueError(f'"{name}" is not {what}')
        return name

    return AfterValidator(check)


class VmTap(Section):
    """The TAP of a virtual machine."""

    name: InterfaceName
    """Options for the machine monitor: `-netdev tap,ifname=NAME,script=no,downscript=no`."""
    owner: (
        Annotated[str, _named(r"[A-Za-z_0-9][A-Za-z0-9_.-]*\$?", "the name of a user, or a user id")] | None
    ) = None
    """The user who may open it, besides root."""


class GuestKernel(Section):
    """A kernel of its own, user-mode Linux as `opavnic kernel build` builds it."""

    name: Annotated[
        str,
        _named(r"([A-Za-z0-9][A-Za-z0-9._-]*)?", "the name of a kernel, as `opavnic kernel list` lists it"),
    ] = ""
    """As `opavnic kernel list` lists it; default: the newest of those named after their version."""
    driver: Literal["opa_vnic", "hfi1"] = "opa_vnic"
    """Which of Linux's own has the HFI's port. hfi1 has no VNICs here, but the port's management, IPoIB and verbs."""

    @property
    def linux_driver(self) -> LinuxDriver:
        """That driver."""
        return HFI1 if self.driver == HFI1.name else OPA_VNIC


class GuestKeys(Section):
    """What a host is: a namespace of the lab's own, the machine itself, or a guest."""

    netns: Annotated[str, AfterValidator(_check_netns)] = "own"
    """own: a namespace `opavnic-LAB-HOST`; host: the VNICs appear on the machine that runs the lab; any other name or
    path: in that namespace, which was there before."""
    pid: Annotated[int, Field(strict=True, ge=1, le=1 << 22)] | None = None
    """In the network namespace of this process."""
    container: (
        Annotated[str, _named(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "the name or id of a container")] | None
    ) = None
    """In this running container."""
    engine: Engine | None = None
    """Whose container; default: podman if it is installed and knows the container, else docker."""
    tap: Annotated[
        VmTap | None,
        BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value),
        WithJsonSchema({"type": ["string", "object", "null"], "description": "NAME, or {name, owner}"}),
    ] = None
    """A virtual machine: this TAP, which the lab makes on this machine, leads to the VNIC."""
    kernel: Annotated[
        GuestKernel | None,
        BeforeValidator(lambda value: {"driver": value} if isinstance(value, str) else value),
        WithJsonSchema(
            {"type": ["string", "object", "null"], "description": "opa_vnic, hfi1, or {name, driver}"}
        ),
    ] = None
    """A kernel of its own, user-mode Linux as `opavnic kernel build` builds it: Linux's opa_vnic has the HFI's port, or
    Linux's hfi1. {name: NAME} chooses one of several that are built."""

    @model_validator(mode="after")
    def _one_place(self) -> GuestKeys:
        given = [key for key in _KEYS if getattr(self, key) is not None]
        if self.netns != "own":
            given.insert(0, "netns")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)}: a host is in one place; write one of them")
        if self.engine is not None and self.container is None:
            raise ValueError("engine is for containers: write container: NAME too")
        return self

    @property
    def guest(self) -> str:
        """The key that makes it a guest; empty: it is a namespace of the lab's own, or the machine itself."""
        given = [key for key in _KEYS if getattr(self, key) is not None]
        return given[0] if given else "" if self.netns in ("own", "host") else "netns"

    @property
    def is_own(self) -> bool:
        """Whether its VNICs are in a namespace that the lab makes for it."""
        return self.netns == "own" and not self.guest

    @property
    def is_apart(self) -> bool:
        """Whether the names of the machine mean nothing there: it has a namespace, or a kernel, of the lab."""
        return self.is_own or self.kernel is not None

    @property
    def is_machine(self) -> bool:
        """Whether its VNICs are on the machine itself."""
        return self.netns == "host" or self.tap is not None


def is_guest(host: object) -> bool:
    """Return whether plain data of a host describes anything but a namespace of its own or the machine itself."""
    told: Mapping[str, Any] = host if isinstance(host, dict) else {}
    return any(told.get(key) is not None for key in _KEYS) or told.get("netns", "own") not in ("own", "host")


def is_apart(host: object) -> bool:
    """Return what `GuestKeys.is_apart` says, from plain data of a host."""
    told: Mapping[str, Any] = host if isinstance(host, dict) else {}
    return told.get("kernel") is not None or (not is_guest(told) and told.get("netns", "own") == "own")


def _driver_of(kernel: object) -> object:
    """Return the driver that plain data of a kernel name."""
    return kernel.get("driver") if isinstance(kernel, dict) else kernel


def guest_problems(hosts: Mapping[str, Any], members: Sequence[Sequence[str]]) -> list[Problem]:
    """Return the contradictions of virtual machines; values of a wrong type are skipped.

    Args:  members: the hosts of each virtual switch, a host once for each of its VNICs there.
    """
    problems = []
    taps: dict[str, str] = {}
    for host, told in hosts.items():
        if isinstance(told, dict) and told.get("kernel") is not None:
            driver = _driver_of(told["kernel"]) or OPA_VNIC.name
            for key, most in (("hfis", HFIS.get(str(driver), 1)), ("ports", 1)):
                if told.get(key, 1) not in range(1, most + 1):
                    text = f'host "{host}" is a kernel of its own, with {driver}: {key} is {most} at most'
                    problems.append(Problem(("hosts", host, key), text))
            if driver == HFI1.name and any(host in names for names in members):
                text = (
                    f'host "{host}" is in a virtual switch, but hfi1 of Linux 6.1 panics at the first packet of '
                    "a VNIC: write kernel: opa_vnic, or take it out of members"
                )
                problems.append(Problem(("hosts", host, "kernel"), text))
        tap = told.get("tap") if isinstance(told, dict) else None
        name = tap.get("name") if isinstance(tap, dict) else tap
        if not isinstance(name, str):
            continue
        its = sum(hosts.count(host) for hosts in members)
        if its != 1:
            text = (
                f'host "{host}" is in {its} virtual switches; a virtual machine is in one: '
                "write one host for each of its NICs"
            )
            problems.append(Problem(("hosts", host, "tap"), text))
        if (other := taps.setdefault(name, host)) != host:
            problems.append(Problem(("hosts", host, "tap"), f'{name} is the TAP of host "{other}" already'))
    return problems
