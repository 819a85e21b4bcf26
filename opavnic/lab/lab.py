"""A lab in Python: `async with Lab(model) as lab:` builds fabric, hosts and VNICs, and takes them away again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from hfi_sim.did_you_mean import nearest
from hfi_sim.errors import HfiSimError, NetdevError
from hfi_sim.mad.agents import MadRequest
from hfi_sim.mad.header import MadClass, Method
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tap import close_descriptors
from hfi_sim.precise_loop import timer_resolution_s as resolution_of
from hfi_sim.wire.icrc import Icrc
from opavnic.adapter import Adapter
from opavnic.datapath.native import NativeDatapath
from opavnic.datapath.selection import Choice, choose_datapath
from opavnic.errors import DatapathUnavailableError
from opavnic.lab import descriptors
from opavnic.lab.apps import LabApp, LabService, NodeHost, service_factories, start_app
from opavnic.lab.cleanup import Removed, netdev_names, remove_namespaces, take_over
from opavnic.lab.errors import LabError, PrivilegeError
from opavnic.lab.hosts import (
    InMemoryHost,
    Interface,
    LabHost,
    TapHost,
    avoid_taken_names,
    names_asked_for,
    plan_interfaces,
)
from opavnic.lab.identity import NamespaceId
from opavnic.lab.manager import BuiltinManager
from opavnic.lab.model import LabModel, hosts_that_can_crash
from opavnic.lab.namespaces import (
    NETNS_DIR,
    create_namespace,
    end_programs,
    private_directory,
)
from opavnic.lab.runtime import (
    Journal,
    LabDir,
    NamespaceEntry,
    NetdevEntry,
    process_start_time,
    runtime_root,
)
from opavnic.lab.status import counter_status, drop_status, link_status, vnic_state, vnic_status
from opavnic.lab.topology import lab_topology
from opavnic.lab.units import counted
from opavnic.lab.vnics import HostVnic, vnics_of
from opavnic.mad_socket import MadSocketServer
from opavnic.world.em_node import EM_NODE
from opavnic.world.ends import Ends
from opavnic.world.world import World
from vema.types import EMA_OUI, VportNum

log = logging.getLogger("opavnic.lab")

NetdevKind = Literal["tap", "memory"]
CONVERGENCE_S: Final = 30.0
"""How long it may take until every VNIC is operational."""
_LOOK_AGAIN_S: Final = 0.01


class Lab:
    """One lab, from its model. Attributes are there after `start`."""

    hosts: dict[str, LabHost]

    def __init__(
        self,
        model: LabModel,
        *,
        netdev: NetdevKind = "tap",
        file: str = "",
        private: bool = False,
        progress: Callable[[str], None] | None = None,
        timer_resolution_s: float | None = None,
    ) -> None:
        """Prepare a lab; nothing is made yet.

        Args:  netdev: tap needs privilege, memory none. file: where the model comes from. private: this process
               is in user, mount and network namespaces of its own. progress: told what is being done.
               timer_resolution_s: link delays below it pass at once; 0 on virtual time, None for what the loop can
               keep.
        """
        self.model = model
        self.file = file
        """The lab file, absolute; "" where the model was made in Python."""
        self.netdev: NetdevKind = netdev
        self.directory = LabDir(runtime_root() / model.name)
        self.progress = progress if progress is not None else log.info
        self.hosts = {}
        self.apps: dict[str, LabApp] = {}
        """Apps that run, by host."""
        self.services: dict[str, LabService] = {}
        """Services that run, by name."""
        self._private = private
        self._timer_resolution_s = timer_resolution_s
        self._journal = Journal(model.name, os.getpid(), process_start_time(os.getpid()) or 0, file, private)
        self._world: World | None = None
        self._manager: BuiltinManager | None = None
        self._ends = Ends()
        self._removed = Removed(model.name)
        self._stopping: asyncio.Future[Removed] | None = None
        self._native: NativeDatapath | None = None
        self.datapath = Choice("python")
        """What carries frames; settled by `start`."""
        self.failure = ""
        """Why a lab that was ready cannot go on; empty while it can."""
        self._on_failure: Callable[[], None] = _nothing
        self._started_at = 0.0
        self._claimed = False

    async def __aenter__(self) -> Self:
        """Claim the name and start."""
        self.claim()
        try:
            await self.start()
        except BaseException:
            await self.stop()  # it has, unless that was cancelled
            self.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and give the name back.

        Raises:  LabError: something did not end as it should; the rest has. Where the lab is left by an error, that
                 one gets a note instead.
        """
        removed = await self.stop()
        self.release()
        if removed.failed and error is None:
            raise LabError(removed.complaint)
        if removed.failed and error is not None:
            error.add_note(removed.complaint)

    # coming

    def claim(self) -> None:
        """Take the lab's directory, and remove what an earlier run of the same lab left when it was killed.

        Raises:  LabRunningError: the lab runs already. LabError: leftovers cannot be removed, or the limit of open
            files is too low for the lab.
        """
        if self.netdev == "memory":
            return
        descriptors.provide(self.model)
        removed = take_over(self.directory)
        try:
            if removed is not None:
                self.progress(removed.of_an_earlier_run())
            self.directory.save(self._journal)
        except BaseException:
            with contextlib.suppress(LabError):
                self.directory.remove()
            self.directory.release()
            raise
        self._claimed = True

    async def start(self) -> None:
        """Make everything and wait until every VNIC is operational.

        Raises:  LabError: something cannot be made, or does not get ready. Then, and when this is cancelled, what was
                 made has been stopped.
        """
        try:
            await self._start()
        except BaseException as error:
            removed = await self.stop()
            if removed.failed:
                error.add_note(removed.complaint)
            if isinstance(error, HfiSimError):
                raise LabError(str(error)) from error
            raise

    async def _start(self) -> None:
        self._started_at = asyncio.get_running_loop().time()
        self._choose_datapath()
        self.progress(f"making {counted(len(self.model.hosts), 'host')}")
        self._ends.add("namespaces", lambda: remove_namespaces(self._journal, self._removed))
        for name in self.model.hosts:
            self.hosts[name] = self._make_host(name)
        self._world = self._make_world()
        self._make_vnic_ports()
        self._ends.add("interfaces", self._give_interfaces_back, patience_s=None)
        self._start_datapath()
        self._ends.add("programs", self._end_programs, patience_s=None)
        await self._open_mad_socket()
        if self.model.em.mode == "builtin":
            vesws = counted(len(self.model.vesws), "virtual switch", "virtual switches")
            self.progress(f"the Ethernet Manager configures {vesws}")
            self._manager = BuiltinManager(self.model, self.world)
            self._ends.add("Ethernet Manager", self._manager.close)
            await self._wait_ready(self._manager)
        for app in self.model.apps:
            self.apps[app.host] = running = await start_app(self, app)
            self._ends.add(f"app {app.kind} on {app.host}", running.stop)
        for name, factory in service_factories():
            service = await factory(self)
            if service is not None:
                self.services[name] = service
                self._ends.add(f"service {name}", service.stop)
        for fault in self.model.faults:
            self.world.faults.add(fault)
        if self._native is not None:
            self._native.refresh()
        self.progress("ready")

    def _make_world(self) -> World:
        model, loop = self.model, asyncio.get_running_loop()
        resolution = self._timer_resolution_s
        topology = lab_topology(
            model.fabric.topology,
            {name: (host.hfis, host.ports) for name, host in model.hosts.items()},
            [EM_NODE],
            link=model.fabric.link,
        )
        world = World(
            topology,
            clock=loop,
            seed=model.seed,
            icrc=Icrc(model.icrc.polynomial),
            timer_resolution_s=resolution_of(loop) if resolution is None else resolution,
            routing=model.fabric.routing,
            ends=self._ends,
        )
        for name in model.hosts:
            if pkeys := [vesw.pkey for vesw in model.vesws_of(name)]:
                world.set_pkeys(world.hosts[name].port, pkeys)
        world.subnet_manager.sweep()
        return world

    def _choose_datapath(self) -> None:
        try:
            self.datapath = choose_datapath(
                self.model.datapath, tap=self.netdev == "tap", polynomial=self.model.icrc.polynomial
            )
        except DatapathUnavailableError as error:
            raise LabError(f"datapath: native: {error}; or write auto or python") from error
        if self.datapath.reason and self.netdev == "tap":
            self.progress(f"on the Python datapath: {self.datapath.reason}")

    def _start_datapath(self) -> None:
        if self.datapath.name == "native":
            native = self._native = NativeDatapath(
                self.world.fabric,
                self.world.vnic_ports,
                asyncio.get_running_loop(),
                on_failure=self._datapath_failed,
                icrc=self.model.icrc.links == "always",
            )
            self._ends.add("native datapath", self._native.close)
            self.world.faults.on_change = self._native.changed
            self.world.on_crash(lambda _host: native.refresh())  # it holds TAPs open as well

    def _datapath_failed(self, reason: str) -> None:
        log.error("%s", reason)
        self.failure = reason
        self._on_failure()

    def on_failure(self, handler: Callable[[], None]) -> None:
        """Call `handler` when `failure` is set, now if it is already: the lab should be stopped."""
        self._on_failure = handler
        if self.failure:
            handler()

    @property
    def native(self) -> NativeDatapath | None:
        """The native datapath, where the lab runs on it."""
        return self._native

    def _make_host(self, name: str) -> LabHost:
        interfaces = plan_interfaces(self.model, name)
        if any(app.host == name for app in self.model.apps):
            return NodeHost(name, interfaces)
        if self.netdev == "memory":
            return InMemoryHost(name, interfaces)
        return self._make_tap_host(name, interfaces)

    def _make_tap_host(self, name: str, interfaces: list[Interface]) -> TapHost:
        mark = f"opavnic:{self.model.name}"
        vnet_hdr = self.datapath.name == "native"
        if self.model.hosts[name].netns == "host":
            if self._private:
                raise PrivilegeError(
                    f"host {name} has netns: host, and without privilege the machine's own interfaces are out of "
                    "reach: run this as root"
                )
            host = TapHost(name, interfaces, None, mark, vnet_hdr=vnet_hdr)
            self._ends.add(f"host {name}", host.close)
            machine = filter(_is_machine, self.hosts.values())
            others = {item.name for other in machine for item in other.interfaces}
            avoid_taken_names(
                self.model.name, interfaces, lambda wanted: wanted in others or host.has_interface(wanted)
            )
        else:
            host = TapHost(name, interfaces, self._make_namespace(name), mark, vnet_hdr=vnet_hdr)
            self._ends.add(f"host {name}", host.close)
        where = host.namespace.name if host.namespace is not None else None
        self._journal.netdevs += [NetdevEntry(name, item.name, where) for item in interfaces]
        self.directory.save(self._journal)
        return host

    def _make_namespace(self, host: str) -> Path:
        directory = private_directory(self.directory.private_names) if self._private else NETNS_DIR
        path = directory / f"opavnic-{self.model.name}-{host}"

        def announce(identity: NamespaceId) -> None:
            self._journal.namespaces.append(NamespaceEntry.of(host, path, identity))
            self.directory.save(self._journal)

        create_namespace(path, announce)
        return path

    def _make_vnic_ports(self) -> None:
        machine = [host for host in self.hosts.values() if _is_machine(host)]
        reserved = names_asked_for(item for host in machine for item in host.interfaces)
        for host in machine:
            host.reserved = reserved
        can_crash = hosts_that_can_crash(self.model)
        for name, host in self.hosts.items():
            self.world.add_vnic_port(
                name,
                netdevs=host.make_netdev,
                can_crash=name in can_crash,
                driver_quirks=self.model.driver_quirks,
                sets_need_full_member=self.model.em.sets_need_full_member,
            )
        self.world.on_crash(lambda name: self.hosts[name].forget_netdevs())

    async def _open_mad_socket(self) -> None:
        """Let programs outside manage from the `em` node; traps to it go to them and to the built-in manager."""
        mad = self.world.em_port.mad
        server = MadSocketServer(mad, agents=lambda: list(self.world.agent_lids()))

        def trap(request: MadRequest) -> None:
            server.trap(request)
            if self._manager is not None:
                self._manager.trap(request)

        mad.register_agent(MadClass.EMA, EMA_OUI, (Method.TRAP,), trap)
        if self._claimed:
            await server.start(self.directory.mad_socket)
            self._ends.add("MAD socket", server.close)

    async def _wait_ready(self, manager: BuiltinManager) -> None:
        deadline = asyncio.get_running_loop().time() + CONVERGENCE_S
        while True:
            trouble = [line for host in self.hosts.values() for line in host.trouble] + manager.trouble
            if trouble:
                raise LabError("; ".join(dict.fromkeys(trouble)))
            missing = [
                f"{vnic} is {state}"
                for vnic in self.vnics()
                if vnic.asked is not None and (state := vnic_state(vnic)) != "up"
            ]
            if not missing:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise LabError(f"not ready within {CONVERGENCE_S:g} s: {', '.join(missing)}")
            await asyncio.sleep(_LOOK_AGAIN_S)  # the kernel says "up" when it likes

    # looking

    @property
    def world(self) -> World:
        """Its fabric and what runs on it.

        Raises:  LabError: the lab has not been started.
        """
        if self._world is None:
            raise LabError(f"lab {self.model.name} has no fabric yet: start it first")
        return self._world

    @property
    def manager(self) -> BuiltinManager | None:
        """The lab's own Ethernet Manager; None where the lab file leaves the work to others."""
        return self._manager

    @property
    def interfaces(self) -> list[Interface]:
        """All VNICs that the lab file asks for."""
        return [interface for host in self.hosts.values() for interface in host.interfaces]

    def vnics(self) -> Iterator[HostVnic]:
        """Yield all VNICs, also those that an EM has made and the lab file does not know."""
        for name, port in self.world.vnic_ports.items():
            yield from vnics_of(self.hosts[name], port)

    def host(self, name: str) -> LabHost:
        """Return a host. Raises LabError with the nearest name where there is none."""
        if name not in self.hosts:
            raise LabError(f'unknown host "{name}" ({nearest(name, self.hosts)})')
        return self.hosts[name]

    def interface(self, host: str, vesw: str) -> Interface:
        """Return the VNIC of a host in a virtual switch. Raises LabError where there is none."""
        interfaces = {interface.vesw.name: interface for interface in self.host(host).interfaces}
        if vesw not in interfaces:
            raise LabError(f'host {host} has no VNIC in "{vesw}" ({nearest(vesw, interfaces)})')
        return interfaces[vesw]

    def adapter(self, interface: Interface) -> Adapter | None:
        """Return the VNIC behind an interface, once the EM has created it."""
        return self.world.vnic_ports[interface.host].adapters.get(VportNum(interface.vport_num))

    @property
    def mads(self) -> int:
        """MADs that all ports have sent, responses and retries included."""
        return sum(port.mad.sent for port in self.world.fabric.hfi_ports())

    def kernel_counters(self) -> dict[str, dict[str, int]]:
        """Return what the kernel has counted at each TAP, by host and virtual switch; none of one that is gone.

        A TAP of which the lab file does not know goes by host and interface.
        """
        found = {}
        for vnic in self.vnics():
            with contextlib.suppress(NetdevError):
                counted = None if vnic.netdev is None else vnic.netdev.kernel_counters()
                if counted is not None:
                    found[str(vnic)] = counted
        return found

    def status(self, *, counters: bool = False) -> dict[str, Any]:
        """Return the lab as plain data, with what every element counted where asked for."""
        if self._native is not None:
            self._native.sync()
        kernel = {f"{name} netdev": values for name, values in self.kernel_counters().items()}
        data: dict[str, Any] = {
            "lab": self.model.name,
            "pid": os.getpid(),
            "file": self._journal.file,
            "uptime_s": round(asyncio.get_running_loop().time() - self._started_at, 6),
            "netdev": self.netdev,
            "datapath": self.datapath.name,
            "datapath_reason": self.datapath.reason,
            "em": self.model.em.mode,
            "em_failed": "" if self._manager is None else self._manager.failed,
            "driver_quirks": self.model.driver_quirks,
            "fabric_id": self.model.fabric.id,
            "seed": self.model.seed,
            "mads": self.mads,
            "hosts": self._host_status(),
            "apps": [
                {"kind": app.kind, "host": app.host, **self.apps[app.host].status()}
                for app in self.model.apps
                if app.host in self.apps
            ],
            "links": link_status(
                self.world.fabric, self.datapath.name, self._native.slow_links() if self._native else {}
            ),
            "drops": drop_status(self.world.fabric, kernel),
            "balance": self.world.fabric.balance(),
        }
        if counters:
            adapters = {str(vnic): vnic.adapter for vnic in self.vnics() if vnic.adapter is not None}
            agents = {host: port.agent.counters for host, port in self.world.vnic_ports.items()}
            data["counters"] = counter_status(self.world.fabric, agents, adapters)
            data["counters"] |= kernel
        return data

    def _host_status(self) -> list[dict[str, Any]]:
        vesw_names = {vesw.id: vesw.name for vesw in self.model.vesws}
        if self._manager is not None:
            vesw_names |= self._manager.vesw_names
        rows = []
        for name, host in self.hosts.items():
            port = self.world.vnic_ports[name]
            rows.append(
                {
                    "name": name,
                    "namespace": host.namespace_name,
                    "lid": port.port.lid,
                    "vnics": [
                        vnic_status(vnic, port.frames(vnic.vport_num), vesw_names)
                        for vnic in vnics_of(host, port)
                    ],
                }
            )
        return rows

    # programs

    def popen(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program on a host; `options` are those of subprocess.Popen. Text, not bytes.

        Raises:  LabError: no such host, no such program, or a lab in memory.
        """
        namespace = self.host(host).namespace
        if self.netdev == "memory":
            raise LabError("hosts in memory run no programs")
        if isinstance(self.host(host), NodeHost):
            raise LabError(f"host {host} is an app's: it runs no programs")
        options.setdefault("preexec_fn", descriptors.for_programs())
        try:
            return run_in_namespace(namespace, lambda: subprocess.Popen(list(command), text=True, **options))
        except OSError as error:
            raise LabError(f"cannot run {command[0]}: {error.strerror}") from error

    async def run(
        self, host: str, command: Sequence[str], *, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a host to its end, while the lab goes on; its output is captured.

        Raises:  LabError: as popen, or it took longer than timeout_s; then it was killed.
        """
        process = self.popen(host, command, stdin=-3, stdout=-1, stderr=-1)

        def wait() -> subprocess.CompletedProcess[str]:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise
            return subprocess.CompletedProcess(list(command), process.returncode, out, err)

        try:
            return await asyncio.to_thread(wait)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{command[0]} on {host} took longer than {timeout_s:g} s") from error

    # going

    async def stop(self) -> Removed:
        """End everything that was started; what was removed, and what failed, is the same for every caller."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        return await asyncio.shield(self._stopping)

    async def _stop(self) -> Removed:
        self._removed.failed = await self._ends.close()
        if self.netdev == "tap":
            self._removed.directory = str(self.directory.path)
        return self._removed

    async def _end_programs(self) -> None:
        self._removed.programs = await asyncio.to_thread(end_programs, self._journal.identities)

    async def _give_interfaces_back(self) -> None:
        """Close the TAPs of all hosts side by side, and note which were there."""
        made = {(vnic.host, vnic.interface) for vnic in self.vnics() if vnic.netdev is not None}
        made_beside = [vnic for vnic in self.vnics() if vnic.asked is None and vnic.netdev is not None]
        descriptors: list[int] = []
        try:
            for host in self.hosts.values():
                descriptors += host.release()
        finally:
            await asyncio.to_thread(close_descriptors, descriptors)
        self._journal.netdevs = [entry for entry in self._journal.netdevs if (entry.host, entry.name) in made]
        for vnic in made_beside:
            where = self.hosts[vnic.host].namespace_name
            self._journal.netdevs.append(NetdevEntry(vnic.host, vnic.interface, where))
        self._removed.netdevs = netdev_names(self._journal)

    def release(self) -> None:
        """Remove the lab's directory and give its name back, after `stop`; nothing where it was not claimed."""
        if self._claimed:
            self._claimed = False
            self.directory.remove()
            self.directory.release()


def _nothing() -> None:
    """Stand in where nobody wants to hear."""


def _is_machine(host: LabHost) -> bool:
    """Return whether a host is the machine itself."""
    return isinstance(host, TapHost) and host.namespace is None
