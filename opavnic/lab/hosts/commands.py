"""Runs the commands of a host at its start: `exec` in the lab file."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Final

from opavnic.lab.file.errors import LabError
from opavnic.lab.file.host_setup import Command, VnicCommand
from opavnic.lab.hosts.programs import start_program
from opavnic.lab.ownership.process import processor_ticks
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.silence import LOOK_S, Silence

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
