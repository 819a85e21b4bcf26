"""Mistakes in a command line that the program explains itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError

ELSEWHERE: Final = {
    "attach": "shell",
    "bash": "shell",
    "clean": "prune",
    "cleanup": "prune",
    "create": "up",
    "delete": "down",
    "deploy": "up",
    "destroy": "down",
    "dump": "capture",
    "export": "save",
    "graph": "topo",
    "info": "status",
    "inspect": "status",
    "lab-schema": "schema lab",
    "links": "status",
    "list": "ps",
    "ls": "ps",
    "netem": "fault",
    "new": "init",
    "nodes": "status",
    "pingall": "check",
    "redeploy": "up",
    "rm": "down",
    "run": "exec",
    "sh": "shell",
    "show": "status",
    "start": "up",
    "stop": "down",
    "tc": "fault",
    "tcpdump": "capture",
    "test": "check",
}
"""Names of commands in containerlab, mininet, podman, iproute2 or an earlier version: the name here."""
RENAMED: Final = {
    ("em apply", "--diff"): "-n, --dry-run",
    ("install-dissectors", "--to"): "--dir",
    ("top", "-d"): "-i, --interval",
    ("top", "--delay"): "-i, --interval",
    ("top", "-n"): "-c, --count",
    ("top", "-s"): "--sort",
}
"""Options of an earlier version, by command: what they are called now."""
_NEAR: Final = 0.6
"""How alike two names are that one may be a slip for the other; 1: the same."""


def near(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` is a slip for, or an empty string."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=_NEAR)
    return close[0] if close else ""


class UnknownCommandError(OpavnicError, InputError):
    """There is no command of that name."""

    def __init__(self, name: str, known: Iterable[str], group: str) -> None:
        """Args:  group: the words before the name: `opavnic`, `opavnic em`."""
        super().__init__(f"No such command '{name}'")
        names = set(known)
        meant = ""
        is_root = " " not in group
        if is_root and ELSEWHERE.get(name, "").split(" ")[0] in names:
            meant = ELSEWHERE[name]
        meant = meant or near(name, names)
        self.hint = f"did you mean: {group} {meant}" if meant else f"see: {group} --help"
