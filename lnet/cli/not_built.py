"""The commands of the real lnetctl that are not built: each says in one line what is there instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from lnet.settings.settings import ALIASES
from opavnic.cli.base.group import CommandGroup
from opavnic.cli.base.output import EXIT_USAGE, fail, print_text

_ROUTERS: Final = "there are no routers; all hosts of a lab are on one fabric and reach each other directly"
LNETCTL: Final[Mapping[str, str]] = {
    "udsp": "the choice of a route follows `bonding` and `weighted` in the lab file",
    "debug": "`opavnic logs` has what LNet logs; `lnetctl net show -v 2` and `peer show -v 2` have what recovers",
    "fault": "`opavnic fault` injects faults into links, switches and hosts",
    "setup-mrrouting": "hosts of a lab need no Linux routes for LNet",
    "setup-sysctl": "LNet of a lab does not use the kernel's sockets",
    "service-id": "the service of o2iblnd here is number 987 of the reliable transport",
    "cpt-of-nid": "a node has one thread, CPT 0",
}
LNET: Final[Mapping[str, str]] = {
    "unconfigure": "LNet starts and ends with its host; a restart is `opavnic fault add crash on HOST`"
}
ROUTE: Final[Mapping[str, str]] = dict.fromkeys(("add", "del", "set"), _ROUTERS)
SET: Final[Mapping[str, str]] = dict.fromkeys(
    ("routing", "tiny_buffers", "small_buffers", "large_buffers"), _ROUTERS
)
OPTIONS: Final[Mapping[str, str]] = {
    "conns_per_peer": "there is one connection for each route; more HFIs make more routes",
    "tos": "the virtual lane follows the service level of the fabric",
    "ip2net": "name the interfaces with --if",
    "lnd_timeout": "it follows from transaction_timeout and retry_count; with o2ibs it is `timeout` in the lab file",
    "net": "give --nid or --all",
}
"""Options of the real tool that are not built."""


def refuse_options(command: str, **given: object) -> None:
    """End the program with exit code 2 if an option is given that is not built."""
    for name, value in given.items():
        if value is not None:
            fail(f"{command} --{name.replace('_', '-')}: not built here; {OPTIONS[name]}", EXIT_USAGE)


class LnetctlGroup(CommandGroup):
    """A group of commands that knows those of the real tool that are not built."""

    not_built: ClassVar[Mapping[str, str]] = LNETCTL

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; one that is not built ends the program with exit code 2."""
        if args[0] == "help" and not ctx.resilient_parsing:
            print_text(ctx.get_help() + "\n")
            ctx.exit()
        if args[0] in self.not_built and not ctx.resilient_parsing:
            words = [*ctx.command_path.split()[2:], args[0]]
            fail(f"{' '.join(words)}: not built here; {self.not_built[args[0]]}", EXIT_USAGE)
        return super().resolve_command(ctx, args)


class LnetGroup(LnetctlGroup):
    """`lnetctl lnet`."""

    not_built = LNET


class RouteGroup(LnetctlGroup):
    """`lnetctl route` and `routing`."""

    not_built = ROUTE


class SetGroup(LnetctlGroup):
    """`lnetctl set`."""

    not_built = SET

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a setting, also by another name that it has in files."""
        return super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])
