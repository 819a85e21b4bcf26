"""Who may write a field of an attribute, and how reserved bytes are declared."""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.field import BITS_PER_BYTE, BYTES, Field

READ_WRITE: Final = "RW"
"""Set by the EM, which reads back what it set."""
READ_ONLY: Final = "RO"
"""Set by the agent; ignored in a Set."""
KEPT: Final = "kept"
"""Reserved, but stored and given back as the EM sent it."""
ZERO: Final = "zero"
"""Reserved: zero in every response."""


def reserved(size: int, access: str = KEPT) -> Field:
    """Declare `size` reserved bytes. They are named by their offset, as in `reserved_92`."""
    return Field(size * BITS_PER_BYTE, "reserved", BYTES, access=access)
