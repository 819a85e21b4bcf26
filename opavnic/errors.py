"""The exceptions of this floor that do not belong to a lab or to the command line."""

from __future__ import annotations


class OpavnicError(Exception):
    """Root of the errors that opavnic raises on purpose."""


class VectorFileError(OpavnicError):
    """A file of test vectors cannot be read, or a line of it is no case."""


class EndError(OpavnicError):
    """Something that was started did not end: it took too long, or was cancelled."""


class DatapathUnavailableError(OpavnicError):
    """The datapath asked for is not installed here."""
