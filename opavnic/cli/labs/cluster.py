"""`opavnic cluster`: what the machines of one fabric need before they meet, and what they have carried."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from opavnic.cli.base.common import AsJson, LabOption, lab_client, time_option
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import print_json, print_table
from opavnic.state.lab import LabState

app = command_group("Fabrics over several machines: credentials of their nodes, and loads.")


@app.callback()
def _group() -> None:
    """Fabrics over several machines: credentials of their nodes, and loads."""


@app.command()
def ca(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the CA is, or is to be made.")],
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME", help="A node that gets a certificate; may be repeated."),
    ] = None,
    coordinators: Annotated[
        list[str] | None,
        typer.Option(
            "--coordinator",
            metavar="NAME",
            help="A node that may be coordinator; may be repeated. None: every node may.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="Days for which new certificates are valid.")
    ] = 365,
    as_json: AsJson = False,
) -> None:
    """Make a CA for tests, and a folder with a certificate for each node.

    Copy DIR/NAME to the machine NAME. Where DIR is a CA already, only nodes that it has not seen get a certificate, and
    all folders get the new list of members; a running node knows it when it is started again.

    \b
    Example:
      opavnic cluster ca ~/fabric --coordinator head --node m1 --node m2
    """
    from opavnic.cluster.zenoh.credentials import make_authority

    made = make_authority(directory, nodes or [], coordinators=coordinators or [], days=days)
    rows = [
        (name, str(made.directory / name), "new" if name in made.new_nodes else "kept")
        for name in made.members
    ]
    if as_json:
        print_json(
            [{"node": node, "folder": folder, "is_new": state == "new"} for node, folder, state in rows]
        )
    else:
        print_table(("node", "folder", "certificate"), rows)


@app.command()
def loads(
    lab: LabOption = None,
    over: Annotated[Any, time_option("--for", low="1s", high="24h", help="How long to measure.")] = "10s",
    as_json: AsJson = False,
) -> None:
    """Measure what the links of a running lab carry, in bits per second, both directions together.

    Written to a file, it lets `opavnic up --cluster --loads FILE` place the lab by load, where its file says
    `cluster: {place: auto}`. It may come from one machine that has become too small.

    \b
    Example:
      opavnic cluster loads --for 1m --json > loads.json
    """
    from opavnic.cluster.protocol.placement import loads_between

    client = lab_client(lab)
    before = client.read(LabState, "/status")
    time.sleep(over)
    found = loads_between(before, client.read(LabState, "/status"))
    rows = sorted(found.links.items(), key=lambda row: -row[1])
    if as_json:
        print_json(asdict(found))
    else:
        print_table(("link", "bit/s"), rows)
