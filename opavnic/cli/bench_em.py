"""`opavnic bench em`: how an Ethernet Manager copes with many vports."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from opavnic.bench.em import MEMBERS, SIZES, bench_em, plans
from opavnic.cli.output import EXIT_FAILED, EXIT_USAGE, fail, pick, print_json, print_table
from opavnic.errors import OpavnicError

_COLUMNS = (
    "vports",
    "vesws",
    "policy",
    "converge_s",
    "mads",
    "sets",
    "peak_mib",
    "restart_s",
    "restart_sets",
)


def em(
    vports: Annotated[
        list[int] | None,
        typer.Option("--vports", help=f"how many; may be repeated; {', '.join(map(str, SIZES))}"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Configure a whole fabric in memory, then restart the manager: time, MADs, memory."""
    from rich.console import Console
    from rich.progress import Progress

    sizes = tuple(vports or SIZES)
    for size in sizes:
        if size < MEMBERS or size % MEMBERS or size > 4095 * MEMBERS:
            fail(f"--vports {size}: a multiple of {MEMBERS}, from {MEMBERS} to {4095 * MEMBERS}", EXIT_USAGE)
    todo = [plan for size in sizes for plan in plans(size)]
    runs = []
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("", total=sum(plan.vports for plan in todo))
        for plan in todo:
            progress.update(task, description=f"{plan.vports} vports, {plan.vesws} virtual switches")
            try:
                runs.append(bench_em(plan))
            except OpavnicError as error:
                fail(str(error), EXIT_FAILED)
            progress.advance(task, plan.vports)
    if as_json:
        print_json({"runs": runs})
    else:
        print_table(_COLUMNS, [pick(run, *_COLUMNS) for run in runs])
