"""One VNIC of Linux's own opa_vnic, configured by MADs, and encapsulation vectors against it: what its netdev sends.

What was recorded is what a kernel sends, except that

- a kernel hashes flows with a key of its own: the entropy of a packet is its own, and where the DLID is one of several
  default ports, the port that this entropy selects;
- the MTU of the vport is the largest, since a netdev sends no frame longer than its MTU, and its address is the source
  address of the frame, since a program chooses what follows it.

A case that differs is sent once more: the driver looks for a VLAN tag where it is about to write its own header, and
what an earlier packet left there may look like one. A fault occurs again.

Packets are compared as the driver gives them to the hardware: without ICRC, and with the pad count in the last byte.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from hfi_sim.base.types import ETH_MTU_MAX, MacAddr
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE
from hfi_sim.wire.lrh16b import L4, L4_BYTE, Lrh16B, dlid_of
from hfi_sim.wire.mad.header import Mad, Method
from opavnic.conformance.datapaths import PythonDatapath
from opavnic.conformance.encap import EncapCase
from opavnic.conformance.hfi1_kernel import Hfi1, activate, hfi1
from opavnic.conformance.kernel import LiveKernel, live_kernel
from opavnic.conformance.result import CaseDifference, Result, read_cases
from opavnic.conformance.vector_setup import EncapSituation
from opavnic.kernel import send_frames
from opavnic.kernel.agent_program import AgentProgram
from opavnic.kernel.cache import KernelError
from opavnic.kernel.wire import WireKind, parse_frame
from opavnic.vnic.encap import HEADER_SIZE, pad_frame
from opavnic.vnic.flow import innermost_ethertype_at
from vema.attributes.attr_id import AttrId
from vema.attributes.mac_entries import MacEntries
from vema.em.core.messages import build_request, read_response

Encap = Callable[[EncapSituation], bytes | None]
"""Sets a vport up and sends a frame; returns the packet without ICRC, or None."""

OWN_PORT: Final = (
    "the DLID is the default port that the packet's own entropy selects (docs/how-to/kernel.md, Compare)"
)
TAG_BESIDE: Final = (
    "the VLAN tag stands beside the frame: for a netdev without offload, as hfi1's, it is put inside"
)
_ENTROPY_AT: Final = 12
_ETHERTYPE_AT: Final = 12
_UNKNOWN: Final = b"\x88\xb5"
"""An ethertype that neither SC nor RC depend on."""
_ENTROPIES: Final = 256


def run_encap_kernel(path: Path, encap: Encap) -> Result:
    """Run the cases of a file that can be sent.

    Raises:  VectorFileError: the file cannot be read, or does not hold encapsulation vectors.
    """
    result = Result("encap", str(path))
    for case in read_cases(path, EncapCase.parse):
        if case.situation.vlan_tci is not None:
            result.unsent[TAG_BESIDE] += 1
            continue
        packet = encap(_sendable(case.situation))
        expected, own_port = _expected(case, packet)
        if packet != expected:  # the driver looks for a tag in memory that it has not written yet
            packet = encap(_sendable(case.situation))
            expected, own_port = _expected(case, packet)
        differs = packet != expected
        if own_port and not differs:
            result.by_design[OWN_PORT] += 1
        result.add([CaseDifference(case.case, "packet", expected, packet)] if differs else [])
    return result


def _sendable(situation: EncapSituation) -> EncapSituation:
    info = replace(situation.info, eth_mtu=ETH_MTU_MAX, base_mac=MacAddr(situation.frame[6:12]))
    return replace(situation, info=info)


def _expected(case: EncapCase, packet: bytes | None) -> tuple[bytes | None, bool]:
    """Return the packet expected of a kernel that has sent `packet`, and whether its default port is its own."""
    recorded = None if case.expect["encap_err"] else _recorded(case)
    if packet is None:
        own = recorded is not None and any(_ours(case, entropy) is None for entropy in range(_ENTROPIES))
        return (None if own else recorded), own
    entropy = packet[_ENTROPY_AT]
    ours = _ours(case, entropy)
    if recorded is None:
        return ours, ours is not None
    before = _ours(case, case.expect["entropy"])
    if ours is None or before is None:
        return None, False
    header = Lrh16B.parse(recorded)
    own = dlid_of(ours) != dlid_of(before)
    if own:
        header = replace(header, dlid=dlid_of(ours))
    return replace(header, entropy=entropy).build() + recorded[Lrh16B.SIZE :], own


def _recorded(case: EncapCase) -> bytes:
    """Return the packet of a case; long ones are recorded without what follows the header."""
    head = bytes(case.expect["hdr"])
    if "wire" in case.expect:
        return head + bytes(case.expect["wire"])[HEADER_SIZE:]
    pad_count = int(case.expect["pad_count"])
    return head + pad_frame(case.situation.frame) + bytes(pad_count + TRAILER_SIZE - 1) + bytes([pad_count])


def _ours(case: EncapCase, entropy: int) -> bytes | None:
    """Return what our datapath sends with a given entropy, without ICRC; a tag is overlooked, as the driver does."""
    frame = case.situation.frame
    tagged = innermost_ethertype_at(frame) > _ETHERTYPE_AT
    seen = frame[:_ETHERTYPE_AT] + _UNKNOWN + frame[_ETHERTYPE_AT + len(_UNKNOWN) :] if tagged else frame
    packet = PythonDatapath().encap(replace(case.situation, flow_hash=entropy, frame=seen)).packet
    if packet is None:
        return None
    at = HEADER_SIZE + _ETHERTYPE_AT
    return unsealed(
        packet[:at] + frame[_ETHERTYPE_AT : _ETHERTYPE_AT + len(_UNKNOWN)] + packet[at + len(_UNKNOWN) :]
    )


def unsealed(packet: bytes) -> bytes:
    """Return a packet as the driver hands it to the hardware."""
    return packet[:-TRAILER_SIZE] + bytes(TRAILER_SIZE - 1) + bytes([packet[-1] & PAD_COUNT_MASK])


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
