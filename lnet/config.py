"""Settings of the LND, with o2iblnd's names and defaults where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHECKS: Final = 4
"""Within the timeout of a message its connection is looked at so often (kiblnd_connd does the same)."""
SHORTEST_SILENCE_S: Final = 0.05
"""A peer is not asked more often than this, however short the timeout: the transport repeats no faster."""
DOUBT_FACTOR: Final = 6
DOUBT_MIN_S: Final = 20.0
"""A connection that died is given up after some seconds, and reconnected at intervals of up to 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LndConfig:
    """How one node behaves."""

    timeout_s: float = 50.0
    """A message that has not been sent by then is reported failed (o2iblnd: timeout)."""
    doubt_timeout_s: float | None = None
    """How much longer a message is tried that the peer may have already, before it is reported as in doubt; None: six
    times its timeout, and 20 s at least."""
    peer_credits: int = 8
    """Messages on the way over one connection (o2iblnd: peer_credits), the queue depth offered."""
    max_frags: int = 256
    """Fragments of one RDMA (o2iblnd: IBLND_MAX_RDMA_FRAGS)."""
    frag_bytes: int = 64 << 10
    """Bytes of one fragment; longer where `max_frags` would not do."""
    max_message: int = 1 << 20
    """Longest payload of a PUT or a GET (LNET_MTU)."""
    expected_gbps: float = 100.0
    """Link speed below which an active port is PORT_DEGRADE."""
    reconnect_min_s: float = 0.1
    """The connection daemon waits so long before the second attempt at a route; each further wait doubles."""
    reconnect_max_s: float = 5.0
    """The longest such wait."""
    idle_timeout_s: float | None = None
    """Close a connection after so long without a message; None: it stays up."""
    keepalive_s: float = 100.0
    """Send a NOOP over a connection after so long without a word (o2iblnd: keepalive), to learn if it stands."""
    answer_s: float = 1.0
    """Send it after so long a silence already where a message waits for an answer or a credit of the peer."""
    announce: bool = False
    """Tell peers the addresses of this node's devices, and use theirs where no target says otherwise."""
    weighted: bool = False
    """Give a degraded device a share of the messages by its speed, instead of plain round robin."""
    checksum: bool = False
    """Put a checksum in every message (o2iblnd: cksum)."""

    def doubt_after(self, timeout_s: float) -> float:
        """Return how much longer a message with this timeout is tried that the peer may have already, in seconds."""
        if self.doubt_timeout_s is not None:
            return self.doubt_timeout_s
        return max(DOUBT_FACTOR * timeout_s, DOUBT_MIN_S)

    def silence_after(self, timeout_s: float) -> float:
        """Return how long the peer may be silent while a message with this timeout waits for it, in seconds."""
        return max(min(self.answer_s, timeout_s / CHECKS), SHORTEST_SILENCE_S)

    def __post_init__(self) -> None:
        if not 1 <= self.peer_credits <= 0xFF:
            raise ValueError(f"peer_credits {self.peer_credits} is not in 1 to 255")
        if not 1 <= self.max_frags <= 256:
            raise ValueError(f"max_frags {self.max_frags} is not in 1 to 256")
