"""The exceptions of this package. Bytes from a peer raise `hfi_sim.errors.WireError` inside the codecs only."""

from __future__ import annotations

from hfi_sim.errors import InputError
from opavnic.errors import OpavnicError


class EjfatError(OpavnicError):
    """Root of all errors that ejfat raises on purpose."""


class ScriptError(EjfatError, InputError):
    """A table script does not say what it should, or cannot be read (then no line is to blame)."""

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if line is None else f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class TableError(EjfatError):
    """An entry that the table cannot hold."""


class TableFullError(TableError):
    """The table has as many entries as its size allows."""


class DuplicateEntryError(TableError):
    """The table has an entry with the same key already."""


class NoSuchEntryError(TableError):
    """The table has no entry with this key."""


class ControlError(EjfatError):
    """A request that the control plane refuses."""


class UnknownError(ControlError):
    """The request names a load balancer, reservation or session that does not exist."""


class ExhaustedError(ControlError):
    """Nothing is left to give: all load balancers reserved, all epochs in use, the cover too large for its table."""


class ForbiddenError(ControlError):
    """The token does not carry the permission, or there is no such token."""


class BadRequestError(ControlError, InputError):
    """A value in the request is out of its range."""


class UriError(EjfatError, InputError):
    """Not an EJFAT URI."""


class PcapError(EjfatError, InputError):
    """Not a capture file of Ethernet frames."""


class OutputError(EjfatError):
    """A file cannot be written."""


class CutCaptureError(EjfatError):
    """A capture file ends in the middle of a frame; what is before that has been read."""
