"""The terminal output of the demonstration: a live table while it runs, and a summary at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ejfat.demo.run import WORKERS, DemoState, EjfatDemoResult
from hfi_sim.base.text import visible
from opavnic.cli.base.output import print_rich, print_table

_BAR = 16
"""Characters of a bar for half of all slots: the table fits 80 columns."""


@contextmanager
def live_view() -> Iterator[Callable[[DemoState], None]]:
    """Yield a function that shows a state by updating a table in place."""
    with Live(console=Console(stderr=True), refresh_per_second=8) as live:
        yield lambda state: live.update(_table(state))


def _table(state: DemoState) -> Table:
    title = (
        f"{state.phase}: tick {state.tick}, {state.events} events, {state.epochs} epochs, {state.split} split"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("worker", "weight", "of 512 slots", "share", "queue", "parts"):
        table.add_column(column, no_wrap=True, justify="left" if column in ("worker", "share") else "right")
    for name, weight, slots, fill, delivered, alive in state.rows:
        bar = "#" * round(_BAR * slots / 256)
        shown = name if alive else f"{name} (killed)"
        table.add_row(shown, f"{weight:.0f}", str(slots), bar, f"{fill:4.0%}", str(delivered))
    return table


def summary(result: EjfatDemoResult) -> None:
    """Print the result of the run."""
    phases = list(result.shares)
    rows = [[name, *(f"{result.shares[phase][name]:.1%}" for phase in phases)] for name in WORKERS]
    print_table(("share of events", *phases), rows)
    print_rich(
        f"{result.events} events, {result.packets} packets, {result.epochs} epochs; {result.split_events} split, "
        f"{result.lost_events} lost outside the killed worker ({result.lost_at_killed} parts at it)"
    )
    for problem in result.problems:
        print_rich(Text(visible(problem), "red"))
    print_rich(f"demo {'passed' if result.ok else 'FAILED'}")
