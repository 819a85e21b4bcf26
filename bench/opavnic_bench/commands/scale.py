"""The command `opavnic bench scale`: options, progress, and what is printed."""

from __future__ import annotations

from typing import Annotated

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.output import EXIT_USAGE, fail, pick, print_json, print_table
from opavnic_bench.commands.shared import Plot, check_plot, measuring, save_plot


def scale(
    ports: Annotated[
        list[int] | None,
        typer.Option("--ports", min=20, max=16_384, help="HFI ports of a fat tree; may be repeated."),
    ] = None,
    vports: Annotated[
        int, typer.Option("--vports", min=1, max=10, help="VNICs of each port: 1, or several of 10000 ports.")
    ] = 1,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """A fat tree of thousands of ports in virtual time: SM sweeps, EM converges, changes, restarts, fails over.

    Without --ports, it measures 1000, 3000 and 10000, which takes minutes.

    \b
    Example:
      opavnic bench scale --ports 1000 --json
    """
    from opavnic_bench.cluster.scale import COLUMNS, bench_scale, members_of_each

    sizes = ports or [1000, 3000, 10_000]
    for size in sizes:
        if size * vports % (members := members_of_each(vports)) or size <= members:
            what = "its VNICs are" if vports > 1 else "it is"
            fail(
                f"--ports {size}: too few, or {what} not a multiple of {members}, the members of each virtual switch",
                EXIT_USAGE,
            )
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_scale(sizes, progress, vports=vports)
    save_plot(plot_file, "scale", result)
    if as_json:
        print_json(result)
        return
    print_table(COLUMNS, [pick(row, *COLUMNS) for row in result["runs"]])
    if growth := result["growth"]:
        columns = list(growth[0])
        print_table(columns, [pick(row, *columns) for row in growth], title="power of the number of ports")
