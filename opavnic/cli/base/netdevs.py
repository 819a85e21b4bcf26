"""Netdevs of a demonstration: TAPs, or memory if TAPs are not available and were not requested."""

from __future__ import annotations

from typing import Literal

from opavnic.cli.base.output import say

Kind = Literal["tap", "memory"]


def choose(asked: Kind | None) -> tuple[Kind, bool, str | None]:
    """Obtain the privilege to create TAPs, unless memory is requested.

    Returns: the kind; whether this process is now in namespaces of its own; why TAPs are not available.
    Raises:  PrivilegeError: TAPs were requested and are not available.
    """
    from opavnic.lab.file.errors import PrivilegeError
    from opavnic.lab.ownership.privileges import obtain

    if asked == "memory":
        return "memory", False, None
    try:
        return "tap", obtain(), None
    except PrivilegeError as error:
        if asked is not None:
            raise
        say(f"TAPs are not available: {error}")
        say("the demonstration uses netdevs in memory instead")
        return "memory", False, str(error)
