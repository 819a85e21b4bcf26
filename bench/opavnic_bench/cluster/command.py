"""The command `opavnic bench cluster`: options, progress, and what is printed."""

from __future__ import annotations

from typing import Annotated

import typer

from opavnic.cli.common import AsJson
from opavnic.cli.output import EXIT_FAILED, print_json, print_table
from opavnic_bench.commands import (
    Plot,
    Rounds,
    WholeSeconds,
    check_plot,
    may_make_namespaces,
    measuring,
    print_skipped,
    save_plot,
)


def cluster(
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Machines, the coordinator included.")] = 3,
    rounds: Rounds = 3,
    seconds: WholeSeconds = "2s",
    tls: Annotated[bool, typer.Option("--tls/--no-tls", help="Whether machines talk by TLS.")] = False,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """A lab over several machines, beside the same lab on one machine and beside VXLAN between the same namespaces.

    Needs root and iperf3. The machines are network namespaces and share the processors of this one. The exit status is
    1 if a frame is unaccounted for or a ping was lost.

    \b
    Example:
      opavnic bench cluster --nodes 3 --json
      opavnic bench cluster --tls
    """
    from opavnic_bench.cluster.bench import bench_cluster

    may_make_namespaces()
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_cluster(nodes, rounds, seconds, tls=tls, progress=progress)
    data = result.as_json()
    save_plot(plot_file, "cluster", {"subjects": result.subjects()})
    if as_json:
        print_json(data)
    else:
        columns = ("what", "cluster", "one machine", "VXLAN")
        print_table(
            columns,
            [
                ("TCP Gbit/s", data["tcp_gbps"], data["one_machine_tcp_gbps"], data["vxlan_tcp_gbps"]),
                ("RTT us", data["rtt_us_p50"], data["one_machine_rtt_us_p50"], data["vxlan_rtt_us_p50"]),
                ("TCP ratio", 1, data["tcp_to_one_machine"], data["tcp_to_vxlan"]),
            ],
        )
        print_skipped(data["skipped"])
    if result.unaccounted_frames or result.ping_loss:
        raise typer.Exit(EXIT_FAILED)
