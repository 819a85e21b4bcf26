"""Settings of the LND. Names and defaults are those of o2iblnd where it has the same setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lnet.wire.codes import VERSION, VERSIONS, Char

PEER_TIMEOUT_S: Final = 180

CREDITS: Final = 256

PEER_CREDITS: Final = 8
"""Default and smallest value that o2iblnd takes (IBLND_CREDITS_DEFAULT)."""

PEER_CREDITS_MAX: Final = 0xFF

_INT_MAX: Final = (1 << 31) - 1

NAMES: Final = ("peer_timeout", "peer_credits", "peer_buffer_credits", "credits")
"""The tunables that every network type has."""

FIXED: Final[Mapping[str, int]] = {
    "map_on_demand": 1,
    "fmr_pool_size": 512,
    "fmr_flush_trigger": 384,
    "fmr_cache": 1,
    "ntx": 512,
    "conns_per_peer": 1,
    "tos": -1,
}
"""Tunables of o2iblnd for what is not built here: no memory registration, one connection for each route."""

LND_NAMES: Final = frozenset({*FIXED, "peercredits_hiw", "concurrent_sends", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NetTunables:
    """The tunables of a network."""

    peer_timeout: int = PEER_TIMEOUT_S
    """Seconds without news after which a router takes a peer for dead. Without effect: there are no routers."""
    peer_credits: int = PEER_CREDITS
    """Messages in flight on one connection, 1 to 255; offered to peers as the queue depth."""
    peer_buffer_credits: int = 0
    """Messages of one peer in a router's buffers. Without effect: there are no routers."""
    credits: int = CREDITS
    """Messages in flight on one interface; Multi-Rail prefers the interface with the most left."""
    cpts: tuple[int, ...] = (0,)
    """CPU partitions that handle the network. Without effect: a node has one thread."""

    def changed(self, given: Mapping[str, int]) -> NetTunables:
        """Return the tunables with some values given, which are raised or lowered as o2iblnd does it.

        Raises:  ValueError: the name and the range of a value that does not fit an int of the kernel.
        """
        for name, value in given.items():
            if not -1 <= value <= _INT_MAX:
                raise ValueError(f"{name} {value}, expected 0 to {_INT_MAX}")
        # as in the kernel, a value below the least that means anything changes nothing
        least = {"peer_timeout": 0}
        kept = {name: value for name, value in given.items() if value >= least.get(name, 1)}
        total = kept.get("credits", self.credits)
        credits_ = kept.get("peer_credits")
        if credits_ is not None:
            credits_ = min(max(credits_, PEER_CREDITS), PEER_CREDITS_MAX)
        return NetTunables(
            peer_timeout=kept.get("peer_timeout", self.peer_timeout),
            peer_credits=min(self.peer_credits if credits_ is None else credits_, total),
            peer_buffer_credits=kept.get("peer_buffer_credits", self.peer_buffer_credits),
            credits=total,
            cpts=self.cpts,
        )

    def common(self) -> dict[str, int]:
        """Return the section `tunables`."""
        return {name: getattr(self, name) for name in NAMES}

    def lnd(self, timeout_s: float | None) -> dict[str, int]:
        """Return the section `lnd tunables`. Args: timeout_s: that of the LND; None: without it, as in a backup."""
        high = min(max(self.peer_credits // 2, 0), max(self.peer_credits - 1, 0))
        document = {
            "peercredits_hiw": high,
            "map_on_demand": FIXED["map_on_demand"],
            "concurrent_sends": self.peer_credits,
            **{name: value for name, value in FIXED.items() if name not in ("map_on_demand", "tos")},
        }
        if timeout_s is not None:
            document["timeout"] = int(timeout_s)
        return {**document, "tos": FIXED["tos"]}


CHECKS: Final = 4
"""How often a connection is checked within the timeout of a message, as in kiblnd_connd."""
SHORTEST_SILENCE_S: Final = 0.05
"""Minimum interval between NOOPs to a peer, however short the timeout: the transport does not retransmit faster."""
MAX_RDMA_FRAGS: Final = 256
DOUBT_FACTOR: Final = 6
DOUBT_MIN_S: Final = 20.0
"""Minimum: the transport gives up a dead connection after a few seconds, and reconnection waits up to 5 s."""

_RANGES: Final = {
    "peer_credits": (1, 255),
    "health_sensitivity": (0, 1000),
    "retry_count": (0, 255),
    "max_frags": (1, MAX_RDMA_FRAGS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LndConfig:
    """Settings of one node."""

    timeout_s: float = 50.0
    """Seconds after which a message that could not be sent is reported as failed (o2iblnd: timeout)."""
    doubt_timeout_s: float | None = None
    """Additional seconds for a message that the peer may have received, before it is reported as failed in doubt; None:
    six times its timeout, at least 20 s."""
    peer_credits: int = 8
    """Messages in flight on one connection (o2iblnd: peer_credits); offered to the peer as the queue depth."""
    credits: int = CREDITS
    """Messages in flight on one interface (o2iblnd: credits)."""
    peer_timeout_s: int = PEER_TIMEOUT_S
    """Shown as the tunable of that name; without effect, as there are no routers."""
    peer_buffer_credits: int = 0
    """The same."""
    max_frags: int = MAX_RDMA_FRAGS
    """Maximum fragments of one RDMA (o2iblnd: IBLND_MAX_RDMA_FRAGS)."""
    frag_bytes: int = 64 << 10
    """Bytes of one fragment; more if `max_frags` fragments of this size are not enough."""
    max_message: int = 1 << 20
    """Maximum payload of a PUT or a GET, in bytes (LNET_MTU)."""
    expected_gbps: float = 100.0
    """Link speed in Gb/s below which an active port is PORT_DEGRADE."""
    reconnect_min_s: float = 0.1
    """Seconds that the connection daemon waits before its second attempt at a route; each further wait doubles."""
    reconnect_max_s: float = 5.0
    """Upper limit of that wait, in seconds."""
    idle_timeout_s: float | None = None
    """Close a connection after this many seconds without a message; None: keep it up."""
    keepalive_s: float = 100.0
    """Send a NOOP after this many seconds of silence, to check that the connection is alive (o2iblnd: keepalive)."""
    answer_s: float = 1.0
    """The same, while a message waits for an answer or a credit from the peer."""
    version: int = VERSION
    """The highest version of o2iblnd's protocol that is spoken: 0x12, or 0x11 as in old peers."""
    announce: bool = False
    """Announce the addresses of this node's devices to peers, and use theirs if no target is configured."""
    weighted: bool = False
    """Distribute messages by device speed, instead of plain round robin."""
    checksum: bool = False
    """Add a checksum to every message (o2iblnd: cksum)."""
    checksum_char: Char = Char.SIGNED
    """The form of the checksum that is sent; both are understood."""

    retry_count: int = 2
    """Multi-Rail: how often a message that failed is sent again (retry_count)."""
    transaction_timeout_s: float = 150.0
    """Multi-Rail: seconds within which a message is done or has failed (transaction_timeout)."""
    health_sensitivity: int = 100
    """Multi-Rail: what a failure takes from the health of an interface, and a success adds; 0: nothing."""
    recovery_limit_s: float = 0.0
    """Multi-Rail: seconds after the last success until an interface of a peer is no longer pinged; 0: no limit."""
    max_recovery_ping_interval_s: float = 900.0
    """Multi-Rail: the longest wait between two recovery pings."""
    discovery: bool = True
    """Multi-Rail: ask a peer for its interfaces before the first message (peer discovery)."""

    @property
    def tunables(self) -> NetTunables:
        """The tunables of a network for which none are given."""
        return NetTunables(
            peer_timeout=self.peer_timeout_s,
            peer_credits=self.peer_credits,
            peer_buffer_credits=self.peer_buffer_credits,
            credits=self.credits,
        )

    @property
    def attempt_s(self) -> float:
        """Seconds for one attempt at a message with Multi-Rail (lnet_lnd_timeout)."""
        return max(
            (self.transaction_timeout_s - 1) / (self.retry_count + 1),
            self.transaction_timeout_s / (self.retry_count + 2),
        )

    @property
    def sent_checksum(self) -> Char | None:
        """The form of the checksum in the messages of this node; None: without one."""
        return self.checksum_char if self.checksum else None

    def doubt_after(self, timeout_s: float) -> float:
        """Return how many more seconds to retry a message with this timeout that the peer may have received."""
        if self.doubt_timeout_s is not None:
            return self.doubt_timeout_s
        return max(DOUBT_FACTOR * timeout_s, DOUBT_MIN_S)

    def silence_after(self, timeout_s: float) -> float:
        """Return how many seconds the peer may be silent while a message with this timeout waits for it."""
        return max(min(self.answer_s, timeout_s / CHECKS), SHORTEST_SILENCE_S)

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            raise ValueError(f"version {self.version:#x}, expected {' or '.join(map(hex, VERSIONS))}")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} {value}, expected {low} to {high}")
