"""The World of a lab, or one machine's share of it: fabric and engine, its subnet manager, and its hosts on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import mode
from typing import TYPE_CHECKING

from hfi_sim.base.precise_loop import timer_resolution_s as resolution_of
from hfi_sim.base.types import PKEY_DEFAULT, CapabilityMask3
from hfi_sim.subnet_manager import Routing
from hfi_sim.wire.icrc import Icrc
from opavnic.datapath.selection import choose_workers
from opavnic.engine.threaded import ThreadedDriver, carrier_engine, native_carrier
from opavnic.kernel.drivers import HFI1
from opavnic.lab.file.fabric_model import ALLOW
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.problems import names_that_can_crash
from opavnic.lab.file.topology import lab_topology
from opavnic.lab.hosts.kernel_host import FurtherPort, KernelDriver, KernelHost
from opavnic.state.lab import ClusterStatus, LabState
from opavnic.world.cleanups import Cleanups
from opavnic.world.em_node import EM_NODE
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_driver import HostDriver
from opavnic.world.power_on import allow_management
from opavnic.world.remote_machines import RemoteMachines
from opavnic.world.world import ManagedBy, World

if TYPE_CHECKING:
    from opavnic import _native


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of a lab on this machine, and its callbacks."""

    machine: str
    """The name of this machine in the cluster."""
    hosts: frozenset[str]
    """The hosts that are here."""
    elsewhere: Mapping[str, str]
    """The hosts on other machines, each with its machine."""
    remote_nodes: frozenset[str]
    """The nodes of the fabric, HFIs and switches, that other machines carry."""
    manages: bool
    """Whether subnet manager and Ethernet Manager of the lab run here."""
    attach: Callable[[World], None]
    """Called with the world once it is wired, before anything runs on it."""
    await_others: Callable[[], Awaitable[None]]
    """Waits until the other machines are ready as well."""
    trouble: Callable[[], list[str]]
    """Returns why other machines will not be ready."""
    status: Callable[[], ClusterStatus]
    """Returns the entry `cluster` of the state of this machine."""
    fold: Callable[[LabState], Awaitable[LabState]]
    """Makes the state of this machine that of the whole lab."""
    remote_machines: RemoteMachines
    """The other machines, as the parts of the lab ask them."""
    vesws_changed: Callable[[], None]
    """Called when the Ethernet Manager has other virtual switches."""


def manages(share: Share | None) -> bool:
    """Return whether the subnet manager and the Ethernet Manager at work are on this machine."""
    return share is None or share.manages


def carrier_of(model: LabModel) -> _native.Carrier:
    """Return a native carrier, not started, with the workers that a lab is given."""
    ports = [host.hfis * host.ports for host in model.hosts.values()]
    return native_carrier(
        icrc_always=model.icrc.links == "always",
        workers=choose_workers(model.datapath.workers, len(ports), len(os.sched_getaffinity(0))),
        ports_per_host=mode(ports),
    )


def world_of(
    model: LabModel,
    hosts: Mapping[str, HostBackend],
    *,
    cleanups: Cleanups,
    share: Share | None = None,
    carrier: _native.Carrier | None = None,
    timer_resolution_s: float | None = None,
) -> World:
    """Wire the fabric of a lab, and give each host on this machine its agents.

    Args:  hosts: those on this machine. share: what of the lab is here; None: everything. carrier: of `carrier_of`, not
           started; None: the Python engine. timer_resolution_s: shorter link delays are ignored; None for the
           resolution of the loop.
    """
    loop = asyncio.get_running_loop()
    topology = lab_topology(model.fabric, model.hosts, [EM_NODE])
    make_world = partial(
        World,
        topology,
        clock=loop,
        seed=model.seed,
        icrc=Icrc(model.icrc.polynomial),
        timer_resolution_s=resolution_of(loop) if timer_resolution_s is None else timer_resolution_s,
        subnet_manager=_managed_by(model, share),
        routing=Routing(engine=model.fabric.routing, may_deadlock=model.fabric.deadlock == ALLOW),
        descriptions=model.fabric.descriptions,
        cleanups=cleanups,
        remote_nodes=() if share is None else share.remote_nodes,
    )
    if carrier is not None:
        make_world = partial(make_world, engine=carrier_engine(carrier), driver=ThreadedDriver)
    world = make_world()
    let_manage(world, model, model.hosts)
    if world.managed_by == "builtin":
        if share is not None:
            world.subnet_manager.reserve_lids()
        world.subnet_manager.sweep()
    _add_agents(world, model, hosts)
    for name in set(model.hosts) - hosts.keys() if manages(share) else ():
        for port in world.hosts[name].ports:
            port.announce(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)  # as its machine will
    if share is not None:
        share.attach(world)
    return world


def _managed_by(model: LabModel, share: Share | None) -> ManagedBy:
    asked = model.subnet_manager.mode
    return "remote" if asked == "builtin" and not manages(share) else asked


def _partitions(model: LabModel, host: str, port: str) -> list[int]:
    """Return the partitions of a port: those of its virtual switches; of hfi1, for IPoIB and verbs, the default one."""
    kernel = model.hosts[host].kernel
    first = [PKEY_DEFAULT] if kernel is not None and kernel.linux_driver is HFI1 else []
    return [*first, *(vesw.pkey for vesw, member in model.vnics[host] if member.name == port)]


def _add_agents(world: World, model: LabModel, hosts: Mapping[str, HostBackend]) -> None:
    """Give each port of the hosts on this machine its agent, and let those crash of which the lab file says it."""
    can_crash = names_that_can_crash(model)
    for name, backend in hosts.items():
        add_agent(world, model, backend, can_crash=name in can_crash)
    for name in set(can_crash) - hosts.keys():
        # its machine does it, or the manager once it starts
        world.faults.hook(name, lambda: None, lambda: None)


def add_agent(world: World, model: LabModel, backend: HostBackend, *, can_crash: bool) -> None:
    """Give each port of a host its agent."""
    host = world.hosts[backend.name]
    backend.speed = (
        0 if host.port.link is None else round(host.port.link.planned_bps / 1e6)
    )  # as it is cabled
    backend.ports = host.ports
    if isinstance(backend, KernelHost):
        is_set_up = world.managed_by != "external"
        first = KernelDriver(backend, world.fabric, is_set_up=is_set_up)
        drivers: list[HostDriver] = [first, *(FurtherPort(port, first) for port in backend.ports[1:])]
        for driver in drivers:
            unloaded = partial(backend.forget_netdevs, driver.port.name)
            world.add_driver(backend.name, driver, can_crash=can_crash, unloaded=unloaded)
        return
    for port in backend.ports:
        world.add_vnic_port(
            backend.name,
            port=port,
            netdevs=partial(backend.make_netdev, port.name),
            configured=partial(backend.configured, port.name),
            unloaded=partial(backend.forget_netdevs, port.name),
            can_crash=can_crash,
            driver_quirks=model.driver_quirks,
            sets_need_full_member=model.em.sets_need_full_member,
        )


def let_manage(
    world: World, model: LabModel, hosts: Iterable[str], *, before: LabModel | None = None
) -> None:
    """Put the ports of hosts in their partitions, and let those manage the fabric that may.

    Args:  before: the model that hosts have followed so far: they stay in its partitions, too, since their VNICs bear
           the old P_Keys until the Ethernet Manager has told them the new ones; P_Keys that a fabric manager has given
           are left to it. None: the hosts are new.
    """
    managing = model.managing_hosts
    for name in hosts:
        manages_it = name in managing
        for port in world.hosts[name].ports:
            if world.managed_by == "external":
                if before is None or port.mgmt_allowed != manages_it:
                    allow_management(port, manages_it)
            elif world.managed_by == "builtin":
                kept = [] if before is None else _partitions(before, name, port.name)
                world.set_pkeys(port, [*kept, *_partitions(model, name, port.name)])
                world.subnet_manager.set_management(port, manages_it)
