"""The errors of labs; each message is one line for the user."""

from __future__ import annotations

from collections.abc import Sequence

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError


class LabError(OpavnicError):
    """Root of all errors of labs; the message is one line for stderr."""


class PrivilegeError(LabError):
    """The user lacks a privilege; the message names it and says how to get it."""


class LabRunningError(LabError):
    """A lab of that name is already running."""


class NoLabError(LabError):
    """No lab, or no lab of that name, is running; or several are, and none was named."""


class JournalError(LabError):
    """The journal of a lab cannot be read or is of another version, so it is unknown what is to be removed."""


class ProgramError(LabError):
    """A program on a host could not be started. `exit_code` is that of a shell: 127 if not found, else 126."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ConfigError(LabError, InputError):
    """A lab file is wrong. `problems` holds one line for each mistake, with file, line and path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LabInputError(LabError, InputError):
    """What is asked of a lab cannot be: it has no such host, link or fault, or its file says otherwise."""
