"""From workers' reports to weights, and the report a worker computes for itself.

Source: the public control plane (weight += control signal, mean scaled to 1000) and the public receiver library
    (a PID controller on the fill level of its queue).
Differs: the fill level moves weights by itself too, for the receivers of today send control signals of 0 unless
    told otherwise; `fill_gain=0` turns that off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

MEAN_WEIGHT = 1000.0
_LEAST_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What counts of a worker's last report."""

    fill: float = 0.0
    """Share of its queue in use, 0 to 1."""
    control: float = 0.0
    """The change of weight it asks for, per second."""


def reweigh(
    weights: Mapping[int, float],
    reports: Mapping[int, Report],
    elapsed_s: float = 1.0,
    fill_gain: float = 0.0,
) -> dict[int, float]:
    """Return new weights with mean 1000: moved by control signals and by how full a worker is against the others.

    Args:    weights: of all members; 0 or less is taken as the least weight. elapsed_s: since the last call.
        fill_gain: weight per second that a worker loses whose queue is full while the others' are empty.
    """
    if not weights:
        return {}
    known = [reports[member].fill for member in weights if member in reports]
    mean_fill = sum(known) / len(known) if known else 0.0
    moved = {}
    for member, weight in weights.items():
        report = reports.get(member, Report(mean_fill))
        change = report.control + fill_gain * (mean_fill - report.fill)
        moved[member] = max(weight + change * elapsed_s, _LEAST_WEIGHT)
    scale = MEAN_WEIGHT * len(moved) / sum(moved.values())
    return {member: max(weight * scale, _LEAST_WEIGHT) for member, weight in moved.items()}


@dataclass(frozen=True, slots=True)
class Gains:
    """Of the controller; all 0 means that a worker never asks for a change."""

    proportional: float = 0.0
    integral: float = 0.0
    derivative: float = 0.0


class FillController:
    """A PID controller: asks for more weight below the set point of the fill level, for less above it."""

    def __init__(self, gains: Gains, *, set_point: float = 0.0, window_s: float = 1.0) -> None:
        self._gains = gains
        self._set_point = set_point
        self._window_s = window_s
        self._errors: deque[tuple[float, float]] = deque()

    def update(self, fill: float, now: float) -> float:
        """Return the control signal for a fill level (0 to 1) at time `now` (seconds)."""
        error = self._set_point - fill
        self._errors.append((now, error))
        while now - self._errors[0][0] > self._window_s:
            self._errors.popleft()
        integral = sum(
            (after[0] - before[0]) * (after[1] + before[1]) / 2
            for before, after in zip(self._errors, list(self._errors)[1:], strict=False)
        )
        first_at, first_error = self._errors[0]
        derivative = (error - first_error) / (now - first_at) if now > first_at else 0.0
        gains = self._gains
        return gains.proportional * error + gains.integral * integral + gains.derivative * derivative
