"""Sets hosts up as the lab file says: sysctls, addresses of the loopback, routes, and commands at their start."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from opavnic.lab.file.errors import LabError
from opavnic.lab.file.host_setup import Command, HostSetup
from opavnic.lab.hosts.kernel_setup import change_kernel, change_kernel_of
from opavnic.lab.hosts.programs import start_program
from opavnic.world.host_backends.backend import HostBackend

EXEC_S: Final = 60.0
"""How long one command of `exec` may take. What is to stay goes into the background."""
_AT_ONCE: Final = 8
"""Hosts whose commands run at the same time."""
_LINES_SHOWN: Final = 5


def set_up_kernel(host: HostBackend, setup: HostSetup) -> None:
    """Set the sysctls of a new host that exist before its VNICs do, and give its loopback its addresses.

    Raises:  LabError: the kernel refuses.
    """
    try:
        change_kernel(host.namespace, {}, HostSetup(), setup, has_vnics=False)
    except LabError as error:
        raise LabError(f"host {host.name}: {error}") from error


async def follow_setup(host: HostBackend, before: HostSetup, after: HostSetup) -> None:
    """Change what differs in the setup of a host that runs: addresses of lo, sysctls, routes.

    Sysctls that the file no longer mentions keep their values; commands are run at the next start.

    Raises:  LabError: the kernel refuses.
    """
    names = {interface.title: interface.name for interface in host.interfaces}
    try:
        if host.has_own_driver:
            await change_kernel_of(host, names, before, after, has_vnics=True)
        else:
            change_kernel(host.namespace, names, before, after, has_vnics=True)
    except LabError as error:
        raise LabError(f"host {host.name}: {error}") from error


async def finish(
    hosts: Mapping[str, HostBackend], setups: Mapping[str, HostSetup], devices: Path | None
) -> None:
    """Set up hosts whose VNICs are up: the sysctls of interfaces and routes of all, then their commands.

    Args:    hosts: those with a namespace or kernel of the lab's own. devices: where programs get the devices of their
             host.
    Raises:  LabError: the first thing that failed.
    """
    for name, host in hosts.items():
        await follow_setup(host, HostSetup(), setups[name])
    places = asyncio.Semaphore(_AT_ONCE)

    async def run(name: str, host: HostBackend) -> None:
        async with places:
            for index, command in enumerate(setups[name].exec):
                await run_command(host, command, index, devices)

    tasks = [asyncio.ensure_future(run(name, host)) for name, host in hosts.items() if setups[name].exec]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_command(host: HostBackend, command: Command, index: int, devices: Path | None) -> None:
    """Run one command of a host to its end; what it leaves in the background runs on.

    Raises:  LabError: it cannot be run, fails or takes longer than EXEC_S.
    """
    shown = command if isinstance(command, str) else " ".join(command)
    what = f'host {host.name}: exec[{index}] "{shown}"'
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
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
        try:
            code = await asyncio.to_thread(process.wait, EXEC_S)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"{what}: not done within {EXEC_S:g} s: end it with & to leave it running"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        if code:
            by = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise LabError(f"{what}: {by}{_last_lines(err) or _last_lines(out)}")


def _last_lines(stream: IO[str]) -> str:
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(size - 4096, 0))
    lines = [line.strip() for line in stream.read().splitlines() if line.strip()]
    return ": " + " | ".join(lines[-_LINES_SHOWN:]) if lines else ""
