"""One VNIC of Linux's own opa_vnic, configured by MADs, from which a program of the kernel sends frames."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import L4_BYTE
from hfi_sim.wire.mad.header import Mad, Method
from opavnic.conformance.encap_kernel import run_encap_kernel
from opavnic.conformance.hfi1_kernel import Hfi1, activate, hfi1
from opavnic.conformance.kernel import LiveKernel, live_kernel
from opavnic.conformance.result import Result
from opavnic.conformance.vector_setup import EncapSituation
from opavnic.kernel import send_frames
from opavnic.kernel.agent_program import AgentProgram
from opavnic.kernel.cache import KernelError
from opavnic.kernel.wire import WireKind, parse_frame
from vema.attributes.attr_id import AttrId
from vema.attributes.mac_entries import MacEntries
from vema.em.core.messages import build_request, read_response

_VPORT: Final = 1
_HOST: Final = "judge"
_PATIENCE_S: Final = 20.0


class SendingKernel:
    """A vport of a kernel that runs programs."""

    def __init__(self, kernel: LiveKernel | Hfi1) -> None:
        """Make nothing yet: the first situation makes the vport, and starts the program."""
        self._kernel = kernel
        self._program: AgentProgram | None = None
        self._packets: list[bytes] = []
        self._written: list[tuple[int, int]] = []
        """Sections of the MAC table with entries: offset and number."""

    def encap(self, situation: EncapSituation) -> bytes | None:
        """Configure the vport, send the frame; return the packet that the driver hands to the hardware, or None.

        Raises:  KernelError: the kernel has ended, does not answer, or does not send the frame. AgentError: the agent
                 refused the configuration.
        """
        for offset, count in self._written:
            self._set(AttrId.MAC_ENTRIES, MacEntries(offset, 0, (None,) * count).build())
        self._set(AttrId.VESW_PORT_INFO, situation.info.build())
        self._written = [(batch.offset, batch.num_entries) for batch in situation.mac_batches]
        for batch in situation.mac_batches:
            self._set(AttrId.MAC_ENTRIES, batch.build())
        if self._program is None:
            self._program = AgentProgram([sys.executable, "-ISu", str(Path(send_frames.__file__).resolve())])
        self._packets.clear()
        self._send(self._program, situation.frame)
        self._ask(Method.GET, AttrId.CLASS_PORT_INFO, b"")  # its response follows the packet on the wire
        return self._packets[0] if self._packets else None

    def _set(self, attr_id: AttrId, data: bytes) -> None:
        self._ask(Method.SET, attr_id, data)

    def _ask(self, method: Method, attr_id: AttrId, data: bytes) -> None:
        request = build_request(method, attr_id, data, attr_mod=_VPORT, tid=1)
        response = self._kernel.request(self._kernel.lid, request.build())
        if response is None:
            raise KernelError(f"no response to {attr_id.text}")
        read_response(request, Mad.parse(response))

    def _send(self, program: AgentProgram, frame: bytes) -> None:
        end = time.monotonic() + _PATIENCE_S
        program.write(len(frame).to_bytes(2) + frame)
        while not program.output:
            if program.status is not None:
                raise KernelError(f"the program that sends frames has ended: {program.errors.decode()}")
            self._kernel.process.exchange(program, end, self.take)
        refused = program.output.pop(0)
        if refused:
            raise KernelError(f"a frame of {len(frame)} bytes was not sent: {os.strerror(refused)}")

    def take(self, frame: bytes) -> None:
        """Take a frame of the kernel: Ethernet packets are kept, the rest goes to the port."""
        found = parse_frame(frame)
        if found is not None and found.kind == WireKind.PACKET and found.body[L4_BYTE] == L4.ETHERNET:
            self._packets.append(found.body)
        else:
            self._kernel.hear(frame)


def run_encap_on_kernel(paths: list[Path], *, with_hfi1: bool = False) -> list[Result]:
    """Run the cases of files that can be sent against the newest built kernel.

    Args:    with_hfi1: its opa_vnic sends by hfi1 and a virtual HFI, and not by our module.
    Raises:  KernelError: none is built, or it failed. VectorFileError: a file cannot be read, or does not hold
             encapsulation vectors. AgentError: the agent refused a configuration.
    """
    with hfi1(host=_HOST) if with_hfi1 else live_kernel(_HOST) as kernel:
        if isinstance(kernel, Hfi1):
            activate(kernel)
        vnic = SendingKernel(kernel)
        kernel.take = vnic.take
        return [run_encap_kernel(path, vnic.encap) for path in paths]
