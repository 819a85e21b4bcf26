"""The part of a lab that boots the kernels of its hosts, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from opavnic.kernel.cache import KernelError
from opavnic.kernel.client import client_words
from opavnic.kernel.process import BOOT_S
from opavnic.kernel.programs import kernel_programs
from opavnic.kernel.running import KernelRun
from opavnic.lab.file.errors import LabError
from opavnic.lab.hosts.host_files import HostFiles
from opavnic.lab.hosts.kernel_host import KernelDriver, KernelHost
from opavnic.world.part import RunningPart


class Kernels(RunningPart):
    """All kernels of a lab."""

    def __init__(self, drivers: dict[str, KernelDriver]) -> None:
        self._drivers = drivers

    def status(self) -> dict[str, Any]:
        return {name: driver.status() for name, driver in self._drivers.items()}

    def find(self, host: str) -> KernelRun | None:
        """Return the kernel of a host that runs; None: there is none."""
        driver = self._drivers.get(host)
        return None if driver is None else driver.run


@contextlib.asynccontextmanager
async def kernel_hosts(
    hosts: Sequence[KernelHost], path: Path | None, files: HostFiles | None
) -> AsyncIterator[Kernels]:
    """Boot the kernels of hosts; all their processes have ended when the context is left.

    Args:    path: where clients may start programs in them; None: nowhere. files: what /etc/hosts says on hosts.
    Raises:  LabError: a kernel does not come up.
    """
    drivers = {host.name: host.driver for host in hosts if host.driver is not None}
    running = Kernels(drivers)
    try:
        runs = {name: _start(name, driver, files) for name, driver in drivers.items()}
        for name, run in runs.items():
            await _await_ready(name, run)
        async with contextlib.AsyncExitStack() as ends:
            if path is not None:
                for host in hosts:
                    host.enter_words = client_words(path, host.name)
                await ends.enter_async_context(kernel_programs(path, running.find))
            yield running
    finally:
        for driver in drivers.values():
            driver.close()
        for driver in drivers.values():
            await driver.ended()


def _start(name: str, driver: KernelDriver, files: HostFiles | None) -> KernelRun:
    if files is not None:
        files.on_written[name] = driver.take_names
    try:
        return driver.start()
    except KernelError as error:
        raise LabError(f"host {name}: {error}") from error


async def _await_ready(name: str, run: KernelRun) -> None:
    try:
        await asyncio.wait_for(run.is_ready, BOOT_S)
    except KernelError as error:
        raise LabError(f"host {name}: {error}") from error
    except TimeoutError:
        raise LabError(f"host {name}: its kernel is not up within {BOOT_S:g} s") from None
