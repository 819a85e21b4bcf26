"""The node that manages every fabric, and what is said while its Ethernet Manager is down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

EM_NODE: Final = "em"
"""The node that the Ethernet Manager and the subnet manager run on. It is not a host."""


def down_text(held: Sequence[int]) -> str:
    """Return a line that says that the manager does not run. Args: held: the faults that hold it down."""
    if not held:
        return "the Ethernet Manager has ended"
    return f"the Ethernet Manager is down: fault {held[0]}, crash on {EM_NODE}"
