"""Holds hosts against the lab file: at their start, after each event that may have changed them, and when asked to.

What the file says and is not so is drift: the name, MTU, state and addresses of the interface of a VNIC, and the
addresses of the loopback, sysctls, routes and qdiscs of its kernel. What the file says nothing of belongs to the users
of the host: it stays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.base import Netdev
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.host_setup import Command, HostSetup, VnicCommand
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.desired import desired_host, with_devices
from opavnic.lab.hosts.kernel_setup import (
    missing_in_kernel,
    missing_in_kernel_of,
    reconcile_kernel,
    reconcile_kernel_of,
)
from opavnic.lab.hosts.programs import start_program
from opavnic.lab.ownership.process import processor_ticks
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.long_work import LOOK_S, Silence

# --- runs the commands of a host at its start: `exec` in the lab file --------------------------------------

EXEC_S: Final = 60.0
"""How long one command of `exec` may do nothing. What is to stay goes into the background."""
_LINES_SHOWN: Final = 5


async def run_command(host: HostBackend, command: Command, index: int, devices: Path | None) -> None:
    """Run one command of a host to its end; what it leaves in the background runs on.

    Raises:  LabError: it cannot be run or fails, or does nothing for EXEC_S: prints nothing and takes no processor.
    """
    said = command.run if isinstance(command, VnicCommand) else command
    shown = said if isinstance(said, str) else " ".join(said)
    what = f'host {host.name}: exec[{index}] "{shown}"'
    words = ["/bin/sh", "-c", said] if isinstance(said, str) else list(said)
    with tempfile.NamedTemporaryFile("w+") as out, tempfile.NamedTemporaryFile("w+") as err:
        if (
            host.has_own_driver
        ):  # else its streams would end with it, also for what it leaves in the background
            words = ["/bin/sh", "-c", 'exec >"$0" 2>"$1"; shift; exec "$@"', out.name, err.name, *words]
        try:
            process = start_program(
                host,
                words,
                devices,
                needs_devices=False,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except LabError as error:
            raise LabError(f"{what}: {error}") from error
        silence = Silence(asyncio.get_running_loop().time)
        try:
            while (code := await asyncio.to_thread(_code_within, process, LOOK_S)) is None:
                printed = [os.fstat(stream.fileno()).st_size for stream in (out, err)]
                if silence.look((printed, processor_ticks(process.pid))) > EXEC_S:
                    raise LabError(
                        f"{what}: it waits, and has done nothing for {EXEC_S:g} s: end it with & to leave it running"
                    )
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        if code:
            by = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise LabError(f"{what}: {by}{_last_lines(err) or _last_lines(out)}")


def _code_within(process: subprocess.Popen[str], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _last_lines(stream: IO[str]) -> str:
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(size - 4096, 0))
    lines = [line.strip() for line in stream.read().splitlines() if line.strip()]
    return ": " + " | ".join(lines[-_LINES_SHOWN:]) if lines else ""


log = logging.getLogger("opavnic.lab")

_AT_ONCE: Final = 8
"""Hosts whose commands run at the same time."""


class HostReconciler:
    """The hosts of one lab and what its file says of them."""

    def __init__(
        self,
        hosts: Mapping[str, HostBackend],
        model: Callable[[], LabModel],
        devices: Callable[[], Path | None],
    ) -> None:
        """Prepare. Args:  hosts, model: as they are then. devices: where programs get the devices of their host."""
        self._hosts = hosts
        self._model = model
        self._devices = devices
        self._made: dict[str, tuple[HostSetup, dict[str, Netdev]]] = {}
        """What kernels were told last, of hosts that have been set up, and the interfaces that had its names."""
        self._ran: dict[str, list[tuple[Command, Netdev | None]]] = {}
        """The commands that were run on hosts, each with the interface of its VNIC."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        """Of hosts with a kernel of their own, which has the memory for one program of ours at a time."""
        self._due: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- at the start, and when the file has changed -----------------------------------------------------------

    def needs(self, host: str) -> bool:
        """Return whether there is more to set up on a host than its VNICs."""
        return host in self._made or self._model().hosts[host].changes_its_kernel

    async def set_up(self, hosts: Iterable[str], progress: Callable[[int], None] = lambda done: None) -> None:
        """Reconcile hosts whose VNICs are up, then run those of their commands that have not been run yet.

        Args:    progress: called with the number of hosts that are done.
        Raises:  LabError: the first thing that failed.
        """
        there = [name for name in hosts if name in self._hosts]
        for name in there:
            self._restore(name)
        names = [name for name in there if self.needs(name) and self._hosts[name].namespace is not None]
        for number, name in enumerate(names, 1):
            if trouble := await self._reconcile(name):
                raise LabError(f"host {name}: {trouble[0]}")
            progress(number)
        await self._run_commands(names)

    async def _run_commands(self, names: Iterable[str]) -> None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def run(name: str) -> None:
            async with places:
                for index, command in enumerate(self._model().hosts[name].exec):
                    await self._run_once(self._hosts[name], command, index)

        tasks = [asyncio.ensure_future(run(name)) for name in names if self._model().hosts[name].exec]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_once(self, host: HostBackend, command: Command, index: int) -> None:
        """Run a command if it has not been run yet: of a VNIC, for the interface that this has now."""
        its: Netdev | None = None
        if isinstance(command, VnicCommand):
            found = (item.netdev for item in host.interfaces if item.title == command.vnic)
            if (its := next(found, None)) is None:
                return  # it waits until the host joins
        async with self._locks.setdefault(host.name, asyncio.Lock()):
            ran = self._ran.setdefault(host.name, [])
            if any(known == command and netdev is its for known, netdev in ran):
                return
            await run_command(host, command, index, self._devices())
            ran[:] = [(known, netdev) for known, netdev in ran if known != command] + [(command, its)]

    def forget(self, host: str) -> None:
        """Forget a host that is gone, or whose kernel is a new one."""
        self._made.pop(host, None)
        self._ran.pop(host, None)
        self._locks.pop(host, None)

    # --- events ------------------------------------------------------------------------------------------------

    def vnic_is_back(self, host: str) -> None:
        """Reconcile a host soon: one of its VNICs has been made anew. Once for all VNICs that come back together."""
        if host in self._made and host not in self._due:
            self._due.add(host)
            task = asyncio.ensure_future(self._reconcile_soon(host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _reconcile_soon(self, host: str) -> None:
        self._due.discard(host)
        if host not in self._made or host not in self._hosts:
            return
        try:
            trouble = await self._reconcile(host)
            for index, command in enumerate(self._model().hosts[host].exec):
                if isinstance(command, VnicCommand):
                    await self._run_once(self._hosts[host], command, index)
        except LabError as error:
            trouble = [str(error)]
        for line in trouble:
            log.info("[%s] not set up yet: %s", host, line)  # another VNIC may still be on its way

    # --- drift -------------------------------------------------------------------------------------------------

    def waiting(self, host: str) -> tuple[str, ...]:
        """Return what the file says of a host and waits for a VNIC."""
        return desired_host(self._model(), host)[1]

    async def drift(self, hosts: Iterable[str]) -> list[str]:
        """Return where hosts are not what the file says, a line each."""
        return [
            f"host {name}: {line}" for name in hosts for line in await self.drift_of(name, in_own_kernel=True)
        ]

    async def drift_of(self, name: str, *, in_own_kernel: bool = False) -> list[str]:
        """Return where a host is not what the file says, a line each; of one that is not here or is lost, nothing.

        Args:  in_own_kernel: look into a host that is a kernel of its own, too: a program there takes seconds.
        """
        host = self._hosts.get(name)
        if host is None or host.lost:
            return []
        looks = in_own_kernel or not host.has_own_driver
        return [*host.vnic_drift(), *(await self._kernel_drift(host) if looks else [])]

    async def _kernel_drift(self, host: HostBackend) -> list[str]:
        if host.name not in self._made:
            return []
        wanted = self._wanted(host)
        try:
            if host.has_own_driver:
                return await missing_in_kernel_of(host, wanted)
            return await asyncio.to_thread(missing_in_kernel, host.namespace, wanted)
        except (NetdevError, LabError, OSError) as error:
            return [f"cannot be looked at: {error}"]

    async def end_drift(self, hosts: Iterable[str]) -> None:
        """Make hosts what the file says. Raises LabError: the first thing that failed."""
        for name in hosts:
            host = self._hosts.get(name)
            if host is None or host.lost:
                continue
            self._restore(name)
            if host.name in self._made and (trouble := await self._reconcile(name)):
                raise LabError(f"host {name}: {trouble[0]}")

    # --- doing it ----------------------------------------------------------------------------------------------

    def _restore(self, name: str) -> None:
        try:
            self._hosts[name].restore_vnics()
        except NetdevError as error:
            raise LabError(f"host {name}: {error}") from error

    def _wanted(self, host: HostBackend) -> HostSetup:
        setup, _ = desired_host(self._model(), host.name)
        return with_devices(setup, {item.title: item.name for item in host.interfaces})

    async def _reconcile(self, name: str) -> list[str]:
        host = self._hosts[name]
        wanted, (made, named) = self._wanted(host), self._made.get(name, (HostSetup(), {}))
        # what was made on an interface is on it still when it has another name
        made = with_devices(made, {its: netdev.host_name for its, netdev in named.items()})
        there = {item.name: item.netdev for item in host.interfaces if item.netdev is not None}
        self._made[name] = wanted, there
        try:
            if host.has_own_driver:
                async with self._turns.setdefault(name, asyncio.Lock()):
                    return await reconcile_kernel_of(host, made, wanted)
            return reconcile_kernel(host.namespace, made, wanted)
        except NetdevError as error:
            raise LabError(f"host {name}: {error}") from error


def set_up_early(host: HostBackend, setup: HostSetup) -> None:
    """Set the sysctls of a new host that exist before its VNICs do, and give its loopback its addresses.

    Raises:  LabError: the kernel refuses.
    """
    _raise_refusal(host, reconcile_kernel(host.namespace, HostSetup(), _early(setup)))


async def set_up_kernel_early(host: HostBackend, setup: HostSetup) -> None:
    """Do the same in a host that is a kernel of its own. Raises LabError."""
    _raise_refusal(host, await reconcile_kernel_of(host, HostSetup(), _early(setup)))


def _early(setup: HostSetup) -> HostSetup:
    return setup.model_copy(update={"routes": [], "qdiscs": {}})


def _raise_refusal(host: HostBackend, lines: Iterable[str]) -> None:
    """Raise the first thing that a kernel has refused, but not because a VNIC is not there yet."""
    for line in lines:
        if not line.startswith("sysctls: there is no"):
            raise LabError(f"host {host.name}: {line}")
