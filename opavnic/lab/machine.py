"""What a lab creates on the machine: namespaces, hosts, interfaces. Each is in the journal before it is created."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal

from hfi_sim.netdev.tap import close_descriptors
from opavnic.lab.cleanup import Removed, netdev_names, remove_namespaces
from opavnic.lab.errors import PrivilegeError
from opavnic.lab.identity import NamespaceId
from opavnic.lab.interfaces import avoid_taken_names, plan_interfaces
from opavnic.lab.model import LabModel
from opavnic.lab.namespaces import NETNS_DIR, create_namespace, end_programs, private_directory
from opavnic.lab.runtime import Journal, LabDir, NamespaceEntry, NetdevEntry
from opavnic.lab.vnics import HostVnic
from opavnic.world.ends import Ends
from opavnic.world.ground.host import GroundHost, Interface, names_asked_for
from opavnic.world.ground.memory import AppHost, InMemoryHost
from opavnic.world.ground.tap import TapHost

NetdevKind = Literal["tap", "memory"]


class Machine:
    """The hosts of one lab and what they occupy on the machine."""

    def __init__(
        self,
        model: LabModel,
        directory: LabDir,
        journal: Journal,
        ends: Ends,
        *,
        netdev: NetdevKind,
        app_hosts: Collection[str],
    ) -> None:
        """Prepare; nothing is created yet.

        Args:  app_hosts: hosts whose VNICs belong to this process, not to a kernel.
        """
        self.hosts: dict[str, GroundHost] = {}
        self.removed = Removed(model.name)
        """What has been removed again."""
        self._model = model
        self._directory = directory
        self._journal = journal
        self._ends = ends
        self._netdev = netdev
        self._app_hosts = app_hosts

    def make_hosts(self, *, vnet_hdr: bool) -> None:
        """Create all hosts; their netdevs follow when an EM creates vports.

        Args:    vnet_hdr: create TAPs that can leave checksums and segmentation to the datapath.
        Raises:  LabError, HfiSimError: a host cannot be created.
        """
        self._ends.add("namespaces", lambda: remove_namespaces(self._journal, self.removed))
        for name in self._model.hosts:
            self.hosts[name] = self._make_host(name, vnet_hdr)
        machine = [host for host in self.hosts.values() if host.is_machine]
        reserved = names_asked_for(item for host in machine for item in host.interfaces)
        for host in machine:
            host.reserved = reserved

    def _make_host(self, name: str, vnet_hdr: bool) -> GroundHost:
        interfaces = plan_interfaces(self._model, name)
        if name in self._app_hosts:
            return AppHost(name, interfaces)
        if self._netdev == "memory":
            return InMemoryHost(name, interfaces)
        host = self._make_tap_host(name, interfaces, vnet_hdr)
        self._journal.netdevs += [NetdevEntry(name, item.name, host.namespace_name) for item in interfaces]
        self._directory.save(self._journal)
        return host

    def _make_tap_host(self, name: str, interfaces: list[Interface], vnet_hdr: bool) -> TapHost:
        lab, mark = self._model.name, f"opavnic:{self._model.name}"
        if self._model.hosts[name].netns == "own":
            host = TapHost(name, interfaces, self._make_namespace(name), mark, vnet_hdr=vnet_hdr)
            self._ends.add(f"host {name}", host.close)
            return host
        if self._journal.private:
            raise PrivilegeError(
                f"host {name} has netns: host, and without privilege the machine's own interfaces cannot be "
                "reached: run this as root"
            )
        host = TapHost(name, interfaces, None, mark, vnet_hdr=vnet_hdr)
        self._ends.add(f"host {name}", host.close)
        machine = (other for other in self.hosts.values() if other.is_machine)
        others = {item.name for other in machine for item in other.interfaces}
        avoid_taken_names(lab, interfaces, lambda wanted: wanted in others or host.has_interface(wanted))
        return host

    def _make_namespace(self, host: str) -> Path:
        directory = private_directory(self._directory.private_names) if self._journal.private else NETNS_DIR
        path = directory / f"opavnic-{self._model.name}-{host}"

        def announce(identity: NamespaceId) -> None:
            self._journal.namespaces.append(NamespaceEntry.of(host, path, identity))
            self._directory.save(self._journal)

        create_namespace(path, announce)
        return path

    @property
    def interfaces(self) -> list[Interface]:
        """All VNICs that the lab file requests."""
        return [interface for host in self.hosts.values() for interface in host.interfaces]

    @property
    def trouble(self) -> list[str]:
        """What went wrong while netdevs were created or set up."""
        return [line for host in self.hosts.values() for line in host.trouble]

    def forget_netdevs(self, host: str) -> None:
        """Forget the netdevs of a host: their driver is gone."""
        self.hosts[host].forget_netdevs()

    async def end_programs(self) -> None:
        """End all programs in the namespaces of the hosts."""
        self.removed.programs = await asyncio.to_thread(end_programs, self._journal.identities)

    async def give_interfaces_back(self, vnics: Iterable[HostVnic]) -> None:
        """Close the TAPs of all hosts together and record which of `vnics`, all VNICs of the lab, had one."""
        made = [vnic for vnic in vnics if vnic.netdev is not None]
        descriptors: list[int] = []
        try:
            for host in self.hosts.values():
                descriptors += host.release()
        finally:
            await asyncio.to_thread(close_descriptors, descriptors)
        there = {(vnic.host, vnic.interface) for vnic in made}
        self._journal.netdevs = [
            entry for entry in self._journal.netdevs if (entry.host, entry.name) in there
        ] + [
            NetdevEntry(vnic.host, vnic.interface, self.hosts[vnic.host].namespace_name)
            for vnic in made
            if vnic.asked is None
        ]
        self.removed.netdevs = netdev_names(self._journal)
