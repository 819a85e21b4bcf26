"""`lnetctl lnet`, `route` and `routing`, which site scripts call: here LNet is always up and needs no routers."""

from __future__ import annotations

from typing import Annotated

import typer

from lnet.cli.command import Host, run_command
from lnet.cli.not_built import LnetGroup, RouteGroup
from opavnic.cli.base.common import AsJson, LabOption
from opavnic.cli.base.group import command_group

lnet = command_group("LNet of a host, which runs while the host does.", cls=LnetGroup)
route = command_group("Routes over routers, of which there are none.", cls=RouteGroup)
routing = command_group("Whether a host is a router, which none is.", cls=RouteGroup)


@lnet.command("configure")
def configure(
    every: Annotated[bool, typer.Option("--all", help="With its networks, which are there anyway.")] = False,
    host: Host = None,
    lab: LabOption = None,
) -> None:
    """Start LNet; nothing is to be done.

    \b
    Example:
      opavnic lnetctl lnet configure --host a
    """
    run_command(host, lab, "lnet_configure", "configure", "lnet", name="lnet configure")


@route.command("show")
def route_show(host: Host = None, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Show the routes over routers: none.

    \b
    Example:
      opavnic lnetctl route show --host a
    """
    run_command(host, lab, "route_show", "show", "route", as_json=as_json)


@routing.command("show")
def routing_show(host: Host = None, lab: LabOption = None, as_json: AsJson = False) -> None:
    """Show whether a host is a router.

    \b
    Example:
      opavnic lnetctl routing show --host a
    """
    run_command(host, lab, "routing_show", "show", "routing", as_json=as_json)
