"""The terminal while `opavnic status -w` runs: the status, updated in place.

It asks at intervals and follows nothing: the control API of a lab streams its log and its packets, but no changes of
its status. Most of what is shown are counts, which every packet changes, so that events would not spare the question;
how old the picture may be is what the interval says. `opavnic logs --follow` reports links, guests and uplinks at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Group
from rich.text import Text

from opavnic.cli.base.output import as_rich
from opavnic.cli.top.screen import Screen
from opavnic.cli.view.status import status_items
from opavnic.state.lab import LabState

_QUIT: Final = "q"


def watch_status(ask: Callable[[], LabState], interval_s: float, *, whole: bool = False) -> None:
    """Show what `ask` returns until the key q or a signal; it is asked again after each interval.

    Args:  whole: list everything, as for `status_items`.
    """
    with Screen() as screen:
        while True:
            picture = _picture(ask(), interval_s, whole)
            screen.show(picture)
            end = time.monotonic() + interval_s
            while (left := end - time.monotonic()) > 0:
                if _QUIT in screen.wait(left):
                    return
                screen.show(picture)


def _picture(state: LabState, interval_s: float, whole: bool) -> Group:
    lines = [line for item in status_items(state, whole=whole) for line in as_rich(item)]
    hint = Text(f"every {interval_s:g} s; q: end", "dim", no_wrap=True)
    return Group(hint, *lines)
