"""The one generator that faults and jitter draw from, in both engines: SplitMix64, a stream for each link direction.

A stream begins at the first 8 bytes, little-endian, of BLAKE2b over `SEED NAME`: the fabric's seed in decimal, a blank,
and the name of the direction such as `h1:1->sw0:1`; jitter draws from a stream of its own, `h1:1->sw0:1 jitter`. Each
word adds 0x9e3779b97f4a7c15 to the state and mixes a copy of it (`word`). The words of seed 1, `h1:1->sw0:1` are in
tests/unit/hfi_sim/base/test_random_stream.py; native/engine/src/random.rs gives the same.

How packets draw, in both: each fault of a direction, in the order in which they were set, takes one word for each
packet that it matches, at any probability, but none for those that it is to spare first; it hits where the word's
upper 53 bits are less than probability * 2**53, rounded up. A damaged packet takes one word more for each bit that it
loses (`sample`).
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Final

_WORD: Final = (1 << 64) - 1
_STEP: Final = 0x9E37_79B9_7F4A_7C15
CHANCE_BITS: Final = 53
"""Probabilities are whole numbers of 2**-53: every float from 0.5 to 1 is one."""


def threshold(probability: float) -> int:
    """Return the probability as `RandomStream.hits` takes it: 0 never, 2**53 always."""
    return math.ceil(probability * (1 << CHANCE_BITS))


class RandomStream:
    """SplitMix64 (Steele, Lea, Flood 2014) from a state of 64 bits."""

    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = state & _WORD

    @classmethod
    def named(cls, seed: int, name: str) -> RandomStream:
        """Return the stream of that name under a seed."""
        digest = blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
        return cls(int.from_bytes(digest, "little"))

    def word(self) -> int:
        """Draw 64 bits."""
        self.state = z = (self.state + _STEP) & _WORD
        z = (z ^ z >> 30) * 0xBF58_476D_1CE4_E5B9 & _WORD
        z = (z ^ z >> 27) * 0x94D0_49BB_1331_11EB & _WORD
        return z ^ z >> 31

    def hits(self, chance: int) -> bool:
        """Draw one word and return whether it meets a chance of `chance` * 2**-53 (`threshold`)."""
        return self.word() >> 64 - CHANCE_BITS < chance

    def sample(self, limit: int, count: int) -> set[int]:
        """Draw `count` words and return as many different numbers below `limit` (Floyd's sampling)."""
        chosen: set[int] = set()
        for last in range(limit - count, limit):
            number = self.word() % (last + 1)
            chosen.add(last if number in chosen else number)
        return chosen
