"""`opavnic fm`: what a real fabric manager needs to run a lab's fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import print_json, print_text, say, write_file

app = command_group("Labs whose fabric a real fabric manager runs.")


@app.callback()
def _group() -> None:
    """Labs whose fabric a real fabric manager runs."""


@app.command()
def config(
    file: Annotated[Path, typer.Argument(help="A lab file.")],
    write: Annotated[
        Path | None, typer.Option("-w", "--write", metavar="FILE", help="Write a file instead of printing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the settings of opafmd (opafm.xml) for a lab: a virtual fabric for each P_Key of its virtual switches.

    With --json, print the virtual fabrics.

    \b
    Example:
      opavnic fm config lab.yaml -w opafm.xml
      opavnic exec h1 -- sh -c 'mount --bind opafm.xml /etc/opa-fm/opafm.xml &&
          exec /usr/lib/opa-fm/bin/opafmd -D'
    """
    from dataclasses import asdict

    from opavnic.lab.file.fm_config import opafm_xml, virtual_fabrics
    from opavnic.lab.file.loader import load_lab

    model = load_lab(file)
    fabrics, text = virtual_fabrics(model), opafm_xml(model)
    if write is not None:
        write_file(write, text)
    if as_json:
        print_json([asdict(fabric) for fabric in fabrics])
    elif write is None:
        print_text(text)
    if any(fabric.base_sl is None for fabric in fabrics):
        say("some virtual fabrics have no service level of their own: they share the default one")
