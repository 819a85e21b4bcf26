"""Running encapsulation vectors against Linux's own opa_vnic: what its netdev sends for the recorded frames.

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

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from hfi_sim.base.types import ETH_MTU_MAX, MacAddr
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE
from hfi_sim.wire.lrh16b import Lrh16B, dlid_of
from opavnic.conformance.datapaths import PythonDatapath
from opavnic.conformance.encap import EncapCase
from opavnic.conformance.result import CaseDifference, Result, read_cases
from opavnic.conformance.vector_setup import EncapSituation
from opavnic.vnic.encap import HEADER_SIZE, pad_frame
from opavnic.vnic.flow import innermost_ethertype_at

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
