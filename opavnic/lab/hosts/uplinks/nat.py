"""NAT: a host of the lab is the gateway of its virtual switch, and a pair of interfaces leads from it to the machine.

    member --VNIC--> host  (forwards; masquerades as 100.64.0.2)  --veth--> machine (forwards; masquerades) --> outside

The machine never hears of the addresses of the lab. What is changed there is the pair, one table of nftables that
belongs to a socket of the lab, and whether the interfaces of its default routes forward: that is put back.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.bridging import BridgeClient, unused_link_network
from hfi_sim.netdev.masquerade import Masquerade
from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.lab_sections import Vesw
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.uplink_model import Uplink
from opavnic.lab.hosts.guests.guest import proven_namespace
from opavnic.lab.ownership.owned import NamespaceRef, Owned, random_mac
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX

POOL: Final = ipaddress.IPv4Network("100.64.0.0/10")
"""Shared address space of RFC 6598: for the links between a network and the one that translates its addresses."""
_NAMES_TRIED: Final = 1000


class Nat:
    """One gateway."""

    def __init__(
        self, name: str, uplink: Uplink, model: LabModel, gateway: NamespaceRef, owned: Owned
    ) -> None:
        """Lead a pair of interfaces from the gateway to the machine.

        Raises:  LabError, NetdevError: it cannot be made.
        """
        self._name = name
        self._uplink = uplink
        self._model = model
        self._gateway = gateway
        self._owned = owned
        self._rules: list[Masquerade] = []
        self._outside: list[str] = []
        machine = NamespaceRef(proven_namespace("/proc/self/ns/net", f"uplinks.{name}"))
        with contextlib.closing(BridgeClient()) as links:
            network = self._network(links)
            self.machine_end, self.gateway_end = list(network.hosts())
            there = {link.name for link in links.links_now()}
            end = next(name for name in (f"opanat{n}" for n in range(_NAMES_TRIED)) if name not in there)
            self._make_pair(machine, end)
            pair = links.find(end)
            if pair is None:
                raise NetdevError(f"interface {end} vanished", errno.ENODEV)
            links.add_ip(pair.ifindex, ipaddress.ip_interface(f"{self.machine_end}/30"))
            links.set_up(pair.ifindex, True)
            self._rules.append(Masquerade(f"opavnic-{model.name}-{name}", network, None))
            routes = list(links.ipv4_routes())
            by_index = {link.ifindex: link.name for link in links.links_now()}
        _write(None, f"net/ipv4/conf/{end}/forwarding", "1")
        for _, ifindex in (route for route in routes if route[0].prefixlen == 0):
            if (way := by_index.get(ifindex)) and way not in self._outside:
                self._outside.append(way)
                owned.set_sysctl(machine, f"net/ipv4/conf/{way}/forwarding", "1")

    def _network(self, links: BridgeClient) -> ipaddress.IPv4Network:
        taken = [to for to, _ in links.ipv4_routes() if to.prefixlen]
        taken += [subnet for vesw in self._model.vesws for subnet in _ipv4(vesw)]
        network = unused_link_network(taken, POOL)
        if network is None:
            raise LabError(f"uplinks.{self._name}: no network of four addresses is free in {POOL}")
        return network

    def _make_pair(self, machine: NamespaceRef, end: str) -> None:
        held = self._gateway.held
        assert held is not None  # noqa: S101 - the gateway is a host of the lab's own
        inner = self._name if len(self._name) <= INTERFACE_NAME_MAX else "uplink"
        fd = os.open(held, os.O_RDONLY | os.O_CLOEXEC)
        try:

            def pair(links: BridgeClient, mac: MacAddr) -> None:
                links.add_veth(end, mac, inner, random_mac(), fd)

            self._owned.make(self._uplink.host, machine, end, pair)
        finally:
            os.close(fd)
        with contextlib.closing(BridgeClient(held)) as links:
            found = links.find(inner)
            if found is None:
                raise NetdevError(f"interface {inner} vanished", errno.ENODEV)
            links.add_ip(found.ifindex, ipaddress.ip_interface(f"{self.gateway_end}/30"))
            links.set_up(found.ifindex, True)
            links.add_default_route(self.machine_end)

    def start(self, members: Iterable[NamespaceRef]) -> None:
        """Let the gateway forward, and let the members that are the lab's own send to it what has no other way.

        Raises:  LabError, NetdevError: it cannot be.
        """
        vesw = next(vesw for vesw in self._model.vesws if vesw.name == self._uplink.vesw)
        has = self._model.addresses(vesw, self._uplink.host)
        address = next((one for one in has if one.version == 4), None)
        if address is None:
            raise LabError(
                f"uplinks.{self._name}: host {self._uplink.host} has no IPv4 address in {vesw.name}"
            )
        _write(self._gateway.held, "net/ipv4/ip_forward", "1")
        for subnet in _ipv4(vesw):
            self._rules.append(Masquerade(f"opavnic-{self._name}", subnet, self._gateway.held))
        for place in members:
            if place.identity == self._gateway.identity:
                continue
            with contextlib.closing(BridgeClient(place.held)) as links:
                try:
                    links.add_default_route(ipaddress.IPv4Address(str(address.ip)))
                except NetdevError as error:
                    if error.errno != errno.EEXIST:  # it has one already, by another gateway
                        raise

    def close(self) -> None:
        """Take the rules away; the pair goes by the journal."""
        for rule in self._rules:
            rule.close()

    def state(self) -> dict[str, Any]:
        """Return what `opavnic status` shows."""
        return {
            "vesw": self._uplink.vesw,
            "nat": f"{self._uplink.host} as {self.gateway_end}",
            "state": "up" if self._outside else "this machine has no default route",
            "out": ", ".join(self._outside),
        }


def _ipv4(vesw: Vesw) -> list[ipaddress.IPv4Network]:
    return [subnet for subnet in vesw.subnet if isinstance(subnet, ipaddress.IPv4Network)]


def _write(held: Path | None, key: str, value: str) -> None:
    """Set a sysctl of an interface or a namespace of the lab's own. Raises LabError."""
    try:
        run_in_namespace(held, lambda: Path("/proc/sys", key).write_text(value, encoding="ascii"))
    except OSError as error:
        raise LabError(f"cannot set {key.replace('/', '.')} to {value}: {error.strerror}") from error
