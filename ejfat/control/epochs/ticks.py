"""Predict ticks from the senders' sync messages and from the ticks that the data plane has seen.

Source: the public control plane: the latest sample and its rate or, if senders give no rate, a straight line through
    the last ten samples.
Differs: each source is predicted separately, and the furthest prediction is used, bounded on both sides by the ticks
    that the data plane has seen. A message is accepted only if its tick is no further ahead than time allows.

A boundary that is too near does no harm, because it is always after every tick seen so far. A boundary that is too far
ahead is never reached, and balancing stops until then. Doubtful values are therefore limited or refused: messages by
`sample`, and ticks in data by `furthest`, which the data plane is given in advance so that a tick beyond it hides no
other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from ejfat.base.drops import LbDrop
from ejfat.control.epochs.calendar import TICKS

SAMPLES = 10
FRESH_S = 60.0
"""Seconds for which a message or an observed tick counts."""
MAX_SOURCES = 256
FASTEST_HZ = float(0xFFFFFFFF)
"""Maximum rate in a sync message; the bound as long as none has been measured."""
SLOWEST_HZ = 1000.0
"""Minimum bound, so that a source that stood still can continue."""
HEADROOM = 10.0
"""Factor by which the rate of a source may grow from one message to the next."""
PACE = 2.0
"""Factor by which a prediction may exceed the rate of the observed ticks, and ticks in data that of the messages."""
DATA_SLACK_S = 1.0
"""Additional seconds of progress for ticks in data while messages come."""
SLACK_S = 2.0
"""Additional seconds of progress: messages and observations come about once a second, and not together."""
MEASURED = 3
"""Looks at which the data plane must have seen ticks advance before their pace is known: a run may begin and end in the
middle between two looks."""
AGREE_S = 3.0
"""Seconds by which a source's messages and ticks in data may be apart for the rate in the messages to be believed."""
CLOCK_SLACK_S = 5.0
"""Seconds by which a sender's clock may advance more than the local one between two messages."""


@dataclass(frozen=True, slots=True)
class TickSample:
    """A tick, when it was current (seconds, local clock), and the rate given by the sender (0: unknown)."""

    tick: int
    at: float
    rate_hz: float = 0.0
    sent_ns: int = 0
    """When it was sent, by the sender's clock, which need not agree with the local one; 0: unknown."""


Source = tuple[Hashable, int]
"""A sender, and the source number that it uses."""


class TickPredictor:
    """Predicts the largest tick that any source will have reached at a given time."""

    def __init__(self) -> None:
        self._sources: dict[Source, deque[TickSample]] = {}
        self._passed: deque[TickSample] = deque(maxlen=SAMPLES)
        """The last maxima of the ticks that the data plane has seen."""
        self.seen = 0
        """The largest believed tick that the data plane has seen since the ticks last went backwards."""

    def sample(self, source: Source, sample: TickSample) -> LbDrop | None:
        """Accept a sample of a source, or return the reason for refusing it.

        If the ticks of a source went backwards, it has restarted, and its older samples are dropped. An unknown source
        is bounded by the other sources and by the data plane. If these have no recent ticks either, the sample is
        accepted, because nothing is in flight. If there are too many sources, the sender with the most of them gives
        one up for a sender that would still have fewer.
        """
        now = sample.at
        known = self._sources.get(source)
        if known is None or now - known[-1].at > FRESH_S:
            self._forget_silent(now)
            known = deque(maxlen=SAMPLES)
        elif known[-1].sent_ns and sample.sent_ns:
            passed = (sample.sent_ns - known[-1].sent_ns) / 1e9
            if not 0 < passed <= now - known[-1].at + CLOCK_SLACK_S:
                return LbDrop.SYNC_TIMESTAMP
        if not self._is_within_reach(sample, known):
            return LbDrop.SYNC_AHEAD
        if source not in self._sources and not self._has_room(source):
            return LbDrop.SYNC_SOURCES
        if known and sample.tick < known[-1].tick:
            known.clear()
        known.append(sample)
        self._sources[source] = known
        return None

    def _forget_silent(self, now: float) -> None:
        for source in [one for one, samples in self._sources.items() if now - samples[-1].at > FRESH_S]:
            del self._sources[source]

    def _has_room(self, source: Source) -> bool:
        """Return whether another source may be kept; see `sample`."""
        if len(self._sources) < MAX_SOURCES:
            return True
        counts = Counter(sender for sender, _ in self._sources)
        ((greediest, most),) = counts.most_common(1)
        if counts[source[0]] + 1 >= most:
            return False
        of_it = [one for one in self._sources if one[0] == greediest]
        del self._sources[min(of_it, key=lambda one: self._sources[one][-1].at)]
        return True

    def _is_within_reach(self, sample: TickSample, known: deque[TickSample]) -> bool:
        """Return whether ticks can have advanced this far, judged by the data plane or, without it, by the sources."""
        if self._is_seeing(sample.at):
            return sample.tick <= self._seen_reach(sample.at, sample.at)
        first = [known] if known else []  # because it nearly always suffices
        witnesses = first + self._fresh(sample.at)
        if not witnesses:
            return True
        return any(sample.tick <= _reach(samples, sample.at, HEADROOM, SLACK_S) for samples in witnesses)

    def _seen_reach(self, when: float, now: float) -> int:
        """Return the furthest tick possible at `when` by what the data plane has seen.

        The pace is what has been measured, or the rate that a source gives whose messages agree with what was seen.
        """
        last = self._passed[-1]
        if len(self._passed) < MEASURED:
            return last.tick + round(FASTEST_HZ * (max(0.0, when - last.at) + SLACK_S))
        said = [
            samples[-1].rate_hz
            for samples in self._fresh(now)
            if abs(_extrapolate(samples, last.at) - last.tick) <= AGREE_S * samples[-1].rate_hz
        ]
        return _reach(self._passed, when, HEADROOM, SLACK_S, at_least=max(said, default=0.0))

    def furthest(self, when: float, now: float) -> int:
        """Return the furthest tick in data that is believed at `when`.

        The sources' messages of the last minute decide, and the ticks seen before. If nothing at all is known, nothing
        is in flight, and any tick is believed.
        """
        bounds = []
        fresh = self._fresh(now)
        if fresh:
            bounds.append(max(_data_reach(samples, when) for samples in fresh))
        if self._is_seeing(now):
            bounds.append(self._seen_reach(when, now))
        return min([TICKS - 1, *bounds])

    def observe(self, tick: int, now: float) -> None:
        """Record the largest tick that the data plane has seen, which counts up to `furthest`.

        If messages say that a tick seen before cannot have been reached, it is forgotten.
        """
        furthest = self.furthest(now, now)
        if self.seen > furthest:
            self.seen = 0
            self._passed.clear()
            furthest = self.furthest(now, now)
        tick = min(tick, furthest)
        if tick > self.seen:
            self.seen = tick
            self._passed.append(TickSample(tick, now))

    def passed(self, now: float) -> int:
        """Return the tick that data has passed for certain: seen, and reached as the sources say, if they do."""
        fresh = self._fresh(now)
        return min(self.seen, max(_extrapolate(samples, now) for samples in fresh)) if fresh else self.seen

    def is_behind(self, tick: int) -> bool:
        """Return whether a tick is too far behind what the data plane has seen to be one of a late packet."""
        pace = _slope(self._passed) if len(self._passed) >= MEASURED else None
        return tick + round(max(SLOWEST_HZ, PACE * (pace or 0.0)) * SLACK_S) < self.seen

    def has_message(self, since: float, tick: int = 0) -> bool:
        """Return whether a message was accepted at or after `since` by which data may have come as far as `tick`."""
        recent = (samples for samples in self._sources.values() if samples[-1].at >= since)
        return any(_data_reach(samples, samples[-1].at) >= tick for samples in recent)

    def rest(self) -> None:
        """Forget the pace of a run that has ended: the next one may begin with any tick."""
        self._sources.clear()
        self._passed.clear()

    def restart(self) -> None:
        """Forget everything, because the senders have restarted."""
        self._sources.clear()
        self._passed.clear()
        self.seen = 0

    def is_fresh(self, now: float) -> bool:
        """Return whether a source sent a sample or the data plane saw a new maximum within the last minute."""
        latest = [samples[-1].at for samples in (self._passed, *self._sources.values()) if samples]
        return any(now - at <= FRESH_S for at in latest)

    def latest(self, now: float) -> int | None:
        """Return the tick expected now; None if nothing is known."""
        return self.predict(now, now)

    def predict(self, when: float, now: float) -> int | None:
        """Return the tick expected at `when`; None if nothing is known.

        Returns: a tick below 2**64 - 1 and not below any tick that has been seen; while the data plane sees ticks, not
            further ahead of them than twice their rate allows.
        """
        said = [_extrapolate(samples, when) for samples in self._fresh(now)]
        if said and self._is_seeing(now):
            said = [min(max(said), _reach(self._passed, when, PACE))]
        if self.seen:
            said.append(self.seen)
        return min(max(said), TICKS - 2) if said else None

    def _fresh(self, now: float) -> list[deque[TickSample]]:
        """Return the samples of each source that sent a message within the last minute."""
        return [samples for samples in self._sources.values() if now - samples[-1].at <= FRESH_S]

    def _is_seeing(self, now: float) -> bool:
        """Return whether ticks in the data plane have advanced within the last minute."""
        return bool(self._passed) and now - self._passed[-1].at <= FRESH_S


def _reach(
    samples: deque[TickSample], when: float, headroom: float, slack_s: float = 0.0, at_least: float = 0.0
) -> int:
    """Return the furthest tick possible at `when` if the rate, at least `at_least`, grows by the factor `headroom`."""
    last = samples[-1]
    pace = _slope(samples)
    bound = FASTEST_HZ
    if pace is not None:
        bound = min(FASTEST_HZ, max(SLOWEST_HZ, headroom * max(pace, last.rate_hz, at_least)))
    return last.tick + round(bound * (max(0.0, when - last.at) + slack_s))


def _rate(samples: deque[TickSample]) -> float | None:
    """Return the rate of a source; None if it is unknown."""
    pace = _slope(samples)
    rate = samples[-1].rate_hz or pace
    if rate is not None and pace is not None:
        rate = min(rate, max(SLOWEST_HZ, HEADROOM * pace))
    return rate


def _data_reach(samples: deque[TickSample], when: float) -> int:
    """Return the furthest tick in data that the messages of a source allow at `when`."""
    last, rate = samples[-1], _rate(samples)
    bound = FASTEST_HZ if rate is None else max(SLOWEST_HZ, PACE * rate)
    return last.tick + round(bound * (max(0.0, when - last.at) + DATA_SLACK_S))


def _extrapolate(samples: deque[TickSample], when: float) -> int:
    last = samples[-1]
    return max(last.tick, last.tick + round((_rate(samples) or 0.0) * (when - last.at)))


def _slope(samples: Iterable[TickSample]) -> float | None:
    """Return ticks per second by linear regression; None if all samples have the same time."""
    points = [(sample.at, sample.tick) for sample in samples]
    base_at, base_tick = points[0]
    mean_at = sum(at - base_at for at, _ in points) / len(points)
    mean_tick = sum(tick - base_tick for _, tick in points) / len(points)
    spread = sum((at - base_at - mean_at) ** 2 for at, _ in points)
    if spread == 0:
        return None
    return sum((at - base_at - mean_at) * (tick - base_tick - mean_tick) for at, tick in points) / spread
