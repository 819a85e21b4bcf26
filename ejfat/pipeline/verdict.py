"""What became of a frame."""

from __future__ import annotations

from typing import NamedTuple

from ejfat.drops import Drop


class Verdict(NamedTuple):
    """The frame that leaves, or why none does."""

    frame: bytes | None
    drop: Drop | None = None
    to_host: bool = False
    """It leaves to the host (a link-local protocol), not back out of the port it came in by."""
