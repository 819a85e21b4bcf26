"""The tunables of one network: `net add --peer-credits`, and `tunables` in YAML.

Source: the public struct lnet_ioctl_config_lnd_cmn_tunables and lnet_ioctl_config_o2iblnd_tunables,
kiblnd_tunables_setup() for what follows from a value, the o2iblnd module parameters for the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
