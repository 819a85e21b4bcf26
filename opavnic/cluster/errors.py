"""The exceptions of a fabric over several machines."""

from __future__ import annotations

from hfi_sim.errors import InputError
from opavnic.errors import OpavnicError


class ClusterError(OpavnicError):
    """Root of what goes wrong between machines."""


class ClusterInputError(ClusterError, InputError):
    """An address, a name or a folder of credentials that a person gave cannot be used."""


class MessageError(ClusterError):
    """Bytes from another machine are not a message of this version; whoever reads them counts it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class RefusedError(ClusterError):
    """This node may not be in the fabric: its name is taken, its version is another, there is a coordinator already."""


class AskError(ClusterError):
    """A node did not answer a question in time, is not there, or answered that it cannot."""
