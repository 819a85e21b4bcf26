"""End a running lab from another process, and check that nothing of it is left."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from opavnic.lab.file.errors import JournalError, LabError, NoLabError, PrivilegeError
from opavnic.lab.ownership.cleanup import netdev_names, undo
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.namespaces import is_name_of, programs_in
from opavnic.lab.ownership.process import WatchedProcess
from opavnic.lab.ownership.runtime import Journal, LabDir, all_labs, running_lab
from opavnic.state.job import JobState
from opavnic.state.removed import Removed

SILENCE_S: Final = 15.0
"""How long, in all, the process of a lab may sleep before it has ended."""
LOOK_S: Final = 0.25
Watch = Callable[[Iterator[JobState]], Iterator[JobState]]


def end_lab(name: str | None, watch: Watch = iter) -> Removed:
    """End a lab and wait until it is gone, for as long as its process works.

    Args:    watch: is given the states of the job in the lab, to show them.
    Returns: what was removed.
    Raises:  NoLabError: it is not running. PrivilegeError: it belongs to another user. LabError: it did not end, or
             something of it is left.
    """
    lab, journal = running_lab(name)
    if journal.stopped:
        raise LabError(f"lab {lab.name} (pid {journal.pid}) cannot end itself; {journal.way_out()}")
    try:
        process = os.pidfd_open(journal.pid)
    except ProcessLookupError:
        raise NoLabError(f"lab {lab.name} has just ended") from None
    try:
        if not journal.alive:  # the pid, and so the descriptor, may belong to another process by now
            raise NoLabError(f"lab {lab.name} has just ended")
        removed = _ask(lab, journal, process, watch)
        _await_end(lab, journal, process)
    finally:
        os.close(process)
    left = leftovers(lab, journal)
    if left:
        raise LabError(f"lab {lab.name} ended and left {', '.join(left)}; remove it with: opavnic prune")
    return removed


def end_failed(*, dry_run: bool = False) -> list[Removed]:
    """End the labs that carry nothing any more, and whose processes only keep their hosts.

    Returns: one entry for each.
    Raises:  LabError: something of one is left; the others have been ended.
    """
    done = []
    trouble = []
    for lab in all_labs():
        try:
            journal = lab.load()
            if journal is None or not journal.alive or not journal.failure:
                continue
            done.append(_promised(lab, journal) if dry_run else end_lab(lab.name))
        except JournalError:
            continue  # whether it has failed is unknown
        except LabError as error:
            trouble.append(str(error))
    if trouble:
        raise LabError("; ".join(trouble))
    return done


def _promised(lab: LabDir, journal: Journal) -> Removed:
    """Return what would be removed of a lab that runs."""
    promised = _named(lab, journal)
    promised.programs = programs_in(journal.identities)
    undo(journal, promised, dry_run=True)
    return promised


def _ask(lab: LabDir, journal: Journal, process: int, watch: Watch) -> Removed:
    """Ask a lab to end through its control API, or by a signal if that does not answer (yet)."""
    client = LabClient(lab.control_socket, SILENCE_S)
    try:
        (*_, job) = watch(client.follow_job(client.start_job("POST", "/down")))
        return Removed.from_json(client.get(f"/jobs/{job.number}/answer"))
    except LabError:
        _signal(journal, process)
    return _named(lab, journal)


def _await_end(lab: LabDir, journal: Journal, process: int) -> None:
    """Wait until a process has ended. Raises LabError: it sleeps, and does not end."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    watched, silent_s = WatchedProcess(journal.pid), 0.0
    while not poll.poll(LOOK_S * 1000):
        silent_s += 0.0 if watched.worked() else LOOK_S
        if silent_s > SILENCE_S:
            raise LabError(f"lab {lab.name} (pid {journal.pid}) does not end; {journal.way_out()}")


def _named(lab: LabDir, journal: Journal) -> Removed:
    """Return what the journal of a lab names."""
    namespaces = [Path(entry.path).name for entry in journal.namespaces]
    return Removed(lab.name, [], namespaces, netdev_names(journal), directory=str(lab.path))


def _signal(journal: Journal, process: int) -> None:
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except PermissionError as error:
        raise PrivilegeError(
            f"not permitted to end lab {journal.lab} (pid {journal.pid}): run this as the user that started the lab"
        ) from error
    except ProcessLookupError:
        pass  # it has just ended


def leftovers(lab: LabDir, journal: Journal) -> list[str]:
    """Return what is left of a lab that has ended."""
    left = [
        f"namespace {Path(entry.path).name}"
        for entry in journal.namespaces
        if is_name_of(Path(entry.path), entry.identity)
    ]
    left += [f"program {program}" for program in programs_in(journal.identities)]
    if on_host := [entry.name for entry in journal.netdevs if entry.namespace is None]:
        from hfi_sim.netdev.link_client import LinkClient  # late: most labs have no interface on the machine

        links = LinkClient()
        try:
            found = {name: links.find(name) for name in on_host}
        finally:
            links.close()
        left += [
            f"interface {name}"
            for name, link in found.items()
            if link is not None and link.alias == journal.alias
        ]
    if journal.links or journal.settings:
        still = Removed(lab.name)
        undo(journal, still, dry_run=True)
        left += [f"interface {name}" for name in still.links] + [f"setting {line}" for line in still.settings]
    if lab.path.exists():
        left.append(f"directory {lab.path}")
    return left
