"""Labs in memory, as large as none with namespaces would start quickly, in a process of their own that answers as one.

`python -m opavnic_bench.web.memory_lab` reads a lab file from stdin, and prints a line when it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from opavnic.lab.file.loader import parse_lab
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir, runtime_root
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.world.parts.control import ControlServer
from opavnic_bench.base.running_lab import RunningLab, environment
from opavnic_bench.base.turns import BenchError


@contextlib.contextmanager
def memory_lab(lab: Mapping[str, Any]) -> Iterator[RunningLab]:
    """Have a lab in memory up. Args: lab: the content of its file. Raises: BenchError: it does not start."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__], env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None  # noqa: S101 - a pipe
    assert process.stdout is not None  # noqa: S101 - a pipe
    try:
        process.stdin.write(json.dumps(lab) + "\n")
        process.stdin.flush()
        if not process.stdout.readline():
            raise BenchError(f"lab {lab['name']} in memory did not start")
        yield RunningLab(lab["name"])
    finally:
        process.stdin.close()  # the end of its input ends it
        process.wait()
        process.stdout.close()


async def _serve(text: str) -> None:
    model = parse_lab(text, "lab.yaml")
    directory = LabDir(runtime_root() / model.name)
    directory.acquire()
    hub = LogHub(directory.log_file)
    try:
        directory.save(Journal(model.name, os.getpid(), process_start_time(os.getpid()) or 0))
        async with Lab(model, netdev="memory") as lab:
            server = ControlServer(directory.control_socket, lab_routes(lab, hub, lab.stop))
            await server.start()
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)
            await server.close()
    finally:
        hub.close()
        directory.remove()
        directory.release()


if __name__ == "__main__":
    asyncio.run(_serve(sys.stdin.readline()))
