"""`opavnic bench datapath`: our datapaths beside the peers that are installed here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from opavnic.bench.datapath import ROUNDS, SECONDS, BenchResult, bench_datapath
from opavnic.bench.datapath_peers import variants
from opavnic.bench.datapath_plot import plot
from opavnic.cli.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_rich, print_table, say
from opavnic.signals import interruptible

_COLUMNS = ("variant", "mtu", "icrc", "tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50", "rtt_us_p99")
_COSTS = ("cpu_s_per_gb", "peak_mib")
_RATIOS = ("native_to", "mtu", "icrc", "tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50")


def datapath(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="draw the figures")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="rounds, of which the median counts")] = ROUNDS,
    seconds: Annotated[
        int, typer.Option(min=1, max=60, help="how long each throughput is measured")
    ] = SECONDS,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="VARIANT", help="measure these alone; repeatable")
    ] = None,
    vports: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="measure what a packet costs natively with so many VNICs, alone"
        ),
    ] = None,
) -> None:
    """TCP, small UDP packets and round trips of each datapath and each peer, in turns, medians of the rounds.

    Needs root and iperf3; `make bench-peers` installs the peers. The default run takes less than five minutes.
    With --vports 2,64,512 the native datapath carries small frames among so many TAPs instead.
    """
    from opavnic.lab.errors import PrivilegeError
    from opavnic.lab.privileges import check_tun, has_capabilities

    known = sorted({variant.name for variant in variants()})
    if unknown := sorted(set(only or ()) - set(known)):
        fail(f"no variant {', '.join(unknown)} (known: {', '.join(known)})", EXIT_USAGE)
    try:
        check_tun()
    except PrivilegeError as error:
        fail(str(error))
    if not has_capabilities():
        fail("the bench makes network namespaces: run it as root")
    if vports is not None:
        with interruptible():
            _vports(vports, as_json)
        return
    if plot_file is not None:
        _write(plot_file, "")  # not only after minutes of measuring
    with interruptible():  # unwinds, so that every namespace is removed
        result = bench_datapath(rounds=rounds, seconds=seconds, only=only or (), progress=_progress)
    if plot_file is not None:
        _write(plot_file, plot(result.rows()))
    if as_json:
        print_json(result.as_json())
    else:
        _print(result)
    if not result.rows():
        raise typer.Exit(EXIT_FAILED)


def _vports(text: str, as_json: bool) -> None:
    from hfi_sim.errors import NetdevError
    from opavnic.bench.datapath_peers import PeerError
    from opavnic.bench.datapath_vports import LARGEST, VportsError, bench_vports

    counts = [int(word) if word.strip().isdecimal() else 0 for word in text.split(",")]
    if not all(2 <= count <= LARGEST for count in counts):
        fail(f'--vports "{text}" is not a list of numbers from 2 to {LARGEST}, such as 2,64,512', EXIT_USAGE)
    try:
        rows = [cost.as_row() for cost in bench_vports(counts)]
    except (VportsError, PeerError, NetdevError, OSError) as error:
        fail(str(error))
    if as_json:
        print_json({"results": rows})
    else:
        names = ("vports", "ns_per_packet", "packets")
        print_table(names, [[row[name] for name in names] for row in rows])


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}", EXIT_FAILED)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        say(text)


def _print(result: BenchResult) -> None:
    rows = result.rows()
    names = (*_COLUMNS, *_COSTS)
    title = f"medians of {result.rounds} rounds, {result.took_s:.0f} s"
    print_table(names, [[row[name] for name in names] for row in rows], title=title)
    ratios = [[ratio[name] for name in _RATIOS] for ratio in result.ratios()]
    if ratios:
        print_table(_RATIOS, ratios, title="native with an ICRC on every packet, relative to")
    for label, reason in result.skipped.items():
        print_rich(f"left out: {label}: {reason}")
