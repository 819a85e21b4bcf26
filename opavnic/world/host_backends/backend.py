"""What all kinds of hosts have in common: the requested interfaces, their names, the creation of netdevs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import ETH_MTU_MAX, ETH_MTU_MIN
from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.nodes.hfi import HfiPort
from opavnic.world.host_backends.given import (
    FindVesw,
    Given,
    Interface,
    VeswFacts,
    VnicKey,
    first_free,
    fits_interface,
    interface_name,
    names_before_vesw,
    unknown_vesw,
)

log = logging.getLogger("opavnic.world")


SetUp = Callable[[Interface], None]
"""Sets a new netdev up as an interface of the lab file."""


class HostBackend:
    """One machine of the lab. `make_netdev` is the netdev factory of its HFIs."""

    namespace: Path | None = None
    """Its network namespace; None: it has none of its own."""
    is_machine = False
    """Whether it is the machine itself, whose interfaces are not all of the lab."""
    runs_no_programs = ""
    """Why programs cannot run on it; empty if they can."""
    has_own_driver = False
    """Whether a kernel's driver has its port, so that its programs find that one's devices and not ours."""

    enter_words: Sequence[str] = ()
    """What starts programs of the host, which are its arguments; empty: they enter its network namespace."""

    def __init__(self, name: str, interfaces: list[Interface]) -> None:
        self.name = name
        self.interfaces = interfaces
        """In the order of the virtual switches in the lab file."""
        self._asked = {interface.key: interface for interface in interfaces}
        self.trouble: list[str] = []
        """What went wrong while netdevs were made or set up."""
        self.beside: Sequence[HostBackend] = ()
        """Other hosts in the same network namespace: their interfaces have other names."""
        self.lost = ""
        """Why the host is gone although the lab runs; empty while it is there."""
        self.ports: Sequence[HfiPort] = ()
        """All ports of its HFIs, in order; none before its fabric is made."""
        self.speed = 0
        """How fast its links are, in Mb/s, for programs such as ethtool; 0: not said."""
        self.announces = False
        """Whether it announces its addresses where it begins to send: others may know them by another MAC address."""
        self.new_vesws: Collection[int] = ()
        """Virtual switches that have come with all their members: no peer knows an address there yet."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a netdev has been made, or its IP addresses have changed."""
        self.on_set_up: Callable[[], None] = lambda: None
        """Called when the interface of a VNIC has been set up: its name, addresses and MTU are there."""
        self.find_vesw: FindVesw = unknown_vesw
        """Says what virtual switches are called, and which address this host has there."""
        self._given: dict[VnicKey, Given] = {}
        """What vports were given that have had a netdev, including those that are gone."""

    @property
    def has_our_devices(self) -> bool:
        """Whether its programs can have the devices of its HFIs from this process."""
        return not self.runs_no_programs and not self.has_own_driver

    @property
    def namespace_name(self) -> str | None:
        """The name of its network namespace, as `ip netns` has it."""
        return None if self.namespace is None else self.namespace.name

    def name_of(self, key: VnicKey) -> str:
        """Return the interface name that a vport was given: at first the one in the lab file, or a free one."""
        if (given := self._given.get(key)) is not None:
            return given.name
        return self._asked[key].name if key in self._asked else f"vnic{key.vport_num}"

    def addresses_of(self, key: VnicKey) -> tuple[IpInterface, ...]:
        """Return the IP addresses that a vport was given: those of the host on its virtual switch."""
        if (given := self._given.get(key)) is not None:
            return given.addresses
        return self._asked[key].addresses if key in self._asked else ()

    def differs(self, planned: Sequence[Interface]) -> bool:
        """Return whether `follow` would change something, apart from what virtual switches are like."""

        def facts(interface: Interface) -> tuple[object, ...]:
            return interface.key, interface.vesw.id, interface.nth, interface.addresses, interface.link_local

        return [*map(facts, self.interfaces)] != [*map(facts, planned)]

    @property
    def reserved(self) -> set[str]:
        """Names that interfaces of the lab file have here, or are to have."""
        return names_asked_for(item for host in (self, *self.beside) for item in host.interfaces)

    def follow(self, planned: Sequence[Interface]) -> list[Interface]:
        """Let the VNICs of the lab file be these; return those that are new.

        What is there of them stays as it is, and so does the object of each VNIC that was in the file before. One that
        an EM has made without the file keeps its name.
        """
        known, new = self._asked, []
        self.interfaces, self._asked = [], {}
        for wanted in planned:
            interface = known.get(wanted.key)
            if interface is None or interface.vesw.id != wanted.vesw.id:
                given = self._given.get(wanted.key)
                if given is not None and given.netdev is not None:
                    wanted.netdev, wanted.name = given.netdev, given.name
                interface = wanted
                new.append(interface)
            else:
                if interface.name == interface.title:
                    interface.name = wanted.name
                interface.vesw, interface.nth = wanted.vesw, wanted.nth
                interface.addresses, interface.link_local = wanted.addresses, wanted.link_local
            self.interfaces.append(interface)
            self._asked[interface.key] = interface
        return new

    def forget_vport(self, key: VnicKey) -> None:
        """Forget a VNIC that is gone for good."""
        self.interfaces = [item for item in self.interfaces if item.key != key]
        self._asked.pop(key, None)
        self._given.pop(key, None)
        self.on_change()

    def name_for(self, key: VnicKey) -> str:
        """Choose the interface name of a vport that is about to be made.

        A vport that the lab file does not mention gets the first of vnicN, HOST-vnicN, vnicN-2, vnicN-3, ... that is
        free and has at most 15 characters, until it is on a virtual switch with a name: see `configured`. A vport that
        comes back gets its old name, unless that is taken now.
        """
        if key in self._asked:
            return self._asked[key].name
        base = names_before_vesw(self.name, key.vport_num)
        before = self._given.get(key)
        names = base if before is None else [before.name, *base]
        name = first_free(names, partial(self._is_anothers, key), base[0])
        self._given[key] = Given(name)
        return name

    def _is_anothers(self, key: VnicKey, name: str) -> bool:
        """Return whether a vport must leave a name to others."""
        others = [given for other, given in self._given.items() if other != key]
        if any(given.name == name for given in others):
            return True
        # an interface of the lab file that bears another name now does not need its own
        return name not in self._given_up() and self._taken(name)

    def _given_up(self) -> set[str]:
        made = (self._given.get(interface.key) for interface in self.interfaces)
        return {
            interface.name
            for interface, given in zip(self.interfaces, made, strict=True)
            if given is not None and given.netdev is not None and given.name != interface.name
        }

    def _taken(self, name: str) -> bool:
        return name in self.reserved

    def make_netdev(self, port: str, vport_num: int) -> Netdev:
        """Make the netdev of a vport under the name of `name_for`, and set it up once the caller is done with it.

        Args:    port: HFI:PORT.
        Raises:  NetdevError: the host refused.
        """
        key = VnicKey(port, vport_num)
        name = self.name_for(key)
        try:
            netdev, set_up = self._make(name)
        except NetdevError as error:
            self.trouble.append(f"{self.name}: {error}")
            raise
        if self.speed:
            netdev.set_speed(self.speed)
        netdev.on_ip_addresses(lambda: self.on_change())
        self.on_change()
        given = self._given[key] = Given(name, netdev)
        if (interface := self._asked.get(key)) is not None:
            interface.netdev = netdev
            given.vesw_id, given.nth, given.is_named = interface.vesw.id, interface.nth, True
            given.addresses = interface.addresses
            asyncio.get_running_loop().call_soon(self._set_up_asked, set_up, interface)
        return netdev

    def _set_up_asked(self, set_up: SetUp, interface: Interface) -> None:
        set_up(interface)
        self.on_set_up()

    def configured(self, port: str, vport_num: int, vesw_id: int, eth_mtu: int) -> None:
        """Handle the virtual switch that an EM has put a vport on; 0: on none.

        An interface on a virtual switch that the lab file does not give it is then made what those of the file are: it
        bears the name of its virtual switch where that is free, has its MTU and the host's address there, and is up.
        The name and the MTU stay until it is put on another virtual switch.
        """
        key = VnicKey(port, vport_num)
        given = self._given.get(key)
        if given is None or given.netdev is None:
            return
        if key in self._asked and (not vesw_id or self.find_vesw(vesw_id, 0) is None):
            given.is_off = not vesw_id
            return  # it stays what it is in the lab file
        if vesw_id == given.vesw_id and not given.is_off:
            return
        given.is_named, given.vesw_id, given.is_off = (
            given.is_named and given.is_off and vesw_id == given.vesw_id,
            vesw_id,
            False,
        )
        given.nth = self._nth_on(vesw_id, key)
        asyncio.get_running_loop().call_soon(self._settle, key, given.netdev, eth_mtu)

    def _nth_on(self, vesw_id: int, key: VnicKey) -> int:
        """Return which VNIC of this host on a virtual switch a vport is: that of the lab file, else the first free.

        Two vports of one port are on one virtual switch only while an EM moves them: they do not count.
        """
        asked = self._asked.get(key)
        if asked is not None and asked.vesw.id == vesw_id:
            return asked.nth
        others = {
            given.nth
            for other, given in self._given.items()
            if other.port != key.port and given.vesw_id == vesw_id
        }
        others |= {
            interface.nth
            for interface in self.interfaces
            if interface.port != key.port and interface.vesw.id == vesw_id
        }
        return next(nth for nth in range(len(others) + 1) if nth not in others)

    def vesws_changed(self) -> None:
        """Ask again what virtual switches are called and which addresses this host has there."""
        for key, given in self._given.items():
            if given.netdev is not None and given.vesw_id:
                self._settle(key, given.netdev, None)

    def _settle(self, key: VnicKey, netdev: Netdev, eth_mtu: int | None) -> None:
        """Make the interface of a vport what its virtual switch wants it to be; without an MTU, it is up already."""
        given = self._given[key]
        if given.netdev is not netdev:
            return  # the driver has gone meanwhile
        vesw = self.find_vesw(given.vesw_id, given.nth) if given.vesw_id else None
        try:
            if given.vesw_id and not given.is_named and (vesw is not None or eth_mtu is not None):
                given.is_named = vesw is not None
                self._name_after(vesw, key, given, netdev)
            self._hand_out_names()
            addresses = () if vesw is None else vesw.addresses
            if addresses != given.addresses:
                before, given.addresses = given.addresses, addresses
                self._replace_addresses(netdev, before, addresses)
            if eth_mtu is not None and given.vesw_id:
                if vesw is not None and not vesw.link_local:
                    self._leave_out_link_local(netdev)
                self._bring_up(netdev, min(max(eth_mtu, ETH_MTU_MIN), ETH_MTU_MAX))
                self.on_set_up()
        except NetdevError as error:
            log.error("[%s/%s] %s", self.name, given.name, error)
        self.on_change()

    # --- what people have changed ------------------------------------------------------------------------

    def _settled(self) -> Iterator[tuple[Interface, Given, Netdev]]:
        """Yield the VNICs of the lab file that are on their virtual switches, in this network namespace."""
        self._catch_up()
        for interface in self.interfaces:
            given = self._given.get(interface.key)
            netdev = None if given is None else given.netdev
            if given is None or netdev is None or netdev.moved_to or given.is_off:
                continue
            if given.vesw_id == interface.vesw.id and getattr(netdev, "dead", None) is None:
                yield interface, given, netdev

    def vnic_drift(self) -> Iterator[str]:
        """Yield where interfaces of VNICs are not what the lab file says, a line each."""
        for interface, given, netdev in self._settled():
            if netdev.host_name != interface.name:
                yield f"interface {interface.name} is called {netdev.host_name}"
            if not netdev.is_up:
                yield f"interface {interface.name} is down"
            if netdev.mtu != (mtu := self._mtu_of(interface, netdev)):
                yield f"MTU of {interface.name} is {netdev.mtu}, not {mtu}"
            for address in self._lacking(netdev, given.addresses):
                yield f"address {address} of {interface.name} is missing"

    def restore_names(self) -> None:
        """Give interfaces of VNICs the names of the lab file, which two may exchange. Raises NetdevError."""
        wrong = [item for item in self._settled() if item[2].host_name != item[0].name]
        wanted = {interface.name for interface in self.interfaces}
        for interface, given, netdev in wrong:
            if netdev.host_name in wanted:  # it is to be that of another one
                self._rename(interface.key, given, netdev, [])
        for interface, _, _ in wrong:
            self._ask_back(interface.name)
        for interface, given, netdev in wrong:
            netdev.rename(interface.name)
            given.name = interface.name

    def restore_vnics(self) -> None:
        """Make interfaces of VNICs what the lab file says. Raises NetdevError: the host refuses."""
        self.restore_names()
        for interface, given, netdev in tuple(self._settled()):
            given.nth = interface.nth
            if given.addresses != interface.addresses:
                self._replace_addresses(netdev, given.addresses, interface.addresses)
                given.addresses = interface.addresses
            mtu = self._mtu_of(interface, netdev)
            if not netdev.is_up or netdev.mtu != mtu:
                self._bring_up(netdev, mtu)
            if lacking := tuple(self._lacking(netdev, given.addresses)):
                self._replace_addresses(netdev, (), lacking)

    def _mtu_of(self, interface: Interface, netdev: Netdev) -> int:
        """Return the MTU that a VNIC is to have: that of its virtual switch, which its EM has set as the largest."""
        return min(max(netdev.max_mtu, ETH_MTU_MIN), ETH_MTU_MAX)

    def _catch_up(self) -> None:
        """Take in what the kernel has said of interfaces and not been heard yet."""

    def _lacking(self, netdev: Netdev, addresses: Iterable[IpInterface]) -> Iterator[IpInterface]:
        """Yield those addresses that an interface does not have, where a kernel tells."""
        return iter(())

    def _name_after(self, vesw: VeswFacts | None, key: VnicKey, given: Given, netdev: Netdev) -> None:
        """Name an interface after its virtual switch, else HOST-NAME, else as one whose virtual switch has no name."""
        name = "" if vesw is None else interface_name(vesw.name, given.nth)
        names = [name, f"{self.name}-{name}"] if name else []
        interface = self._asked.get(key)
        if interface is not None and interface.vesw.id == given.vesw_id:
            names = [interface.name, *names]
        given.wanted = next(filter(fits_interface, names[:1]), "")
        if given.wanted:
            self._ask_back(given.wanted)
        self._rename(key, given, netdev, names)

    def _ask_back(self, name: str) -> None:
        """Take a name from an interface that is on no virtual switch any more."""
        for key, other in self._given.items():
            if other.name == name and other.netdev is not None and not other.vesw_id:
                self._rename(key, other, other.netdev, [])

    def _hand_out_names(self) -> None:
        """Give interfaces the names that others had when they were put on their virtual switches, and have no more.

        An EM moves VNICs one by one, so that two of them may exchange their virtual switches.
        """
        for key, given in self._given.items():
            if given.netdev is None or not given.vesw_id or given.wanted in ("", given.name):
                continue
            self._ask_back(given.wanted)
            if not self._is_anothers(key, given.wanted) and given.netdev.host_name == given.name:
                self._rename(key, given, given.netdev, [given.wanted])

    def _rename(self, key: VnicKey, given: Given, netdev: Netdev, names: list[str]) -> None:
        now = netdev.host_name

        def taken(name: str) -> bool:
            return name != now and self._is_anothers(key, name)

        given.name = first_free([*names, *names_before_vesw(self.name, key.vport_num)], taken, now)
        if given.name != now:
            netdev.rename(given.name)

    def _replace_addresses(
        self, netdev: Netdev, before: tuple[IpInterface, ...], addresses: tuple[IpInterface, ...]
    ) -> None:
        """Take IP addresses from an interface, and give it others."""

    def _leave_out_link_local(self, netdev: Netdev) -> None:
        """Let an interface have no IPv6 link-local address once it is up."""

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        """Set the MTU of an interface, and set it up."""
        raise NotImplementedError

    def forget_netdevs(self, port: str) -> None:
        """Forget all netdevs of a port, HFI:PORT: their driver or their HFI is gone."""
        for interface in self.interfaces:
            if interface.port == port:
                interface.netdev = interface.memory_host = interface.app_netdev = None
        self._given = {
            key: given if key.port != port else Given(given.name)
            for key, given in self._given.items()
            if key.port != port or key not in self._asked
        }

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        raise NotImplementedError

    def release(self) -> list[int]:
        """Let go of all netdevs; return the descriptors that still hold them, which the caller closes."""
        return []

    def close(self) -> None:
        """Release everything that this host has created."""


def lacking(netdev: Netdev, addresses: Iterable[IpInterface]) -> Iterator[IpInterface]:
    """Yield those addresses that an interface does not have."""
    has = set(netdev.ip_addresses)
    return (address for address in addresses if address not in has)


def names_asked_for(interfaces: Iterable[Interface]) -> set[str]:
    """Return the names that the lab file gives to interfaces, and those that they actually have."""
    return {name for interface in interfaces for name in (interface.name, interface.vesw.name)}
