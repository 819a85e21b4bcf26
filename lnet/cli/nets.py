"""`lnetctl net` and `net_status`."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from lnet.cli.command import Host, Net, run_command
from lnet.cli.not_built import LnetctlGroup, refuse_options
from lnet.settings.networks import split_list
from opavnic.cli.base.common import AsJson, LabOption
from opavnic.cli.base.group import OptionalValueCommand, command_group
from opavnic.cli.base.output import EXIT_USAGE, fail

interface_group = command_group(
    "Interfaces of networks, as since 2.17: `interface add` and `del` are `net add` and `net del`.",
    cls=LnetctlGroup,
)
group = command_group("Networks: several interfaces under one NID, or each with its own.", cls=LnetctlGroup)
VERBOSE = OptionalValueCommand.of("1", "-v", "--verbose")
"""The class of commands with `-v` and `-v LEVEL`."""

_NotBuilt = Annotated[Any, typer.Option("--conns-per-peer", hidden=True, help="Not built here.")]


def add_to(app: typer.Typer) -> None:
    """Add `net_status` to the tool, and the commands of `interface`: those of `net` by another name."""
    app.command("net_status")(net_status)
    for name, command in (("add", net_add), ("del", net_del)):
        help_text = inspect.getdoc(command) or ""
        interface_group.command(name, help=help_text.replace("lnetctl net", "lnetctl interface"))(command)


@group.command("add")
def net_add(
    net_name: Net = None,
    interfaces: Annotated[
        list[str] | None, typer.Option("--if", help="Its interfaces: ib0,ib1; or with CPTs: ib0[0,1].")
    ] = None,
    nid: Annotated[
        str | None, typer.Option("--nid", help="In place of both: the NID that an interface is to have.")
    ] = None,
    peer_timeout: Annotated[
        str | None, typer.Option("--peer-timeout", help="Seconds; kept and shown, without effect.")
    ] = None,
    peer_credits: Annotated[
        str | None, typer.Option("--peer-credits", help="Messages in flight on one connection, 8 to 255.")
    ] = None,
    peer_buffer_credits: Annotated[
        str | None, typer.Option("--peer-buffer-credits", help="Kept and shown, without effect.")
    ] = None,
    credits: Annotated[  # noqa: A002 - the name of the option
        str | None, typer.Option("--credits", help="Messages in flight on one interface.")
    ] = None,
    cpt: Annotated[
        str | None, typer.Option("--cpt", help="CPU partitions: [0,1]; kept and shown, without effect.")
    ] = None,
    skip: Annotated[
        bool, typer.Option("--skip-mr-route-setup", hidden=True, help="Nothing is set up anyway.")
    ] = False,
    conns_per_peer: _NotBuilt = None,
    tos: Annotated[Any, typer.Option("--tos", hidden=True, help="Not built here.")] = None,
    ip2net: Annotated[Any, typer.Option("--ip2net", hidden=True, help="Not built here.")] = None,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Add a network, or interfaces to a network.

    \b
    Example:
      opavnic lnetctl net add --host a --net o2ib1 --if ib1,ib3
    """
    refuse_options("net add", conns_per_peer=conns_per_peer, tos=tos, ip2net=ip2net)
    if nid is None and (net_name is None or not interfaces):
        fail("net add: give --net NET and --if IF,IF, or --nid NID", EXIT_USAGE)
    run_command(
        host,
        lab,
        "net_add",
        "add",
        "net",
        net=net_name,
        interfaces=split_list(",".join(interfaces)) if interfaces else [],
        nid=nid,
        peer_timeout=peer_timeout,
        peer_credits=peer_credits,
        peer_buffer_credits=peer_buffer_credits,
        credits=credits,
        cpt=cpt,
    )


@group.command("del")
def net_del(
    net_name: Net = None,
    interface: Annotated[str | None, typer.Option("--if", help="Remove only this interface.")] = None,
    nid: Annotated[
        str | None,
        typer.Option("--nid", help="In place of both: the NID of an interface, or of a bonded network."),
    ] = None,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Remove a network, or one of its interfaces, after settling messages in transit.

    \b
    Example:
      opavnic lnetctl net del --host a --net o2ib0 --if ib2
    """
    if nid is None and net_name is None:
        fail("net del: give --net NET or --nid NID", EXIT_USAGE)
    run_command(host, lab, "net_del", "del", "net", net=net_name, interface=interface, nid=nid)


@group.command("show", cls=VERBOSE)
def net_show(
    net_name: Net = None,
    verbose: Annotated[
        str,
        typer.Option(
            "-v", "--verbose", metavar="[LEVEL]", help="1: statistics, tunables; 2: more, and health."
        ),
    ] = "0",
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the networks of a host.

    \b
    Example:
      opavnic lnetctl net show --host a -v 2
    """
    run_command(host, lab, "net_show", "show", "net", net=net_name, verbose=verbose, as_json=as_json)


@group.command("set")
def net_set(
    nid: Annotated[str | None, typer.Option("--nid", help="The NID of an interface.")] = None,
    health: Annotated[str | None, typer.Option("--health", help="Health value, 0 to 1000.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All interfaces of the host.")] = False,
    conns_per_peer: _NotBuilt = None,
    lnd_timeout: Annotated[Any, typer.Option("--lnd-timeout", hidden=True, help="Not built here.")] = None,
    net_name: Annotated[Any, typer.Option("--net", hidden=True, help="Not built here.")] = None,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Set the health of interfaces on networks with Multi-Rail.

    \b
    Example:
      opavnic lnetctl net set --host a --nid 10.1.1.2@o2ib0 --health 500
    """
    refuse_options("net set", conns_per_peer=conns_per_peer, lnd_timeout=lnd_timeout, net=net_name)
    set_health("net", nid, health, every, host, lab)


def set_health(
    noun: str, nid: str | None, health: str | None, every: bool, host: str | None, lab: str | None
) -> None:
    """Set health values here or of peers."""
    if health is None or (nid is None) == (not every):
        fail(f"{noun} set: give --health VALUE, and either --nid NID or --all", EXIT_USAGE)
    all_nis = "1" if every else None
    run_command(host, lab, f"{noun}_set", "set", noun, nid=nid, health=health, all_nis=all_nis)


def net_status(
    net_name: Net = None, host: Host = None, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Show devices and routes, with their states and counters.

    \b
    Example:
      opavnic lnetctl net_status --host a --net o2ib0
    """
    run_command(
        host, lab, "net_status", "show", "net_status", name="net_status", net=net_name, as_json=as_json
    )
