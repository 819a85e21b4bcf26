"""Remove what a lab leaves, and only that: what its journal names, where the inode is still the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opavnic.lab.errors import LabError, LabRunningError
from opavnic.lab.namespaces import Program, end_programs, namespace_inode, programs_in, remove_namespace
from opavnic.lab.runtime import Journal, LabDir, all_labs


@dataclass(slots=True)
class Removed:
    """What was removed of one lab (or would be)."""

    lab: str
    programs: list[Program] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    netdevs: list[str] = field(default_factory=list)
    directory: str = ""
    kept: list[str] = field(default_factory=list)
    """What bears a name of the lab and is not the lab's: left alone."""
    failed: list[str] = field(default_factory=list)
    """What did not end as it should, and why; the rest has ended."""

    @property
    def complaint(self) -> str:
        """Return `failed` as a sentence."""
        return f"lab {self.lab} has ended, but not all of it as it should: {'; '.join(self.failed)}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Removed:
        """Read what `as_json` returned."""
        return cls(**{**data, "programs": [Program(**program) for program in data["programs"]]})

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return one line for a person about each thing."""
        return [
            *(f"program {program}" for program in self.programs),
            *(f"interface {name}" for name in self.netdevs),
            *(f"namespace {name}" for name in self.namespaces),
            *([f"directory {self.directory}"] if self.directory else []),
            *(f"(left alone: namespace {name}, not of this lab)" for name in self.kept),
        ]


def netdev_names(journal: Journal) -> list[str]:
    """Return the interfaces of a lab as `blue in opavnic-two-hosts-h1`."""
    return [
        f"{entry.name} in {entry.namespace}" if entry.namespace else f"{entry.name} on the host"
        for entry in journal.netdevs
    ]


def remove_leftovers(lab: LabDir, *, dry_run: bool = False) -> Removed:
    """Remove everything that a dead lab left. The caller holds the lock of `lab`."""
    removed = Removed(lab.name, directory=str(lab.path))
    journal = lab.load()
    if journal is not None:
        inodes = [entry.inode for entry in journal.namespaces]
        removed.programs = programs_in(inodes) if dry_run else end_programs(inodes)
        remove_namespaces(journal, removed, dry_run=dry_run)
    if not dry_run:
        lab.remove()
    return removed


def remove_namespaces(journal: Journal, removed: Removed, *, dry_run: bool = False) -> None:
    """Remove the namespaces of a journal that are still the ones it means, and enter all in `removed`."""
    for entry in journal.namespaces:
        path = Path(entry.path)
        found = namespace_inode(path)
        if found is not None and found != entry.inode:
            removed.kept.append(path.name)
        elif (found is not None) if dry_run else remove_namespace(path, entry.inode):
            removed.namespaces.append(path.name)


def prune(*, dry_run: bool = False) -> list[Removed]:
    """Remove what labs left whose process is gone; running labs are not touched.

    Returns: one entry for each such lab; nothing when there is nothing to do.
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
