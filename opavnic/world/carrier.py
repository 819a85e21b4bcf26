"""A datapath that carries packets past Python, as the rest of a world sees it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class NativeCarrier(Protocol):
    """A native datapath, for a part that hands it the native half of an app (`Netdev.native_app`)."""

    def refresh(self) -> None:
        """Look again at what is to be carried."""

    def still(self) -> AbstractContextManager[None]:
        """Let no frame pass meanwhile, so that counters of several places can be compared."""


class Carrier(NativeCarrier, Protocol):
    """The same for whoever shows the world."""

    def sync(self) -> None:
        """Add what it has counted to the counters of the fabric and of the VNICs."""

    def slow_links(self) -> dict[str, str]:
        """Return the links whose packets it leaves to Python, with the reason."""
