"""A part of labs that logs, at regular intervals, how many packets the HFI ports of the hosts have sent.

# lab file
traffic:
  every: 5s
  hosts: [h1]
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from hfi_sim.base.text import nearest
from opavnic.world.part import Part, PartRequest, PartWorld, RunningPart
from vema.base.sections import Section, Time
from vema.em.desired.problems import Problem

log = logging.getLogger("traffic_log")


class Traffic(Section):
    """The key `traffic` of a lab file."""

    every: Annotated[Time, Field(gt=0)] = 5.0
    """Time between two lines of the log."""
    hosts: list[str] = Field(default_factory=list)
    """The hosts to log; empty: all."""


class RunningTraffic(RunningPart):
    """Logs until `stop`."""

    def __init__(self, world: PartWorld, section: Traffic) -> None:
        self._clock = world.clock
        self._every_s = section.every
        self._hosts = [world.hosts[name] for name in section.hosts or world.hosts]
        self._timer = self._clock.call_later(self._every_s, self._report)

    def status(self) -> dict[str, Any]:
        """Return the packets that each host has sent."""
        return {host.name: sum(port.tx.out_packets for port in host.ports) for host in self._hosts}

    def routes(self) -> list[web.RouteDef]:
        """Return the route that answers the same on the control API."""
        return [web.get("/traffic", self._get)]

    def stop(self) -> None:
        """Log no more."""
        self._timer.cancel()

    def _report(self) -> None:
        log.info("packets sent: %s", ", ".join(f"{name} {count}" for name, count in self.status().items()))
        self._timer = self._clock.call_later(self._every_s, self._report)

    async def _get(self, _request: web.Request) -> web.Response:
        return web.json_response(self.status())


class TrafficPart(Part):
    """Starts in labs whose file has the key."""

    lab_section = Traffic

    def check(self, asked: PartRequest) -> Iterator[Problem]:
        """Refuse hosts that the lab does not have."""
        if asked.section is None:
            return
        for index, name in enumerate(asked.section.hosts):
            if name not in asked.plan.hosts:
                known = nearest(name, asked.plan.hosts)
                yield Problem(("traffic", "hosts", index), f'unknown host "{name}" ({known})')

    @contextlib.asynccontextmanager
    async def start(self, world: PartWorld, asked: PartRequest) -> AsyncIterator[RunningTraffic]:
        """Log for as long as the lab runs."""
        running = RunningTraffic(world, asked.section)
        try:
            yield running
        finally:
            running.stop()


traffic = TrafficPart("traffic")
