"""The command `opavnic bench up`: options, progress, and what is printed."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, pick, print_json, print_table
from opavnic_bench.commands.shared import (
    Beside,
    Plot,
    check_plot,
    installation_beside,
    may_make_namespaces,
    measuring,
    print_skipped,
    save_plot,
)

LARGEST: Final = 4000
"""Hosts on one virtual switch."""


def up(
    hosts: Annotated[
        str, typer.Option(metavar="N,N,...", help="Start labs of so many hosts on one virtual switch.")
    ] = "64,256,1000",
    commands: Annotated[bool, typer.Option(help="Also ask each lab with status, top, ps and others.")] = True,
    beside: Beside = None,
    as_json: AsJson = False,
    plot_file: Plot = None,
) -> None:
    """Start labs of many hosts: seconds and processor seconds by phase, memory, seconds of each command.

    Beside each stands the floor of the kernel: as many namespaces with a veth each, made by `ip -batch`. Needs root.
    With --beside, the other installation starts the labs instead.

    \b
    Example:
      opavnic bench up --hosts 64,256,1000 --json
    """
    from opavnic_bench.base.running_lab import OWN
    from opavnic_bench.labs.up import COLUMNS, bench_up

    sizes = [int(word) if word.strip().isdecimal() else 0 for word in hosts.split(",")]
    if not all(2 <= size <= LARGEST for size in sizes):
        fail(
            f'--hosts "{hosts}" is not a list of numbers from 2 to {LARGEST}, such as 64,256,1000', EXIT_USAGE
        )
    program = installation_beside(beside) or OWN
    may_make_namespaces()
    check_plot(plot_file)
    with measuring() as progress:
        result = bench_up(sizes, program=program, commands=commands, progress=progress)
    save_plot(plot_file, "up", result)
    if as_json:
        print_json(result)
    else:
        print_table(COLUMNS, [pick(run, *COLUMNS) for run in result["runs"]])
        for run in result["runs"]:
            for what in ("phases", "commands"):
                if rows := [(name, *spent.values()) for name, spent in run[what].items()]:
                    columns = ("seconds", "processor_s", "lab_processor_s")[: len(rows[0]) - 1]
                    print_table((what, *columns), rows, title=f"{run['hosts']} hosts")
        print_skipped(result["skipped"])
    if not result["runs"]:
        raise typer.Exit(EXIT_FAILED)
