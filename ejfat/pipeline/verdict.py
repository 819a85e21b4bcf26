"""The result of the pipeline for a frame."""

from __future__ import annotations

from typing import NamedTuple

from ejfat.drops import Drop


class Verdict(NamedTuple):
    """The outgoing frame, or the reason for dropping it."""

    frame: bytes | None
    drop: Drop | None = None
    to_host: bool = False
    """The frame goes to the host (a link-local protocol), not back out of the port where it arrived."""
