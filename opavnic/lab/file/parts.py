"""The parts of installed packages in a lab: their sections of the lab file, the checks of these, the running parts."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model
from pydantic_core import to_jsonable_python

from hfi_sim.base.text import nearest
from opavnic.base.errors import PartError
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.lab_sections import Host
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.sections import HOSTS_SCHEMA, LabName, Schema, also_accepts
from opavnic.world.cleanups import Cleanups
from opavnic.world.part import AppRequest, Part, PartRequest, PartWorld, RunningPart, installed_parts
from vema.base.sections import empty_is_default
from vema.em.desired.problems import Problem, model_problems, path_text

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("opavnic.lab")

OwnPart = TypeVar("OwnPart", bound=RunningPart)


def parts() -> Mapping[str, Part]:
    """Return the installed parts by name.

    Raises:  LabError: one cannot be loaded.
    """
    try:
        return installed_parts()
    except PartError as error:
        raise LabError(str(error)) from error


def part_log_names() -> list[str]:
    """Return the names of loggers that installed parts use besides those of their packages.

    Raises:  LabError: one cannot be loaded.
    """
    return [name for part in parts().values() for name in part.log_names]


def lab_model() -> type[LabModel]:
    """Return the model of a lab file with the sections of all installed parts.

    Raises:  LabError: a part cannot be loaded, or its key is taken.
    """
    return _composed(tuple(parts().values()))


class CheckedModels:
    """Makes models of the plain data of lab files. Data that were checked a moment ago are not checked again."""

    def __init__(self) -> None:
        self._known: deque[tuple[dict[str, Any], LabModel]] = deque(maxlen=4)

    def of(self, data: dict[str, Any]) -> LabModel:
        """Return the model of data, which stay as they are from now on. Raises pydantic's ValidationError."""
        for known, model in self._known:
            if known == data:
                return model
        model = lab_model().model_validate(data)
        self._known.appendleft((data, model))
        return model


@lru_cache(maxsize=1)
def _composed(installed: tuple[Part, ...]) -> type[LabModel]:
    top = _sections(LabModel, {part: part.lab_section for part in installed})
    in_host = _sections(Host, {part: part.host_section for part in installed})
    host: Any = create_model("Host", __base__=Host, __doc__=Host.__doc__, **in_host)
    hosts = Annotated[
        dict[LabName, Annotated[host, BeforeValidator(empty_is_default), also_accepts(None)]],
        Schema(HOSTS_SCHEMA),
    ]
    top["hosts"] = (hosts, Field(min_length=1))
    model: Any = create_model("LabModel", __base__=LabModel, __doc__="A whole lab file.", **top)
    found: type[LabModel] = model
    return found


def _sections(base: type[BaseModel], added: Mapping[Part, type[BaseModel] | None]) -> dict[str, Any]:
    fields = {}
    for part, section in added.items():
        if section is None:
            continue
        if part.name in base.model_fields:
            raise LabError(f'{part.origin}: lab files have a key "{part.name}" already')
        fields[part.name] = (section | None, None)
    return fields


def asked_of(part: Part, model: LabModel, directory: Path) -> PartRequest:
    """Return what a lab file requests from a part.

    Raises:  ValidationError: the options of an app are wrong; `part_problems` reports this.
    """
    hosts = {
        name: section
        for name, host in model.hosts.items()
        if part.host_section is not None and (section := getattr(host, part.name, None)) is not None
    }
    options = part.app_options
    apps = [
        AppRequest(index, app.host, options.model_validate(app.options))
        for index, app in enumerate(model.apps)
        if app.kind == part.name and options is not None
    ]
    section = None if part.lab_section is None else getattr(model, part.name, None)
    return PartRequest(plan=model, directory=directory, section=section, hosts=hosts, apps=apps)


def _here(asked: PartRequest, hosts: Collection[str]) -> PartRequest:
    return replace(
        asked,
        hosts={name: section for name, section in asked.hosts.items() if name in hosts},
        apps=[app for app in asked.apps if app.host in hosts],
    )


def part_problems(model: LabModel, directory: Path) -> list[Problem]:
    """Return the problems that installed parts find in their sections; `directory` is that of the lab file."""
    installed = parts()
    problems = list(_app_problems(model, installed))
    faulty = {model.apps[int(problem.path[1])].kind for problem in problems}
    for name, part in installed.items():
        if name not in faulty:
            problems += part.check(asked_of(part, model, directory))
    return problems


def _app_problems(model: LabModel, installed: Mapping[str, Part]) -> Iterator[Problem]:
    kinds = {name: part.app_options for name, part in installed.items() if part.app_options is not None}
    for index, app in enumerate(model.apps):
        options = kinds.get(app.kind)
        if options is None:
            known = nearest(app.kind, sorted(kinds))
            yield Problem(("apps", index, "kind"), f'unknown kind of app "{app.kind}" ({known})')
            continue
        try:
            options.model_validate(app.options)
        except ValidationError as error:
            for problem in model_problems(error, options, app.options):
                yield replace(problem, path=("apps", index, "options", *problem.path))


def check_parts(model: LabModel, directory: Path) -> None:
    """Check the sections of a model's parts.

    Raises:  LabError: all problems, in one line.
    """
    if problems := part_problems(model, directory):
        raise LabError("; ".join(f"{path_text(problem.path)}: {problem.message}" for problem in problems))


class RunningParts:
    """The running parts of a lab."""

    def __init__(self, cleanups: Cleanups) -> None:
        """Args:  cleanups: where their cleanups are registered."""
        self.own: dict[str, RunningPart] = {}
        """The lab's own parts, by their names in messages."""
        self.apps: dict[str, RunningPart] = {}
        """The apps, by host."""
        self.by_name: dict[str, RunningPart] = {}
        """The parts of installed packages that run for the lab as a whole, by name."""
        self._cleanups = cleanups
        self._kinds: dict[str, str] = {}

    async def start_own(self, what: str, context: AbstractAsyncContextManager[OwnPart]) -> OwnPart:
        """Start one of the lab's own parts; messages call it `what`."""
        part = await self._cleanups.enter(what, context)
        self.own[what] = part
        return part

    async def start_installed(
        self, model: LabModel, directory: Path, world: PartWorld, hosts: Collection[str]
    ) -> None:
        """Start the parts that the lab file requests: apps in the order of the file, then the other parts.

        Args:    hosts: those that are on this machine; what is asked for on others starts there.
        Raises:  OpavnicError: a part cannot start.
        """
        asked = {part: _here(asked_of(part, model, directory), hosts) for part in parts().values()}
        apps = {app.index: (part, app) for part in asked for app in asked[part].apps}
        for _, (part, app) in sorted(apps.items(), key=lambda item: item[0]):
            one = replace(asked[part], apps=(app,))
            what = f"app {part.name} on {app.host}"
            self.apps[app.host] = await self._cleanups.enter(what, part.start(world, one))
            self._kinds[app.host] = part.name
        for part, all_of_it in asked.items():
            if part.is_asked_for(all_of_it):
                alone = replace(all_of_it, apps=())
                self.by_name[part.name] = await self._cleanups.enter(
                    f"part {part.name}", part.start(world, alone)
                )

    def app_status(self) -> list[dict[str, Any]]:
        """Return the status of each app."""
        return [{"kind": self._kinds[host], "host": host, **_said(app)} for host, app in self.apps.items()]

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the status of all other parts by name, without empty ones."""
        named = {**self.own, **self.by_name}
        return {name: said for name, part in named.items() if (said := _said(part))}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of all parts in the control API."""
        every = (*self.own.values(), *self.apps.values(), *self.by_name.values())
        return [route for part in every for route in part.routes()]


def _said(part: RunningPart) -> dict[str, Any]:
    """Return the status of a part as JSON, or the error if that fails: one broken part must not hide the others."""
    try:
        said: dict[str, Any] = to_jsonable_python(part.status())
        return said
    except Exception as error:
        log.exception("%s gives no status", type(part).__name__)
        return {"error": f"{type(error).__name__}: {error}"}
