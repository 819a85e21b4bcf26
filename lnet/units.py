"""Sizes and times as people give them to commands: `1M`, `10s`."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"(\d{1,12})\s*([KMG]?)(i?B)?", re.IGNORECASE | re.ASCII)
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TIME: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|)", re.ASCII)
_TIMES: Final = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0}


def parse_size(text: str) -> int:
    """Return a number of bytes: `100`, `4K`, `1M`; K is 1024.

    Raises:  ValueError: not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 100, 4K or 1M")
    return int(match[1]) * _SIZES[match[2].upper()]


def parse_seconds(text: str) -> float:
    """Return a time in seconds: `10s`, `500ms`, `2m`, `10`.

    Raises:  ValueError: not a time, or 0.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a time such as 10s, 500ms or 2m")
    return float(match[1]) * _TIMES[match[2]]
