"""What a lab creates on the machine: namespaces, hosts, interfaces. Each is in the journal before it is created."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

from hfi_sim.netdev.tun import close_descriptors
from hfi_sim.netdev.watch import POLL_S
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.lab.file.errors import LabError, PrivilegeError
from opavnic.lab.file.guest_model import GuestKeys
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.guests.guest import MACHINE, Guest, proven_namespace
from opavnic.lab.hosts.guests.kinds import KINDS
from opavnic.lab.hosts.kernel_host import KernelHost
from opavnic.lab.hosts.reconcile import set_up_early
from opavnic.lab.hosts.vnics import HostVnic, avoid_taken_names, plan_interfaces
from opavnic.lab.ownership.cleanup import netdev_names, remove_namespaces, undo
from opavnic.lab.ownership.identity import NamespaceId
from opavnic.lab.ownership.journal_entries import GuestEntry, NamespaceEntry, NetdevEntry
from opavnic.lab.ownership.namespaces import (
    NETNS_DIR,
    create_namespaces,
    end_programs,
    private_directory,
    remove_namespace,
)
from opavnic.lab.ownership.owned import NamespaceRef, Owned
from opavnic.lab.ownership.runtime import KERNEL, Journal, LabDir
from opavnic.state.removed import Removed
from opavnic.world.cleanups import Cleanups
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_backends.given import Interface
from opavnic.world.host_backends.memory_host import InMemoryHost
from opavnic.world.host_backends.tap import TapHost

# --- which namespaces a program may have been in -----------------------------------------------------------
# The kernel tells a watcher when a namespace is opened, by its name or by /proc/PID/ns/net, and the first one to
# come in has to open it. What is done there it does not tell. So a namespace that was opened once counts as
# visited from
# then on, also if it was by the lab itself, and so does one that cannot be watched.

_IN_OPEN: Final = 0x20
_IN_Q_OVERFLOW: Final = 0x4000
_IN_ONESHOT: Final = 0x80000000
_EVENT: Final = struct.Struct("iIII")
_READ: Final = 1 << 16


class Visits:
    """Watches the namespaces of one lab."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        self._untouched: dict[int, str] = {}
        """Hosts, by watch; that of a namespace goes with it."""

    def watch(self, namespaces: Mapping[str, Path]) -> None:
        """Watch the namespaces of hosts, in which no program of a user has been so far."""
        if self._fd < 0:
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for host, path in namespaces.items() if self._fd >= 0 else ():
            mask = ctypes.c_uint32(_IN_OPEN | _IN_ONESHOT)
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
            if watch >= 0:
                self._untouched[watch] = host

    @property
    def untouched(self) -> set[str]:
        """The hosts whose namespaces no program has opened since they are watched."""
        self._read()
        return set(self._untouched.values())

    def close(self) -> None:
        """Watch no more."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._untouched.clear()

    def _read(self) -> None:
        while self._untouched:
            try:
                events = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            at = 0
            while at < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                if mask & _IN_Q_OVERFLOW:
                    self._untouched.clear()
                self._untouched.pop(watch, None)


NetdevKind = Literal["tap", "memory"]
_BATCH: Final = 64
"""Namespaces that are made together, and written to the journal together."""
_POLLS: Final = 100.0
"""How many namespaces, at most, are asked in a second for what no kernel notifies."""


class LabHosts:
    """The hosts of one lab and what they occupy on the machine."""

    def __init__(
        self,
        model: LabModel,
        directory: LabDir,
        journal: Journal,
        cleanups: Cleanups,
        *,
        netdev: NetdevKind,
        app_hosts: Collection[str],
    ) -> None:
        """Prepare; nothing is created yet.

        Args:  app_hosts: hosts whose VNICs belong to this process, not to a kernel.
        """
        self.hosts: dict[str, HostBackend] = {}
        self.removed = Removed(model.name)
        """What has been removed again."""
        self._model = model
        self._vesws = model.vesws
        """The virtual switches that its hosts follow."""
        self.new_vesws = {vesw.id for vesw in model.vesws}
        """Those that the last change, or the start, has brought with all their members."""
        self._directory = directory
        self.journal = journal
        self._cleanups = cleanups
        self._netdev = netdev
        self._app_hosts = app_hosts
        self.visits = Visits()
        """Which of its namespaces were opened since their hosts are as they are to be."""
        self._guests: dict[str, Guest] = {}
        self._host_ends = cleanups
        self._forget_end: dict[str, Callable[[], None]] = {}
        self._vnet_hdr = False
        self._poll_s = POLL_S
        self.owned = Owned(journal, lambda: directory.save(journal))

    async def make_hosts(
        self, names: Sequence[str], *, vnet_hdr: bool, progress: Callable[[int], None]
    ) -> None:
        """Create the first hosts; their netdevs follow when an EM creates vports.

        Args:    vnet_hdr: create TAPs that can leave checksums and segmentation to the datapath. progress: called with
                 the number of hosts that are there.
        Raises:  LabError, HfiSimError: a host cannot be created.
        """
        self._cleanups.add("visits", self.visits.close)
        self._cleanups.add("namespaces", lambda: remove_namespaces(self.journal, self.removed))
        self._cleanups.add(
            "interfaces beside the VNICs", lambda: undo(self.journal, self.removed), patience_s=None
        )
        self._host_ends = self._cleanups.group("hosts")
        self._vnet_hdr = vnet_hdr
        await self._make(names, progress)
        machine = [host for host in self.hosts.values() if host.is_machine]
        for host in machine:
            host.beside = [other for other in machine if other is not host]

    async def _make(self, hosts: Sequence[str], progress: Callable[[int], None]) -> None:
        self._poll_s = max(POLL_S, (len(self.hosts) + len(hosts)) / _POLLS)
        for start in range(0, len(hosts), _BATCH):
            names = hosts[start : start + _BATCH]
            places = self._make_namespaces([name for name in names if self._has_namespace(name)])
            for name in names:
                self.hosts[name] = host = self._make_host(name, places.get(name))
                host.new_vesws = self.new_vesws
            progress(len(self.hosts))
            await asyncio.sleep(0)  # a signal may end the lab now
        if self._netdev == "tap":
            self._directory.save(self.journal)

    def watch(self, hosts: Iterable[str]) -> None:
        """Take note from now on of who opens the namespaces of hosts: all that the lab does at their start is done."""
        found = {name: self.hosts[name].namespace for name in hosts if self._has_namespace(name)}
        self.visits.watch({name: path for name, path in found.items() if path is not None})

    async def add(self, model: LabModel, hosts: Sequence[str]) -> None:
        """Create hosts of a lab that runs. Raises as `make_hosts`; none of them is there then."""
        before, self._model = self._model, model
        try:
            await self._make(hosts, lambda _: None)
        except BaseException:
            await self.remove(before, hosts)
            raise

    async def remove(self, model: LabModel, hosts: Sequence[str]) -> None:
        """End the programs of hosts with a namespace of the lab's own, and remove what there is of them."""
        self._model = model
        entries = [entry for entry in self.journal.namespaces if entry.host in hosts]
        await asyncio.to_thread(end_programs, [entry.identity for entry in entries])
        for name in hosts:
            if (forget := self._forget_end.pop(name, None)) is not None:
                forget()
            if (host := self.hosts.pop(name, None)) is not None:
                host.close()
        for entry in entries:
            remove_namespace(Path(entry.path), entry.identity)
            self.journal.namespaces.remove(entry)
        self.journal.netdevs = [entry for entry in self.journal.netdevs if entry.host not in hosts]
        self.journal.guests = [entry for entry in self.journal.guests if entry.host not in hosts]
        if self._netdev == "tap":
            self._directory.save(self.journal)

    def follow(self, model: LabModel) -> None:
        """Let hosts have the interfaces of another lab file, and the journal name them before they are made."""
        before = {vesw.id: vesw for vesw in self._vesws}
        self._model, self._vesws = model, model.vesws
        self.new_vesws.clear()
        self.new_vesws |= {vesw.id for vesw in model.vesws} - before.keys()
        others = {vesw.id for vesw in model.vesws if before.get(vesw.id) != vesw}
        planned = {name: plan_interfaces(model, name) for name in self.hosts}
        changed = {
            name: its
            for name, its in planned.items()
            if self.hosts[name].differs(its) or any(interface.vesw.id in others for interface in its)
        }
        for name, its in changed.items():
            self._follow(model, name, its)
        netdevs = [entry for entry in self.journal.netdevs if entry.host not in self.hosts]
        for (
            host
        ) in self.hosts.values():  # also those that did not change: VNICs that left are forgotten before
            if isinstance(host, TapHost):
                netdevs += [NetdevEntry(host.name, it.name, host.namespace_name) for it in host.interfaces]
        if netdevs != self.journal.netdevs:
            self.journal.netdevs = netdevs
            if self._netdev == "tap":
                self._directory.save(self.journal)

    def _follow(self, model: LabModel, host: str, planned: list[Interface]) -> None:
        backend = self.hosts[host]
        before = {interface.name for interface in backend.interfaces}
        new = backend.follow(planned)
        backend.restore_names()
        if backend.is_machine or backend.name in self._guests:
            avoid_taken_names(
                model.name,
                [interface for interface in new if interface.netdev is None],
                lambda name: name in before or (isinstance(backend, TapHost) and backend.has_interface(name)),
            )

    def _has_namespace(self, name: str) -> bool:
        """Whether a host gets a network namespace of this lab."""
        return self._netdev == "tap" and name not in self._app_hosts and self._model.hosts[name].is_apart

    def _make_host(self, name: str, namespace: Path | None) -> HostBackend:
        interfaces = plan_interfaces(self._model, name)
        of_app = name in self._app_hosts
        if of_app or self._netdev == "memory":
            return InMemoryHost(name, interfaces, of_app=of_app)
        if namespace is not None and self._model.hosts[name].kernel is not None:
            return self._make_kernel_host(name, interfaces, namespace)
        host = self._make_tap_host(name, interfaces, namespace)
        self.journal.netdevs += [NetdevEntry(name, item.name, host.namespace_name) for item in interfaces]
        return host

    def _make_tap_host(self, name: str, interfaces: list[Interface], namespace: Path | None) -> TapHost:
        lab, mark = self._model.name, self.journal.alias
        keys = self._model.hosts[name]
        if namespace is not None:
            host = TapHost(name, interfaces, namespace, mark, vnet_hdr=self._vnet_hdr, poll_s=self._poll_s)
            self._forget_end[name] = self._host_ends.add(f"host {name}", host.close)
            if keys.changes_its_kernel:
                set_up_early(host, keys)
            return host
        if self.journal.private:
            where = "is a guest" if keys.netns != "host" else "has netns: host"
            raise PrivilegeError(
                f"host {name} {where}, and without privilege the machine's own interfaces cannot be "
                "reached: run this as root"
            )
        if not keys.is_machine:
            return self._make_guest_host(name, keys, interfaces)
        host = TapHost(name, interfaces, None, mark, vnet_hdr=self._vnet_hdr)
        self._cleanups.add(f"host {name}", host.close)
        if keys.guest:
            host.runs_no_programs = KINDS[keys.guest].no_programs(name)
            identity = proven_namespace(MACHINE, f"host {name}")
            self.journal.guests.append(GuestEntry(name, keys.guest, "", identity.inode, identity.mark))
        machine = (other for other in self.hosts.values() if other.is_machine)
        others = {item.name for other in machine for item in other.interfaces}
        avoid_taken_names(lab, interfaces, lambda wanted: wanted in others or host.has_interface(wanted))
        return host

    def _make_kernel_host(self, name: str, interfaces: list[Interface], namespace: Path) -> KernelHost:
        """Let its process be in a network namespace of the lab: what is left there after a crash is the lab's."""
        wanted = self._model.hosts[name].kernel
        assert wanted is not None  # noqa: S101 - the caller has looked
        try:
            kernel = find_kernel(wanted.name, wanted.linux_driver)
        except KernelError as error:
            raise LabError(f"host {name}: {error}") from error
        (entry,) = (entry for entry in self.journal.namespaces if entry.host == name)
        self.journal.guests.append(GuestEntry(name, KERNEL, entry.path, entry.inode, entry.mark))
        setup = self._model.hosts[name]
        return KernelHost(name, interfaces, namespace, kernel, setup, wanted.linux_driver)

    def _make_guest_host(self, name: str, keys: GuestKeys, interfaces: list[Interface]) -> TapHost:
        guest = KINDS[keys.guest].find(name, keys)
        self._cleanups.add(f"guest {name}", guest.close)
        for other, there in self._guests.items():
            if there.entry.identity == guest.entry.identity:
                raise LabError(f"host {name}: {guest.what} is in the same network as host {other}")
        mark, vnet_hdr = self.journal.alias, self._vnet_hdr
        host = TapHost(name, interfaces, guest.held, mark, vnet_hdr=vnet_hdr, where=guest.what)
        self._cleanups.add(f"host {name}", host.close)
        avoid_taken_names(self._model.name, interfaces, host.has_interface)
        self._guests[name] = guest
        self.journal.guests.append(guest.entry)
        return host

    def watch_guests(self, lost: Callable[[str, str], None]) -> None:
        """Call `lost` with host and reason when a guest is no longer there. Raises LabError."""
        for name, guest in self._guests.items():
            guest.watch(asyncio.get_running_loop(), partial(self._lose, name, lost))

    def _lose(self, name: str, lost: Callable[[str, str], None], reason: str) -> None:
        host = self.hosts[name]
        host.lost = reason
        host.trouble.append(f"{name}: {reason}")
        lost(name, reason)
        host.close()
        self._guests[name].close()

    @property
    def kernels(self) -> list[str]:
        """The hosts whose kernel is that of this machine."""
        return [name for name, host in self.hosts.items() if _has_kernel(host) and not host.runs_no_programs]

    def places(self) -> dict[str, NamespaceRef]:
        """Return where each host with a kernel is. Raises LabError."""
        return {name: self._place(name) for name, host in self.hosts.items() if _has_kernel(host)}

    def _place(self, name: str) -> NamespaceRef:
        if (guest := self._guests.get(name)) is not None:
            return NamespaceRef(guest.entry.identity, guest.entry.namespace, guest.held)
        own = next((entry for entry in self.journal.namespaces if entry.host == name), None)
        if own is not None:
            return NamespaceRef(own.identity, own.path, Path(own.path))
        return NamespaceRef(proven_namespace(MACHINE, f"host {name}"))

    def _make_namespaces(self, hosts: Sequence[str]) -> dict[str, Path]:
        """Create a namespace for each host, and return where."""
        if not hosts:
            return {}
        directory = private_directory(self._directory.private_names) if self.journal.private else NETNS_DIR
        paths = {host: directory / f"opavnic-{self._model.name}-{host}" for host in hosts}

        def announce(identities: Sequence[NamespaceId]) -> None:
            self.journal.namespaces += map(NamespaceEntry.of, paths, paths.values(), identities)
            self._directory.save(self.journal)

        create_namespaces([*paths.values()], announce)
        return paths

    @property
    def interfaces(self) -> list[Interface]:
        """All VNICs that the lab file requests."""
        return [interface for host in self.hosts.values() for interface in host.interfaces]

    @property
    def trouble(self) -> list[str]:
        """What went wrong while netdevs were created or set up."""
        return [line for host in self.hosts.values() for line in host.trouble]

    async def end_programs(self) -> None:
        """End all programs in the namespaces of the hosts."""
        self.removed.programs = await asyncio.to_thread(end_programs, self.journal.identities)

    async def give_interfaces_back(self, vnics: Iterable[HostVnic]) -> None:
        """Close the TAPs of all hosts together and record which of `vnics`, all VNICs of the lab, had one."""
        made = [vnic for vnic in vnics if vnic.netdev is not None]
        descriptors: list[int] = []
        try:
            for host in self.hosts.values():
                descriptors += host.release()
        finally:
            await asyncio.to_thread(close_descriptors, descriptors)
        there = {(vnic.host, self.hosts[vnic.host].name_of(vnic.key)) for vnic in made}
        self.journal.netdevs = [
            entry for entry in self.journal.netdevs if (entry.host, entry.name) in there
        ] + [
            NetdevEntry(vnic.host, vnic.interface, self.hosts[vnic.host].namespace_name)
            for vnic in made
            if vnic.asked is None
        ]
        self.removed.netdevs = netdev_names(self.journal)


def _has_kernel(host: HostBackend) -> bool:
    return isinstance(host, TapHost)
