"""`lnetctl ping` and `discover`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer

from hfi_sim.base.quantities import parse_time
from lnet.cli.command import Host, run_command
from opavnic.cli.base.common import AsJson, LabOption, quantity

_MORE_S: Final = 60.0
"""Seconds for an answer of the lab beyond the timeouts of the questions."""
_DISCOVERY_S: Final = 600.0

Nids = Annotated[list[str], typer.Argument(help="The NIDs to ask: A B or A,B.", metavar="NID...")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tool."""
    app.command("ping")(ping)
    app.command("discover")(discover)


def ping(
    nids: Nids,
    timeout: Annotated[
        Any,
        typer.Option(
            "--timeout",
            parser=quantity(partial(parse_time, above_zero=True)),
            metavar="TIME",
            help="Maximum time to wait for each: 500ms, 5s; a number alone is in seconds.",
        ),
    ] = "5s",
    source: Annotated[str | None, typer.Option("--source", help="The NID to ask from.")] = None,
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Ask nodes for their NIDs. If one does not answer, the others are asked nevertheless, and the exit code says so.

    \b
    Example:
      opavnic lnetctl ping 10.1.1.5@o2ib0 --host a
    """
    words = ",".join(nids).replace(",", " ").split()
    run_command(
        host,
        lab,
        "ping",
        "manage",
        "ping",
        name="ping",
        patience_s=timeout * len(words) + _MORE_S,
        nids=words,
        timeout_s=timeout,
        source=source,
        as_json=as_json,
    )


def discover(
    nids: Nids,
    force: Annotated[bool, typer.Option("--force", help="Ask a peer that is known, too.")] = False,
    most: Annotated[
        str | None, typer.Option("--max", "-m", metavar="NUMBER", help="Show at most so many NIDs of each.")
    ] = None,
    host: Host = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Discover the interfaces of peers, and tell them those of the host.

    \b
    Example:
      opavnic lnetctl discover 10.1.1.5@o2ib0 --host a
    """
    words = ",".join(nids).replace(",", " ").split()
    run_command(
        host,
        lab,
        "discover",
        "manage",
        "discover",
        name="discover",
        patience_s=_DISCOVERY_S * len(words),
        nids=words,
        force="1" if force else None,
        most=most,
        as_json=as_json,
    )
