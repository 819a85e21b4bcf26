"""`lnetctl o2ibs`: targets."""

from __future__ import annotations

from typing import Annotated

import typer

from lnet.cli.command import Host, NeededNet, Net, run_command
from opavnic.cli.base.common import AsJson, LabOption
from opavnic.cli.base.group import command_group

group = command_group("Targets: the addresses at which a NID can be reached.")


@group.command("add")
def o2ibs_add(
    nid: Annotated[str, typer.Option("--nid", help="The NID: 10.1.1.2@o2ib0.")],
    ips: Annotated[
        list[str], typer.Option("--ips", help="Its addresses, 1 to 16: --ips A B C or --ips A,B.")
    ],
    more: Annotated[list[str] | None, typer.Argument(help="Further addresses.", metavar="IP")] = None,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Add a target.

    \b
    Example:
      opavnic lnetctl o2ibs add --host a --nid 10.1.1.5@o2ib0 \\
        --ips 10.1.1.5 10.1.1.6
    """
    words = " ".join([*ips, *(more or [])]).replace(",", " ").split()
    run_command(host, lab, "o2ibs_add", "add", "o2ibs", nid=nid, ips=words)


@group.command("del")
def o2ibs_del(
    nid: Annotated[str, typer.Option("--nid", help="The NID.")], host: Host = None, lab: LabOption = None
) -> None:
    """Remove a target.

    \b
    Example:
      opavnic lnetctl o2ibs del --host a --nid 10.1.1.5@o2ib0
    """
    run_command(host, lab, "o2ibs_del", "del", "o2ibs", nid=nid)


@group.command("show")
def o2ibs_show(
    net_name: Net = None, host: Host = None, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Show the targets, of one network or of all.

    \b
    Example:
      opavnic lnetctl o2ibs show --host a --net o2ib0
    """
    run_command(host, lab, "o2ibs_show", "show", "o2ibs", net=net_name, as_json=as_json)


@group.command("check")
def o2ibs_check(
    net_name: NeededNet, host: Host = None, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Check that targets and devices match; if not, print what would be right and exit 1.

    \b
    Example:
      opavnic lnetctl o2ibs check --host a --net o2ib0
    """
    run_command(host, lab, "o2ibs_check", "check", "o2ibs", net=net_name, as_json=as_json)
