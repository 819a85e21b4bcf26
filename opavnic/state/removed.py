"""What was removed of a lab when it ended, or after a crash. Plain data: `down` and `prune` need nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Program:
    """A process found in a namespace of the lab."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid})"


@dataclass(slots=True)
class Removed:
    """What was removed of one lab, or would be in a dry run."""

    lab: str
    programs: list[Program] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    netdevs: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    """Interfaces that were made beside the VNICs: bridges, pairs, TAPs of virtual machines."""
    settings: list[str] = field(default_factory=list)
    """Settings of others that were put back."""
    directory: str = ""
    kept: list[str] = field(default_factory=list)
    """Objects under a name of the lab that it did not make; they are left alone."""
    failed: list[str] = field(default_factory=list)
    """What failed to stop, and why; the rest has ended."""

    @property
    def complaint(self) -> str:
        """Return `failed` as a sentence."""
        return f"lab {self.lab} has ended, but some parts failed to stop: {'; '.join(self.failed)}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Removed:
        """Read what `as_json` returned."""
        return cls(**{**data, "programs": [Program(**program) for program in data["programs"]]})

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return one line of text for each object."""
        return [
            *(f"program {program}" for program in self.programs),
            *(f"interface {name}" for name in (*self.netdevs, *self.links)),
            *(f"setting {line}" for line in self.settings),
            *(f"namespace {name}" for name in self.namespaces),
            *([f"directory {self.directory}"] if self.directory else []),
            *(f"(left alone: namespace {name}, not of this lab)" for name in self.kept),
        ]

    def of_an_earlier_run(self) -> str:
        """Return a line to show when the lab is started again."""
        return f"removed what an earlier run of {self.lab} left: {', '.join(self.lines())}"
