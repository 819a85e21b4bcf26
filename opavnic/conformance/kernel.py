"""Comparisons with Linux's own opa_vnic: a kernel of its own on a port of a fabric of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hfi_sim.base.types import PKEY_LIMITED_MANAGEMENT
from hfi_sim.fabric.topology import single_switch
from opavnic.conformance.asked_port import AskedPort, HeardMad, our_port
from opavnic.conformance.mad_probes import ANSWERED_IN_FULL, MadProbe, mad_probes
from opavnic.conformance.result import CaseDifference, Result
from opavnic.conformance.target import run_vema_target
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.process import KernelProcess
from opavnic.world.world import World

_PATIENCE_S: Final = 10.0


class LiveKernel(AskedPort):
    """A kernel behind a port."""

    def __init__(self, process: KernelProcess) -> None:
        """Give a kernel that runs a port, and wait until its opa_vnic announces Ethernet.

        Raises:  KernelError: it does not.
        """
        super().__init__(World(single_switch(1)), self.wait)
        self.process = process
        self.kernel = KernelPort(self.port, process.send)
        self.take: Callable[[bytes], None] = self.kernel.take
        """Takes each frame of the kernel."""
        self.wait(lambda: self.kernel.ready, "opa_vnic's announcement of Ethernet on fabric")

    def wait(self, done: Callable[[], bool], awaited: str) -> None:
        """Take what the kernel sends until a condition holds.

        Raises:  KernelError: the kernel has ended, or it takes too long.
        """
        end = time.monotonic() + _PATIENCE_S
        while not done():
            frame = self.process.receive(max(0.0, end - time.monotonic()))
            if frame is None:
                raise KernelError(f"the kernel has not sent {awaited} within {_PATIENCE_S:g} s")
            self.take(frame)


@contextmanager
def live_kernel(host: str = "") -> Iterator[LiveKernel]:
    """Start the newest built kernel; it ends with the context.

    Args:    host: its name; with one, it runs programs of this machine.
    Raises:  KernelError: none is built, or it does not come up.
    """
    with KernelProcess(find_kernel(), host) as process:
        process.await_ready()
        yield LiveKernel(process)


def run_vema_kernel(paths: Sequence[Path]) -> list[Result]:
    """Run the probes, and the sessions of files, against the newest built kernel.

    Raises:  KernelError: none is built, or it failed. VectorFileError: a file cannot be read, or does not hold agent
             sessions. AgentError: the agent does not answer the requests that prepare a session.
    """
    with live_kernel() as kernel:
        probes = run_probes(kernel, our_port())  # first: they are for an agent without vports
        return [*(run_vema_target(path, kernel, kernel.lid) for path in paths), probes]


def run_probes(kernel: AskedPort, ours: AskedPort) -> Result:
    """Put every probe to both; what is expected of our agent is what the kernel has sent."""
    result = Result("probes", "")
    unanswered = 0
    for number, probe in enumerate(mad_probes()):
        theirs, answers = kernel.ask(probe.mad, probe.pkey), ours.ask(probe.mad, probe.pkey)
        differences = _differences(number, probe, theirs, answers)
        reason = _reason(probe, theirs, answers) if differences else ""
        if reason:
            result.by_design[reason] += 1
        result.add([] if reason else differences)
        unanswered += not theirs and not answers
    result.path = f"MADs put to both agents, {unanswered} of them unanswered by both"
    return result


def _reason(probe: MadProbe, theirs: Sequence[HeardMad], ours: Sequence[HeardMad]) -> str:
    """Return why these responses to a probe differ by design; empty if they should not."""
    if probe.by_design:
        return probe.by_design
    same_mads = [heard.mad for heard in theirs] == [heard.mad for heard in ours]
    return ANSWERED_IN_FULL if same_mads and probe.pkey == PKEY_LIMITED_MANAGEMENT else ""


def _differences(
    number: int, probe: MadProbe, theirs: Sequence[HeardMad], ours: Sequence[HeardMad]
) -> list[CaseDifference]:
    if len(theirs) != len(ours):
        return [CaseDifference(number, f"{probe.name}, MADs that came back", len(theirs), len(ours))]
    found = []
    for expected, got in zip(theirs, ours, strict=True):
        if expected.pkey != got.pkey:
            found.append(CaseDifference(number, f"{probe.name}, P_Key", hex(expected.pkey), hex(got.pkey)))
        if expected.mad != got.mad:
            found.append(CaseDifference(number, probe.name, expected.mad, got.mad))
    return found
