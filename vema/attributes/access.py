"""Access to the fields of attributes: writable, read-only or reserved."""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.field import BITS_PER_BYTE, BYTES, Field

READ_WRITE: Final = "RW"
"""Set by the EM; a Get returns the value that was set."""
READ_ONLY: Final = "RO"
"""Set by the agent; ignored in a Set."""
KEPT: Final = "kept"
"""Reserved, but stored and returned as the EM sent it."""
ZERO: Final = "zero"
"""Reserved: zero in every response."""


def reserved(size: int, access: str = KEPT) -> Field:
    """Declare `size` reserved bytes. Their name contains their offset, as in `reserved_92`."""
    return Field(size * BITS_PER_BYTE, "reserved", BYTES, access=access)
