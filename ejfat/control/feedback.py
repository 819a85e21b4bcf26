"""From workers' reports to weights, and the control signal that a worker computes for its reports.

Source: the public control plane (weight += control signal, mean scaled to 1000) and the public receiver library
    (a PID controller on the fill level of its queue).
Differs: the fill level also changes weights, because the public receivers send a control signal of 0 by default;
    `fill_gain=0` turns this off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

MEAN_WEIGHT = 1000.0
_LEAST_WEIGHT = 1.0


def reweigh(
    weights: Mapping[int, float],
    reports: Mapping[int, tuple[float, float]],
    elapsed_s: float = 1.0,
    fill_gain: float = 0.0,
) -> dict[int, float]:
    """Return new weights with mean 1000, changed by control signals and by fill levels relative to the mean.

    Args:    weights: of all members; a weight that becomes too small is set to the minimum. reports: of each, the fill
        level of its queue, 0 to 1, and the change of weight per second that it requests. elapsed_s: since the last
        call. fill_gain: weight per second that a worker with a full queue loses if the other queues are empty.
    """
    if not weights:
        return {}
    mean_fill = sum(fill for fill, _ in reports.values()) / len(reports)
    moved = {}
    for member, weight in weights.items():
        fill, control = reports[member]
        change = control + fill_gain * (mean_fill - fill)
        moved[member] = max(weight + change * elapsed_s, _LEAST_WEIGHT)
    scale = MEAN_WEIGHT * len(moved) / sum(moved.values())
    return {member: max(weight * scale, _LEAST_WEIGHT) for member, weight in moved.items()}


@dataclass(frozen=True, slots=True)
class Gains:
    """Gains of the controller; if all are 0, a worker never requests a change."""

    proportional: float = 0.0
    integral: float = 0.0
    derivative: float = 0.0


class FillController:
    """A PID controller: requests more weight below the set point of the fill level, and less above it."""

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
