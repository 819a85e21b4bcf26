"""`lnetctl peer`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lnet.cli.command import on_host
from lnet.cli.nets import VERBOSE, health_of
from lnet.settings.networks import split_list
from opavnic.cli.base.group import command_group

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


@on_host(group, "list", "peer", prints=True)
def peer_list() -> dict[str, Any]:
    """Show the primary NIDs of all peers.

    \b
    Example:
      opavnic lnetctl peer list --host a
    """
    return {}


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
