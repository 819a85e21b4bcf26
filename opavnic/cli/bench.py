"""`opavnic bench`: measure, on this machine, now.

Other packages join through the entry point group "opavnic.bench": name -> a function that is a command.
"""

from __future__ import annotations

from typing import Annotated

import typer

from opavnic.bench.mad import DEFAULT_SECONDS, bench_mad
from opavnic.cli.bench_datapath import datapath
from opavnic.cli.bench_em import em
from opavnic.cli.output import print_json, print_table
from opavnic.cli.plugin_group import JoinedGroup


class BenchGroup(JoinedGroup):
    """The benchmarks of this module, and those of installed packages."""

    joined_by = "opavnic.bench"


app = typer.Typer(
    cls=BenchGroup,
    help="Measure, on this machine, now.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


app.command(epilog="Example: opavnic bench datapath --json --plot datapath.svg")(datapath)


@app.callback()
def bench() -> None:
    """Measure, on this machine, now."""


@app.command(epilog="Example: opavnic bench mad --json")
def mad(
    seconds: Annotated[
        float, typer.Option(min=0.01, help="how long each measurement lasts")
    ] = DEFAULT_SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Get and Set exchanges of the management agent per second: the agent alone, and over a fabric."""
    result = bench_mad(seconds)
    if as_json:
        print_json(result)
        return
    rows = [(row["exchange"], row["where"], f"{row['per_second']:,.0f}") for row in result["figures"]]
    print_table(("exchange", "where", "per second"), rows)


app.command(epilog="Example: opavnic bench em --vports 1000 --json")(em)
