"""The VNICs that a lab requests for a host, and what their interfaces were given there: names and addresses.

VeswPortInfo says on which virtual switch a VNIC is, not what that is called: name and address come from the lab, by the
number of the virtual switch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.netdev.memory import MemoryNetdev
from vema.em.desired.desired import VeswSection

if TYPE_CHECKING:
    from opavnic.world.host_backends.memory_host import MemoryHost

Attach = Callable[[Any], None]
INTERFACE_NAME_MAX: Final = 15
"""IFNAMSIZ - 1."""
RESERVED_INTERFACES: Final = frozenset({"lo", "all", "default"})
"""The loopback interface, and the directories of /proc/sys/net/ipv4/conf that are no interface."""
_INTERFACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SUFFIXES: Final = range(2, 100)


class VnicKey(NamedTuple):
    """Which VNIC of a host: each of its ports counts its vports on its own."""

    port: str
    """HFI:PORT."""
    vport_num: int


@dataclass(frozen=True, slots=True)
class VeswFacts:
    """What a lab knows of a virtual switch for one of its hosts."""

    name: str
    addresses: tuple[IpInterface, ...] = ()
    """The addresses of the host there."""
    link_local: bool = True
    """Whether kernels give its VNICs IPv6 link-local addresses."""


FindVesw = Callable[[int, int], VeswFacts | None]
"""Returns what is known of a virtual switch by its id, for the n-th VNIC, from 0, of a host there; None: nothing."""


def unknown_vesw(_vesw_id: int, _nth: int) -> VeswFacts | None:
    """Know no virtual switch."""
    return None


@dataclass(slots=True)
class Given:
    """The interface of a vport."""

    name: str
    netdev: Netdev | None = None
    """None: its driver is gone."""
    vesw_id: int = 0
    """The virtual switch that it is on, or was on last."""
    nth: int = 0
    """Which of the VNICs that its host has there, from 0: with two rails there are two."""
    is_off: bool = False
    """Whether an EM has taken it off, and so lowered its MTU."""
    is_named: bool = False
    """Whether it has a name for this virtual switch; it keeps that even if the EM renames the switch."""
    wanted: str = ""
    """The name that it should have been given; another interface may have had it then."""
    addresses: tuple[IpInterface, ...] = ()
    """The addresses that it was given for this virtual switch."""


def interface_name(vesw: str, nth: int) -> str:
    """Return the name of the n-th interface, from 0, that a host has on a virtual switch: blue, blue-2, blue-3."""
    return f"{vesw}-{nth + 1}" if nth else vesw


def can_name_interface(name: str) -> bool:
    """Return whether a name has the right characters for an interface; its length is not looked at."""
    return _INTERFACE.fullmatch(name) is not None and name not in RESERVED_INTERFACES


def fits_interface(name: str) -> bool:
    """Return whether an interface can have a name."""
    return len(name) <= INTERFACE_NAME_MAX and can_name_interface(name)


def first_free(names: list[str], taken: Callable[[str], bool], otherwise: str) -> str:
    """Return the first of these names that is valid and free."""
    return next((name for name in names if fits_interface(name) and not taken(name)), otherwise)


def names_before_vesw(host: str, vport_num: int) -> list[str]:
    """Return the names for a vport that is on no known virtual switch yet."""
    base = f"vnic{vport_num}"
    return [base, f"{host}-{base}", *(f"{base}-{number}" for number in _SUFFIXES)]


@dataclass(slots=True)
class Interface:
    """One VNIC that the lab file requests for a host."""

    host: str
    port: str
    """The port that carries it, HFI:PORT."""
    vesw: VeswSection
    vport_num: int
    """Among the vports of that port, from 1."""
    name: str
    addresses: tuple[IpInterface, ...]
    nth: int = 0
    """Which of the VNICs that its host has on the virtual switch, from 0: a host with two rails may have two."""
    netdev: Netdev | None = None
    """None until the EM has created the vport."""
    memory_host: MemoryHost | None = None
    """The small IP stack on the netdev, in a lab in memory."""
    app_netdev: MemoryNetdev | None = None
    """The same netdev, if an app of this process uses it."""
    attach: Attach | None = None
    """Called with each netdev that has been made and set up for it: makes it the port of a bridge."""
    link_local: bool = True
    """Whether its kernel gives it an IPv6 link-local address."""

    @property
    def key(self) -> VnicKey:
        """Which VNIC of its host it is."""
        return VnicKey(self.port, self.vport_num)

    @property
    def title(self) -> str:
        """What it is called in the lab: `blue`, its virtual switch; the second one of its host there is `blue-2`."""
        return interface_name(self.vesw.name, self.nth)

    @property
    def address(self) -> IpInterface | None:
        """Its first address."""
        return next(iter(self.addresses), None)

    def __str__(self) -> str:
        return f"{self.host}/{self.title}"
