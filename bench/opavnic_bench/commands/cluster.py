"""The command `opavnic bench cluster`: options, progress, and what is printed."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.output import EXIT_FAILED, pick, print_json, print_table
from opavnic_bench.commands.shared import (
    Plot,
    Rounds,
    WholeSeconds,
    check_plot,
    may_make_namespaces,
    measuring,
    print_skipped,
    save_plot,
)

COLUMNS: Final = {
    "what": "what",
    "tcp_gbps": "TCP Gbit/s",
    "rtt_us_p50": "RTT us",
    "cluster_to_this": "cluster, to this",
}
"""The figures of a subject in the table, and what they are called there."""


def cluster(
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Machines, the coordinator included.")] = 3,
    two: Annotated[bool, typer.Option("--two", help="Measure a cluster of two machines besides.")] = False,
    rounds: Rounds = 3,
    seconds: WholeSeconds = "2s",
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """A lab over several machines, beside TLS between them, the same lab on one machine, and VXLAN.

    Needs root and iperf3. VXLAN is between the same namespaces. The machines are network namespaces and share the
    processors of this one. The exit status is 1 if a frame is unaccounted for or a ping was lost.

    \b
    Example:
      opavnic bench cluster --nodes 3 --two --json
      opavnic bench cluster --rounds 5 --plot cluster.svg
    """
    from opavnic_bench.cluster.bench import bench_cluster

    may_make_namespaces()
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_cluster(nodes, rounds, seconds, two=two, progress=progress)
    data = result.as_json()
    save_plot(plot_file, "cluster", {"subjects": result.subjects()})
    if as_json:
        print_json(data)
    else:
        print_table(tuple(COLUMNS.values()), [pick(row, *COLUMNS) for row in result.subjects()])
        rows = [(name, *costs) for name, costs in data["processor_s_per_gb"].items() if costs]
        most = max((len(row) for row in rows), default=1)
        heads = ("processor s/GB", *(f"m{number}" for number in range(1, most)))
        print_table(heads, [(*row, *("",) * (most - len(row))) for row in rows])
        print_skipped(data["skipped"])
    if result.unaccounted_frames or result.ping_loss:
        raise typer.Exit(EXIT_FAILED)
