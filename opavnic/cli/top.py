"""`opavnic top`: a live view of a running lab."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from opavnic.cli.common import LabOption, time_option
from opavnic.cli.output import print_line
from opavnic.observe.rates import Order, Rates, Sample, as_json, in_order, rates
from opavnic.signals import followed

PLAIN_WIDTH: Final = 1000
"""Columns of tables that are not shown on a terminal: nothing is cut."""

Ask = Callable[[], Sample]


def top(
    lab: LabOption = None,
    delay: Annotated[
        Any, time_option("-d", "--delay", low="10ms", high="24h", help="Time between two polls: 500ms, 5s.")
    ] = "1s",
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="End after this many intervals.")
    ] = None,
    order: Annotated[
        Order, typer.Option("-s", "--sort", help="Order of the rows: by name, or busiest first.")
    ] = Order.NAME,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each interval.")
    ] = False,
) -> None:
    """Show the traffic on the VNICs and links of a running lab, per second, until Ctrl-C (or SIGTERM, SIGHUP).

    On a terminal, q quits and s changes the order; elsewhere a new table is printed for each interval. VNIC rates count
    the bits of Ethernet frames without FCS, link rates those of 16B packets. Drop counters that grew are listed below.

    \b
    Example:
      opavnic top
      opavnic top -d 5s -s load
      opavnic top -n 1 --json
    """
    with suppress(KeyboardInterrupt), followed():
        ask = _asker(lab)
        if not json_lines and _is_screen():
            _show_live(ask, delay, count, order)
            return
        show = _print_json if json_lines else _print_plain
        for found in _intervals(ask, lambda: _pause(delay), count):
            show(in_order(found, order))


def _is_screen() -> bool:
    """Return whether stdout is a terminal that can redraw."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def _asker(lab: str | None) -> Ask:
    """Return a function that polls one lab; it raises LabError once that lab has ended."""
    from opavnic.lab.client import LabClient
    from opavnic.lab.errors import LabError
    from opavnic.lab.runtime import running_lab

    directory, journal = running_lab(lab)
    client = LabClient(directory.control_socket)

    def ask() -> Sample:
        try:
            sample = Sample.from_status(client.get("/status"))
        except ValueError as error:
            raise LabError(f"lab {journal.lab} was started by another version of opavnic: {error}") from error
        except LabError as error:
            if directory.running and not isinstance(error.__cause__, ConnectionError | FileNotFoundError):
                raise
            raise LabError(f"lab {journal.lab} has ended") from error
        if sample.pid != journal.pid:
            raise LabError(f"lab {journal.lab} has ended; another one of that name runs (pid {sample.pid})")
        return sample

    return ask


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


def _show_live(ask: Ask, delay: float, count: int | None, order: Order) -> None:
    """Show a live view; if `count` ends it, the last tables stay on the terminal."""
    from opavnic.cli.top_screen import Picture, Screen

    first = ask()
    with Screen() as screen:
        picture = Picture(screen, delay, order, rates(first, first, delay))
        for found in _intervals(ask, picture.wait, count):
            picture.found = found
    if not picture.left:
        _print_plain(in_order(picture.found, picture.order))


def _print_json(found: Rates) -> None:
    print_line(json.dumps(as_json(found, time.time())), flush=True)


def _print_plain(found: Rates) -> None:
    """Print tables without terminal control sequences, and an empty line."""
    from rich.console import Console

    from opavnic.cli.top_view import TopView

    console = Console(
        width=PLAIN_WIDTH, color_system=None, force_terminal=False, highlight=False, emoji=False
    )
    console.print(TopView(found))
    print(flush=True)
