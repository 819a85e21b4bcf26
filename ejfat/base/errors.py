"""The exceptions of this package. Bytes from a peer only raise `hfi_sim.base.errors.WireError`, inside the codecs."""

from __future__ import annotations

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError


class EjfatError(OpavnicError):
    """Root of all errors that ejfat raises on purpose."""


class ScriptError(EjfatError, InputError):
    """A table script that is invalid, or that cannot be read (then `line` is None)."""

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if line is None else f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class TableError(EjfatError):
    """An entry that does not fit the table."""


class TableFullError(TableError):
    """The table is full."""


class DuplicateEntryError(TableError):
    """The table already has an entry with the same key."""


class NoSuchEntryError(TableError):
    """The table has no entry with this key."""


class ControlError(EjfatError):
    """A request that the control plane refuses."""


class UnknownError(ControlError):
    """The request names a load balancer, reservation or session that does not exist."""


class ExhaustedError(ControlError):
    """A resource is exhausted: all load balancers reserved, all epochs in use, or no room for a cover."""


class ForbiddenError(ControlError):
    """The token does not have the permission, or there is no such token."""


class BadRequestError(ControlError, InputError):
    """A value in the request is invalid."""


class UpstreamError(EjfatError):
    """An upstream control plane refuses, or cannot be reached."""


class UriError(EjfatError, InputError):
    """Not an EJFAT URI."""


class PcapError(EjfatError, InputError):
    """Not a capture file of Ethernet frames."""


class OutputError(EjfatError):
    """A file cannot be written."""


class CutCaptureError(EjfatError):
    """A capture file ends in the middle of a frame; the frames before it have been read."""
