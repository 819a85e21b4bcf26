"""The node that manages every fabric."""

from __future__ import annotations

from typing import Final

EM_NODE: Final = "em"
"""The node that the Ethernet Manager and the subnet manager run on. It is not a host."""
