"""The commands `opavnic bench NAME`: options, progress, and what is printed.

What measures is imported when a command runs: `ejfat` may need to be in namespaces of its own before gRPC, which starts
threads, is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from opavnic.cli.base.common import AsJson, time_option
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, pick, print_json, print_table
from opavnic_bench.commands.shared import (
    Beside,
    Only,
    Plot,
    Rounds,
    WholeSeconds,
    check_known,
    check_plot,
    installation_beside,
    may_make_namespaces,
    measuring,
    print_skipped,
    save_plot,
)
from opavnic_bench.commands.tables import print_datapath, print_links

EM_SIZES: Final = (10, 100, 1000, 10000)
FABRIC_HOSTS: Final = (128, 1024, 4096)


def mad(
    seconds: Annotated[
        Any, time_option(low="10ms", help="How long each measurement lasts: 500ms, 2s.")
    ] = "1s",
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Get and Set exchanges of the management agent per second: the agent alone, and over a fabric.

    \b
    Example:
      opavnic bench mad --json
    """
    from opavnic_bench.elements.mad import bench_mad

    check_plot(plot_file)
    with measuring() as progress:
        result = bench_mad(seconds, progress)
    save_plot(plot_file, "mad", result)
    if as_json:
        print_json(result)
        return
    rows = [(row["exchange"], row["where"], f"{row['per_second']:,.0f}") for row in result["figures"]]
    print_table(("exchange", "where", "per second"), rows)


def em(
    vports: Annotated[
        list[int] | None,
        typer.Option("--vports", help=f"Number of vports; may be repeated; {', '.join(map(str, EM_SIZES))}."),
    ] = None,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Configure a whole fabric in memory, take one member away, restart the manager: time, MADs, memory.

    \b
    Example:
      opavnic bench em --vports 1000 --json
    """
    from opavnic_bench.elements.em import COLUMNS, MEMBERS, bench_em

    sizes = tuple(vports or EM_SIZES)
    for size in sizes:
        if size < MEMBERS or size % MEMBERS or size > 4095 * MEMBERS:
            fail(f"--vports {size}: a multiple of {MEMBERS}, from {MEMBERS} to {4095 * MEMBERS}", EXIT_USAGE)
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_em(sizes, progress)
    save_plot(plot_file, "em", result)
    if as_json:
        print_json(result)
    else:
        print_table(COLUMNS, [pick(run, *COLUMNS) for run in result["runs"]])


def fabric(
    seconds: Annotated[
        Any, time_option(low="10ms", help="How long each packet measurement lasts: 500ms, 2s.")
    ] = "1s",
    hosts: Annotated[
        list[int] | None,
        typer.Option(
            min=2, help="Hosts of a fat tree to route; may be repeated. With --beside none, if not asked for."
        ),
    ] = None,
    rounds: Rounds = 1,
    beside: Beside = None,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Packets per second over 1, 3 and 5 switches; time to route fat trees; memory per host.

    \b
    Example:
      opavnic bench fabric --json
    """
    from opavnic_bench.elements.fabric import bench_fabric

    other = installation_beside(beside)
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_fabric(
            seconds,
            tuple(hosts or (FABRIC_HOSTS if beside is None else ())),  # nothing of trees is compared
            rounds=rounds,
            beside=other,
            progress=progress,
        )
    save_plot(plot_file, "fabric", result)
    if as_json:
        print_json(result)
        return
    line = ("hops", "time", "engine", "endpoints")
    print_table(
        ("switches", *line[1:], "packets/s"),
        [pick(row, *line, "packets_per_second") for row in result["hops"]],
    )
    if beside is not None:
        print_table(
            ("switches", *line[1:], "packets/s to its Python engine's"),
            [pick(row, *line, "ratio") for row in result["ratio_to_beside"]],
            title="relative to the installation beside",
        )
    if result["routing"]:
        columns = ("hosts", "switches", "engine", "build s", "route s", "bytes/host")
        print_table(columns, [list(one.values()) for one in result["routing"]])
    print_skipped(result["skipped"])


def engine(
    workers: Annotated[
        str, typer.Option(metavar="N,N,...", help="Measure with this many workers; ratios are to the first.")
    ] = "1,2",
    seconds: Annotated[
        Any, time_option(low="10ms", high="1m", help="How long each round lasts: 500ms, 2s.")
    ] = "200ms",
    rounds: Annotated[int, typer.Option(min=1, max=99, help="Rounds; the results are medians.")] = 15,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Packets per second of the native engine with several workers, in this process and without a kernel.

    Beside them stands the ceiling: what as many threads do that share nothing.

    \b
    Example:
      opavnic bench engine --workers 1,2 --json
    """
    from opavnic_bench.elements.engine import COLUMNS, MOST_WORKERS, RATIO_COLUMNS, bench_engine

    counts = [int(word) if word.strip().isdecimal() else 0 for word in workers.split(",")]
    if not all(1 <= count <= MOST_WORKERS for count in counts):
        fail(
            f'--workers "{workers}" is not a list of numbers from 1 to {MOST_WORKERS}, such as 1,2',
            EXIT_USAGE,
        )
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_engine(counts, seconds, rounds, progress)
    save_plot(plot_file, "engine", result)
    if as_json:
        print_json(result)
        return
    title = f"medians of {result['rounds']} rounds, {result['machine']['cpus']} processors"
    print_table(COLUMNS, [pick(row, *COLUMNS) for row in result["runs"]], title=title)
    print_table(RATIO_COLUMNS, [pick(row, *RATIO_COLUMNS) for row in result["ratios"]], title="packets/s")


def lnet(
    as_json: AsJson = False,
    hfis: Annotated[int, typer.Option("--hfis", min=1, max=16, help="Largest number of HFIs.")] = 4,
    seconds: Annotated[
        Any, time_option(low="1ns", high="10s", help="Virtual time of each run: 20ms, 1s.")
    ] = "20ms",
    compare: Annotated[
        bool,
        typer.Option(help="Also compare bonding with Multi-Rail, and measure CPU time by number of peers."),
    ] = True,
    plot_file: Plot = None,
) -> None:
    """LNet between two hosts with several HFIs, over links of 10 Gb/s in virtual time.

    Throughput by number of HFIs; channel bonding, weighted bonding and Multi-Rail over unequal links and under the same
    faults; CPU time of a message by number of peers.

    \b
    Example:
      opavnic bench lnet --json
    """
    from opavnic_bench.lnet.bench import bench_lnet

    check_plot(plot_file)
    with measuring() as progress:
        result = bench_lnet(range(1, hfis + 1), seconds, progress, compare=compare)
    save_plot(plot_file, "lnet", result)
    if as_json:
        print_json(result)
        return
    rows = [(run["hfis"], run["virtual_gbps"], run["real_gbps"]) for run in result["runs"]]
    print_table(("HFIs", "virtual Gb/s", "real Gb/s"), rows, "LNet over bonded HFIs, 1 MiB messages")
    if not compare:
        return
    shapes = [tuple(run.values()) for run in result["shapes"]]
    print_table(("shape", "bonding", "virtual Gb/s", "failed"), shapes, "Unequal links, 1 MiB messages")
    faults = [tuple(run.values()) for run in result["faults"]]
    header = (
        "fault",
        "load",
        "bonding",
        "messages",
        "failed",
        "in doubt",
        "over 10 ms",
        "of these 9 s later",
        "worst s",
    )
    print_table(header, faults, "2 to 2 HFIs under one fault")
    cpu = [tuple(run.values()) for run in result["cpu"]]
    print_table(("peers", "us for a message"), cpu, "CPU time")


def ejfat(
    rounds: Annotated[
        int, typer.Option(min=1, max=99, help="Rounds of each measurement; medians count.")
    ] = 3,
    seconds: Annotated[Any, time_option(low="10ms", help="How long each round lasts: 500ms, 2s.")] = "500ms",
    taps: Annotated[
        bool, typer.Option(help="Also measure real programs on TAPs, if this user may create them.")
    ] = True,
    changes: Annotated[
        int, typer.Option(min=100, max=100_000, help="Reservations and registrations to measure.")
    ] = 1000,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Packets and Gbit per second of the pipelines, of labs, of the stand-alone program, and of a plain UDP relay.

    \b
    Example:
      opavnic bench ejfat --json
    """
    private, no_taps = False, "" if taps else "asked for"
    if taps:
        private, no_taps = _may_make_taps()
    from ejfat.base.errors import EjfatError
    from opavnic_bench.ejfat.bench import bench_ejfat
    from opavnic_bench.ejfat.figures import rows_for_table

    check_plot(plot_file)
    with measuring(EjfatError) as progress:
        result = bench_ejfat(
            rounds, seconds, no_taps=no_taps, private=private, changes=changes, progress=progress
        )
    save_plot(plot_file, "ejfat", result)
    if as_json:
        print_json(result)
        return
    title = f"medians of {result['rounds']} rounds of {result['seconds']:g} s"
    columns = ("what", "by", "header", "payload", "packets/s", "Gbit/s", "lost", "ns/packet")
    print_table(columns, list(rows_for_table(result)), title=title)
    compared = ("of", "to", "payload", "ratio")
    print_table(compared, [pick(row, *compared) for row in result["ratios"]], title="packets/s")
    costs = [
        (row["what"], row["seconds_per_100"][0], row["seconds_per_100"][-1], row["last_to_first"])
        for row in result["control"]
    ]
    title = f"{changes} changes of the control plane, each stored; seconds per 100"
    print_table(("what", "first", "last", "processor time, last to first"), costs, title=title)
    print_skipped(result["skipped"])


def _may_make_taps() -> tuple[bool, str]:
    """Return whether this process has moved into private namespaces, and why TAPs are not available."""
    from opavnic.lab.file.errors import PrivilegeError
    from opavnic.lab.ownership.privileges import obtain

    try:
        return obtain(), ""
    except PrivilegeError as error:
        return False, str(error)


def datapath(
    as_json: AsJson = False,
    plot_file: Plot = None,
    rounds: Rounds = 3,
    seconds: WholeSeconds = "1s",
    only: Only = None,
    beside: Beside = None,
    vports: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="Measure only the native cost of a packet with this many VNICs."
        ),
    ] = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Measure only hosts that are kernels, beside TAPs.")
    ] = False,
) -> None:
    """TCP, small UDP packets and round trips of each datapath and each peer, measured in turns; medians of the rounds.

    Needs root and iperf3; `make bench-peers` installs the peers. The default run takes less than five minutes.
    With --vports 2,64,512 the native datapath carries small frames among so many TAPs instead; with --kernels hosts are
    kernels with VNICs of opa_vnic, or with IPoIB and verbs of hfi1 (`opavnic kernel build`; Debian: ibverbs-utils).

    \b
    Example:
      opavnic bench datapath --json --plot datapath.svg
    """
    from opavnic_bench.datapath.bench import bench_datapath
    from opavnic_bench.datapath.peers import variants

    check_known(only, {variant.name for variant in variants()}, "variant")
    other = installation_beside(beside)
    may_make_namespaces()
    if vports is not None:
        _vports(vports, as_json, plot_file)
        return
    check_plot(plot_file)
    if kernels:
        _kernels(rounds, seconds, as_json, plot_file)
        return
    with measuring() as progress:
        result = bench_datapath(rounds, seconds, only=only or (), beside=other, progress=progress)
    save_plot(plot_file, "datapath", result.as_json())
    if as_json:
        print_json(result.as_json())
    else:
        print_datapath(result)
    if not result.rows():
        raise typer.Exit(EXIT_FAILED)


def links(
    as_json: AsJson = False,
    plot_file: Plot = None,
    rounds: Rounds = 3,
    seconds: WholeSeconds = "1s",
    only: Only = None,
) -> None:
    """TCP and round trips over links that are slow, far, lossy, shared or looked at, beside the kernel's tbf on a veth.

    Needs root, iperf3 and tc. Each case shows that it is what it says (`proof`); the exit status is 1 if one is not.

    \b
    Example:
      opavnic bench links --json --rounds 3 --seconds 2s
    """
    from opavnic_bench.links.bench import bench_links
    from opavnic_bench.links.cases import subjects

    check_known(only, {subject.name for subject in subjects()}, "case")
    may_make_namespaces()
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_links(rounds, seconds, only=only or (), progress=progress)
    save_plot(plot_file, "links", result.as_json())
    if as_json:
        print_json(result.as_json())
    else:
        print_links(result)
    if not result.proven:
        raise typer.Exit(EXIT_FAILED)


def web(
    as_json: AsJson = False,
    plot_file: Plot = None,
    rounds: Rounds = 7,
    seconds: WholeSeconds = "1s",
) -> None:
    """What it costs to look: the datapath with the web view open and closed, a page of 200 hosts, a scrape.

    Needs root, iperf3, Chromium and playwright. A ratio is the median of those of neighbouring turns, open to closed:
    with a browser on this machine, and with a page that is open elsewhere, for which no browser runs here.

    \b
    Example:
      opavnic bench web --json
    """
    from opavnic_bench.web.bench import bench_web, web_rows

    may_make_namespaces()
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_web(rounds, seconds, progress)
    save_plot(plot_file, "web", result)
    if as_json:
        print_json(result)
        return
    print_table(("what", "figure"), web_rows(result), title=f"{result['rounds']} turns")


def _vports(text: str, as_json: bool, plot_file: Path | None) -> None:
    from opavnic_bench.datapath.vports import LARGEST, bench_vports

    counts = [int(word) if word.strip().isdecimal() else 0 for word in text.split(",")]
    if not all(2 <= count <= LARGEST for count in counts):
        fail(f'--vports "{text}" is not a list of numbers from 2 to {LARGEST}, such as 2,64,512', EXIT_USAGE)
    with measuring(OSError) as progress:
        result = bench_vports(counts, progress)
    save_plot(plot_file, "vports", result)
    if as_json:
        print_json(result)
    else:
        columns = ("vports", "ns_per_packet", "packets")
        print_table(columns, [pick(row, *columns) for row in result["results"]])


def _kernels(rounds: int, seconds: int, as_json: bool, plot_file: Path | None) -> None:
    from opavnic_bench.datapath.kernels import COLUMNS, bench_kernels

    with measuring() as progress:
        result = bench_kernels(rounds, seconds, progress)
    save_plot(plot_file, "kernels", result)
    if as_json:
        print_json(result)
    else:
        title = f"medians of {result['rounds']} rounds, Linux {result['kernel']}"
        print_table(COLUMNS, [pick(row, *COLUMNS) for row in result["runs"]], title=title)
        print_skipped(result["skipped"])
