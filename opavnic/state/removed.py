"""What was removed of a lab when it ended, or after a crash. Plain data: `down` and `prune` need nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

_MOST_LINES: Final = 32
"""Objects of one kind that are all named."""
_FIRST: Final = 4
"""Those that are named where there are more."""


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
        """Return one line of text for each object; of many of one kind, for the first ones, and a count."""
        return [
            *_folded("program", map(str, self.programs)),
            *_folded("interface", (*self.netdevs, *self.links)),
            *_folded("setting", self.settings),
            *_folded("namespace", self.namespaces),
            *([f"directory {self.directory}"] if self.directory else []),
            *(f"(left alone: namespace {name}, not of this lab)" for name in self.kept),
        ]

    def of_an_earlier_run(self) -> str:
        """Return a line to show when the lab is started again."""
        return f"removed what an earlier run of {self.lab} left: {', '.join(self.lines())}"


def _folded(kind: str, names: Iterable[str]) -> list[str]:
    lines = [f"{kind} {name}" for name in names]
    more = len(lines) - _FIRST
    return lines if len(lines) <= _MOST_LINES else [*lines[:_FIRST], f"... and {more} more {kind}s"]
