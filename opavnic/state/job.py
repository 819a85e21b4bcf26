"""The long operations of a lab, as `opavnic job` shows them."""

from __future__ import annotations

from enum import StrEnum

from opavnic.base.state import StateModel


class JobPhase(StrEnum):
    """How far a job is."""

    WORKING = "working"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobState(StateModel):
    """One long operation."""

    number: int
    name: str
    """Such as `host add h9`."""
    phase: JobPhase
    doing: str
    """What it does now, such as `VNICs are up`; empty: nothing that takes long."""
    done: int
    total: int
    """How many of how many; 0 of 0 where nothing is counted."""
    can_cancel: bool
    """Whether nothing of it has been done yet that would have to be undone."""
    seconds: float
    """How long it has taken so far, or has taken in all."""
    silent_s: float
    """How long it has shown no progress."""
    version: int
    """Grows with each change of this state."""
    error: str
    """Why it has failed, in a line; empty: it has not."""

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.phase is not JobPhase.WORKING

    def __str__(self) -> str:
        """Return it in a line: `host add h9: 3 of 10 VNICs are up`."""
        return f"{self.name}: {self.error or self.progress or self.phase}"

    @property
    def progress(self) -> str:
        """Return what it does now, with the count."""
        if self.total:
            return f"{self.done} of {self.total} {self.doing}"
        return f"{self.done} {self.doing}" if self.done else self.doing


class JobsState(StateModel):
    """The long operations of a lab: those that run, and the last ones that have ended."""

    jobs: list[JobState]
