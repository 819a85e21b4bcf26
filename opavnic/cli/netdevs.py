"""Which netdevs a demonstration has: TAPs, or memory where none can be had and none were asked for."""

from __future__ import annotations

from typing import Literal

from opavnic.cli.output import say

Kind = Literal["tap", "memory"]


def choose(asked: Kind | None) -> tuple[Kind, bool, str | None]:
    """Obtain the right to make TAPs where they are wanted.

    Returns: the kind; whether this process is now in namespaces of its own; why there are no TAPs.
    Raises:  PrivilegeError: TAPs were asked for and cannot be had.
    """
    from opavnic.lab.errors import PrivilegeError
    from opavnic.lab.privileges import obtain

    if asked == "memory":
        return "memory", False, None
    try:
        return "tap", obtain(), None
    except PrivilegeError as error:
        if asked is not None:
            raise
        say(f"no TAPs: {error}")
        say("the demonstration runs on netdevs in memory instead")
        return "memory", False, str(error)
