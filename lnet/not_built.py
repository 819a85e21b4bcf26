"""The commands of the real lnetctl that are not built: each says in one line what is there instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from opavnic.cli.group import CommandGroup
from opavnic.cli.output import EXIT_USAGE, fail

LNETCTL: Final[Mapping[str, str]] = {
    "lnet": "LNet starts and ends with its host in the lab; for a restart there is `opavnic fault add crash on HOST`",
    "route": "there are no routers; all hosts of a lab are on one fabric and reach each other directly",
    "routing": "there are no routers; all hosts of a lab are on one fabric and reach each other directly",
    "set": "settings are keys of the section lnet in the lab file; `opavnic schema lab` lists them",
    "global": "settings are keys of the section lnet in the lab file; `opavnic schema lab` lists them",
    "stats": "`lnetctl net_status` counts by route, `lnetctl peer show` has the health of each interface",
    "discover": "networks with `bonding: multi-rail` discover peers by themselves; `lnetctl peer show` lists them",
    "udsp": "the choice of a route follows `bonding` and `weighted` in the lab file",
    "debug": "`opavnic logs` has what LNet logs, `lnetctl net_status` and `lnetctl peer show` its state",
    "fault": "`opavnic fault` injects faults into links, switches and hosts",
}
NET: Final[Mapping[str, str]] = {
    "set": "settings are keys of the section lnet in the lab file; `opavnic schema lab` lists them"
}
PEER: Final[Mapping[str, str]] = dict.fromkeys(
    ("add", "del", "set"),
    "peers are discovered with `bonding: multi-rail`; with o2ibs, `lnetctl o2ibs add` and `del` say where a NID is",
)


class LnetctlGroup(CommandGroup):
    """A group of commands that knows those of the real tool that are not built."""

    not_built: ClassVar[Mapping[str, str]] = LNETCTL

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; one that is not built ends the program with exit code 2."""
        if args[0] in self.not_built and not ctx.resilient_parsing:
            fail(f"{args[0]}: not built here; {self.not_built[args[0]]}", EXIT_USAGE)
        return super().resolve_command(ctx, args)


class NetGroup(LnetctlGroup):
    """`lnetctl net`."""

    not_built = NET


class PeerGroup(LnetctlGroup):
    """`lnetctl peer`."""

    not_built = PEER
