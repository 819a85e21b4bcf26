"""The exceptions of this package."""

from __future__ import annotations

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError


class LnetError(OpavnicError):
    """Root of all errors that lnet raises on purpose."""


class NidError(LnetError, InputError, ValueError):
    """Text that is not a valid NID, network or address."""


class LnetConfigError(LnetError, InputError):
    """A configuration file that cannot be used: the file, the line (0: the whole file), and the reason."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}" if line else f"{path}: {reason}")


class ProtocolError(LnetError):
    """Bytes from a peer that violate the o2iblnd protocol. Only the connection is closed."""


class CommandError(LnetError):
    """A refused lnetctl command, with the negative errno that it prints."""

    def __init__(self, code: int, descr: str) -> None:
        super().__init__(descr)
        self.errno = -abs(code)
        self.descr = descr

    @property
    def exit(self) -> int:
        """The exit code of lnetctl: the low byte of the negative errno."""
        return self.errno & 0xFF
