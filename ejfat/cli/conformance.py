"""`opavnic conformance ejfat`, registered in the entry point group "opavnic.conformance"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ejfat.files.conformance import run_ejfat
from opavnic.cli.base.common import AsJson
from opavnic.cli.program.conformance import report


def ejfat(
    files: Annotated[
        list[Path], typer.Argument(help="Vector files: JSON, plain or gzip'ed.", show_default=False)
    ],
    pipeline: Annotated[
        Literal["auto", "python", "native"],
        typer.Option(help="Pipeline to test; auto: native, if built."),
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Run recorded frames through the load balancer's pipeline and compare its output.

    \b
    Example:
      opavnic conformance ejfat tests/vectors/ejfat/v1-1.json.gz
    """
    results = [run_ejfat(path, pipeline) for path in files]
    report(results, as_json)
