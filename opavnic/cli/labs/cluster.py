"""`opavnic cluster`: what the machines of one fabric need before they meet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import print_json, print_table

app = command_group("Fabrics over several machines: credentials of their nodes.")


@app.callback()
def _group() -> None:
    """Fabrics over several machines: credentials of their nodes."""


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
