"""The exceptions of this floor that do not belong to a lab or to the command line."""

from __future__ import annotations

from hfi_sim.errors import InputError
from vema.errors import VemaError


class OpavnicError(VemaError):
    """Root of the errors that opavnic raises on purpose."""


class VectorFileError(OpavnicError, InputError):
    """A file of test vectors cannot be read, or a line of it is not a case."""


class TooManyError(OpavnicError):
    """As many ask the same as may at once."""


class PartError(OpavnicError):
    """An installed package brings a part that cannot be used."""


class EndError(OpavnicError):
    """Something that was started did not end: it took too long, or was cancelled."""


class DatapathUnavailableError(OpavnicError):
    """The datapath asked for is not installed here."""
