"""A load generator in the spirit of lnet_selftest: so many messages on the way, for so long, counted by route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from hfi_sim.clock import Clock
from lnet.nid import Nid
from lnet.tx import Report, SendDone, SendFailed, TxKind

MATCH_BITS: Final = 0x5345_4C46_5445_5354
"""Messages of the selftest bear these match bits, so that a receiver can drop them and a GET can be answered."""


@dataclass(slots=True)
class RouteResult:
    """What went over one route."""

    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class SelftestResult:
    """What a run came to, so far."""

    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0
    failed: int = 0
    routes: dict[str, RouteResult] = field(default_factory=dict)

    @property
    def gbps(self) -> float:
        """Payload in Gb/s."""
        return self.bytes * 8 / self.seconds / 1e9 if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json and for YAML."""
        return {
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
        self._waiting: set[int] = set()
        self._began = 0.0
        self._ended = False

    def begin(self) -> None:
        """Send the first messages."""
        self._began = self._clock.time()
        for _ in range(self._concurrency):
            self._waiting.add(self._start(self._kind, self._nid, self._size))

    def on_report(self, report: Report) -> bool:
        """Take a report; return whether it was one of this run's messages."""
        if not isinstance(report, SendDone | SendFailed) or report.msg_id not in self._waiting:
            return False
        self._waiting.remove(report.msg_id)
        now = self._clock.time()
        over = now - self._began >= self._seconds
        if isinstance(report, SendFailed):
            self.result.failed += 1
        else:
            self._count(report, now)
        if not over and not self._hopeless:
            self._waiting.add(self._start(self._kind, self._nid, self._size))
        elif not self._waiting and not self._ended:
            self._ended = True
            self._on_end(self.result)
        return True

    @property
    def _hopeless(self) -> bool:
        """Nothing gets through: do not burn time on failing at once, again and again."""
        return self.result.failed >= self._concurrency and not self.result.messages

    def _count(self, done: SendDone, now: float) -> None:
        result = self.result
        result.seconds = now - self._began
        result.messages += 1
        result.bytes += done.nob
        route = result.routes.setdefault(str(done.route), RouteResult())
        route.messages += 1
        route.bytes += done.nob
