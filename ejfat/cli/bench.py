"""`opavnic bench ejfat`: joined through the entry point group "opavnic.bench"."""

from __future__ import annotations

from typing import Annotated

import typer

from opavnic.cli.output import print_json, print_rich, print_table


def ejfat(
    seconds: Annotated[float, typer.Option(min=0.01, help="How long each measurement lasts.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Packets and Gbit per second: the load balancer's pipeline, live in a lab, and a plain UDP relay beside it.

    \b
    Example:
      opavnic bench ejfat --json
    """
    from ejfat.bench.run import bench_ejfat, rows_for_table

    result = bench_ejfat(seconds)
    if as_json:
        print_json(result)
        return
    columns = ("what", "by", "header", "payload", "packets/s", "Gbit/s", "lost")
    print_table(columns, list(rows_for_table(result)))
    print_rich(f"native pipeline: {result['native']}")
