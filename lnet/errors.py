"""The exceptions of this package."""

from __future__ import annotations

import errno

from hfi_sim.errors import InputError
from opavnic.errors import OpavnicError


class LnetError(OpavnicError):
    """Root of all errors that lnet raises on purpose."""


class NidError(LnetError, InputError, ValueError):
    """Text that is not a NID, no network or no address."""


class ConfigError(LnetError, InputError):
    """A file of a person that cannot be used: which file, which line (0: the whole file), and why."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}" if line else f"{path}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class ProtocolError(LnetError):
    """Bytes from a peer that break the o2iblnd protocol; the connection ends, nothing else."""


class CommandError(LnetError):
    """A command of lnetctl that was refused, with the negative errno that it prints."""

    def __init__(self, code: int, descr: str) -> None:
        super().__init__(descr)
        self.errno = -abs(code)
        self.descr = descr

    @property
    def name(self) -> str:
        """The errno as people know it: `EINVAL`."""
        return errno.errorcode.get(-self.errno, str(self.errno))
