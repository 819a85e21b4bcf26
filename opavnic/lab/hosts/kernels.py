"""The part of a lab that boots the kernels of its hosts, sets them up, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from hfi_sim.base.text import counted
from opavnic.kernel.cache import KernelError
from opavnic.kernel.client import client_words
from opavnic.kernel.process import BOOT_S
from opavnic.kernel.programs import kernel_programs
from opavnic.kernel.running import KernelRun
from opavnic.lab.file.errors import LabError
from opavnic.lab.hosts.host_files import HostFiles
from opavnic.lab.hosts.kernel_host import KernelDriver, KernelHost
from opavnic.lab.hosts.reconcile import HostReconciler, set_up_kernel_early
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.part import RunningPart

log = logging.getLogger("opavnic.kernel")
_PATIENCE_S: Final = 5.0
_COUNTERS: Final = (
    "sh",
    "-c",
    "cd /sys/class/infiniband && grep -s '' */hw_counters/[A-Z]* */ports/*/hw_counters/[A-Z]*",
)


class Kernels(RunningPart):
    """All kernels of a lab."""

    def __init__(
        self,
        path: Path | None,
        files: HostFiles | None,
        reconciler: HostReconciler,
        progress: Callable[[str], None],
    ) -> None:
        self._path = path
        self._reconciler = reconciler
        self._progress = progress
        self._files = files
        self._drivers: dict[str, KernelDriver] = {}
        self._setups: dict[str, asyncio.Task[None]] = {}
        """Those of kernels that have been booted again, by host."""

    def status(self) -> dict[str, Any]:
        return {name: driver.status() for name, driver in self._drivers.items()}

    def find(self, host: str) -> KernelRun | None:
        """Return the kernel of a host that runs; None: there is none."""
        driver = self._drivers.get(host)
        return None if driver is None else driver.run

    async def counters(self) -> dict[str, dict[str, int]]:
        """Return the counters of the HFIs of hfi1, as its sysfs has them, by `k1 hfi1_0` and `k1 hfi1_0 port 1`.

        Those of a kernel that does not answer within seconds are left out.
        """
        runs = {name: driver.run for name, driver in self._drivers.items() if driver.has_hfi1}
        asked = [run.output_of(_COUNTERS, _PATIENCE_S) for run in runs.values() if run is not None]
        said = await asyncio.gather(*asked, return_exceptions=True)
        found: dict[str, dict[str, int]] = {}
        for name, text in zip((name for name, run in runs.items() if run is not None), said, strict=True):
            if isinstance(text, KernelError):
                log.warning("[%s] no counters: %s", name, text)
            elif isinstance(text, BaseException):
                raise text
            else:
                found |= _counters_of(name, text)
        return found

    async def boot(self, hosts: Sequence[KernelHost]) -> None:
        """Boot the kernels of hosts that have their port, and set them up as far as they need no VNICs.

        Raises:  LabError: a kernel does not come up, or refuses what the lab file says.
        """
        self._progress(f"booting {counted(len(hosts), 'kernel')}")
        runs = {host: self._start(host) for host in hosts}
        for host, run in runs.items():
            await self._await_ready(host, run)

    def _start(self, host: KernelHost) -> KernelRun:
        driver = host.driver
        assert driver is not None  # noqa: S101 - the fabric is made
        self._drivers[host.name] = driver
        driver.on_restart = partial(self._booted_again, host)
        if self._path is not None:
            host.enter_words = client_words(self._path, host.name)
        if self._files is not None:
            self._files.on_written[host.name] = driver.take_names
        try:
            return driver.start()
        except KernelError as error:
            raise LabError(f"host {host.name}: {error}") from error

    async def _await_ready(self, host: KernelHost, run: KernelRun) -> None:
        try:
            await asyncio.wait_for(asyncio.shield(run.is_ready), BOOT_S)
            if host.setup.changes_its_kernel:
                await set_up_kernel_early(host, host.setup)
        except KernelError as error:
            raise LabError(f"host {host.name}: {error}") from error
        except TimeoutError:
            raise LabError(f"host {host.name}: its kernel is not up within {BOOT_S:g} s") from None

    def _booted_again(self, host: KernelHost) -> None:
        self._reconciler.forget(
            host.name
        )  # before its VNICs come back: two programs at once take all its memory
        if host.setup.changes_its_kernel:
            self._stop_setup(host.name)
            self._setups[host.name] = asyncio.create_task(self._set_up_again(host))

    async def _set_up_again(self, host: KernelHost) -> None:
        driver = self._drivers[host.name]
        if driver.run is None:
            return
        try:
            await self._await_ready(host, driver.run)
            await driver.vnics_run()
            await self._reconciler.set_up([host.name])
        except LabError as error:
            log.error("%s", error)

    def _stop_setup(self, host: str) -> None:
        if (task := self._setups.pop(host, None)) is not None:
            task.cancel()

    async def end(self, names: Collection[str]) -> None:
        """End the kernels of hosts for good, and wait until no process of them is left."""
        drivers = [driver for name in names if (driver := self._drivers.pop(name, None)) is not None]
        for name in names:
            self._stop_setup(name)
            if self._files is not None:
                self._files.on_written.pop(name, None)
        for driver in drivers:
            driver.close()
        for driver in drivers:
            await driver.ended()

    async def close(self) -> None:
        """End all kernels."""
        await self.end(tuple(self._drivers))


def _counters_of(host: str, text: str) -> dict[str, dict[str, int]]:
    """Read what `_COUNTERS` prints: hfi1_0/hw_counters/DcRcvPkts:7, hfi1_0/ports/1/hw_counters/RxPkt:7."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        path, _, value = line.rpartition(":")
        device, *port, _, counter = path.split("/")
        element = f"{host} {device}" + (f" port {port[1]}" if port else "")
        found.setdefault(element, {})[counter] = int(value)
    return found


def kernels_among(hosts: Iterable[HostBackend]) -> list[KernelHost]:
    """Return the hosts that are kernels of their own."""
    return [host for host in hosts if isinstance(host, KernelHost)]


@contextlib.asynccontextmanager
async def kernel_hosts(
    path: Path | None, files: HostFiles | None, reconciler: HostReconciler, progress: Callable[[str], None]
) -> AsyncIterator[Kernels]:
    """Yield the kernels of a lab, none yet; all their processes have ended when the context is left.

    Args:  path: where clients may start programs in them; None: nowhere. files: what /etc/hosts says on hosts.
           reconciler: sets up what has booted again. progress: told what is being done.
    """
    kernels = Kernels(path, files, reconciler, progress)
    try:
        async with contextlib.AsyncExitStack() as ends:
            if path is not None:
                await ends.enter_async_context(kernel_programs(path, kernels.find))
            yield kernels
    finally:
        await kernels.close()
