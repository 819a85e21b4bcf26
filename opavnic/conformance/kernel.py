"""Running agent sessions against Linux's own opa_vnic: a kernel of its own on a port of a fabric of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hfi_sim.fabric.topology import single_switch
from hfi_sim.wire.mad.header import TID
from hfi_sim.wire.mad.message import Mad
from opavnic.conformance.result import Result
from opavnic.conformance.target import run_vema_target
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.process import KernelProcess
from opavnic.world.world import World

_PATIENCE_S: Final = 10.0


class LiveKernel:
    """A kernel that is asked from the manager's port of a fabric on which packets arrive at once."""

    def __init__(self, process: KernelProcess) -> None:
        """Give a kernel that runs a port, and wait until its opa_vnic announces Ethernet.

        Raises:  KernelError: it does not.
        """
        self._process = process
        self._world = World(single_switch(1))
        (host,) = self._world.hosts.values()
        self._world.subnet_manager.sweep()
        self.lid = int(host.port.lid)
        self.port = KernelPort(host.port, process.send)
        self._pump(lambda: self.port.ready, "opa_vnic does not announce Ethernet on fabric")

    def request(self, lid: int, mad: bytes) -> bytes | None:
        """Send a request and return its response; the next MAD with its transaction id and class is taken for it.

        Raises:  KernelError: the kernel has ended, or does not answer.
        """
        answers: list[Mad | None] = []
        self._world.em_port.mad.submit(lid, Mad.parse(mad), answers.append)
        self._pump(lambda: bool(answers), f"no answer to {mad[:24].hex()}")
        answer = answers[0]
        return None if answer is None else answer.build(int.from_bytes(mad[TID]))

    def _pump(self, done: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not done():
            frame = self._process.receive(max(0.0, end - time.monotonic()))
            if frame is None:
                raise KernelError(f"{otherwise} within {_PATIENCE_S:g} s")
            self.port.take(frame)


def run_vema_kernel(paths: Sequence[Path]) -> list[Result]:
    """Run the sessions of files against the newest built kernel.

    Raises:  KernelError: none is built, or it failed. VectorFileError: a file cannot be read, or does not hold agent
             sessions. AgentError: the agent does not answer the requests that prepare a session.
    """
    with KernelProcess(find_kernel()) as process:
        process.await_ready()
        kernel = LiveKernel(process)
        return [run_vema_target(path, kernel, kernel.lid) for path in paths]
