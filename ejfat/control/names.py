"""Names of reservations and workers, which clients choose and which appear in tables and messages."""

from __future__ import annotations

from ejfat.base.errors import BadRequestError

LONGEST_NAME = 64
"""Maximum number of characters."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that cannot be displayed.

    Args:    what: kind of the named object, for the error message.
    Raises:  BadRequestError: empty, too long, or with unprintable characters.
    """
    expected = f"expected 1 to {LONGEST_NAME} printable ones"
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequestError(f"the name of the {what} has {len(name)} characters, {expected}")
    if not name.isprintable():
        raise BadRequestError(
            f"the name {name!r} of the {what} has characters that cannot be shown, {expected}"
        )
