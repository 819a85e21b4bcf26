"""Codes of rates and MTUs in records, and what a selector beside them asks for.

Source: the InfiniBand architecture, 15.2.5.16 (PathRecord); opa-ff, ib_types.h.
"""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.sa.records import SELECT_EXACTLY, SELECT_GREATER, SELECT_LESS
from hfi_sim.wire.sma.port_info import MTU_BYTES, MtuCode

LIFE: Final = 16
"""Lifetime of a packet: 4.096 us times 2 to this."""
_RATES: Final = (
    (2.5, 2), (5, 5), (10, 3), (12.5, 11), (20, 6), (25, 15), (28, 19), (30, 4), (37.5, 7), (50, 12), (53, 20), (60, 8),
    (75, 9), (100, 16), (112, 13), (120, 10), (168, 14), (200, 17), (300, 18), (400, 21), (600, 22), (800, 23),
)  # fmt: skip
"""Gbit/s and code, in the order of speed.

Omni-Path gives some codes of InfiniBand a meaning of its own: 12.5, 37.5, 50 and 75 stand for 14, 40, 56 and 80 Gbit/s.
Above 300 they are those that InfiniBand has added since.

Source: stl_sm_types.h of opa-ff: STL_STATIC_RATE_12_5G and so on; ib_verbs.h of Linux: enum ib_rate.
"""
MTUS: Final = tuple(int(code) for code in MTU_BYTES if code)
RATES: Final = tuple(code for _, code in _RATES)


def rate_code(bps: float) -> int:
    """Return the code of the fastest rate that is not above `bps`; the slowest, if none is."""
    return next((code for gbps, code in reversed(_RATES) if gbps * 1e9 <= bps), _RATES[0][1])


def mtu_code(size: int) -> int:
    """Return the code of the largest MTU that is not above `size` bytes."""
    return max(
        (int(code) for code, length in MTU_BYTES.items() if code and length <= size),
        default=int(MtuCode.MTU_256),
    )


def is_wanted(value: int, selector: int, wanted: int, order: tuple[int, ...]) -> bool:
    """Return whether a value is what a selector and the value beside it ask for; codes compare by their order."""
    if value not in order or wanted not in order:
        return selector not in (SELECT_GREATER, SELECT_LESS, SELECT_EXACTLY) or value == wanted
    at, other = order.index(value), order.index(wanted)
    if selector == SELECT_GREATER:
        return at > other
    if selector == SELECT_LESS:
        return at < other
    return selector != SELECT_EXACTLY or at == other


def choose(selector: int, wanted: int, order: tuple[int, ...]) -> int | None:
    """Return the value that a selector and the value beside it ask a new group to have; None: there is none."""
    if selector not in (SELECT_GREATER, SELECT_LESS, SELECT_EXACTLY):
        return order[-1]
    if wanted not in order:
        return None
    step = {SELECT_GREATER: 1, SELECT_LESS: -1, SELECT_EXACTLY: 0}[selector]
    at = order.index(wanted) + step
    return order[at] if 0 <= at < len(order) else None
