"""Running receive vectors: a packet arrives at a port with some vports; the port's own checks are not applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opavnic.conformance.datapaths import VectorDatapath
from opavnic.conformance.result import CaseDifference, Json, Result, compare, read_cases
from opavnic.conformance.vector_setup import VportSetup, VportState

if TYPE_CHECKING:
    from pathlib import Path

_DROPS = ("rx_nohandler", "rx_drop_state", "rx_oversize", "rx_runt")


def _parse(document: Json) -> tuple[int, tuple[VportSetup, ...], bytes, Json]:
    """Read a case from its JSON object: number, vports, packet, and what is expected."""
    vports = tuple(
        VportSetup(int(vport["vport"]), int(vport["vesw_id"]), int(vport["mtu"]), VportState(vport["state"]))
        for vport in document["vports"]
    )
    packet = bytes.fromhex(document["packet"])
    if len(packet) != document["tlen"]:
        raise ValueError(f"packet has {len(packet)} bytes, tlen says {document['tlen']}")
    given = document["expect"]
    expect = {
        "delivered_on": given["delivered_on"],
        "frame": None if given["frame"] is None else bytes.fromhex(given["frame"]),
        "drop": given["drop"],
        "drop_vport": given["drop_vport"],
        "counters": {int(vport): counts for vport, counts in given["counters"].items()},
    }
    if given.get("frame_len") is not None and expect["frame"] is not None:
        expect["frame_len"] = int(given["frame_len"])
    return int(document["id"]), vports, packet, expect


def run_rx(path: Path, datapath: VectorDatapath) -> Result:
    """Run every case of a file against `datapath`.

    Raises:  VectorFileError: the file cannot be read, or does not hold receive vectors.
    """
    result = Result("rx", str(path))
    for case, vports, packet, expect in read_cases(path, _parse):
        result.add(_check(case, expect, *datapath.rx(vports, packet)))
    return result


def _check(
    case: int, expect: Json, frames: dict[int, bytes], counters: dict[int, dict[str, int]]
) -> list[CaseDifference]:
    drop: str | None = None if frames else "uncounted"
    drop_vport: int | None = None
    for vport_num, counts in counters.items():
        for name in _DROPS:
            if counts.get(name):
                drop, drop_vport = name, vport_num
    delivered_on, frame = next(iter(frames.items()), (None, None))
    observed: dict[str, Any] = {
        "delivered_on": delivered_on,
        "frame_len": None if frame is None else len(frame),
        "frame": frame,
        "drop": drop,
        "drop_vport": drop_vport,
        "counters": counters,
    }
    differences = compare(case, "", expect, observed)
    if len(frames) > 1:
        differences.append(CaseDifference(case, "delivered on several vports", 1, sorted(frames)))
    return differences
