"""Parts run on a world and are started, shown and ended with it. A package can add its own without touching ours.

    class Weather(Part):
        lab_section = Clouds                        # the key `weather` of a lab file, a pydantic model

        @contextlib.asynccontextmanager
        async def start(self, world, asked):
            async with forecast(world.hosts, asked.section) as running:
                yield running                       # its status() and routes() show in the lab

    weather = Weather("weather")

and in its pyproject.toml, `[project.entry-points."opavnic.parts"]` with `weather = "weather.part:weather"`. Every
command that reads a lab file imports that module: import what is large in `start`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.entry_points import entry_points_of
from hfi_sim.nodes.hfi import HfiPort
from opavnic.base.errors import PartError
from opavnic.world.host_backends.backend import HostBackend
from vema.em.desired.problems import KeyPath, Problem

if TYPE_CHECKING:
    from aiohttp import web
    from pydantic import BaseModel

    from opavnic.datapath.native_thread import NativeDatapath
    from opavnic.lab.file.model import LabModel

ENTRY_POINTS: Final = "opavnic.parts"

# --- what a lab file says ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AppRequest:
    """One entry of `apps:` whose kind is the name of the part."""

    index: int
    """Its index in the list."""
    host: str
    options: Any
    """An instance of the part's `app_options`."""

    def path(self, *keys: str | int) -> KeyPath:
        """Return the path of one of its options in the lab file."""
        return ("apps", self.index, "options", *keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRequest:
    """What a lab file requests from one part."""

    plan: LabModel
    """The lab file."""
    directory: Path
    """The directory of the lab file; file names in it are relative to this."""
    section: Any = None
    """Its section at the top of the file, an instance of the part's `lab_section`; None if the file has none."""
    hosts: Mapping[str, Any]
    """Its section of each host that has one, an instance of the part's `host_section`."""
    apps: Sequence[AppRequest] = ()
    """Its apps; when one is started, that one alone."""


# --- what a part gets of a running world ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWorld:
    """The world as parts see it, limited to what they need."""

    clock: Clock
    seed: int
    hosts: Mapping[str, HostBackend]
    """Those of this machine, by name."""
    add_pkey: Callable[[HfiPort, int], None]
    """Adds a port to one more partition."""
    progress: Callable[[str], None]
    """Reports progress to the person who starts the lab."""
    on_crash: Callable[[Callable[[str], None]], Callable[[], None]]
    """Calls a handler with the name of each host that the fault `crash` takes down; returns how to unsubscribe it."""
    on_restart: Callable[[Callable[[str], None]], Callable[[], None]]
    """The same for hosts that come back."""
    runtime: Path | None = None
    """A directory for files and sockets of parts. It goes with the lab, killed or not; None: the lab has none."""
    native: NativeDatapath | None = None
    """The native datapath, if one carries the frames."""

    def rng(self, name: str) -> random.Random:
        """Return a separate random stream for `name`, reproducible with the seed of the world."""
        return random.Random(f"{self.seed} {name}")


class RunningPart:
    """A running part. Everything it started ends when the context of `Part.start` is left."""

    def status(self) -> dict[str, Any]:
        """Return its entry in `opavnic status` as plain data; empty: it is not shown."""
        return {}

    def detail(self) -> dict[str, Any]:
        """Return all there is to see of it as plain data, for a page of its own; asked for while a page is open."""
        return self.status()

    def routes(self) -> Iterable[web.RouteDef]:
        """Return its routes in the control API of the lab: those that its methods declare with `openapi.Api`."""
        from opavnic.world.openapi import declared_routes  # late: what reads lab files imports this module

        return declared_routes(self)


class Part:
    """Something that can run on a world. `name` is its key in a lab file, and the kind of its apps."""

    lab_section: type[BaseModel] | None = None
    """The model of its key at the top of a lab file."""
    host_section: type[BaseModel] | None = None
    """The model of its key in each host."""
    app_options: type[BaseModel] | None = None
    """The model of `options` of its apps: entries of `apps:`, each on a host without a kernel, all of whose VNICs it
    has."""
    log_names: Sequence[str] = ()
    """Names of loggers, beside that of its own package, whose records belong in the log of a lab."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.origin = f"part {name}"
        """Its name in messages, with the package that installed it."""

    @property
    def starts_always(self) -> bool:
        """Whether it starts in every lab, not only if the lab file requests it: true unless it has a section."""
        return self.lab_section is None and self.host_section is None and self.app_options is None

    def is_asked_for(self, asked: PartRequest) -> bool:
        """Return whether to start it once for the lab as a whole, beside its apps. Args: asked: its sections."""
        return self.starts_always or asked.section is not None or bool(asked.hosts)

    def check(self, asked: PartRequest) -> Iterable[Problem]:
        """Return the problems of its sections that their models cannot find. Args: asked: the sections."""
        return ()

    def start(self, world: PartWorld, asked: PartRequest) -> AbstractAsyncContextManager[RunningPart]:
        """Run while the context lasts: once for the lab, and once for each of its apps.

        Args:    world: the hosts, the clock and the seed of the lab. asked: what its file says; for an app, `apps` has
                 that one alone.
        Raises:  OpavnicError: it cannot start.
        """
        raise NotImplementedError


# --- what is installed ---------------------------------------------------------------------------------------


@cache
def installed_parts() -> Mapping[str, Part]:
    """Return the parts of all installed packages by name, each imported; they are looked for once in a process.

    Raises:  PartError: one cannot be imported or is not a part, or two have one name.
    """
    points: dict[str, EntryPoint] = {}
    for point in entry_points_of(ENTRY_POINTS):
        if (other := points.setdefault(point.name, point)) is not point:
            raise PartError(f"{_origin(other)} and {_origin(point)} have one name: uninstall one of them")
    return {name: _load(point) for name, point in points.items()}


def _load(point: EntryPoint) -> Part:
    try:
        part = point.load()
    except Exception as error:  # importing a package can raise anything
        raise PartError(f"{_origin(point)} cannot be loaded: {error}") from error
    if not isinstance(part, Part) or part.name != point.name:
        raise PartError(f'{_origin(point)}: {point.value} is not a Part named "{point.name}"')
    part.origin = _origin(point)
    return part


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"part {point.name}{package}"
