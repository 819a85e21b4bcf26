"""What carries the frames of VNICs past Python, as the rest of a world sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class NativeCarrier(Protocol):
    """A native datapath, for a part that hands it the native half of an app (`Netdev.native_app`)."""

    def refresh(self) -> None:
        """Look again which VNICs to carry."""

    def still(self) -> AbstractContextManager[None]:
        """Hold all frames meanwhile, so that counters of several elements can be compared."""


class Carrier(NativeCarrier, Protocol):
    """The same, for display."""

    def sync(self) -> None:
        """Add its counts to the counters of the VNICs."""

    @property
    def loads(self) -> Sequence[tuple[int, int]]:
        """How many VNICs and links each worker carries."""

    @property
    def missed(self) -> int:
        """Observed packets that were dropped because Python was behind."""

    @property
    def steered(self) -> int:
        """VNICs whose hosts receive on all processors."""
