"""Remove what a lab left behind: only objects that its journal names and whose identity it confirms."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from opavnic.lab.file.errors import LabError, LabRunningError
from opavnic.lab.ownership.identity import boot_id
from opavnic.lab.ownership.namespaces import end_programs, is_name_of, programs_in, remove_namespace
from opavnic.lab.ownership.runtime import Journal, LabDir, all_labs
from opavnic.state.removed import Removed


def netdev_names(journal: Journal) -> list[str]:
    """Return the interfaces of a lab as `blue in opavnic-two-hosts-h1`."""
    return [
        f"{entry.name} in {entry.namespace}" if entry.namespace else f"{entry.name} on the host"
        for entry in journal.netdevs
    ]


def take_over(lab: LabDir) -> Removed | None:
    """Lock the directory of a lab and remove what an earlier, killed run left there.

    Returns: what was removed; None if nothing was there.
    Raises:  LabRunningError: the lab is running. LabError: the directory cannot be locked, or something cannot be
             removed.
    """
    removed = None
    while True:
        lab.acquire()
        empty = False
        try:
            empty = lab.load() is None
            if empty:
                return removed
            removed = remove_leftovers(lab)
        finally:
            if not empty:
                lab.release()  # after a removal, the lock is on a directory that no longer exists


def end_earlier_run(lab: LabDir) -> Removed | None:
    """Remove what a lab left when it was killed, and its directory; of an empty directory nothing is said.

    Returns: what was removed; None where there was no lab.
    Raises:  LabRunningError: the lab runs. LabError: the directory cannot be locked, or not all can be removed.
    """
    lab.acquire()
    try:
        if lab.load() is not None:
            return remove_leftovers(lab)
        with contextlib.suppress(OSError):  # it contains files
            lab.path.rmdir()
        return None
    finally:
        lab.release()


def remove_leftovers(lab: LabDir, *, dry_run: bool = False) -> Removed:
    """Remove everything that a dead lab left. The caller holds the lock of `lab`.

    After a reboot, only the directory of a lab is left.

    Raises:  LabError: something cannot be removed; or the journal cannot be read, and nothing was removed.
    """
    removed = Removed(lab.name, directory=str(lab.path))
    journal = lab.load()
    if journal is not None and journal.boot == boot_id():
        identities = journal.identities
        removed.programs = programs_in(identities) if dry_run else end_programs(identities)
        undo(journal, removed, dry_run=dry_run)
        remove_namespaces(journal, removed, dry_run=dry_run)
    if not dry_run:
        lab.remove()
    return removed


def undo(journal: Journal, removed: Removed, *, dry_run: bool = False) -> None:
    """Put settings of others back and remove interfaces beside the VNICs; list both in `removed`. Raises LabError."""
    from opavnic.lab.ownership.owned import put_back, remove_links  # late: most labs have neither

    if journal.settings:
        removed.settings = put_back(journal, dry_run=dry_run)
    if journal.links:
        removed.links = remove_links(journal, dry_run=dry_run)


def remove_namespaces(journal: Journal, removed: Removed, *, dry_run: bool = False) -> None:
    """Remove the namespaces of a journal whose identity matches it; list them, and those kept, in `removed`."""
    for entry in journal.namespaces:
        path = Path(entry.path)
        if is_name_of(path, entry.identity) if dry_run else remove_namespace(path, entry.identity):
            removed.namespaces.append(path.name)
        elif os.path.lexists(path):
            removed.kept.append(path.name)


def prune(*, dry_run: bool = False) -> list[Removed]:
    """Remove what labs whose process is gone left behind; running labs are not touched.

    Returns: one entry for each such lab.
    Raises:  LabError: something could not be removed; the rest was.
    """
    done = []
    trouble = []
    for lab in all_labs():
        try:
            lab.acquire()
        except LabRunningError:
            continue
        except LabError as error:
            trouble.append(str(error))
            continue
        try:
            done.append(remove_leftovers(lab, dry_run=dry_run))
        except LabError as error:
            trouble.append(str(error))
        finally:
            lab.release()
    if trouble:
        raise LabError("; ".join(trouble))
    return done
