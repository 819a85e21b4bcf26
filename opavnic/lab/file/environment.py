"""Variables of the environment in lab files: `${NAME}`, or `${NAME:-DEFAULT}` where it may be unset or empty.

`$${NAME}` is the text `${NAME}`, for commands of hosts. Anything else with a dollar sign is left to the shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from opavnic.base.errors import OpavnicError

_VARIABLE: Final = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class UnsetError(OpavnicError):
    """A variable is not set, and has no default."""


def with_variables(text: str, environment: Mapping[str, str]) -> str:
    """Return a value of a file with its variables replaced. Raises UnsetError."""

    def value(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        if default is not None:
            return environment.get(name) or default
        if name not in environment:
            raise UnsetError(
                f"{name} is not set in the environment: set it, or write ${{{name}:-DEFAULT}}; "
                f"for the text itself, $${{{name}}}"
            )
        return environment[name]

    return _VARIABLE.sub(value, text) if "${" in text else text


def without_variables(text: str) -> str:
    """Return what `with_variables` makes a text of."""
    return _VARIABLE.sub(lambda match: f"${match[0]}", text) if "${" in text else text


def variables_of(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the text of a file mentions and that are set."""
    names = {match[2] for match in _VARIABLE.finditer(text)}
    return {name: environment[name] for name in sorted(names) if name in environment}
