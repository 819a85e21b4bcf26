"""A package from outside that brings a part: what tests of the entry-point group `opavnic.parts` install."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hfi_sim.base.entry_points import all_entry_points
from opavnic.base.packages import log_packages
from opavnic.world.part import installed_parts

CODE: Final = '''
"""Weather over a lab: a part of a package that opavnic does not know."""

import contextlib
import logging

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from opavnic.world.part import Part, RunningPart
from vema.em.desired.problems import Problem

log = logging.getLogger("weather.report")
ended = []


class Clouds(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    cover: int = 8
    over: str | None = None


class Roof(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tiles: int = 100


class Weather(Part):
    lab_section = Clouds
    host_section = Roof
    log_names = ("weather", "barometer")

    def check(self, asked):
        if asked.section is not None and asked.section.over not in (None, *asked.plan.hosts):
            yield Problem(("weather", "over"), f"no host {asked.section.over} to rain on")

    @contextlib.asynccontextmanager
    async def start(self, world, asked):
        log.info("clouds over %s", ", ".join(world.hosts))
        logging.getLogger("barometer").info("it falls")
        yield Running(world, asked)
        ended.append(asked.section.cover)
        if asked.section.cover == 13:
            raise RuntimeError("it never ends")


class Running(RunningPart):
    def __init__(self, world, asked):
        self.world = world
        self.asked = asked

    def status(self):
        return {"cover": self.asked.section.cover, "roofs": {n: r.tiles for n, r in self.asked.hosts.items()}}

    def routes(self):
        return [web.get("/weather", self.get)]

    async def get(self, request):
        lids = {host.name: host.ports[0].lid for host in self.world.hosts.values()}
        return web.json_response({**self.status(), "lids": lids, "draw": self.world.rng("rain").random()})


weather = Weather("weather")
'''


def install(place: Path) -> None:
    """Install the package `weather` in a directory that is, or will be, on the path of modules."""
    describe(place, "weather", "1.0", {"weather": "weather:weather"})
    (place / "weather.py").write_text(CODE, encoding="utf-8")


def forget() -> None:
    """Have the program look again for what is installed."""
    all_entry_points.cache_clear()
    log_packages.cache_clear()
    installed_parts.cache_clear()


def describe(place: Path, name: str, version: str, parts: Mapping[str, str]) -> None:
    """Write what pip writes of a distribution: its name and version, and its entry points in `opavnic.parts`."""
    info = place / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    points = "".join(f"{part} = {value}\n" for part, value in parts.items())
    (info / "entry_points.txt").write_text(f"[opavnic.parts]\n{points}", encoding="utf-8")


LAB: Final = """
name: wet
hosts: {h1: {weather: {tiles: 7}}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
weather:
  cover: 3
  over: h1
"""
