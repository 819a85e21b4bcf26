"""The netdev of a node: a program of this process stands on it, whose native half the native datapath may run.

netdev.native_app = app     # the datapath's thread runs its frames from the next refresh on
netdev.native_app = None    # Python does again
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hfi_sim.netdev.memory import MemoryNetdev

if TYPE_CHECKING:
    from opavnic import _native


class NativeApp(Protocol):
    """The native half of a program that stands on a netdev."""

    def attach(self, engine: _native.Engine, vport: int) -> None:
        """Take the frames of a vport of the native datapath, and send from there."""


class NodeNetdev(MemoryNetdev):
    """A netdev in memory whose frames the native datapath can carry, where its program has a native half.

    What the program sends itself with `transmit`, and what comes over links that Python carries, goes its way in
    Python all the same.
    """

    native_app: NativeApp | None = None
