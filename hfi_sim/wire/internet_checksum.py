"""Internet checksums: from scratch (RFC 1071) and by difference (RFC 1624, equation 3).

A number with all its 16-bit words added up is congruent to the number itself modulo 0xffff, because 2**16 is
congruent to 1. So words need no loop: whole headers are taken as one big integer and folded once.
"""

from __future__ import annotations


def fold(total: int) -> int:
    """Fold a sum of 16-bit words, of any size, to 16 bits with end-around carry.

    Returns: 0 only where the sum is 0; otherwise 1 to 0xffff, as an adder with end-around carry gives.
    """
    return (total - 1) % 0xFFFF + 1 if total else 0


def checksum(data: bytes | memoryview) -> int:
    """Return the Internet checksum of `data` (an odd last byte counts as the high half of a word)."""
    total = int.from_bytes(data, "big")
    if len(data) & 1:
        total <<= 8
    return fold(total) ^ 0xFFFF


def update(value: int, old: bytes, new: bytes) -> int:
    """Return checksum `value` after the words `old` were replaced by `new`; an error in `value` stays in it.

    Args:    old, new: whole 16-bit words (an even number of bytes); their lengths may differ.
    Source:  RFC 1624, equation 3: HC' = ~(~HC + sum(~m) + sum(m')).
    """
    inverted = (1 << 8 * len(old)) - 1 - int.from_bytes(old, "big")
    return fold((value ^ 0xFFFF) + inverted + int.from_bytes(new, "big")) ^ 0xFFFF


def update_udp(value: int, old: bytes, new: bytes) -> int:
    """The same for UDP: 0 means "no checksum" and stays 0, a result of 0 is sent as 0xffff (RFC 768)."""
    return value and (update(value, old, new) or 0xFFFF)
