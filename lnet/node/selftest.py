"""A load generator like lnet_selftest: keep messages in flight for a time and count them by route."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from hfi_sim.base.clock import Clock
from lnet.base.nid import Nid
from lnet.objects.stats import Report, SendDone, SendFailed, TxKind

MATCH_BITS: Final = 0x5345_4C46_5445_5354
"""Match bits of selftest messages, so that a host can recognize and answer their GETs."""
BACKOFF_S: Final = 0.01
"""Initial delay of a slot after a failed message, in seconds; each further failure doubles it."""
BACKOFF_MAX_S: Final = 1.0
_REASONS: Final = 8
"""Maximum number of failure reasons in the result, the most frequent first."""


@dataclass(slots=True)
class SelftestResult:
    """The result of a run so far."""

    seconds: float = 0.0
    """From the first message to the last report."""
    messages: int = 0
    bytes: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Number of failed messages by reason."""
    routes: Counter[str] = field(default_factory=Counter)
    """Messages by route."""
    route_bytes: Counter[str] = field(default_factory=Counter)
    """Their payload."""

    @property
    def gbps(self) -> float:
        """Payload throughput in Gb/s."""
        return self.bytes * 8 / self.seconds / 1e9 if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json and for YAML."""
        data: dict[str, Any] = {
            "seconds": round(self.seconds, 6),
            "messages": self.messages,
            "failed": self.failed,
            "bytes": self.bytes,
            "gbps": round(self.gbps, 3),
            "routes": [
                {
                    "route": name,
                    "messages": self.routes[name],
                    "bytes": nob,
                    "gbps": round(nob * 8 / self.seconds / 1e9, 3) if self.seconds else 0.0,
                }
                for name, nob in sorted(self.route_bytes.items())
            ],
        }
        if self.reasons:
            data["failures"] = [
                {"count": count, "reason": reason} for reason, count in self.reasons.most_common(_REASONS)
            ]
        return data


class Selftest:
    """Keeps `concurrency` messages of `size` bytes in flight to one NID for `seconds`.

    Each message in flight occupies a slot, which sends the next one when it is done. `start` starts a message and
    returns its number; the owner passes each report to `on_report`.
    """

    def __init__(
        self,
        clock: Clock,
        start: Callable[[TxKind, Nid, int], int],
        nid: Nid,
        *,
        kind: TxKind = TxKind.PUT,
        size: int,
        concurrency: int,
        seconds: float,
        on_end: Callable[[SelftestResult], None],
    ) -> None:
        self.result = SelftestResult()
        self._clock = clock
        self._start = start
        self._nid = nid
        self._kind = kind
        self._size = size
        self._concurrency = concurrency
        self._seconds = seconds
        self._on_end = on_end
        self._waiting: dict[int, float] = {}
        """Delay of the slot if the message fails, in seconds, by message number."""
        self._pausing = 0
        """Number of slots that are waiting after a failed message."""
        self._began = 0.0
        self._ended = False

    def begin(self) -> None:
        """Send the first messages."""
        self._began = self._clock.time()
        for _ in range(self._concurrency):
            self._send(BACKOFF_S)

    def give_up(self) -> None:
        """Send nothing more and report nothing. Has no effect after the end."""
        self._ended = True

    def on_report(self, report: Report) -> bool:
        """Handle a report; return whether its message belongs to this run."""
        if not isinstance(report, SendDone | SendFailed) or report.msg_id not in self._waiting:
            return False
        backoff_s = self._waiting.pop(report.msg_id)
        self.result.seconds = self._clock.time() - self._began
        if isinstance(report, SendDone):
            self._count(report)
            if not self._over:
                self._send(BACKOFF_S)
        else:
            self.result.failed += 1
            self.result.reasons[report.reason] += 1
            if not self._over:
                self._pause(backoff_s)
        self._end_if_done()
        return True

    def _send(self, backoff_s: float) -> None:
        self._waiting[self._start(self._kind, self._nid, self._size)] = backoff_s

    def _pause(self, backoff_s: float) -> None:
        """Delay the next message: without a route, messages would fail in a busy loop."""
        left_s = self._began + self._seconds - self._clock.time()
        self._pausing += 1
        self._clock.call_later(min(backoff_s, left_s), self._go_on, min(2 * backoff_s, BACKOFF_MAX_S))

    def _go_on(self, backoff_s: float) -> None:
        self._pausing -= 1
        if not self._over:
            self._send(backoff_s)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._waiting and not self._pausing and not self._ended:
            self._ended = True
            self.result.seconds = self._clock.time() - self._began
            self._on_end(self.result)

    @property
    def _over(self) -> bool:
        """Whether to send no more: the time is up, the run was given up, or every message fails."""
        if self._ended:
            return True
        hopeless = self.result.failed >= self._concurrency and not self.result.messages
        return hopeless or self._clock.time() - self._began >= self._seconds

    def _count(self, done: SendDone) -> None:
        result = self.result
        result.messages += 1
        result.bytes += done.nob
        result.routes[str(done.route)] += 1
        result.route_bytes[str(done.route)] += done.nob
