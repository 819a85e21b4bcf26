"""The program that a lab starts for `opavnic check`: it enters the hosts, and sends the echoes from there.

It is a process of its own, because a check takes all of a processor, and enters namespaces. On each line of its output
it says how far it is, and on the last one what it has found, or why it cannot.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from hfi_sim.base.errors import HfiSimError, NetdevError
from hfi_sim.netdev.namespace import Libc, run_in_namespace
from opavnic.lab.file.errors import LabError, LabInputError
from opavnic.lab.hosts.descriptors import raise_limit
from opavnic.lab.hosts.enter import enter_private, host_namespace
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import Journal, running_lab
from opavnic.lab.run.reach.echoes import EchoRun, HostSockets, open_sockets, places_here, told_now_and_then
from opavnic.lab.run.reach.kernels import KernelAsker
from opavnic.lab.run.reach.plan import PairSample, ReachReport, VnicPlace
from opavnic.state.lab import HostStatus, LabState


def check_reach(
    journal: Journal,
    state: LabState,
    *,
    timeout_s: float,
    sample: PairSample,
    progress: Callable[[str, int, int], None],
) -> ReachReport:
    """Send all echoes and wait for their answers. Call it in a process without other threads.

    Args:    state: of the lab. timeout_s: how long an answer may take. sample: which pairs of large virtual
             switches are asked. progress: called with what is counted, how many are done, and of how many.
    Raises:  LabError: a host cannot be entered.
    """
    raise_limit()
    with contextlib.ExitStack() as ends:
        places: list[VnicPlace] = []
        hosts: dict[str, HostSockets] = {}
        kernels = [
            ends.enter_context(KernelAsker(journal, host.name, vnics))
            for host in state.hosts
            if host.name in journal.kernels and (vnics := vnics_to_check(host))
        ]
        if journal.private:
            enter_private(Libc(), journal.pid)
        for number, host in enumerate(state.hosts):
            progress("hosts are entered", number, len(state.hosts))
            if host.name in journal.kernels:
                continue
            try:
                namespace = host_namespace(journal, host.name)
            except LabInputError:
                continue  # an app in the process of the lab
            hosts[host.name] = _in_host(host.name, namespace, lambda: open_sockets(ends))
            here = partial(places_here, host.name, vnics_to_check(host))
            places += _in_host(host.name, namespace, here)
        for number, kernel in enumerate(kernels):  # at high load, each takes seconds to start its program
            progress("kernels are entered", number, len(kernels))
            places += kernel.places()
        count = partial(progress, "echoes are over")
        report = EchoRun(hosts, places, timeout_s, sample).run(count)
        for kernel in kernels:  # one by one: what one of them asks takes the processors of the others
            report = report.with_outcomes(kernel.ask(report.places, timeout_s, sample, count))
        return report


def _in_host(host: str, namespace: Path | None, function: Callable[[], Any]) -> Any:
    try:
        return run_in_namespace(namespace, function)
    except (OSError, NetdevError) as error:
        raise LabError(
            f"cannot check from host {host}: {error}; run this as the user that started the lab"
        ) from error


def vnics_to_check(host: HostStatus) -> list[tuple[str, str]]:
    """Return interface and virtual switch of each VNIC of a host that is up."""
    return [(vnic.interface, vnic.vesw) for vnic in host.vnics if vnic.vesw and vnic.is_up]


FOUND: Final = '{"found": '
"""Begins the last line."""


def reach_of_lab(name: str, timeout_s: float, everything: bool, seed: int | None) -> dict[str, Any]:
    """Check a lab that runs; return a `ReachState` as plain data. Raises LabError."""
    lab, journal = running_lab(name)
    state = LabClient(lab.control_socket).read(LabState, "/status")
    sample = PairSample(state.seed if seed is None else seed, everything)
    tell = told_now_and_then(
        lambda what, done, total: _tell(json.dumps({"doing": what, "done": done, "total": total}))
    )
    report = check_reach(journal, state, timeout_s=timeout_s, sample=sample, progress=tell)
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


def main() -> None:
    """Check a lab: LAB OPTIONS."""
    try:
        _tell(f"{FOUND}{json.dumps(reach_of_lab(sys.argv[1], **json.loads(sys.argv[2])))}}}")
    except HfiSimError as error:
        _tell(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
