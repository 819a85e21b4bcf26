"""The ways out of a lab: prepared before its VNICs are made, and told whenever one is.

A bridge is looked up, or made around a NIC or the TAP of a virtual machine; then every VNIC that is to be its port is
put there as soon as it has been made, also after its driver was gone for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pwd
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hfi_sim.base.text import nearest
from hfi_sim.base.types import MacAddr, mac_text
from hfi_sim.netdev.bridging import BRIDGE, BridgeClient
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import LinkState
from hfi_sim.netdev.tun import make_lasting_tap
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.lab_sections import Vesw
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.uplink_model import Uplink
from opavnic.lab.hosts.uplinks.bridged import BridgedVnic, disable_ipv6
from opavnic.lab.hosts.uplinks.learning import Learning, Report
from opavnic.lab.hosts.uplinks.nat import Nat
from opavnic.lab.ownership.owned import NamespaceRef, Owned
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX
from opavnic.world.part import RunningPart

log = logging.getLogger("opavnic.lab.hosts.uplinks")

_NAMES_TRIED: Final = 100
MacsOfVesw = Callable[[str], Iterable[MacAddr]]
"""The addresses of the members of a virtual switch."""


class Ways(RunningPart):
    """All ways out of one lab."""

    def __init__(
        self, model: LabModel, hosts: Mapping[str, HostBackend], owned: Owned, macs_of: MacsOfVesw
    ) -> None:
        """Args:  hosts: of the lab. macs_of: the addresses of the members of a virtual switch when it is called."""
        self._model = model
        self._hosts = hosts
        self._owned = owned
        self._macs_of = macs_of
        self._learning: dict[str, Learning] = {}
        self._bridged: dict[str, BridgedVnic] = {}
        self._vesw_of: dict[str, str] = {}
        self._nats: dict[str, Nat] = {}
        self._bridges: dict[tuple[str, int], str] = {}

    def prepare(self, places: dict[str, NamespaceRef]) -> None:
        """Find or make everything that VNICs will be connected to.

        Raises:  LabError: an uplink leads nowhere, or would make a loop. NetdevError: the kernel refuses.
        """
        for name, uplink in self._model.uplinks.items():
            place = places[uplink.host]
            if uplink.nat:
                self._nats[name] = Nat(name, uplink, self._model, place, self._owned)
                continue
            with contextlib.closing(BridgeClient(place.held)) as links:
                bridge, nic = self._bridge_of(name, uplink, place, links)
            self._lead_out(name, uplink.host, uplink.vesw, place, bridge, uplink, outside=nic)
        for host, keys in self._model.hosts.items():
            if keys.tap is not None:
                vesw = self._model.vesws_of(host)[0]
                bridge, tap = self._make_machine_tap(host, places[host], vesw)
                self._lead_out(host, host, vesw.name, places[host], bridge, outside=tap)

    def connect(self, members: dict[str, NamespaceRef]) -> None:
        """Start NAT; the hosts have their addresses.

        Raises:  LabError, NetdevError: it cannot be.
        """
        for name, nat in self._nats.items():
            vesw = self._model.uplinks[name].vesw
            own = [
                host
                for host in self._model.hosts_of(self._vesw(vesw))
                if self._model.hosts[host].is_own and host in members
            ]
            nat.start([members[host] for host in own])

    def close(self) -> None:
        """Stop listening, and end NAT; what was made is removed by its journal."""
        for way in self._bridged.values():
            way.close()
        for nat in self._nats.values():
            nat.close()

    def _vesw(self, name: str) -> Vesw:
        return next(vesw for vesw in self._model.vesws if vesw.name == name)

    # bridges

    def _bridge_of(
        self, name: str, uplink: Uplink, place: NamespaceRef, links: BridgeClient
    ) -> tuple[LinkState, LinkState | None]:
        """Return the bridge, and the NIC that it was made for, if any."""
        there = {link.name: link for link in links.links_now()}
        wanted = uplink.bridge or uplink.nic or ""
        device = there.get(wanted)
        key = "bridge" if uplink.bridge else "nic"
        if device is None:
            known = [link.name for link in there.values() if (link.kind == BRIDGE) == (key == "bridge")]
            told = nearest(wanted, sorted(known))
            raise LabError(
                f'uplinks.{name}.{key}: there is no {key} "{wanted}" where host {uplink.host} is ({told})'
            )
        if uplink.bridge:
            if device.kind != BRIDGE:
                raise LabError(
                    f"uplinks.{name}.bridge: {wanted} is no bridge (for an interface, write nic: {wanted})"
                )
            return device, None
        if reason := _unfit(device, there, links.ip_addresses().get(device.ifindex, ())):
            raise LabError(f"uplinks.{name}.nic: {reason}")
        bridge = self._make_bridge(uplink.host, place, links, uplink.vesw)
        self._owned.set_up(place, links, device)
        links.set_master(device.ifindex, bridge.ifindex)
        return bridge, device

    def _make_bridge(self, host: str, place: NamespaceRef, links: BridgeClient, base: str) -> LinkState:
        taken = {link.name for link in links.links_now()} | self._hosts[host].reserved
        tried = [f"{base}-br", f"br-{base}", *(f"opa-br{number}" for number in range(_NAMES_TRIED))]
        name = next(name for name in tried if len(name) <= INTERFACE_NAME_MAX and name not in taken)
        bridge = self._owned.make(host, place, name, lambda its, mac: its.add_bridge(name, mac))
        run_in_namespace(place.held, lambda: disable_ipv6(name))
        links.set_up(bridge.ifindex, True)
        return bridge

    def _make_machine_tap(self, host: str, place: NamespaceRef, vesw: Vesw) -> tuple[LinkState, LinkState]:
        """Return the bridge of a virtual machine, and its TAP."""
        tap = self._model.hosts[host].tap
        assert tap is not None  # noqa: S101 - the caller has looked
        made = self._owned.make(
            host,
            place,
            tap.name,
            lambda its, mac: make_lasting_tap(its, tap.name, mac, _uid(host, tap.owner)),
        )
        run_in_namespace(place.held, lambda: disable_ipv6(tap.name))
        with contextlib.closing(BridgeClient(place.held)) as links:
            bridge = self._make_bridge(host, place, links, tap.name)
            for link in (made, bridge):
                links.set_mtu(link.ifindex, vesw.mtu)
            links.set_master(made.ifindex, bridge.ifindex)
            links.set_up(made.ifindex, True)
        return bridge, made

    def _lead_out(
        self,
        way: str,
        host: str,
        vesw: str,
        place: NamespaceRef,
        bridge: LinkState,
        uplink: Uplink | None = None,
        *,
        outside: LinkState | None = None,
    ) -> None:
        key = (place.identity.mark, bridge.ifindex)
        if (other := self._bridges.setdefault(key, way)) != way:
            raise LabError(
                f"uplinks.{way}: uplink {other} already leads to {bridge.name}: that would be a loop"
            )
        learning = self._learning.get(vesw)
        if learning is None:
            learning = self._learning[vesw] = Learning(on_fabric=lambda mac: mac in self._macs_of(vesw))
        self._vesw_of[way] = vesw
        if uplink is not None:
            learning.fix(way, uplink.static_macs)
        learns = uplink is None or uplink.mac == "learn"
        self._bridged[way] = BridgedVnic(
            way,
            bridge,
            place.held,
            asyncio.get_running_loop(),
            learnt=lambda its, mac: self._learnt(vesw, its, mac),
            forgotten=lambda its, mac: self._tell(learning.forgotten(its, mac)),
            closed=lambda its: self._tell(learning.closed(its)),
            reported=learning.behind,
            learns=learns,
            outside=outside,
            # nothing of this machine is to be reached at the bridge of a virtual machine
            is_reached=uplink is not None,
        )
        for interface in self._hosts[host].interfaces:
            if interface.vesw.name == vesw and not interface.nth:
                interface.attach = self._bridged[way].attach

    def _learnt(self, vesw: str, way: str, mac: MacAddr) -> None:
        learning = self._learning[vesw]
        before = learning.loops
        self._tell(learning.learnt(way, mac))
        if before == 0 < learning.loops:  # once: a loop brings thousands
            log.warning(
                "[uplink %s] %s, an address of virtual switch %s, was learnt outside: there is a loop outside, or "
                "a station there has the same address",
                way,
                mac_text(mac),
                vesw,
            )

    def _tell(self, reports: Iterable[Report]) -> None:
        for way, mac, is_there in reports:
            if way in self._bridged:
                self._bridged[way].report(mac, is_there)

    def lose(self, host: str, reason: str) -> None:
        """A host is gone, and with it the ways out that lead through it."""
        for way, bridged in self._bridged.items():
            uplink = self._model.uplinks.get(way)
            if uplink is not None and uplink.host == host:
                bridged.lose(reason)

    # state

    def status(self) -> dict[str, Any]:
        """Return the state of each way out, by its name."""
        rows: dict[str, Any] = {name: nat.state() for name, nat in self._nats.items()}
        for way, bridged in self._bridged.items():
            learning = self._learning[self._vesw_of[way]]
            row = {"vesw": self._vesw_of[way], **bridged.state(), "addresses": len(learning.behind(way))}
            row |= {key: value for key in ("moves", "loops", "refused") if (value := getattr(learning, key))}
            rows[way] = row
        return rows

    def addresses(self, way: str) -> list[MacAddr]:
        """Return the addresses that are behind a way out."""
        return self._learning[self._vesw_of[way]].behind(way)


def _unfit(nic: LinkState, there: dict[str, LinkState], addresses: Iterable[object]) -> str:
    """Return why an interface cannot be lent to a bridge of the lab; empty if it can."""
    if nic.loopback or nic.kind == BRIDGE:
        return f"{nic.name} is {'the loopback' if nic.loopback else f'a bridge: write bridge: {nic.name}'}"
    if nic.master:
        above = next((link.name for link in there.values() if link.ifindex == nic.master), f"#{nic.master}")
        return f"{nic.name} is a port of {above} already: write bridge: {above}"
    if texts := ", ".join(map(str, addresses)):
        return (
            f"{nic.name} has {texts}, which would stop to work in a bridge: give a NIC without addresses, or a bridge "
            "that has them"
        )
    return ""


def _uid(host: str, owner: str | None) -> int | None:
    """Return the number of a user. Raises LabError: there is no such user."""
    if owner is None or owner.isdigit():
        return None if owner is None else int(owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise LabError(f'hosts.{host}.tap.owner: there is no user "{owner}"') from None
