"""`opavnic fm`: what a real fabric manager needs to run a lab's fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opavnic.cli.common import AsJson
from opavnic.cli.output import EXIT_FAILED, fail, print_json, print_text, say

app = typer.Typer(
    help="Labs whose fabric a real fabric manager runs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Labs whose fabric a real fabric manager runs."""


@app.command()
def config(
    file: Annotated[Path, typer.Argument(help="A lab file.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a file instead of printing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the settings of opafmd (opafm.xml) for a lab: a virtual fabric for each P_Key of its virtual switches.

    With --json, print the virtual fabrics.

    \b
    Example:
      opavnic fm config lab.yaml -o opafm.xml
      opavnic exec h1 -- sh -c 'mount --bind opafm.xml /etc/opa-fm/opafm.xml && exec /usr/lib/opa-fm/bin/opafmd -D'
    """
    from dataclasses import asdict

    from opavnic.lab.fm_config import opafm_xml, virtual_fabrics
    from opavnic.lab.loader import load_lab

    model = load_lab(file)
    fabrics, text = virtual_fabrics(model), opafm_xml(model)
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            fail(f"{output} cannot be written: {error.strerror}", EXIT_FAILED)
    if as_json:
        print_json([asdict(fabric) for fabric in fabrics])
    elif output is None:
        print_text(text)
    if any(fabric.base_sl is None for fabric in fabrics):
        say("some virtual fabrics have no service level of their own: they share that of all else")
