"""The live view of `opavnic top`: it asks the lab for what is shown, draws it, and hands keys on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from opavnic.cli.top import grid as top_grid
from opavnic.cli.top.draw import draw, room_of
from opavnic.cli.top.grid import Grid
from opavnic.cli.top.lab import FlowWatch, TopLab
from opavnic.cli.top.screen import Screen
from opavnic.cli.top.state import VNICS, pressed, start
from opavnic.lab.file.errors import LabError
from opavnic.observe.flows import Flow
from opavnic.observe.rates import Order, Rates
from opavnic.state.fabric import LanesState


class Picture:
    """What a screen shows of a lab."""

    def __init__(self, screen: Screen, lab: TopLab, delay_s: float, order: Order, found: Rates) -> None:
        """Prepare; `found` is shown first."""
        self.state = start(order is Order.LOAD)
        self.found = found
        self._screen = screen
        self._lab = lab
        self._delay_s = delay_s
        self._faults = lab.faults()
        self._opened = ""
        self._detail = Grid("", ("",), ())
        self._lanes: LanesState | None = None
        self._watch: FlowWatch | None = None
        self._flows: Mapping[Flow, tuple[int, int]] = {}

    def take(self, found: Rates) -> None:
        """Take the rates of the interval that has ended."""
        self.found = found
        self._faults = self._lab.faults()
        self._look_closer(found.seconds)

    def wait(self) -> bool:
        """Show the rates for one interval and handle keys; return whether to go on."""
        end = time.monotonic() + self._delay_s
        while (left := end - time.monotonic()) > 0 and not self.state.has_ended:
            self._draw()
            for key in self._screen.wait(left):
                self._press(key)
        return not self.state.has_ended

    def close(self) -> None:
        """End what was begun for the view."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _grids(self) -> list[Grid]:
        return [
            top_grid.vnics(self.found),
            top_grid.links(self.found),
            top_grid.drops(self.found),
            top_grid.faults(self._faults),
        ]

    def _shown(self) -> Grid:
        grid = self._detail if self.state.opened else self._grids()[self.state.table]
        look = self.state.look
        return grid.arranged(look.filter, min(look.sort.column, len(grid.columns) - 1), look.sort.descending)

    def _draw(self) -> None:
        width, height = self._screen.size
        self.state, text = draw(self.state, self.found, self._grids(), self._shown(), width, height)
        self._screen.show(text)

    def _press(self, key: str) -> None:
        self.state, actions = pressed(self.state, key, self._shown(), room_of(self._screen.size[1]))
        for action in actions:
            self.state = replace(self.state, said=self._lab.do(action))
            self._faults = self._lab.faults()
        if self.state.opened != self._opened:
            self._opened = self.state.opened
            self._lanes, self._flows = None, {}
            self.close()
            self._look_closer(self._delay_s)

    def _look_closer(self, seconds: float) -> None:
        """Ask for what is opened, if anything is."""
        if not self._opened:
            return
        try:
            if self.state.table == VNICS:
                self._watch = self._watch or self._lab.flows(self._opened)
                now = self._watch.totals()
                self._detail, self._flows = top_grid.flows(now, self._flows, seconds), now
            else:
                lanes = self._lab.lanes(self._opened)
                self._detail, self._lanes = top_grid.lanes(lanes, self._lanes, seconds), lanes
        except LabError as error:
            self.state = replace(self.state, said=str(error), opened="")
            self._opened = ""
