"""Health of network interfaces: how messages end, what that does to the health of both ends, when to ping.

Source: the public lnet_health_check(), lnet_dec_healthv_locked(), lnet_inc_healthv(), lnet_get_next_recovery_ping().
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from lnet.settings.config import LndConfig

MAX_HEALTH: Final = 1000
"""Health of an interface without recent failures (LNET_MAX_HEALTH_VALUE)."""


class HealthStatus(Enum):
    """How an attempt at a message ended (LNET_MSG_STATUS_*)."""

    OK = "ok"
    LOCAL_INTERRUPT = "local_interrupt"
    LOCAL_DROPPED = "local_dropped"
    LOCAL_ABORTED = "local_aborted"
    LOCAL_NO_ROUTE = "local_no_route"
    LOCAL_ERROR = "local_error"
    LOCAL_TIMEOUT = "local_timeout"
    REMOTE_ERROR = "remote_error"
    REMOTE_DROPPED = "remote_dropped"
    REMOTE_TIMEOUT = "remote_timeout"
    NETWORK_TIMEOUT = "network_timeout"

    @property
    def blames_local(self) -> bool:
        """Whether it lowers the health of the local interface."""
        return self.value.startswith("local_") or self is HealthStatus.NETWORK_TIMEOUT

    @property
    def blames_remote(self) -> bool:
        """Whether it lowers the health of the peer's interface."""
        return self.value.startswith("remote_") or self is HealthStatus.NETWORK_TIMEOUT

    @property
    def resends(self) -> bool:
        """Whether the message may be sent again: the peer surely has not processed it, or not all of it."""
        return self in _RESENT


_RESENT: Final = frozenset(
    {
        HealthStatus.LOCAL_INTERRUPT,
        HealthStatus.LOCAL_DROPPED,
        HealthStatus.LOCAL_ABORTED,
        HealthStatus.LOCAL_NO_ROUTE,
        HealthStatus.LOCAL_TIMEOUT,
        HealthStatus.REMOTE_DROPPED,
    }
)


@dataclass(slots=True)
class Health:
    """Health value of one interface, and its place in the recovery queue."""

    value: int = MAX_HEALTH
    down: bool = False
    """The value has reached 0, and not MAX_HEALTH since."""
    ping_count: int = 0
    """Recovery pings since the last success."""
    next_ping: float | None = None
    """Time of the next recovery ping; None: not in the recovery queue."""
    last_alive: float | None = None
    """Time of the last success; None: there was none yet."""
    failures: Counter[HealthStatus] = field(default_factory=Counter)
    """Failed attempts for which the interface was blamed."""

    def set(self, value: int) -> None:
        """Set the value, 0 to MAX_HEALTH, and what follows from it for the status."""
        self.value = value
        if value == 0:
            self.down = True
        elif value == MAX_HEALTH:
            self.down = False

    def worse(self, config: LndConfig) -> None:
        """Lower the value after a failure."""
        self.set(max(self.value - config.health_sensitivity, 0))

    def better(self, now: float, config: LndConfig) -> None:
        """Raise the value after a success; the next recovery ping, if one is needed, follows a second later."""
        self.set(min(self.value + config.health_sensitivity, MAX_HEALTH))
        self.last_alive = now
        self.ping_count = 0
        if self.next_ping is not None:
            self.next_ping = min(self.next_ping, now + self._interval_s(config))

    def queue(self, now: float, config: LndConfig) -> None:
        """Put the interface into the recovery queue, unless it is healthy or in it already."""
        if self.next_ping is None and self.value < MAX_HEALTH:
            self.next_ping = now + self._interval_s(config)

    def pinged(self, now: float, config: LndConfig) -> None:
        """Count a recovery ping and wait twice as long for the next one."""
        self.ping_count += 1
        self.next_ping = now + self._interval_s(config)

    def leave_queue(self) -> None:
        """Take the interface out of the recovery queue."""
        self.next_ping = None
        self.ping_count = 0

    def aged_out(self, now: float, config: LndConfig) -> bool:
        """Return whether the interface has been silent for longer than the recovery limit."""
        limit = config.recovery_limit_s
        return bool(limit) and (self.last_alive is None or now > self.last_alive + limit)

    def _interval_s(self, config: LndConfig) -> float:
        return min(2.0 ** min(self.ping_count, 32), config.max_recovery_ping_interval_s)
