"""`opavnic top`: a live view of a running lab."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opavnic.base.signals import followed
from opavnic.cli.base.common import AsJson, LabOption, time_option
from opavnic.cli.base.output import Form, current_form, is_screen, print_line, print_records
from opavnic.observe.rates import Order, Rates, in_order, rates
from opavnic.observe.rates import as_json as rates_json

if TYPE_CHECKING:
    from opavnic.cli.top.lab import TopLab
    from opavnic.state.lab import LabState

PLAIN_WIDTH: Final = 1000
"""Columns of tables that are not shown on a terminal: nothing is cut."""

Ask = Callable[[], "LabState"]


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
    VNIC or the virtual lanes of a link; f sets a fault, x cuts a link, d removes faults; ? lists the keys, q quits.
    Elsewhere tables are printed for each interval, and --json prints one object for each, on one line. A table of more
    than 64 rows lists what is not up and what is busiest; --all, -o csv and --json list everything. VNIC rates count
    the bits of Ethernet frames without FCS, link rates and flows those of 16B packets.

    \b
    Example:
      opavnic top
      opavnic top -i 5s --sort load
      opavnic top -c 1 --json
    """
    with suppress(KeyboardInterrupt), followed():
        from opavnic.cli.top.lab import TopLab

        looked_at = TopLab(lab)
        if not as_json and current_form() is Form.TABLE and is_screen():
            _show_live(looked_at, interval, count, order, whole)
            return
        plain = partial(_print_plain, whole=whole)
        show = _print_json if as_json else _print_csv if current_form() is Form.CSV else plain
        for found in _intervals(looked_at.state, lambda: _pause(interval), count):
            show(in_order(found, order))


def _intervals(ask: Ask, wait: Callable[[], bool], count: int | None) -> Iterator[Rates]:
    """Yield the rates of each interval as it ends.

    Args:  wait: waits for one interval and returns whether to go on. count: number of intervals; None: no limit.
    """
    before = ask()
    number = 0
    while number != count and wait():
        after = ask()
        yield rates(before, after, after.uptime_s - before.uptime_s)
        before = after
        number += 1


def _pause(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _show_live(lab: TopLab, delay: float, count: int | None, order: Order, whole: bool) -> None:
    """Show a live view; if `count` ends it, the last tables stay on the terminal."""
    from opavnic.cli.top.picture import Picture
    from opavnic.cli.top.screen import Screen

    first = lab.state()
    with (
        Screen() as screen,
        closing(Picture(screen, lab, delay, order, rates(first, first, delay))) as picture,
    ):
        for found in _intervals(lab.state, picture.wait, count):
            picture.take(found)
    if not picture.state.has_ended:
        _print_plain(in_order(picture.found, order), whole=whole)


def _print_json(found: Rates) -> None:
    print_line(json.dumps(rates_json(found, time.time())), flush=True)


def _print_csv(found: Rates) -> None:
    data = rates_json(found, time.time())
    print_records(data["vnics"])
    print_records(data["links"])


def _print_plain(found: Rates, *, whole: bool) -> None:
    """Print tables without terminal control sequences, and an empty line."""
    from rich.console import Console

    from opavnic.cli.top.view import TopView

    console = Console(
        width=PLAIN_WIDTH, color_system=None, force_terminal=False, highlight=False, emoji=False
    )
    console.print(TopView(found, whole))
    print(flush=True)
