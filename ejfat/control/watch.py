"""What the data plane and the sync messages tell of a reservation's senders: where their ticks are, whether they rest.

A restart of the senders is found here: ticks that go backwards or jump ahead, and stay there, without a message that
says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import LbDrop
from ejfat.control.epochs.ticks import TickPredictor, TickSample

_RESTART_S = 3.0
"""Seconds for which all ticks must be too far ahead, or behind, to count as a restart of the senders."""
_MESSAGE_S = 2.0
"""Seconds within which a sender that is there sends another sync message; they send one each second."""


@dataclass(slots=True)
class TickWatch:
    """Follows the ticks of a reservation, and counts what was refused or missed."""

    ticks: TickPredictor = field(default_factory=TickPredictor)
    restarts: int = 0
    """Detected restarts of the senders: the ticks went backwards or jumped ahead, and stayed there."""
    refused_syncs: dict[LbDrop, int] = field(default_factory=dict)
    """Refused sync messages, by reason."""
    refused_at: float | None = None
    """Time of the last one."""
    refused_ticks: int = 0
    """Packets of senders with a tick too far ahead to be believed; they were forwarded all the same."""
    ticks_refused_at: float | None = None
    """Time of the last look that found some."""
    misses: int = 0
    """Packets for which the member of their slot had no address of their IP version, or that had no member."""
    missed_at: float | None = None
    """Time of the last look that found some."""
    _moved_at: float | None = None
    """Time of the last packet; None: none yet."""
    _packets_seen: int = 0
    _ahead_seen: int = 0
    _misses_seen: int | None = None
    _ahead_since: float | None = None
    _behind_since: float | None = None

    def observe(self, tick: int, packets: int, now: float, *, ahead: int = 0) -> bool:
        """Record the ticks that the data plane has seen; return whether the senders have restarted.

        Args:    tick: the largest up to `furthest` since the last call; ignored if no packet had such a tick.
            packets: total number of packets with a tick. ahead: those of them with a tick beyond `furthest`.
        """
        restarts = self.restarts
        new, new_ahead = packets - self._packets_seen, ahead - self._ahead_seen
        if not new:
            return False
        self._packets_seen, self._ahead_seen, self._moved_at = packets, ahead, now
        if new_ahead:
            self.refused_ticks += new_ahead
            self.ticks_refused_at = now
        if new == new_ahead:
            self._see_ahead(now)
        else:
            self._ahead_since = None
            self._see(tick, now)
        return self.restarts > restarts

    def observe_misses(self, misses: int, now: float) -> None:
        """Record how many packets the member table had no entry for, in all since the data plane started."""
        before, self._misses_seen = self._misses_seen, misses
        if before is not None and misses > before:
            self.misses += misses - before
            self.missed_at = now

    def count_from(self, packets: int, ahead: int) -> None:
        """Leave out what the data plane counted before this reservation; see `observe`."""
        self._packets_seen, self._ahead_seen = packets, ahead

    def excuse(self, now: float, packets: int, ahead: int, *, forget: bool = False) -> None:
        """Let a time in which nothing was evaluated, up to `now`, not count as progress of ticks.

        Args:    packets, ahead: see `observe`; what came in that time met bounds that were not made for it. forget: it
            was so long that messages which the kernel kept came late, and that others are missing.
        """
        if packets != self._packets_seen:
            self._moved_at = now
        self.count_from(packets, ahead)
        if forget:
            self._rest()
            self.refused_at = self.ticks_refused_at = None

    def sync(self, sender: IpAddress, source_id: int, sample: TickSample, *, allowed: bool) -> LbDrop | None:
        """Accept a sync message, or return the reason for refusing it. Only messages from senders are accepted."""
        refusal: LbDrop | None = LbDrop.SYNC_SENDER
        if allowed:
            refusal = self.ticks.sample((sender, source_id), sample)
        if refusal is not None:
            self.refused_syncs[refusal] = self.refused_syncs.get(refusal, 0) + 1
            self.refused_at = sample.at
        return refusal

    def resume(self, seen: int, now: float) -> None:
        """Go on after a restart of this program, before which `seen` was the largest tick."""
        self.ticks.seen = seen
        self._moved_at = now  # events may still be in flight

    def rests(self, now: float, seconds: float) -> bool:
        """Return whether packets have come, and then none for so many seconds."""
        return self._moved_at is not None and now - self._moved_at >= seconds

    def is_idle(self, now: float, seconds: float) -> bool:
        """Return whether no packet has come for so many seconds, or none yet."""
        return self._moved_at is None or now - self._moved_at >= seconds

    def end_run(self, now: float, rest_s: float) -> None:
        """Forget the pace of a run that has ended, unless messages still come."""
        if self.rests(now, rest_s) and not self.ticks.has_message(now - rest_s):
            self._rest()

    def _rest(self) -> None:
        self.ticks.rest()
        self._ahead_since = self._behind_since = None

    def _see_ahead(self, now: float) -> None:
        """Handle a look at which every tick was too far ahead: a restart, if no message says otherwise for a while."""
        if self._ahead_since is None:
            self._ahead_since = now
        elif now - self._ahead_since >= _RESTART_S and not self.ticks.has_message(self._ahead_since):
            self.ticks_refused_at = None  # they were right
            self._restart()

    def _see(self, tick: int, now: float) -> None:
        seen = self.ticks.seen
        if tick >= seen:
            self._behind_since = None
        elif self.ticks.is_behind(tick) and not self.ticks.has_message(now - _MESSAGE_S):
            self._restart()
        elif self._behind_since is None:
            self._behind_since = now
        elif now - self._behind_since >= _RESTART_S and not self.ticks.has_message(self._behind_since, seen):
            self._restart()
        self.ticks.observe(tick, now)

    def _restart(self) -> None:
        """Predict from here on."""
        self.ticks.restart()
        self._ahead_since = self._behind_since = None
        self.restarts += 1
