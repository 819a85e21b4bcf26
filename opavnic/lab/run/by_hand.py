"""What people have changed on the hosts of a running lab, and no lab file says: for `opavnic save` to name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import mac_text
from hfi_sim.netdev.namespace import CLONE_NEWNET, Libc, run_in_namespace, run_in_thread
from hfi_sim.netdev.netlink import LinkClient
from opavnic.lab.file.host_setup import HostSetup
from opavnic.lab.hosts.kernel_setup import set_sysctls
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.lab.ownership.namespaces import OWN_SYSCTLS
from opavnic.lab.run.lab import Lab

_SYSCTLS: Final = Path("/proc/sys/net")
_OF_INTERFACES: Final = ("conf", "neigh")
"""Directories with one directory for each interface; those of all interfaces and of new ones are compared."""
_FOR_ALL: Final = ("all", "default")
_FORWARD: Final = "net.ipv4.ip_forward"
_OWN: Final = {f"net.{key.replace('/', '.')}": value for key, value in OWN_SYSCTLS.items()}
_SHOWN: Final = 8

Sysctls = dict[str, str]


def vnics_by_hand(lab: Lab) -> Iterator[str]:
    """Yield what the hosts have changed at their VNICs."""
    mtus = {vesw.id: vesw.mtu for vesw in lab.model.vesws}
    core = None if lab.manager is None else lab.manager.em.core
    mtus |= {} if core is None else {vesw.id: vesw.mtu for vesw in core.config.vesws}
    for vnic in lab.vnics():
        if vnic.adapter is not None and vnic.adapter.vesw_id:
            yield from (f"{vnic}: {what}" for what in _changes(lab, vnic, mtus))


def _changes(lab: Lab, vnic: HostVnic, mtus: Mapping[int, int]) -> Iterator[str]:
    adapter, netdev = vnic.adapter, vnic.netdev
    assert adapter is not None and netdev is not None  # noqa: S101, PT018 - the caller has looked
    if netdev.moved_to:
        yield f"its interface is in {netdev.moved_to}"
    if vnic.interface != (given := lab.host(vnic.host).name_of(vnic.key)):
        yield f"interface {given} is called {vnic.interface}"
    if not netdev.is_up:
        yield "its interface is down"
    if netdev.mtu != (mtu := mtus.get(adapter.vesw_id, netdev.mtu)):
        yield f"MTU {netdev.mtu} instead of {mtu}"
    base = adapter.port_info.base_mac
    if any(base) and netdev.host_address != base:
        yield f"MAC address {mac_text(netdev.host_address)} instead of {mac_text(base)}"
    has = set(netdev.ip_addresses)
    for address in sorted(map(str, has - set(vnic.addresses))):
        yield f"IP address {address}"
    if lab.netdev == "tap" and not lab.host(vnic.host).is_machine:
        yield from (f"IP address {address} is missing" for address in vnic.addresses if address not in has)


@dataclass(frozen=True, slots=True)
class OwnNamespace:
    """A namespace of a lab, and what the lab has made there."""

    path: Path
    interfaces: frozenset[str]
    setup: HostSetup


def namespaces_of(lab: Lab) -> dict[str, OwnNamespace]:
    """Return the namespaces that are the lab's own, by host.

    Hosts with uplinks or commands are left out: the lab itself has made interfaces, routes and settings for these.
    """
    left_out = {uplink.host for uplink in lab.model.uplinks.values()}
    left_out |= {name for name, host in lab.model.hosts.items() if host.exec}
    vnics: dict[str, set[str]] = {}
    for vnic in lab.vnics():
        vnics.setdefault(vnic.host, {"lo"}).add(vnic.interface)
    return {
        name: OwnNamespace(host.namespace, frozenset(vnics.get(name, {"lo"})), lab.model.hosts[name])
        for name, host in lab.hosts.items()
        if host.namespace is not None and lab.model.hosts[name].is_own and name not in left_out
    }


def namespaces_by_hand(namespaces: Mapping[str, OwnNamespace]) -> list[str]:
    """Return what people have made in namespaces of the lab: routes, interfaces, sysctls. It takes a while.

    Sysctls are compared with those of a fresh namespace that is given the sysctls of the lab file.
    """
    found: list[str] = []
    plain = run_in_thread(_fresh_sysctls, "fresh namespace") if namespaces else {}
    for host, its in namespaces.items():
        try:
            said = its.setup.sysctls
            fresh = run_in_thread(partial(_fresh_sysctls, said), "fresh namespace") if said else plain
            found += [f"{host}: {what}" for what in _namespace_by_hand(its, fresh)]
        except (OSError, NetdevError) as error:
            found.append(f"{host}: what was made by hand is unknown: {error}")
    return found


def _namespace_by_hand(its: OwnNamespace, fresh: Sysctls) -> Iterator[str]:
    told = {"default" if not to.prefixlen else str(to) for to in (it.destination for it in its.setup.routes)}
    with contextlib.closing(LinkClient(its.path)) as links:
        yield from (f"route {route}" for route in links.routes_by_hand() if route.split()[0] not in told)
        yield from (
            f"interface {name}" for name in sorted({link.name for link in links.links_now()} - its.interfaces)
        )
    now = run_in_namespace(its.path, _sysctls)
    changed = [
        f"{key} = {now[key]}"
        for key, value in fresh.items()
        if now.get(key, value) not in (value, _OWN.get(key)) and not _follows(key, now, fresh)
    ]
    yield from (f"sysctl {line}" for line in changed[:_SHOWN])
    if (more := len(changed) - _SHOWN) > 0:
        yield f"{more} more sysctls"


def _follows(key: str, now: Sysctls, fresh: Sysctls) -> bool:
    """Return whether a setting changes with ip_forward, which has been changed."""
    of_ipv4 = key.startswith("net.ipv4.conf.") and key.endswith((".forwarding", "_redirects"))
    return of_ipv4 and now.get(_FORWARD) != fresh.get(_FORWARD)


def _fresh_sysctls(said: Mapping[str, str] | None = None) -> Sysctls:
    Libc().unshare(CLONE_NEWNET)
    set_sysctls(said or {})
    return _sysctls()


def _sysctls() -> Sysctls:
    """Return the settings of the network namespace that this thread is in; of interfaces, those for all."""
    found = {}
    for directory, inner, files in os.walk(_SYSCTLS):
        here = Path(directory)
        if here.name in _OF_INTERFACES:
            inner[:] = [name for name in inner if name in _FOR_ALL]
        for file in files:
            with contextlib.suppress(OSError, ValueError):
                key = str((here / file).relative_to(_SYSCTLS.parent)).replace("/", ".")
                found[key] = (here / file).read_text(encoding="ascii").strip()
    return found
