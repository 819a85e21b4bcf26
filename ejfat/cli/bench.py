"""`opavnic bench ejfat`: joined through the entry point group "opavnic.bench"."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from opavnic.cli.output import print_json, print_rich, print_table, say
from opavnic.signals import interruptible


def ejfat(
    rounds: Annotated[
        int, typer.Option(min=1, max=99, help="Rounds of each measurement; medians count.")
    ] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long each round lasts.")] = 0.5,
    taps: Annotated[
        bool, typer.Option(help="Measure with real programs on TAPs too, where the right is given.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Packets and Gbit per second: the pipelines, live in a lab, stand-alone, and a plain UDP relay beside them.

    \b
    Example:
      opavnic bench ejfat --json
    """
    private, no_taps = False, "" if taps else "asked for"
    if taps:
        private, no_taps = _may_make_taps()
    # imported only now: a process with threads, which gRPC may start, can obtain nothing
    from ejfat.bench.figures import rows_for_table
    from ejfat.bench.run import bench_ejfat

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            say(f"measuring: {text}")

    with interruptible():  # unwinds, so that every namespace is removed
        result = bench_ejfat(rounds, seconds, no_taps=no_taps, private=private, progress=progress)
    if as_json:
        print_json(result)
        return
    title = f"medians of {result['rounds']} rounds of {result['seconds']:g} s"
    columns = ("what", "by", "header", "payload", "packets/s", "Gbit/s", "lost")
    print_table(columns, list(rows_for_table(result)), title=title)
    compared = ("of", "to", "payload", "ratio")
    print_table(compared, [[row[name] for name in compared] for row in result["ratios"]], title="packets/s")
    for what, why in result["skipped"].items():
        print_rich(f"left out: {what}: {why}")


def _may_make_taps() -> tuple[bool, str]:
    """Return whether this process is in namespaces of its own now, and why there can be no TAPs."""
    from opavnic.lab.errors import PrivilegeError
    from opavnic.lab.privileges import obtain

    try:
        return obtain(), ""
    except PrivilegeError as error:
        return False, str(error)
