"""A load generator in the spirit of lnet_selftest: so many messages on the way, for so long, counted by route."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from hfi_sim.clock import Clock
from lnet.nid import Nid
from lnet.tx import Report, SendDone, SendFailed, TxKind

MATCH_BITS: Final = 0x5345_4C46_5445_5354
"""Messages of the selftest bear these match bits, so that a receiver can drop them and a GET can be answered."""
BACKOFF_S: Final = 0.01
"""How long a place waits after a message that failed, before its next one; each further failure doubles it."""
BACKOFF_MAX_S: Final = 1.0
_REASONS: Final = 8
"""Reasons of failures that are told, the most frequent ones."""


@dataclass(slots=True)
class RouteResult:
    """What went over one route."""

    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class SelftestResult:
    """What a run came to, so far."""

    seconds: float = 0.0
    """From the first message to the last report."""
    messages: int = 0
    bytes: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """How many messages failed for each reason."""
    routes: dict[str, RouteResult] = field(default_factory=dict)

    @property
    def gbps(self) -> float:
        """Payload in Gb/s."""
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
                    "messages": route.messages,
                    "bytes": route.bytes,
                    "gbps": round(route.bytes * 8 / self.seconds / 1e9, 3) if self.seconds else 0.0,
                }
                for name, route in sorted(self.routes.items())
            ],
        }
        if self.reasons:
            data["failures"] = [
                {"count": count, "reason": reason} for reason, count in self.reasons.most_common(_REASONS)
            ]
        return data


class Selftest:
    """Keeps `concurrency` messages of `size` bytes on the way to one NID for `seconds`.

    `put` and `get` start a message and return its number; the owner hands each report to `on_report`.
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
        """Messages on the way; how long the next in its place waits if this one fails, in seconds."""
        self._pausing = 0
        """Places whose last message failed, and which wait before the next."""
        self._began = 0.0
        self._ended = False

    def begin(self) -> None:
        """Send the first messages."""
        self._began = self._clock.time()
        for _ in range(self._concurrency):
            self._send(BACKOFF_S)

    def give_up(self) -> None:
        """Send nothing more, and report nothing; harmless where it has ended."""
        self._ended = True

    def on_report(self, report: Report) -> bool:
        """Take a report; return whether it was one of this run's messages."""
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
        """Wait before the next message: without a route they would fail as fast as the processor can."""
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
        """The time is over, nobody waits for the end, or nothing gets through at all."""
        if self._ended:
            return True
        hopeless = self.result.failed >= self._concurrency and not self.result.messages
        return hopeless or self._clock.time() - self._began >= self._seconds

    def _count(self, done: SendDone) -> None:
        result = self.result
        result.messages += 1
        result.bytes += done.nob
        route = result.routes.setdefault(str(done.route), RouteResult())
        route.messages += 1
        route.bytes += done.nob
