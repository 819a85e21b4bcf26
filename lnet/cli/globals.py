"""`lnetctl set`, `global`, `stats`, `lnet`, `route` and `routing`: LNet of a host as a whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lnet.cli.command import Host, LnetctlGroup, on_host, run_command, without_options
from lnet.settings.settings import SETTABLE
from opavnic.cli.base.common import LabOption
from opavnic.cli.base.group import command_group

setting = command_group("Change a setting of LNet on a host, until it restarts.", cls=LnetctlGroup)
every = command_group("Settings of LNet on a host.")
stats = command_group("Counters of LNet on a host.")
lnet = command_group("LNet of a host.", cls=LnetctlGroup)
route = command_group("Routes over routers, of which there are none.", cls=LnetctlGroup)
routing = command_group("Whether a host is a router, which none is.", cls=LnetctlGroup)

Value = Annotated[str, typer.Argument(help="An integer; times are in seconds.", metavar="VALUE")]

_HELP = {
    "numa_range": "Range of NUMA distances; kept and shown, without effect.",
    "max_interfaces": "Most interfaces of a node; kept and shown, without effect.",
    "discovery": "1: ask peers for their interfaces; 0: do not.",
    "drop_asym_route": "Kept and shown, without effect: there are no routers.",
    "retry_count": "How often Multi-Rail sends a message again.",
    "transaction_timeout": "Seconds within which a message is done or has failed.",
    "health_sensitivity": "What a failure takes from the health of an interface.",
    "recovery_interval": "Kept and shown, without effect, as in LNet since 2.14.",
    "router_sensitivity": "Kept and shown, without effect: there are no routers.",
    "response_tracking": "Kept and shown, without effect.",
    "recovery_limit": "Seconds for which a silent interface is pinged; 0: without limit.",
    "max_recovery_ping_interval": "Most seconds between two recovery pings.",
}
_EXAMPLE = {"transaction_timeout": 100, "retry_count": 3, "max_recovery_ping_interval": 60}


def _add(name: str) -> None:
    def command(value: Value, host: Host = None, lab: LabOption = None) -> None:
        run_command(host, lab, "set_value", "add", name, name=f"set {name}", setting=name, value=value)

    command.__doc__ = (
        f"{_HELP[name]}\n\n\b\nExample:\n  opavnic lnetctl set {name} {_EXAMPLE.get(name, 1)} --host a\n"
    )
    setting.command(name, context_settings={"ignore_unknown_options": True})(command)  # -1 is a value


for _name in SETTABLE:
    _add(_name)


without_options(every, "show", "global", "Show all settings.", prints=True)
without_options(stats, "show", "stats", "Show the counters of a host.", says="statistics", prints=True)
without_options(
    stats,
    "reset",
    "stats",
    "Start the counters of a host anew; those of interfaces go on.",
    says="statistics",
)
without_options(route, "show", "route", "Show the routes over routers: none.", prints=True)
without_options(routing, "show", "routing", "Show whether a host is a router.", prints=True)


@on_host(lnet, "configure", "lnet")
def lnet_configure(
    networks: Annotated[
        bool, typer.Option("-a", "--all", help="With the networks and targets of the lab file.")
    ] = False,
    large: Annotated[
        bool, typer.Option("-l", "--large", hidden=True, help="All NIDs here are IPv4.")
    ] = False,
) -> dict[str, Any]:
    """Start LNet, as it is when a host starts; nothing is to be done where it runs.

    \b
    Example:
      opavnic lnetctl lnet configure --all --host a
    """
    return {"networks": "1" if networks else None}


without_options(
    lnet,
    "unconfigure",
    "lnet",
    "Stop LNet: its networks, targets and peers go, and commands fail until `lnet configure`.",
)


def add_to(app: typer.Typer) -> None:
    """Add the groups to the tool."""
    groups = {
        "set": setting,
        "global": every,
        "stats": stats,
        "lnet": lnet,
        "route": route,
        "routing": routing,
    }
    for name, group in groups.items():
        app.add_typer(group, name=name)
