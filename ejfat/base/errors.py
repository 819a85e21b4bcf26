"""The exceptions of this package. Bytes from a peer only raise `hfi_sim.base.errors.WireError`, inside the codecs."""

from __future__ import annotations

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError


class EjfatError(OpavnicError):
    """Root of all errors that ejfat raises on purpose."""


class TableError(EjfatError):
    """A table that does not exist, or an entry that does not fit it: no room, a key in use or not there."""


class ControlError(EjfatError):
    """A request that the control plane refuses."""


class UnknownError(ControlError):
    """The request names a load balancer, reservation or session that does not exist."""


class ExhaustedError(ControlError):
    """A resource is exhausted: all load balancers reserved, all epochs in use, or no room for a cover."""


class ForbiddenError(ControlError):
    """The token does not have the permission, or there is no such token."""


class BadRequestError(ControlError, InputError):
    """What a client or a person gave is invalid: a value of a request or an option, a URI, a file."""


class UpstreamError(EjfatError):
    """An upstream control plane refuses, or cannot be reached."""


class CutCaptureError(EjfatError):
    """A capture file ends in the middle of a frame; the frames before it have been read."""
