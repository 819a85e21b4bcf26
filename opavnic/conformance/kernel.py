"""Comparisons with Linux's own opa_vnic: a kernel of its own on a port of a fabric of its own.

Packets arrive there at once, so our agent has answered before `ask` returns; a kernel is waited for.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.fabric.topology import single_switch
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.wire.mad.header import TID, Mad, Method
from opavnic.conformance.mad_probes import ANSWERED_IN_FULL, MadProbe, mad_probes
from opavnic.conformance.result import CaseDifference, Result
from opavnic.conformance.target import run_vema_target
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.process import KernelProcess
from opavnic.world.world import World
from vema.attributes.attr_id import AttrId
from vema.em.core.messages import build_request

Wait = Callable[[Callable[[], bool], str], None]
"""Waits until a condition holds; the text says what was waited for."""

_FIRST_TID: Final = 0x5_0000_0001


HeardMad = tuple[int, bytes]
"""The P_Key of the packet in which a MAD came back, and the MAD."""


class AskedPort:
    """One host's port, and what answers there."""

    def __init__(self, world: World, wait: Wait) -> None:
        """Configure the fabric of a world with one host."""
        self.world = world
        (host,) = world.hosts.values()
        self.port = host.port
        world.set_pkeys(self.port, [PKEY_FULL_MANAGEMENT])  # a full member hears limited ones too
        world.subnet_manager.sweep()
        self._wait = wait
        self._tids = itertools.count(_FIRST_TID)
        self._heard: list[MadRequest] = []
        world.em_port.mad.give_rest_to(self._heard.append)

    @property
    def lid(self) -> int:
        """Its LID."""
        return int(self.port.lid)

    def request(self, lid: int, mad: bytes) -> bytes | None:
        """Send a request and return its response; the next MAD with its transaction id and class is taken for it.

        Raises:  KernelError: the kernel has ended, or does not answer.
        """
        answers: list[Mad | None] = []
        self.world.em_port.mad.submit(lid, Mad.parse(mad), answers.append)
        self._wait(lambda: bool(answers), f"an answer to {mad[:24].hex()}")
        answer = answers[0]
        return None if answer is None else answer.build(int.from_bytes(mad[TID]))

    def ask(self, mad: bytes, pkey: int | None = None) -> list[HeardMad]:
        """Send a MAD with a transaction id of its own; return what comes back before the answer to a question after it.

        The transaction ids are the same for every port that is asked the same.
        """
        tid, last = next(self._tids), next(self._tids)
        self._heard.clear()
        question = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=last)
        self.world.em_port.mad.send(self.lid, mad[: TID.start] + tid.to_bytes(8) + mad[TID.stop :], pkey=pkey)
        self.world.em_port.mad.send(self.lid, question.build())
        self._wait(
            lambda: any(heard.header.tid == last for heard in self._heard), f"an answer to {mad[:24].hex()}"
        )
        return [(heard.pkey, heard.mad) for heard in self._heard if heard.header.tid == tid]


def our_port(*, sets_need_full_member: bool = True) -> AskedPort:
    """Return a port with our agent, as a lab has it by default."""
    world = World(single_switch(1))
    (host,) = world.hosts
    world.add_vnic_port(host, netdevs=memory_netdev, sets_need_full_member=sets_need_full_member)
    return AskedPort(world, _at_once)


def _at_once(done: Callable[[], bool], awaited: str) -> None:
    if not done():
        raise AssertionError(f"our agent has not sent {awaited}")


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

    def hear(self, frame: bytes) -> None:
        """Give a frame to the port."""
        self.kernel.take(frame)

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
        return [*(run_vema_target(path, kernel.request, kernel.lid) for path in paths), probes]


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
    result.title = f"MADs put to both agents, {unanswered} of them unanswered by both"
    return result


def _reason(probe: MadProbe, theirs: Sequence[HeardMad], ours: Sequence[HeardMad]) -> str:
    """Return why these responses to a probe differ by design; empty if they should not."""
    if probe.by_design:
        return probe.by_design
    same_mads = [mad for _, mad in theirs] == [mad for _, mad in ours]
    return ANSWERED_IN_FULL if same_mads and probe.pkey == PKEY_LIMITED_MANAGEMENT else ""


def _differences(
    number: int, probe: MadProbe, theirs: Sequence[HeardMad], ours: Sequence[HeardMad]
) -> list[CaseDifference]:
    if len(theirs) != len(ours):
        return [CaseDifference(number, f"{probe.name}, MADs that came back", len(theirs), len(ours))]
    found = []
    for (expected_pkey, expected), (pkey, got) in zip(theirs, ours, strict=True):
        if expected_pkey != pkey:
            found.append(CaseDifference(number, f"{probe.name}, P_Key", hex(expected_pkey), hex(pkey)))
        if expected != got:
            found.append(CaseDifference(number, probe.name, expected, got))
    return found
