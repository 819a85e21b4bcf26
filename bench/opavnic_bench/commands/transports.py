"""The commands `opavnic bench transport` and `opavnic bench scale`: options, progress, and what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from opavnic.cli.base.common import AsJson, time_option
from opavnic.cli.base.output import EXIT_USAGE, fail, pick, print_json, print_table
from opavnic_bench.commands.one_machine import Plot, check_plot, measuring, print_skipped, save_plot


def transport(
    seconds: Annotated[
        Any, time_option(low="10ms", high="10s", help="How long each batch size is measured: 500ms, 2s.")
    ] = "500ms",
    sizes: Annotated[
        list[int] | None,
        typer.Option("--size", min=1, max=9216, help="Bytes of a packet; may be repeated; 128, 1500, 9000."),
    ] = None,
    crate: Annotated[
        Path | None,
        typer.Option(
            metavar="PROGRAM", help="Also measure this build of bench/zenoh-rs: Zenoh without Python."
        ),
    ] = None,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Trains of 1 to 64 packets between two processes by Zenoh: packets per second, Gbit per second, round trips.

    \b
    Example:
      opavnic bench transport --size 1500 --json
    """
    from opavnic_bench.cluster.transport import COLUMNS, SIZES, bench_transport

    check_plot(plot_file)
    with measuring() as progress:
        result = bench_transport(seconds, sizes=sizes or SIZES, crate=crate, progress=progress)
    save_plot(plot_file, "transport", result)
    if as_json:
        print_json(result)
        return
    print_table(COLUMNS, [pick(row, *COLUMNS) for row in result["runs"]])
    print_skipped(result["skipped"])


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
