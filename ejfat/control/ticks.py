"""Where the ticks will be: from senders' sync messages, and from what the data plane has seen.

Source: the public control plane: the latest sample and its rate; where senders give no rate, a straight line
    through the last ten samples.
Differs: each source is predicted by itself and the furthest counts; the data plane's own view bounds it on both
    sides. A message is believed only if it runs ahead of what is known by no more than its time allows.

A boundary that lies too near is harmless, for it is always behind every tick that was seen; one that lies too far is
never reached, and balancing stands still until then. So what is in doubt is cut, or not believed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from ejfat.control.prefixes import TICKS
from ejfat.drops import Drop

SAMPLES = 10
FRESH_S = 60.0
"""What was said or seen longer ago says nothing any more."""
MAX_SOURCES = 256
FASTEST_HZ = float(0xFFFFFFFF)
"""The rate that a sync message can say: the bound where none has been measured yet."""
SLOWEST_HZ = 1000.0
"""The least bound: a source that stood still may go on."""
HEADROOM = 10.0
"""How many times faster than up to now a source may become from one message to the next."""
PACE = 2.0
"""How many times faster than up to now the ticks that are seen may be expected to go on."""
SLACK_S = 2.0
"""Messages and looks at the data plane come about once a second, and not together."""
CLOCK_SLACK_S = 5.0
"""How far a sender's clock may run ahead of ours between two of its messages."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A tick, when it was current (seconds, our clock), and the rate the sender claims (0: it does not know)."""

    tick: int
    at: float
    rate_hz: float = 0.0
    sent_ns: int = 0
    """When it was sent by the sender's clock, which need not agree with ours; 0: it does not say."""


class TickPredictor:
    """The largest tick that any source will have reached at a given time."""

    def __init__(self) -> None:
        self._sources: dict[Hashable, deque[Sample]] = {}
        self._passed: deque[Sample] = deque(maxlen=SAMPLES)
        """What the data plane has seen, whenever it was more than before."""
        self.seen = 0
        """The largest tick that the data plane has seen since the ticks last went backwards."""

    def sample(self, source: Hashable, sample: Sample) -> Drop | None:
        """Take what a source says, or return why it is not believed.

        Where a source's ticks went backwards, it has begun anew, and its older samples are forgotten. A source of
        which nothing is known is bounded by the others and by the data plane; while they say nothing either, it is
        believed, for nothing is under way then.
        """
        now = sample.at
        known = self._sources.get(source)
        if known is None or now - known[-1].at > FRESH_S:
            self._forget_silent(now)
            if len(self._sources) >= MAX_SOURCES:
                return Drop.SYNC_SOURCES
            known = deque(maxlen=SAMPLES)
        elif known[-1].sent_ns and sample.sent_ns:
            passed = (sample.sent_ns - known[-1].sent_ns) / 1e9
            if not 0 < passed <= now - known[-1].at + CLOCK_SLACK_S:
                return Drop.SYNC_TIMESTAMP
        if not self._is_within_reach(sample, known):
            return Drop.SYNC_AHEAD
        if known and sample.tick < known[-1].tick:
            known.clear()
        known.append(sample)
        self._sources[source] = known
        return None

    def _forget_silent(self, now: float) -> None:
        for source in [one for one, samples in self._sources.items() if now - samples[-1].at > FRESH_S]:
            del self._sources[source]

    def _is_within_reach(self, sample: Sample, known: deque[Sample]) -> bool:
        """Return whether ticks can have come so far, by what the data plane sees, or else by what sources said."""
        if self._is_seeing(sample.at):
            witnesses = [self._passed]
        else:
            fresh = [known] if known else []  # first, for it nearly always says yes
            witnesses = fresh + [s for s in self._sources.values() if sample.at - s[-1].at <= FRESH_S]
        if not witnesses:
            return True
        return any(sample.tick <= _reach(samples, sample.at, HEADROOM, SLACK_S) for samples in witnesses)

    def observe(self, tick: int, now: float) -> None:
        """Take note of the largest tick that the data plane has seen."""
        if tick > self.seen:
            self.seen = tick
            self._passed.append(Sample(tick, now))

    def restart(self) -> None:
        """Forget everything: the senders began anew."""
        self._sources.clear()
        self._passed.clear()
        self.seen = 0

    def is_fresh(self, now: float) -> bool:
        """Return whether a source has spoken, or the data plane has seen more, within the last minute."""
        latest = [samples[-1].at for samples in (self._passed, *self._sources.values()) if samples]
        return any(now - at <= FRESH_S for at in latest)

    def latest(self, now: float) -> int | None:
        """Return the tick expected now, None where nothing is known."""
        return self.predict(now, now)

    def predict(self, when: float, now: float) -> int | None:
        """Return the tick expected at `when`, None where no source has spoken within the last minute.

        Returns: below 2**64 - 1 in every case; never below a tick that has been seen, and while the data plane sees
            ticks, never further ahead of them than their own pace allows.
        """
        said = [
            _extrapolate(samples, when)
            for samples in self._sources.values()
            if now - samples[-1].at <= FRESH_S
        ]
        if said and self._is_seeing(now):
            said = [min(max(said), _reach(self._passed, when, PACE))]
        if self.seen:
            said.append(self.seen)
        return min(max(said), TICKS - 2) if said else None

    def _is_seeing(self, now: float) -> bool:
        """Return whether ticks have gone on in the data plane within the last minute."""
        return bool(self._passed) and now - self._passed[-1].at <= FRESH_S


def _reach(samples: deque[Sample], when: float, headroom: float, slack_s: float = 0.0) -> int:
    """Return how far ticks can have come at `when`, if they become no more than `headroom` times faster."""
    last = samples[-1]
    pace = _slope(samples)
    bound = FASTEST_HZ
    if pace is not None:
        bound = min(FASTEST_HZ, max(SLOWEST_HZ, headroom * max(pace, last.rate_hz)))
    return last.tick + round(bound * (max(0.0, when - last.at) + slack_s))


def _extrapolate(samples: deque[Sample], when: float) -> int:
    last = samples[-1]
    pace = _slope(samples)
    rate = last.rate_hz or pace or 0.0
    if pace is not None:
        rate = min(rate, max(SLOWEST_HZ, HEADROOM * pace))
    return max(last.tick, last.tick + round(rate * (when - last.at)))


def _slope(samples: Iterable[Sample]) -> float | None:
    """Return ticks per second of the straight line that fits best (least squares), None where there is no line."""
    points = [(sample.at, sample.tick) for sample in samples]
    base_at, base_tick = points[0]
    mean_at = sum(at - base_at for at, _ in points) / len(points)
    mean_tick = sum(tick - base_tick for _, tick in points) / len(points)
    spread = sum((at - base_at - mean_at) ** 2 for at, _ in points)
    if spread == 0:
        return None
    return sum((at - base_at - mean_at) * (tick - base_tick - mean_tick) for at, tick in points) / spread
