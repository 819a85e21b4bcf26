"""`lnetctl net`, `interface`, `o2ibs`, `net_status`, `peer`: networks, the addresses of NIDs, and peers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lnet.cli.command import LnetctlGroup, Net, note_options, on_host, without_options
from lnet.settings.networks import split_list
from opavnic.cli.base.group import OptionalValueCommand, command_group
from opavnic.cli.base.output import EXIT_USAGE, fail

interface = command_group(
    "Interfaces of networks, as since 2.17: `interface add` and `del` are `net add` and `net del`.",
    cls=LnetctlGroup,
)
net = command_group("Networks: several interfaces under one NID, or each with its own.", cls=LnetctlGroup)
o2ibs = command_group("Targets: the addresses at which a NID can be reached.")
VERBOSE = OptionalValueCommand.of("1", "-v", "--verbose")
"""The class of commands with `-v` and `-v LEVEL`."""

_NotModelled = Annotated[Any, typer.Option(hidden=True, help="Not modelled.")]


@on_host(interface, "add", "net", alias="interface")
@on_host(net, "add", "net")
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
    skip_mr_route_setup: Annotated[bool, typer.Option(hidden=True, help="Nothing is set up anyway.")] = False,
    ip2net: Annotated[Any, typer.Option(hidden=True, help="Not read.")] = None,
    conns_per_peer: _NotModelled = None,
    tos: _NotModelled = None,
) -> dict[str, Any]:
    """Add a network, or interfaces to a network.

    \b
    Example:
      opavnic lnetctl net add --host a --net o2ib1 --if ib1,ib3
    """
    if nid is None and (net_name is None or not interfaces):
        rest = "; --ip2net is not read: name the interfaces" if ip2net else ""
        fail(f"net add: give --net NET and --if IF,IF, or --nid NID{rest}", EXIT_USAGE)
    note_options("net add", conns_per_peer=conns_per_peer, tos=tos)
    return {
        "net": net_name,
        "interfaces": split_list(",".join(interfaces)) if interfaces else [],
        "nid": nid,
        "peer_timeout": peer_timeout,
        "peer_credits": peer_credits,
        "peer_buffer_credits": peer_buffer_credits,
        "credits": credits,
        "cpt": cpt,
    }


@on_host(interface, "del", "net", alias="interface")
@on_host(net, "del", "net")
def net_del(
    net_name: Net = None,
    interface: Annotated[str | None, typer.Option("--if", help="Remove only this interface.")] = None,
    nid: Annotated[
        str | None,
        typer.Option("--nid", help="In place of both: the NID of an interface, or of a bonded network."),
    ] = None,
) -> dict[str, Any]:
    """Remove a network, or one of its interfaces, after settling messages in transit.

    \b
    Example:
      opavnic lnetctl net del --host a --net o2ib0 --if ib2
    """
    if nid is None and net_name is None:
        fail("net del: give --net NET or --nid NID", EXIT_USAGE)
    return {"net": net_name, "interface": interface, "nid": nid}


@on_host(net, "show", "net", prints=True, cls=VERBOSE)
def net_show(
    net_name: Net = None,
    verbose: Annotated[
        str,
        typer.Option(
            "-v", "--verbose", metavar="[LEVEL]", help="1: statistics, tunables; 2: more, and health."
        ),
    ] = "0",
) -> dict[str, Any]:
    """Show the networks of a host.

    \b
    Example:
      opavnic lnetctl net show --host a -v 2
    """
    return {"net": net_name, "verbose": verbose}


@on_host(net, "set", "net")
def net_set(
    nid: Annotated[str | None, typer.Option("--nid", help="The NID of an interface.")] = None,
    health: Annotated[str | None, typer.Option("--health", help="Health value, 0 to 1000.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All interfaces of the host.")] = False,
    net_name: Annotated[Any, typer.Option("--net", hidden=True, help="Not modelled.")] = None,
    conns_per_peer: _NotModelled = None,
    lnd_timeout: _NotModelled = None,
) -> dict[str, Any]:
    """Set the health of interfaces on networks with Multi-Rail.

    \b
    Example:
      opavnic lnetctl net set --host a --nid 10.1.1.2@o2ib0 --health 500
    """
    options = {"net": net_name, "conns_per_peer": conns_per_peer, "lnd_timeout": lnd_timeout}
    if note_options("net set", **options) and health is None:
        raise typer.Exit
    return health_of("net", nid, health, every)


def health_of(noun: str, nid: str | None, health: str | None, every: bool) -> dict[str, Any]:
    """Return the arguments of `net set` or `peer set`."""
    if health is None or (nid is None) == (not every):
        fail(f"{noun} set: give --health VALUE, and either --nid NID or --all", EXIT_USAGE)
    return {"nid": nid, "health": health, "all_nis": "1" if every else None}


def add_to(app: typer.Typer) -> None:
    """Add the groups and `net_status` to the tool."""
    for name, group in (("net", net), ("interface", interface), ("o2ibs", o2ibs)):
        app.add_typer(group, name=name)
    on_host(app, "show", "net_status", prints=True, is_word=True)(net_status)


def net_status(net_name: Net = None) -> dict[str, Any]:
    """Show devices and routes, with their states and counters.

    \b
    Example:
      opavnic lnetctl net_status --host a --net o2ib0
    """
    return {"net": net_name}


@on_host(o2ibs, "add", "o2ibs")
def o2ibs_add(
    nid: Annotated[str, typer.Option("--nid", help="The NID: 10.1.1.2@o2ib0.")],
    ips: Annotated[
        list[str], typer.Option("--ips", help="Its addresses, 1 to 16: --ips A B C or --ips A,B.")
    ],
    more: Annotated[list[str] | None, typer.Argument(help="Further addresses.", metavar="IP")] = None,
) -> dict[str, Any]:
    """Add a target.

    \b
    Example:
      opavnic lnetctl o2ibs add --host a --nid 10.1.1.5@o2ib0 \\
        --ips 10.1.1.5 10.1.1.6
    """
    return {"nid": nid, "ips": " ".join([*ips, *(more or [])]).replace(",", " ").split()}


@on_host(o2ibs, "del", "o2ibs")
def o2ibs_del(nid: Annotated[str, typer.Option("--nid", help="The NID.")]) -> dict[str, Any]:
    """Remove a target.

    \b
    Example:
      opavnic lnetctl o2ibs del --host a --nid 10.1.1.5@o2ib0
    """
    return {"nid": nid}


@on_host(o2ibs, "show", "o2ibs", prints=True)
def o2ibs_show(net_name: Net = None) -> dict[str, Any]:
    """Show the targets, of one network or of all.

    \b
    Example:
      opavnic lnetctl o2ibs show --host a --net o2ib0
    """
    return {"net": net_name}


@on_host(o2ibs, "check", "o2ibs", prints=True)
def o2ibs_check(
    net_name: Annotated[str, typer.Option("--net", help="A network: o2ib0.")],
) -> dict[str, Any]:
    """Check that targets and devices match; if not, print what would be right and exit 1.

    \b
    Example:
      opavnic lnetctl o2ibs check --host a --net o2ib0
    """
    return {"net": net_name}


group = command_group("Peers, with all their NIDs on networks with Multi-Rail.")

PrimaryNid = Annotated[
    str | None, typer.Option("--prim_nid", "--prim-nid", help="The primary NID of the peer.")
]
Nids = Annotated[list[str] | None, typer.Option("--nid", help="NIDs of the peer: A,B.")]


def _words(nids: list[str] | None) -> list[str] | None:
    return split_list(",".join(nids)) if nids else None


@on_host(group, "add", "peer")
def peer_add(
    prim_nid: PrimaryNid = None,
    nids: Nids = None,
    non_mr: Annotated[bool, typer.Option("--non_mr", help="The peer does not know Multi-Rail.")] = False,
    lock: Annotated[
        bool, typer.Option("--lock_prim", hidden=True, help="Nothing is renamed anyway.")
    ] = False,
) -> dict[str, Any]:
    """Make a peer known without discovery, or add NIDs to one.

    \b
    Example:
      opavnic lnetctl peer add --host a --prim_nid 10.1.1.5@o2ib0 \\
        --nid 10.1.1.6@o2ib0
    """
    return {"prim_nid": prim_nid, "nids": _words(nids), "non_mr": "1" if non_mr else None}


@on_host(group, "del", "peer")
def peer_del(
    prim_nid: PrimaryNid = None,
    nids: Nids = None,
    force: Annotated[bool, typer.Option("--force", hidden=True, help="Nothing is locked anyway.")] = False,
) -> dict[str, Any]:
    """Forget a peer, or some of its NIDs.

    \b
    Example:
      opavnic lnetctl peer del --host a --prim_nid 10.1.1.5@o2ib0
    """
    return {"prim_nid": prim_nid, "nids": _words(nids)}


@on_host(group, "show", "peer", prints=True, cls=VERBOSE)
def peer_show(
    nid: Annotated[str | None, typer.Option("--nid", help="The peer with this NID.")] = None,
    verbose: Annotated[
        str,
        typer.Option(
            "-v", "--verbose", metavar="[LEVEL]", help="1: credits, statistics; 2: health; 3: state."
        ),
    ] = "0",
) -> dict[str, Any]:
    """Show peers, with their interfaces and the state of each.

    \b
    Example:
      opavnic lnetctl peer show --host a -v 2
    """
    return {"nid": nid, "verbose": verbose}


without_options(group, "list", "peer", "Show the primary NIDs of all peers.", prints=True)


@on_host(group, "set", "peer")
def peer_set(
    nid: Annotated[str | None, typer.Option("--nid", help="A NID of a peer.")] = None,
    health: Annotated[str | None, typer.Option("--health", help="Health value, 0 to 1000.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All interfaces of all peers.")] = False,
) -> dict[str, Any]:
    """Set the health of interfaces of peers with Multi-Rail.

    \b
    Example:
      opavnic lnetctl peer set --host a --nid 10.1.1.5@o2ib0 --health 500
    """
    return health_of("peer", nid, health, every)
