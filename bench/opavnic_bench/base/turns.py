"""The structure of a benchmark: subjects are measured in turns; results are medians, and ratios within one run.

In each round every subject is measured once, so a noisy minute on the machine touches all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from statistics import median
from time import monotonic, perf_counter
from typing import Any, Final, Generic, Protocol, TypeVar

from opavnic.base.errors import OpavnicError

_DIGITS: Final = 3


class BenchError(OpavnicError):
    """A benchmark cannot run here, or what it measured failed."""


class PeerError(BenchError):
    """One subject cannot be measured; the others can."""


class Progress(Protocol):
    """Shows the progress of a benchmark."""

    def __call__(self, done: int, total: int, label: str) -> None:
        """Show that `done` of `total` measurements are done, and that `label` is next."""


def silent(done: int, total: int, label: str) -> None:
    """Show nothing: a `Progress` that is never displayed."""


K = TypeVar("K", bound=Hashable)
"""One thing to measure."""
S = TypeVar("S")
"""The result of one round."""


@dataclass(slots=True)
class Run(Generic[K, S]):
    """Samples by subject, what was left out and why."""

    samples: dict[K, list[S]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Label -> reason."""
    rounds: int = 0
    took_s: float = 0.0

    def single(self) -> list[S]:
        """Return the first sample of each subject, in order: the result of a benchmark of one round."""
        return [samples[0] for samples in self.samples.values() if samples]


def take_turns(
    subjects: Sequence[K],
    measure: Callable[[K], S],
    rounds: int = 1,
    *,
    label: Callable[[K], str] = str,
    progress: Progress = silent,
    budget_s: float = float("inf"),
) -> Run[K, S]:
    """Measure every subject `rounds` times, in turns; leave out a subject once it raises PeerError.

    Args:    label: how progress and `Run.skipped` name a subject.
             budget_s: no round is begun that would, if it took as long as the one before, end later than this.
    """
    subjects = list(dict.fromkeys(subjects))
    run: Run[K, S] = Run({subject: [] for subject in subjects})
    start = monotonic()
    for number in range(rounds):
        began = monotonic()
        for position, subject in enumerate(subjects):
            name = label(subject)
            if name in run.skipped:
                continue
            text = f"round {number + 1} of {rounds}: {name}" if rounds > 1 else name
            progress(number * len(subjects) + position, rounds * len(subjects), text)
            try:
                run.samples[subject].append(measure(subject))
            except PeerError as error:
                run.skipped[name] = str(error)
        run.rounds = number + 1
        now = monotonic()
        if now - start + (now - began) > budget_s:
            break
    run.took_s = monotonic() - start
    return run


def repeat(step: Callable[[], int], seconds: float) -> tuple[int, float]:
    """Call `step` until `seconds` have passed; return the sum of what it returned, and the time it took."""
    done, start = 0, perf_counter()
    while (elapsed := perf_counter() - start) < seconds:
        done += step()
    return done, elapsed


def medians(samples: Sequence[Any]) -> dict[str, float | None]:
    """Return the median of each field of a dataclass over its samples, None where no sample has a value."""
    result: dict[str, float | None] = {}
    for item in fields(samples[0]):
        values = [value for sample in samples if (value := getattr(sample, item.name)) is not None]
        result[item.name] = round(median(values), _DIGITS) if values else None
    return result


def ratio(one: float | None, other: float | None) -> float | None:
    """Return the ratio of the figures `one` and `other`, None if there is nothing to compare."""
    return round(one / other, 2) if one is not None and other else None
