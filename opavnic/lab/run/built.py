"""A lab as it is built: its hosts and VNICs by name, its state, and programs on its hosts."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfi_sim.base.text import nearest
from opavnic.datapath.selection import DatapathChoice
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.parts import RunningParts
from opavnic.lab.hosts.machine import LabHosts, NetdevKind
from opavnic.lab.hosts.programs import run_program, start_program
from opavnic.lab.hosts.vnics import HostVnic, vnics_of
from opavnic.lab.ownership.runtime import LabDir
from opavnic.lab.run.status import is_up_to_the_em, lab_state, vnic_state
from opavnic.lab.run.world_of import Share
from opavnic.state.lab import LabState
from opavnic.vnic.adapter import Adapter
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_backends.given import Interface
from opavnic.world.long_work import Steps, at_once
from opavnic.world.parts.em import BuiltinManager
from opavnic.world.world import World
from vema.base.types import VportNum
from vema.em.desired.desired import VeswSection

if TYPE_CHECKING:
    from aiohttp import web

    from vema.em.core.core import EmCore


class BuiltLab:
    """What there is in a lab, for all that use it; `Lab` starts and ends it."""

    def __init__(
        self,
        model: LabModel,
        directory: LabDir,
        machine: LabHosts,
        parts: RunningParts,
        *,
        netdev: NetdevKind,
        file: str,
        share: Share | None,
    ) -> None:
        """Prepare. Args:  file, share: see `Lab`."""
        self.model = model
        self.directory = directory
        self.machine = machine
        """Its hosts, and what they occupy on the machine."""
        self.parts = parts
        self.netdev: NetdevKind = netdev
        self.share = share
        self.manager: BuiltinManager | None = None
        """The lab's own Ethernet Manager; None if the lab file has `em: external` or `em: off`."""
        self.datapath = DatapathChoice("python")
        """The datapath that carries frames; chosen by `Lab.start`."""
        self.failure = ""
        """Why a lab that was ready cannot go on; empty while it can."""
        self._file = file
        self._world: World | None = None
        self._vesws_told: Sequence[VeswSection] = ()
        self._started_at = 0.0
        self._claimed = False

    @property
    def world(self) -> World:
        """The fabric and what runs on it.

        Raises:  LabError: the lab has not been started.
        """
        if self._world is None:
            raise LabError(f"lab {self.model.name} has no fabric yet: start it first")
        return self._world

    @property
    def em_core(self) -> EmCore | None:
        """The core of the lab's own Ethernet Manager; None: there is none, or it is down."""
        return None if self.manager is None else self.manager.em.core

    @property
    def hosts(self) -> dict[str, HostBackend]:
        """The hosts created so far, by name."""
        return self.machine.hosts

    @property
    def interfaces(self) -> list[Interface]:
        """All VNICs that the lab file requests."""
        return self.machine.interfaces

    def vnics(self) -> Iterator[HostVnic]:
        """Yield all VNICs, including those that an EM has created and the lab file does not mention."""
        for driver in self.world.drivers.values():
            yield from vnics_of(self.hosts[self.world.host_of(driver.port)], driver)

    def host(self, name: str) -> HostBackend:
        """Return a host. Args: name: in the lab file. Raises: LabError: there is none; it says the nearest name."""
        if name not in self.hosts:
            raise LabError(f'unknown host "{name}" ({nearest(name, self.hosts)})')
        return self.hosts[name]

    def interface(self, host: str, vesw: str) -> Interface:
        """Return a VNIC of a host in a virtual switch.

        Args:    host: its name. vesw: `blue`; `blue-2`: the second VNIC that the host has there.
        Raises:  LabError: there is no such host or VNIC.
        """
        interfaces = {interface.title: interface for interface in self.host(host).interfaces}
        if vesw not in interfaces:
            raise LabError(f'host {host} has no VNIC in "{vesw}" ({nearest(vesw, interfaces)})')
        return interfaces[vesw]

    def adapter(self, interface: Interface) -> Adapter | None:
        """Return the VNIC behind an interface, once the EM has created it. Args: interface: of `interfaces`."""
        return self.world.vnic_ports[interface.port].adapters.get(VportNum(interface.vport_num))

    def status(self, *, counters: bool = False) -> LabState:
        """Return the state of the lab. Args: counters: whether with the counters of every element."""
        return at_once(self.status_steps(counters=counters))

    def status_steps(self, *, counters: bool = False) -> Steps[LabState]:
        """Make what `status` returns, in steps: for a large lab it takes long."""
        head: dict[str, Any] = {
            "lab": self.model.name,
            "pid": os.getpid(),
            "file": self._file,
            "uptime_s": round(asyncio.get_running_loop().time() - self._started_at, 6),
            "netdev": self.netdev,
            "datapath": self.datapath.name,
            "datapath_reason": self.datapath.reason,
            "failure": self.failure,
            "em": self.model.em.mode,
            "subnet_manager": self.model.subnet_manager.mode,
            "driver_quirks": self.model.driver_quirks,
            "fabric_id": self.model.fabric.id,
            "seed": self.model.seed,
        }
        if self.share is not None:
            head["cluster"] = self.share.status()
        wanted = self.model.datapath.workers
        return lab_state(
            head,
            self.world,
            self.hosts,
            self.parts,
            vesw_names=self._vesw_names(),
            workers=wanted,
            counters=counters,
            why=self._why,
            learns=self._learns,
            moves=[] if self.manager is None else self.manager.moves,
        )

    @property
    def _learns(self) -> bool:
        """Whether the EM learns the addresses of all virtual switches, or it is not known."""
        core = self.em_core
        return core is None or all(core.config.policy(vesw) == "learn" for vesw in core.config.vesws)

    def _why(self, vnic: HostVnic) -> str:
        """Return why a VNIC is not up, if its EM knows it."""
        if self.manager is None or not is_up_to_the_em(vnic_state(vnic)):
            return ""
        return self.manager.em.why_not(int(vnic.port.guid), vnic.due_vesw_id) if vnic.due_vesw_id else ""

    async def folded(self, status: LabState) -> LabState:
        """Return the status of the lab as a whole, given that of its share here."""
        return status if self.share is None else await self.share.fold(status)

    @property
    def managed_vesws(self) -> Sequence[VeswSection]:
        """The virtual switches of the Ethernet Manager here, or those that one on another machine has told of."""
        return self._vesws_told if self.manager is None else self.manager.em.config.vesws

    def _vesw_names(self) -> dict[int, str]:
        return {vesw.id: vesw.name for vesw in (*self.model.vesws, *self.managed_vesws)}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of its parts in the control API."""
        return self.parts.routes()

    # programs

    def popen(
        self, host: str, command: Sequence[str], *, devices: bool = False, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a program on a host, with text streams; `options` are those of subprocess.Popen.

        Args:    devices: it must find the host's HFI, as with `opavnic exec --umad`, and asks this lab for that: the
                 loop must run.
        Raises:  LabError: no such host, no such program, or the host cannot run programs, or has no devices.
        """
        return start_program(self.host(host), command, self._device_socket(devices), **options)

    async def run(
        self, host: str, command: Sequence[str], *, timeout_s: float = 60.0, devices: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a host to completion while the lab goes on, and capture its output.

        Args:    devices: as for popen.
        Raises:  LabError: as popen; or the program took longer than timeout_s and was killed.
        """
        return await run_program(self.host(host), command, timeout_s, self._device_socket(devices))

    def _device_socket(self, devices: bool) -> Path | None:
        if not devices:
            return None
        if not self._claimed:
            raise LabError(f"lab {self.model.name} has no devices to give: its hosts are in memory")
        return self.directory.device_socket
