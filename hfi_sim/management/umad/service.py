"""A umad device on a port of an HFI: joins its core to the MAD stack."""

from __future__ import annotations

from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.base.counters import Drop
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.umad.file import UmadFile
from hfi_sim.management.umad.port import UmadPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.header import SMP_CLASSES

_TURN: Final = 32
"""MADs sent before the rest waits for the next iteration of the loop."""


class UmadService:
    """The device of one port, from its making until `close`."""

    def __init__(self, port: HfiPort, clock: Clock) -> None:
        """Take the MADs of a port that no agent of this process takes."""
        self.port = port
        self._core = UmadPort(port, port.mad.is_taken)
        self._core.on_work = self._work
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} umad",
            step=self._step,
            deadline=self._core.next_deadline,
            on_timer=self._core.expire,
            turn=_TURN,
            on_failure=self._die,
        )
        port.mad.give_rest_to(self._receive)

    @property
    def open_files(self) -> int:
        """How many times programs have the device open."""
        return len(self._core.files)

    def open(self) -> UmadFile:
        """Open the device once more."""
        return self._core.open()

    def time(self) -> float:
        """Return now, as `UmadFile.write` needs it."""
        return self._runner.time()

    def close(self) -> None:
        """Take the device away: programs that have it open get errors."""
        self.port.mad.give_rest_to(None)
        self._runner.shutdown()
        self._die()

    def _die(self) -> None:
        for file in tuple(self._core.files):
            file.die()

    def _work(self) -> None:
        self._runner.poll()

    def _receive(self, request: MadRequest) -> Drop | None:
        return self._core.receive(self._runner.time(), request)

    def _step(self) -> bool:
        if not self._core.outgoing:
            return False
        outgoing = self._core.outgoing.popleft()
        if outgoing.mad[1] in SMP_CLASSES:
            self.port.send_smp(outgoing.mad, outgoing.dlid, outgoing.pkey)
            return True
        self.port.mad.send(
            outgoing.dlid, outgoing.mad, sl=outgoing.sl, dest_qp=outgoing.qpn, pkey=outgoing.pkey
        )
        return True
