"""`opavnic top`: a live view of a running lab."""

from __future__ import annotations

import json
import time
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opavnic.base.signals import followed
from opavnic.cli.base.common import AsJson, LabOption, time_option
from opavnic.cli.base.output import (
    Form,
    current_form,
    is_screen,
    print_line,
    print_records,
    print_table,
    wrong,
)
from opavnic.observe.rates import Order, Rates, in_order
from opavnic.observe.rates import as_json as rates_json

if TYPE_CHECKING:
    from opavnic.cli.top.lab import TopLab

ROWS_SHOWN: Final = 64
"""Rows of a printed table that lists everything. A longer one lists what is not up and what is busiest."""


def top(
    lab: LabOption = None,
    interval: Annotated[
        Any,
        time_option("-i", "--interval", low="10ms", high="24h", help="Time between two polls: 500ms, 5s."),
    ] = "1s",
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=1, help="End after this many intervals.")
    ] = None,
    order: Annotated[
        Order, typer.Option("--sort", help="Order of the rows: by name, or busiest first.")
    ] = Order.NAME,
    whole: Annotated[
        bool, typer.Option("-a", "--all", help="List every VNIC and link, however many there are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the traffic on the VNICs and links of a running lab, per second, until Ctrl-C (or SIGTERM, SIGHUP).

    On a terminal: VNICs, links, drops and faults, sorted by any column (< >), filtered (/); Enter opens the flows of a
    VNIC or the virtual lanes of a link; f sets a fault, x cuts a link, d removes faults; ? lists the keys, q quits. Of
    more than 60 hosts, those of a switch are one row until Enter. With -c, and elsewhere, tables are printed for each
    interval, and --json prints one object for each, on one line. A table of more than 64 rows lists what is not up and
    what is busiest; --all, -o csv and --json list everything. VNIC rates count the bits of Ethernet frames without FCS,
    link rates and flows those of 16B packets.

    \b
    Example:
      opavnic top
      opavnic top -i 5s --sort load
      opavnic top -c 1 --json
    """
    with suppress(KeyboardInterrupt), followed():
        from opavnic.cli.top.lab import TopLab

        looked_at = TopLab(lab)
        if not as_json and count is None and current_form() is Form.TABLE and is_screen():
            _show_live(looked_at, interval, order, whole)
            return
        tables = partial(_print_tables, whole=whole)
        show = _print_json if as_json else _print_csv if current_form() is Form.CSV else tables
        looked_at.rates()
        number = 0
        while number != count:
            _pause(interval)
            show(in_order(looked_at.rates(), order))
            number += 1


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _show_live(lab: TopLab, interval_s: float, order: Order, whole: bool) -> None:
    from opavnic.cli.top.screen import TopScreen

    with closing(lab):
        TopScreen(lab, lab.look(), interval_s, order, whole=whole).run_to_end()


def _print_json(found: Rates) -> None:
    print_line(json.dumps(rates_json(found, time.time())), flush=True)


def _print_csv(found: Rates) -> None:
    data = rates_json(found, time.time())
    print_records(data["vnics"])
    print_records(data["links"])


def _print_tables(found: Rates, *, whole: bool) -> None:
    """Print the tables that have rows, and an empty line behind each."""
    from opavnic.observe.rate_tables import all_tables, head_text

    print_line(head_text(found))
    for table in all_tables(found):
        shown = table if whole else table.most_telling(ROWS_SHOWN)
        if not shown.rows:
            continue
        print_line("")
        rows = [[wrong(cell.text, cell.is_wrong) for cell in row.cells] for row in shown.rows]
        print_table(shown.columns, rows)
        if left_out := len(table.rows) - len(shown.rows):
            print_line(f"and {left_out} more {table.name}, less busy; see: opavnic top --all")
    print_line("", flush=True)
