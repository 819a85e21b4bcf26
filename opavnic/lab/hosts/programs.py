"""Programs on the hosts of a lab."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.base.null_device_file import NullDeviceError, is_of_null
from opavnic.lab.file.errors import LabError
from opavnic.lab.hosts import descriptors
from opavnic.lab.hosts.launch import command_with_devices
from opavnic.world.host_backends.backend import HostBackend


def start_program(
    host: HostBackend,
    command: Sequence[str],
    devices: Path | None = None,
    *,
    needs_devices: bool = True,
    **options: Any,
) -> subprocess.Popen[str]:
    """Start a program on a host, with text streams; `options` are those of subprocess.Popen.

    Args:    devices: the socket where the lab lets programs have the devices of a host; None: it has none.
             needs_devices: without them it says why, and ends with 126.
    Raises:  LabError: no such program, or the host cannot run programs.
    """
    if host.runs_no_programs:
        raise LabError(host.runs_no_programs)
    options.setdefault("preexec_fn", descriptors.for_programs())
    words = [*host.enter_words, *command]
    if devices is not None and not host.has_own_driver:
        environment = options.get("env") or os.environ
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise LabError(f"cannot run {command[0]}: there is no such program")
        words = command_with_devices(
            devices, host.name, own_sysfs=host.namespace is not None, command=words, required=needs_devices
        )
    try:
        return run_in_namespace(host.namespace, lambda: subprocess.Popen(words, text=True, **options))
    except OSError as error:
        if is_of_null(error):
            raise NullDeviceError(error) from error
        raise LabError(f"cannot run {command[0]}: {error.strerror}") from error


async def run_program(
    host: HostBackend, command: Sequence[str], timeout_s: float, devices: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program on a host to completion without blocking the event loop, and capture its output.

    Raises:  LabError: as start_program; or the program took longer than timeout_s and was killed.
    """
    pipe = subprocess.PIPE
    process = start_program(host, command, devices, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)

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
        raise LabError(f"{command[0]} on {host.name} took longer than {timeout_s:g} s") from error
