"""Running encapsulation vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.lrh16b import length_qw_of
from opavnic.conformance.datapaths import VectorDatapath
from opavnic.conformance.result import CaseDifference, Json, Result, compare, read_cases
from opavnic.conformance.vector_setup import EncapOutcome, EncapSituation
from opavnic.vnic.encap import HEADER_SIZE, pad_frame, pbc
from opavnic.vnic.flow import innermost_ethertype_at
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState

if TYPE_CHECKING:
    from pathlib import Path

_PLAIN_FIELDS = (
    "fabric_id", "vesw_id", "def_port_mask", "pkey", "u_mcast_dlid", "rc", "eth_mtu", "encap_slid",
    "non_vlan_sc_uc", "non_vlan_vl_uc", "non_vlan_sc_mc", "non_vlan_vl_mc",
)  # fmt: skip
_PRIORITY_FIELDS = ("pcp_to_sc_uc", "pcp_to_vl_uc", "pcp_to_sc_mc", "pcp_to_vl_mc")
_TRAILER = 5
_PBC_VL = 0xF << 12
_NO_MAC = bytes(6)


@dataclass(frozen=True, slots=True)
class EncapCase:
    """One case of a file."""

    case: int
    situation: EncapSituation
    expect: Json

    @classmethod
    def parse(cls, document: Json) -> EncapCase:
        """Read a case from its JSON object."""
        frame = bytes.fromhex(document["frame"])
        if len(frame) != document["frame_len"] or len(frame) < 14:
            raise ValueError(f"frame has {len(frame)} bytes, frame_len says {document['frame_len']}")
        expect = dict(document["expect"])
        for key in ("hdr", "hdr_frame_tag", "wire"):
            if expect.get(key) is not None:
                expect[key] = bytes.fromhex(expect[key])
        for key in ("encap_err", "hdr", "vl", "entropy", "eth_len", "counters"):
            expect[key]
        situation = EncapSituation(
            info=_parse_cfg(document["cfg"]),
            mac_batches=tuple(_parse_batch(batch) for batch in document["mac_batches"]),
            frame=frame,
            flow_hash=int(document["hash15"]),
            vlan_tci=int(document["vlan_tci"]) if document["vlan_tag_present"] else None,
        )
        return cls(int(document["id"]), situation, expect)


def _parse_cfg(cfg: Json) -> VeswPortInfo:
    given: dict[str, Any] = {name: int(cfg[name]) for name in _PLAIN_FIELDS}
    given |= {name: bytes(cfg[name]) for name in _PRIORITY_FIELDS}
    info = VeswPortInfo(
        **given,
        u_ucast_dlid=tuple(cfg["u_ucast_dlid"]),
        vesw_port_num=int(cfg["port_num"]),
        base_mac=MacAddr(bytes.fromhex(cfg["base_mac"])),
        config_state=ConfigState.FORWARDING,
    )
    info.build()  # refuses what does not fit its field
    return info


def _parse_batch(batch: Json) -> MacEntries:
    entries: list[MacEntry | None] = []
    for mac, mask, dlid_sd in batch["entries"]:
        address = bytes.fromhex(mac)
        entry = MacEntry(MacAddr(address), bytes.fromhex(mask), int(dlid_sd))
        entries.append(None if address == _NO_MAC else entry)
    if len(entries) != batch["num_entries"]:
        raise ValueError(f"{len(entries)} MAC entries, num_entries says {batch['num_entries']}")
    section = MacEntries(int(batch["offset"]), int(batch["digest"]), tuple(entries))
    section.build()  # refuses what does not fit its field
    return section


def run_encap(path: Path, datapath: VectorDatapath) -> Result:
    """Run every case of a file against `datapath`.

    Raises:  VectorFileError: the file cannot be read, or does not hold encapsulation vectors.
    """
    result = Result("encap", str(path))
    for case in read_cases(path, EncapCase.parse):
        result.add(_check(case, datapath.encap(case.situation)))
    return result


def _check(case: EncapCase, outcome: EncapOutcome) -> list[CaseDifference]:
    expect = dict(case.expect)
    tag_in_frame = innermost_ethertype_at(pad_frame(case.situation.frame)) > 12
    if expect.get("hdr_frame_tag") is not None:
        expect["hdr"] = expect["hdr_frame_tag"]
        if "wire" in expect:
            expect["wire"] = expect["hdr"] + expect["wire"][HEADER_SIZE:]
    if tag_in_frame:  # the driver overlooked the tag when this was recorded
        del expect["vl"]
        if "pbc" in expect:
            expect["pbc"] = f"{int(expect['pbc'], 16) & ~_PBC_VL:016x}"
    for key in ("tag_offset_quirk", "hdr_frame_tag"):
        expect.pop(key, None)
    return compare(case.case, "", expect, _observed(case.situation, outcome, tag_in_frame))


def _observed(situation: EncapSituation, outcome: EncapOutcome, tag_in_frame: bool) -> dict[str, Any]:
    """Return the outcome in the fields of the vectors."""
    packet = outcome.packet
    observed: dict[str, Any] = {
        "encap_err": packet is None,
        "hdr": None if packet is None else packet[:HEADER_SIZE],
        "vl": outcome.vl,
        "entropy": outcome.entropy,
        "counters": outcome.counters,
    }
    if packet is None:
        return observed | {"eth_len": len(pad_frame(situation.frame))}
    pad_count = packet[-1] & 0x7
    length_qw = length_qw_of(packet)
    word = pbc(length_qw, outcome.vl)
    return (
        observed
        | {
            "eth_len": len(packet) - HEADER_SIZE - pad_count - _TRAILER,
            "len_qw": length_qw,
            "pad_count": pad_count,
            "tail_len": pad_count + _TRAILER,
            "tail_byte": pad_count,  # the driver leaves the upper bits of the last byte to the hardware
            "wire_bytes": len(packet),
            "pbc": f"{word & ~_PBC_VL if tag_in_frame else word:016x}",
            "wire": packet[:-_TRAILER] + bytes(4) + bytes([pad_count]),
        }
    )
