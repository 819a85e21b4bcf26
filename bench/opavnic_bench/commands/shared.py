"""What the commands `opavnic bench NAME` share: options, progress, plots, and what a benchmark needs of the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hfi_sim.base.errors import HfiSimError
from hfi_sim.base.quantities import time_within
from opavnic.base.errors import OpavnicError
from opavnic.base.signals import interruptible
from opavnic.cli.base.common import quantity
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_rich

if TYPE_CHECKING:
    from opavnic_bench.base.turns import Progress


def _whole_seconds(value: object) -> int:
    """Return a time that iperf3 can measure for."""
    seconds = quantity(time_within("1s", "1m"))(value)
    if seconds != int(seconds):
        raise typer.BadParameter(f"{value!r} is not a whole number of seconds such as 1s, 10s or 1m")
    return int(seconds)


Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Measure only this; may be repeated.")
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the figures.")]
Rounds = Annotated[int, typer.Option(min=1, max=50, help="Rounds; the results are medians.")]
WholeSeconds = Annotated[
    Any,
    typer.Option(
        parser=_whole_seconds, metavar="TIME", help="How long each throughput is measured: 1s to 1m."
    ),
]
Beside = Annotated[
    str | None,
    typer.Option(
        "--beside",
        metavar="PROGRAM",
        help="The `opavnic` of another installation, measured in turns with this one.",
    ),
]


@contextmanager
def measuring(*errors: type[Exception]) -> Iterator[Progress]:
    """Show progress if stderr is a terminal; end with one line if measuring fails.

    A signal unwinds what it interrupts, so every namespace is removed.

    Args:    errors: that are failures of the measurement, besides those of opavnic and hfi_sim.
    """
    from rich.console import Console
    from rich.progress import Progress as Bar

    # without a thread that draws while something is measured
    bar = Bar(
        console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True, auto_refresh=False
    )
    task = bar.add_task("")
    failures: tuple[type[Exception], ...] = (OpavnicError, HfiSimError, *errors)

    def show(done: int, total: int, label: str) -> None:
        bar.update(task, completed=done, total=total, description=label, refresh=True)

    try:
        with interruptible(), bar:
            yield show
    except failures as error:
        fail(str(error))


def check_known(only: list[str] | None, known: set[str], what: str) -> None:
    """Fail if something that is to be measured alone is unknown."""
    if unknown := sorted(set(only or ()) - known):
        fail(f"no {what} {', '.join(unknown)} (known: {', '.join(sorted(known))})", EXIT_USAGE)


def installation_beside(path: str | None) -> tuple[str, ...] | None:
    """Return the program of another installation; fail if it is none."""
    from opavnic_bench.base.running_lab import check_program
    from opavnic_bench.base.turns import PeerError

    if path is None:
        return None
    try:
        return check_program(path)
    except PeerError as error:
        fail(f"--beside: {error}", EXIT_USAGE)


def may_make_namespaces() -> None:
    """Fail unless this process may make network namespaces and TAPs."""
    from opavnic.lab.file.errors import PrivilegeError
    from opavnic.lab.ownership.privileges import check_tun, has_capabilities

    try:
        check_tun()
    except PrivilegeError as error:
        fail(str(error))
    if not has_capabilities():
        fail("this benchmark creates network namespaces: run it as root")


def check_plot(file: Path | None) -> None:
    """Fail now rather than after minutes of measuring if a plot cannot be written."""
    if file is not None:
        _write(file, "")


def save_plot(file: Path | None, bench: str, result: Mapping[str, Any]) -> None:
    """Draw what was measured, if that is wanted."""
    if file is not None:
        from opavnic_bench.plots.plot import draw, panels

        _write(file, draw(panels(bench, result)))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}", EXIT_FAILED)


def print_skipped(skipped: dict[str, Any]) -> None:
    """Say what was left out, and why."""
    for label, reason in skipped.items():
        print_rich(f"left out: {label}: {reason}")
