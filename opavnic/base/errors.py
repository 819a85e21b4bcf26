"""The exceptions of opavnic, except those of labs and of the command line."""

from __future__ import annotations

from hfi_sim.base.errors import InputError
from vema.base.errors import VemaError


class OpavnicError(VemaError):
    """Root of the errors that opavnic raises on purpose."""


class VectorFileError(OpavnicError, InputError):
    """A file of test vectors cannot be read, or a line in it is not a case."""


class TooManyError(OpavnicError):
    """The limit for concurrent requests of a kind has been reached."""


class PartError(OpavnicError):
    """An installed package provides a part that cannot be used."""


class UnknownEngineError(OpavnicError, InputError):
    """No engine has this name."""


class DatapathUnavailableError(OpavnicError):
    """The requested datapath is not available here."""
