"""The result of the pipeline for a frame."""

from __future__ import annotations

from typing import NamedTuple

from ejfat.base.drops import LbDrop


class Verdict(NamedTuple):
    """The outgoing frame, or the reason for dropping it."""

    frame: bytes | None
    drop: LbDrop | None = None
    is_reply: bool = False
    """The frame is the load balancer's own answer to one that arrived."""
    to_host: bool = False
    """The frame goes to the host (a link-local protocol), not back out of the port where it arrived."""

    @property
    def comes_back(self) -> bool:
        """Whether the frame is forwarded to the load balancer itself, to another of its instances."""
        forwarded = None if self.is_reply or self.to_host else self.frame
        return forwarded is not None and forwarded[:6] == forwarded[6:12]
