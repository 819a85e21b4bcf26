"""The program that a lab starts for `opavnic check`: it enters the hosts, and sends the echoes from there.

It is a process of its own, because a check takes all of a processor, and enters namespaces. On each line of its output
it says how far it is, and on the last one what it has found, or why it cannot.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from hfi_sim.base.errors import HfiSimError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import running_lab
from opavnic.lab.run.reach.echoes import told_now_and_then
from opavnic.lab.run.reach.hosts import check_reach
from opavnic.lab.run.reach.plan import PairSample
from opavnic.state.lab import LabState

FOUND: Final = '{"found": '
"""Begins the last line."""


def reach_of_lab(name: str, timeout_s: float, everything: bool, seed: int | None) -> dict[str, Any]:
    """Check a lab that runs; return a `ReachState` as plain data. Raises LabError."""
    lab, journal = running_lab(name)
    state = LabClient(lab.control_socket).read(LabState, "/status")
    sample = PairSample(state.seed if seed is None else seed, everything)
    report = check_reach(
        journal, state, timeout_s=timeout_s, sample=sample, progress=told_now_and_then(_tell_progress)
    )
    down = [
        {"host": host.name, "interface": vnic.interface, "state": vnic.state}
        for host, vnic in state.vnics()
        if vnic.ip is not None and not vnic.is_up
    ]
    data = report.as_json(journal.lab) | {"down": down}
    data["not_asked"] = list(_not_asked(state, data["pairs"]))
    data["ok"] = data["ok"] and not down
    return data


def _not_asked(state: LabState, pairs: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield the VNICs that are up and in no pair."""
    asked = {(one["vesw"], one[end]) for one in pairs for end in ("from", "to")}
    for host, vnic in state.vnics():
        if vnic.vesw and vnic.is_up and (vnic.vesw, host.name) not in asked:
            yield {"vesw": vnic.vesw, "host": host.name}


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _tell_progress(what: str, done: int, total: int) -> None:
    _tell(json.dumps({"doing": what, "done": done, "total": total}))


def main() -> None:
    """Check a lab: LAB OPTIONS."""
    try:
        _tell(f"{FOUND}{json.dumps(reach_of_lab(sys.argv[1], **json.loads(sys.argv[2])))}}}")
    except HfiSimError as error:
        _tell(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
