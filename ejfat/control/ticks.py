"""Where the ticks will be: from senders' sync messages, and from what the data plane has seen.

Source: the public control plane: the latest sample and its rate; where senders give no rate, a straight line
    through the last ten samples.
Differs: each source is predicted by itself and the furthest counts; the data plane's own view bounds it below.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ejfat.control.prefixes import TICKS

SAMPLES = 10
FRESH_S = 60.0
"""Samples older than this say nothing any more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A tick, when it was current (seconds, our clock), and the rate the sender claims (0: it does not know)."""

    tick: int
    at: float
    rate_hz: float = 0.0


@dataclass(slots=True)
class _Source:
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))


class TickPredictor:
    """The largest tick that any source will have reached at a given time."""

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}
        self.seen = 0
        """The largest tick that the data plane has seen since the ticks last went backwards."""

    def sample(self, source_id: int, sample: Sample) -> None:
        """Take a sample; where a source's ticks went backwards, its older samples are forgotten."""
        source = self._sources.setdefault(source_id, _Source())
        if source.samples and sample.tick < source.samples[-1].tick:
            source.samples.clear()
        source.samples.append(sample)

    def observe(self, tick: int) -> None:
        """Take note of the largest tick that the data plane has seen."""
        self.seen = max(self.seen, tick)

    def restart(self) -> None:
        """Forget everything: the senders began anew."""
        self._sources.clear()
        self.seen = 0

    def latest(self, now: float) -> int | None:
        """Return the tick expected now, None where nothing is known."""
        return self.predict(now, now)

    def predict(self, when: float, now: float) -> int | None:
        """Return the tick expected at `when`, None where no source has spoken within the last minute.

        Returns: below 2**64 - 1 in every case; never below a tick that has been seen.
        """
        expected = [
            tick
            for source in self._sources.values()
            if source.samples and now - source.samples[-1].at <= FRESH_S
            for tick in [_extrapolate(source.samples, when)]
        ]
        if self.seen:
            expected.append(self.seen)
        return min(max(expected), TICKS - 2) if expected else None


def _extrapolate(samples: deque[Sample], when: float) -> int:
    last = samples[-1]
    rate = last.rate_hz or _slope(samples)
    return max(last.tick, last.tick + round(rate * (when - last.at)))


def _slope(samples: deque[Sample]) -> float:
    """Return ticks per second of the straight line that fits best (least squares), 0 for a single sample."""
    base_at, base_tick = samples[0].at, samples[0].tick
    points = [(s.at - base_at, s.tick - base_tick) for s in samples]
    mean_at = sum(at for at, _ in points) / len(points)
    mean_tick = sum(tick for _, tick in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    if spread == 0:
        return 0.0
    return sum((at - mean_at) * (tick - mean_tick) for at, tick in points) / spread
