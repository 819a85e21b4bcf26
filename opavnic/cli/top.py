"""`opavnic top`: a live view of a running lab."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from opavnic.cli.common import AsJson, LabOption, time_option
from opavnic.cli.output import Form, current_form, is_screen, print_line, print_records
from opavnic.observe.rates import Order, Rates, Sample, in_order, rates
from opavnic.observe.rates import as_json as rates_json
from opavnic.signals import followed

PLAIN_WIDTH: Final = 1000
"""Columns of tables that are not shown on a terminal: nothing is cut."""

Ask = Callable[[], Sample]


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
    as_json: AsJson = False,
) -> None:
    """Show the traffic on the VNICs and links of a running lab, per second, until Ctrl-C (or SIGTERM, SIGHUP).

    On a terminal, q quits and s changes the order; elsewhere a new table is printed for each interval. VNIC rates count
    the bits of Ethernet frames without FCS, link rates those of 16B packets. Drop counters that grew are listed below.
    --json prints one object for each interval, on one line.

    \b
    Example:
      opavnic top
      opavnic top -i 5s --sort load
      opavnic top -c 1 --json
    """
    with suppress(KeyboardInterrupt), followed():
        ask = _asker(lab)
        if not as_json and current_form() is Form.TABLE and is_screen():
            _show_live(ask, interval, count, order)
            return
        show = _print_json if as_json else _print_csv if current_form() is Form.CSV else _print_plain
        for found in _intervals(ask, lambda: _pause(interval), count):
            show(in_order(found, order))


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
    print_line(json.dumps(rates_json(found, time.time())), flush=True)


def _print_csv(found: Rates) -> None:
    data = rates_json(found, time.time())
    print_records(data["vnics"])
    print_records(data["links"])


def _print_plain(found: Rates) -> None:
    """Print tables without terminal control sequences, and an empty line."""
    from rich.console import Console

    from opavnic.cli.top_view import TopView

    console = Console(
        width=PLAIN_WIDTH, color_system=None, force_terminal=False, highlight=False, emoji=False
    )
    console.print(TopView(found))
    print(flush=True)
