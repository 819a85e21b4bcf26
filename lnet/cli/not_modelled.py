"""What the real lnetctl can do and a lab has nothing for: it says so in one line, and ends with exit code 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from lnet.settings.settings import ALIASES
from opavnic.cli.base.group import CommandGroup
from opavnic.cli.base.output import print_text, say

NO_ROUTERS: Final = "there are no routers; all hosts of a lab are on one fabric and reach each other directly"
INSTEAD: Final[Mapping[str, str]] = {
    "udsp": "the choice of a route follows `bonding` and `weighted` in the lab file",
    "debug": "`opavnic logs` has what LNet logs; `lnetctl net show -v 2` and `peer show -v 2` have what recovers",
    "fault": "`opavnic fault` injects faults into links, switches and hosts",
    "setup-mrrouting": "hosts of a lab need no Linux routes for LNet",
    "setup-sysctl": "LNet of a lab does not use the kernel's sockets",
    "service-id": "the service of o2iblnd here is number 987 of the reliable transport",
    "cpt-of-nid": "a node has one thread, CPT 0",
    **dict.fromkeys(("route add", "route del", "route set", "routing add", "routing del"), NO_ROUTERS),
    **dict.fromkeys(
        ("set routing", "set tiny_buffers", "set small_buffers", "set large_buffers"), NO_ROUTERS
    ),
    "--conns-per-peer": "there is one connection for each route; more HFIs make more routes",
    "--tos": "the virtual lane follows the service level of the fabric",
    "--lnd-timeout": "it follows from transaction_timeout and retry_count; with o2ibs it is `timeout` in the lab file",
    "--net": "give --nid or --all",
}
"""By command, or by option: what is there instead."""


def note(what: str, instead: str) -> None:
    """Say that something is not modelled."""
    say(f"opavnic: lnetctl {what}: not modelled, without effect; {instead}")


def note_options(command: str, **given: object) -> bool:
    """Say which options that are given are not modelled; return whether there are any."""
    found = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    for option in found:
        note(f"{command} {option}", INSTEAD[option])
    return bool(found)


class LnetctlGroup(CommandGroup):
    """A group of commands that knows those of the real tool that a lab has nothing for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, also a setting by another name; one that is not modelled ends the program."""
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if args[0] == "help":
            print_text(ctx.get_help() + "\n")
            ctx.exit()
        words = [*ctx.command_path.split()[2:], ALIASES.get(args[0], args[0])]
        instead = INSTEAD.get(" ".join(words))
        if instead is not None:
            note(" ".join(words), instead)
            raise typer.Exit
        return super().resolve_command(ctx, [words[-1], *args[1:]])
