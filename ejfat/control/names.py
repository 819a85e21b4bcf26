"""Names that clients give to reservations and workers: they stand in tables and in lines of text."""

from __future__ import annotations

from ejfat.errors import BadRequestError

LONGEST_NAME = 64
"""Characters."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that no table could show.

    Args:    what: whose name it is, for the message.
    Raises:  BadRequestError: it is empty, too long, or has characters that cannot be printed.
    """
    expected = f"expected 1 to {LONGEST_NAME} printable ones"
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequestError(f"the name of the {what} has {len(name)} characters, {expected}")
    if not name.isprintable():
        raise BadRequestError(
            f"the name {name!r} of the {what} has characters that cannot be shown, {expected}"
        )
