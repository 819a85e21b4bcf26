"""Send the echoes of `opavnic check` from inside the hosts of a lab."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import Libc, run_in_namespace
from opavnic.lab.file.errors import LabError, LabInputError
from opavnic.lab.hosts.descriptors import raise_limit
from opavnic.lab.hosts.enter import enter_private, host_namespace
from opavnic.lab.ownership.runtime import Journal
from opavnic.lab.run.reach.echoes import EchoRun, HostSockets, open_sockets, places_here
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
            ends.enter_context(KernelAsker(journal, host.name, vnics_to_check(host)))
            for host in state.hosts
            if host.name in journal.kernels
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
        for kernel in kernels:
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
