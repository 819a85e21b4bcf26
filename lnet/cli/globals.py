"""`lnetctl set`, `global` and `stats`."""

from __future__ import annotations

from typing import Annotated

import typer

from lnet.cli.command import Host, run_command
from lnet.cli.not_built import SetGroup
from lnet.settings.settings import SETTABLE
from opavnic.cli.base.common import AsJson, LabOption
from opavnic.cli.base.group import command_group

setting = command_group("Change a setting of LNet on a host, until it restarts.", cls=SetGroup)
every = command_group("Settings of LNet on a host.")
stats = command_group("Counters of LNet on a host.")

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


@every.command("show")
def global_show(host: Host = None, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Show all settings.

    \b
    Example:
      opavnic lnetctl global show --host a
    """
    run_command(host, lab, "global_show", "show", "global", as_json=as_json)


@stats.command("show")
def stats_show(host: Host = None, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Show the counters of a host.

    \b
    Example:
      opavnic lnetctl stats show --host a
    """
    run_command(host, lab, "stats_show", "show", "statistics", name="stats show", as_json=as_json)


@stats.command("reset")
def stats_reset(host: Host = None, lab: LabOption = None) -> None:
    """Start the counters of a host anew; those of interfaces go on.

    \b
    Example:
      opavnic lnetctl stats reset --host a
    """
    run_command(host, lab, "stats_reset", "reset", "statistics", name="stats reset")
