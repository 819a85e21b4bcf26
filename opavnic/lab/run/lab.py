"""A lab in Python: `async with Lab(model) as lab:` builds fabric, hosts and VNICs, and removes them again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from hfi_sim.base.errors import HfiSimError
from hfi_sim.base.text import counted
from hfi_sim.base.types import MacAddr
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath.selection import choose_datapath
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import losses
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.parts import CheckedModels, RunningParts, check_parts
from opavnic.lab.hosts import descriptors
from opavnic.lab.hosts.host_files import HostFiles, NamedVnic, named_vnics
from opavnic.lab.hosts.kernels import Kernels, kernel_hosts, kernels_among
from opavnic.lab.hosts.machine import LabHosts, NetdevKind
from opavnic.lab.hosts.reconcile import HostReconciler
from opavnic.lab.hosts.static_neighbours import StaticNeighbours, limits_of_size
from opavnic.lab.hosts.uplinks.ways import Ways
from opavnic.lab.hosts.vnics import HostVnic, facts_of, vnics_of
from opavnic.lab.ownership.cleanup import take_over
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir, runtime_root
from opavnic.lab.run.built import BuiltLab
from opavnic.lab.run.programs import ProgramRoutes
from opavnic.lab.run.readiness import Readiness, paced
from opavnic.lab.run.world_of import Share, carrier_of, manages, world_of
from opavnic.state.removed import Removed
from opavnic.world.cleanups import Cleanups
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_backends.given import VeswFacts
from opavnic.world.jobs import current_job
from opavnic.world.part import PartWorld
from opavnic.world.parts.capture import Captures
from opavnic.world.parts.devices import HostDevices, host_devices, native_datapath
from opavnic.world.parts.em import NoManager, ethernet_manager
from opavnic.world.parts.fabric import FabricRoutes
from opavnic.world.parts.management import AWAITED, fabric_management, mad_socket
from opavnic.world.world import World
from vema.em.desired.desired import VeswSection

if TYPE_CHECKING:
    from opavnic import _native

log = logging.getLogger("opavnic.lab")

_NOTICED_S: Final = 3.0
"""How long a kernel may take to notice a carrier: Linux looks once in a second."""


class Lab(BuiltLab):
    """One lab: creates the hosts, the World and the parts of a model, and ends them all."""

    def __init__(
        self,
        model: LabModel,
        *,
        netdev: NetdevKind = "tap",
        file: str = "",
        private: bool = False,
        progress: Callable[[str], None] | None = None,
        timer_resolution_s: float | None = None,
        app_hosts: Collection[str] = (),
        share: Share | None = None,
    ) -> None:
        """Prepare a lab; nothing is created yet.

        Args:  netdev: tap needs privilege, memory does not. file: absolute path of the lab file; "" if the model was
               built in Python. private: this process is in user, mount and network namespaces of its own. progress:
               called with what is being done. timer_resolution_s: shorter link delays are ignored; 0 on virtual time,
               None for the resolution of the loop. app_hosts: hosts whose VNICs the caller uses from this process,
               besides those of the apps in the model. share: what of it is on this machine; None: everything.
        """
        self.first_shape = model.fabric.topology
        """The topology of the lab file that it was started with."""
        directory = LabDir(runtime_root() / model.name)
        self.progress = progress if progress is not None else log.info
        self._timer_resolution_s = timer_resolution_s
        self._journal = Journal(
            model.name, os.getpid(), process_start_time(os.getpid()) or 0, file, private=private
        )
        if share is not None:
            self._journal.machine, self._journal.elsewhere = share.machine, dict(share.elsewhere)
        self._cleanups = Cleanups()
        machine = LabHosts(
            model,
            directory,
            self._journal,
            self._cleanups,
            netdev=netdev,
            app_hosts={*app_hosts, *(app.host for app in model.apps)},
        )
        parts = RunningParts(self._cleanups)
        super().__init__(model, directory, machine, parts, netdev=netdev, file=file, share=share)
        self.reconciler = HostReconciler(
            self.hosts, lambda: self.model, lambda: self.directory.device_socket if self._claimed else None
        )
        self.files: HostFiles | None = None
        self.devices: HostDevices | None = None
        self.kernels: Kernels | None = None
        self.checked = CheckedModels()
        self._ways: Ways | None = None
        self._stopping: asyncio.Future[Removed] | None = None
        self._carrier: _native.Carrier | None = None
        self._on_failure: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        """Claim the name and start."""
        self.claim()
        try:
            await self.start()
        except BaseException:
            await self.stop()  # `start` has done this, unless that was cancelled
            self.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and release the name.

        Raises:  LabError: something failed to stop; the rest has ended. If the context is left by an error, that one
                 gets a note instead.
        """
        removed = await self.stop()
        self.release()
        if removed.failed and error is None:
            raise LabError(removed.complaint)
        if removed.failed and error is not None:
            error.add_note(removed.complaint)

    # starting

    def claim(self) -> None:
        """Claim the lab's directory and remove what an earlier, killed run of the same lab left behind.

        Raises:  LabRunningError: the lab is already running. LabError: leftovers cannot be removed, or the limit of
                 open files is too low for the lab.
        """
        if self.netdev == "memory":
            return
        descriptors.provide(self.model)
        removed = take_over(self.directory)
        try:
            if removed is not None:
                self.progress(removed.of_an_earlier_run())
            self.directory.begin(self._journal)
        except BaseException:
            with contextlib.suppress(LabError):
                self.directory.remove()
            self.directory.release()
            raise
        self._claimed = True

    async def start(self) -> None:
        """Start everything and wait until every VNIC is operational, unless that is up to a fabric manager.

        Raises:  LabError: something cannot be started, or is not ready in time. On an error or cancellation,
                 everything started so far has been stopped.
        """
        try:
            await self._start()
        except BaseException as error:
            removed = await self.stop()
            if removed.failed:
                error.add_note(removed.complaint)
            if isinstance(error, HfiSimError) and not isinstance(error, LabError):
                raise LabError(str(error)) from error
            raise

    def _say(self, text: str) -> None:
        current_job().doing(text)
        self.progress(text)

    async def _start(self) -> None:
        self._started_at = asyncio.get_running_loop().time()
        lab_file_directory = Path(self._file).parent
        check_parts(self.model, lab_file_directory)
        self._choose_datapath()
        here = [name for name in self.model.hosts if self.share is None or name in self.share.hosts]
        self._say(f"making {counted(len(here), 'host')}")
        count = paced(len(here), "hosts made", self.progress, current_job())
        await self.machine.make_hosts(here, vnet_hdr=self.datapath.name == "native", progress=count)
        for name, host in self.hosts.items():
            self.connect_host(name, host)
        for said in limits_of_size(self.model, self.machine.kernels) if self.netdev == "tap" else ():
            self._say(said)
        self._prepare_ways()
        self.files = self._name_hosts()
        if self.datapath.name == "native":
            self._carrier = carrier_of(self.model)
        self._world = world_of(
            self.model,
            self.hosts,
            cleanups=self._cleanups,
            share=self.share,
            carrier=self._carrier,
            timer_resolution_s=self._timer_resolution_s,
        )
        self._cleanups.add(
            "interfaces", lambda: self.machine.give_interfaces_back(self.vnics()), patience_s=None
        )
        self.machine.watch_guests(self._lose_guest)
        await self._start_own_parts(self._world)
        if self._ways is not None:
            self._ways.connect(self.machine.places())
        if self.files is not None:
            self.files.write()
        await self._set_up_hosts()
        world = self._as_parts_see_it(self._world)
        await self.parts.start_installed(self.model, lab_file_directory, world, self.hosts)
        for fault in (*losses(self.model), *self.model.faults):
            self.world.faults.add(fault)
        self.world.refresh()
        if self.share is not None:
            await self.share.await_others()
        for host in self.hosts.values():
            host.announces = True
        self.machine.watch(self.hosts)
        self._say("ready")

    async def _set_up_hosts(self) -> None:
        """Set up the hosts that the lab file says more of, now that they have their VNICs."""
        setups = [name for name in self.hosts if self.reconciler.needs(name)]
        if self.netdev != "tap" or not setups:
            return
        if self.world.managed_by == "remote":
            await self._wait_ready()
        self._say(f"setting up {counted(len(setups), 'host')}")
        await self.reconciler.set_up(setups)

    def connect_host(self, name: str, host: HostBackend) -> None:
        """Let a host ask what virtual switches of its VNICs are that the file does not mention, and say its changes."""
        host.find_vesw = partial(self._vesw_of, name)
        host.on_set_up = partial(self.reconciler.vnic_is_back, name)
        if self.files is not None:
            host.on_change = self.files.write_soon

    def _vesw_of(self, host: str, vesw_id: int, nth: int) -> VeswFacts | None:
        name = self._vesw_names().get(vesw_id)
        if name is None:
            return None
        return facts_of(self.model, self.managed_vesws, name, vesw_id, host, nth)

    def _vesws_changed(self) -> None:
        for host in self.hosts.values():
            host.vesws_changed()
        if self.share is not None:
            self.share.vesws_changed()

    def take_vesws(self, vesws: Sequence[VeswSection]) -> None:
        """Know what virtual switches are called. Args: vesws: of an Ethernet Manager on another machine."""
        self._vesws_told = vesws
        self._vesws_changed()

    def _prepare_ways(self) -> None:
        led_out = self.model.uplinks or any(host.tap is not None for host in self.model.hosts.values())
        if not led_out or self.netdev != "tap":
            return
        ways = Ways(self.model, self.hosts, self.machine.owned, self._macs_of)
        self._cleanups.add("uplinks", ways.close)
        ways.prepare(self.machine.places())
        self.parts.own["uplinks"] = self._ways = ways

    def _macs_of(self, vesw: str) -> Iterator[MacAddr]:
        members = {item.name: item.id for item in self.model.vesws}
        for port in () if self._world is None else self._world.drivers.values():
            for adapter in port.adapters.values():
                if adapter.vesw_id == members[vesw]:
                    yield adapter.netdev.host_address

    def _name_hosts(self) -> HostFiles | None:
        if not self._claimed:
            return None
        own = {name: host.is_apart for name, host in self.model.hosts.items()}
        files = HostFiles(self.directory.host_names, own, self._named_vnics)
        files.after_writing = StaticNeighbours(self.vnics, self.hosts, lambda: self.model.vesws).refresh
        self._cleanups.add("names of hosts", files.close)
        for host in self.hosts.values():
            host.on_change = files.write_soon
        return files

    def _named_vnics(self) -> dict[str, list[NamedVnic]]:
        if self._world is None:
            return {}
        elsewhere = () if self.share is None else self.share.elsewhere
        return named_vnics(self.model, self.vnics(), self._vesw_names(), elsewhere)

    def _lose_guest(self, host: str, reason: str) -> None:
        log.error(
            "host %s: %s; its VNICs are gone, and its port is down until the lab is started again",
            host,
            reason,
        )
        self.world.lose(host)
        if self._ways is not None:
            self._ways.lose(host, reason)

    def _choose_datapath(self) -> None:
        try:
            self.datapath = choose_datapath(
                self.model.datapath.engine, tap=self.netdev == "tap", polynomial=self.model.icrc.polynomial
            )
        except DatapathUnavailableError as error:
            raise LabError(f"datapath: native: {error}; or write auto or python") from error
        if self.datapath.reason and self.netdev == "tap":
            self._say(f"on the Python datapath: {self.datapath.reason}")

    async def _start_own_parts(self, world: World) -> None:
        own = self.parts.own
        remote = None if self.share is None else self.share.remote_machines
        if self.share is not None:
            own["programs of other machines"] = programs = ProgramRoutes(self.model.name, self.host)
            self._cleanups.add("programs of other machines", programs.close, patience_s=None)
        positions = self.model.fabric.positions
        own["fabric"] = FabricRoutes(world, self.model.name, remote, positions)
        own["capture"] = Captures(world, remote)
        if world.managed_by == "external":
            pkeys = {vesw.name: vesw.pkey for vesw in self.model.vesws}
            await self.parts.start_own("fabric manager", fabric_management(world, pkeys))
            self._say(f"the fabric manager is {AWAITED}")
        if self._carrier is not None:
            merge_udp = self.model.datapath.merge_udp
            datapath = native_datapath(
                world, self._carrier, on_failure=self._datapath_failed, merge_udp=merge_udp
            )
            await self.parts.start_own("native datapath", datapath)
        for_programs = [name for name, host in self.hosts.items() if host.has_our_devices]
        device_socket = self.directory.device_socket if self._claimed else None
        devices = host_devices(world, for_programs, device_socket)
        self.devices = await self.parts.start_own("HFI devices", devices)
        self._cleanups.add("programs", self.machine.end_programs, patience_s=None)
        await self.boot_kernels(self.hosts)
        if manages(self.share):  # it is at the port of the managers
            socket = self.directory.mad_socket if self._claimed else None
            await self.parts.start_own("MAD socket", mad_socket(world, socket))
        if (em := self.model.em.mode) != "builtin" or not manages(self.share):
            reason = f"lab {self.model.name} has no Ethernet Manager of its own (em: {em})"
            if em == "builtin":
                reason = f"the Ethernet Manager of lab {self.model.name} runs on the coordinator"
            own["Ethernet Manager"] = NoManager(reason)
            return
        self._say(
            "the Ethernet Manager configures "
            + counted(len(self.model.vesws), "virtual switch", "virtual switches")
        )
        manager = ethernet_manager(world, em_config(self.model))
        self.manager = await self.parts.start_own("Ethernet Manager", manager)
        self.manager.em.on_applied = self._vesws_changed
        self.manager.em.hosts_ready = self._hosts_ready
        if world.managed_by == "builtin":
            await self._wait_ready()

    async def boot_kernels(self, names: Iterable[str]) -> None:
        """Boot those of these hosts that are kernels of their own. Raises LabError."""
        if hosts := kernels_among(self.hosts[name] for name in names):
            part = kernel_hosts(self.directory.kernel_socket, self.files, self.reconciler, self.progress)
            self.kernels = self.kernels or await self.parts.start_own("kernels", part)
            await self.kernels.boot(hosts)

    def _readiness(self) -> Readiness:
        def vnics(port: str) -> list[HostVnic]:
            driver = self.world.drivers[port]
            return vnics_of(self.hosts[self.world.host_of(driver.port)], driver)

        return Readiness(self.world.drivers, vnics, self.progress, self._why)

    async def _wait_ready(self) -> None:
        def trouble() -> list[str]:
            remote = [] if self.share is None else self.share.trouble()
            return self.machine.trouble + ([] if self.manager is None else self.manager.trouble) + remote

        def happened() -> int:
            return 0 if self.em_core is None else self.em_core.sets

        await self._readiness().wait(trouble, happened)

    async def _hosts_ready(self) -> None:
        """Wait a few seconds until kernels have noticed that their VNICs may send, and programs can use addresses."""
        await self._readiness().wait_for_addresses(_NOTICED_S)

    def _as_parts_see_it(self, world: World) -> PartWorld:
        return PartWorld(
            clock=world.clock,
            seed=self.model.seed,
            hosts=self.hosts,
            add_pkey=world.add_pkey,
            progress=self.progress,
            on_crash=world.on_crash,
            on_restart=world.on_restart,
            runtime=self.directory.parts if self._claimed else None,
            native=world.carrier,
        )

    def _datapath_failed(self, reason: str) -> None:
        log.error("%s", reason)
        self.failure = self._journal.failure = reason
        if self._claimed:
            self.directory.save(self._journal)
        self._on_failure()

    def on_failure(self, handler: Callable[[], None]) -> None:
        """Wait for a failure that ends all traffic. Args: handler: called when `failure` is set, at once if it is."""
        self._on_failure = handler
        if self.failure:
            handler()

    # stopping

    async def stop(self) -> Removed:
        """End everything that was started, once; return to every caller what was removed and what failed."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        return await asyncio.shield(self._stopping)

    async def _stop(self) -> Removed:
        removed = self.machine.removed
        removed.failed = await self._cleanups.close()
        if self.netdev == "tap":
            removed.directory = str(self.directory.path)
        return removed

    def release(self) -> None:
        """Remove the lab's directory and release its name, after `stop`. Does nothing if it was not claimed."""
        if self._claimed:
            self._claimed = False
            self.directory.remove()
            self.directory.release()
