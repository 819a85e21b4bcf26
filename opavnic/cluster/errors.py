"""The exceptions of a fabric over several machines."""

from __future__ import annotations

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError


class ClusterError(OpavnicError):
    """Root of the errors between machines."""


class ClusterInputError(ClusterError, InputError):
    """An address, a name or a folder of credentials given by the user cannot be used."""


class MessageError(ClusterError):
    """Bytes from another machine are not a message of this version; the reader counts them."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class JoinRefusedError(ClusterError):
    """This node may not join: its name is taken, or its version or its lab file differs."""

    def __init__(self, reason: str, *, is_taken: bool = False) -> None:
        """Args:  is_taken: the name is, perhaps only until the lease of a machine that has died ends."""
        super().__init__(reason)
        self.is_taken = is_taken


class PeerRequestError(ClusterError):
    """A node is not present, did not answer a request in time, or refused it."""
