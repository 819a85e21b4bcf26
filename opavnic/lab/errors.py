"""What can go wrong with a lab, told to a person in one line."""

from __future__ import annotations

from collections.abc import Sequence

from hfi_sim.errors import InputError
from opavnic.errors import OpavnicError


class LabError(OpavnicError):
    """Root of all errors of the lab; the message is one line for stderr."""


class PrivilegeError(LabError):
    """The system does not let this user do it; the message says what is missing and how to get it."""


class LabRunningError(LabError):
    """A lab of that name runs already."""


class NoLabError(LabError):
    """No lab of that name runs, or no lab at all, or more than one where a name is needed."""


class JournalError(LabError):
    """The journal of a lab cannot be read, or is that of another version: what the lab has made is not known."""


class ProgramError(LabError):
    """A program on a host was not started. `exit_code` is what a shell would end with: 127 not found, else 126."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ConfigError(LabError, InputError):
    """A lab file is wrong. `problems` holds one line for each mistake, with file, line and path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LabInputError(LabError, InputError):
    """What a running lab was asked makes no sense there: a host, link or fault that it does not have."""
