"""Read a lab file; say everything that is wrong with it at once, each with file, line and path."""

from __future__ import annotations

import typing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from opavnic.lab.errors import ConfigError
from opavnic.lab.model import CrossError, LabModel, cross_problems
from opavnic.lab.names import nearest
from opavnic.lab.yaml_source import KeyPath, Problem, YamlError, YamlSource, path_text

MAX_FILE_BYTES: Final = 1 << 20
CHECKS: Final = "opavnic.lab_checks"
"""Entry point group of packages that know more of a section: name -> (model, directory) -> list[Problem]."""


def load_lab(file: Path) -> LabModel:
    """Read and check a lab file.

    Raises:  ConfigError: one line for each mistake.
    """
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise ConfigError([f"{file}: more than {MAX_FILE_BYTES} bytes: this is no lab file"])
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: not UTF-8 text (byte {error.start})"]) from error
    except OSError as error:
        raise ConfigError([f"{file}: {error.strerror}"]) from error
    return parse_lab(text, str(file))


def parse_lab(text: str, source: str) -> LabModel:
    """Check the text of a lab file. `source` names it in messages.

    Raises:  ConfigError: one line for each mistake.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ConfigError([f"{source}:{line}: not text: half of a surrogate pair"]) from error
    try:
        document = YamlSource(text)
    except YamlError as error:
        raise ConfigError([f"{source}:{error.line}: {error.reason}"]) from error
    if not isinstance(document.data, dict):
        raise ConfigError(
            [f"{source}:1: a lab file is a mapping with name, hosts and vesws, such as examples/"]
        )
    problems = list(document.problems)
    model = None
    try:
        model = LabModel.model_validate(document.data)
    except ValidationError as error:
        problems += _problems(error, document.data)
    if model is not None:
        for point in entry_points(group=CHECKS):
            problems += point.load()(model, Path(source).parent)
    if problems or model is None:
        lines = sorted(
            (document.line(problem.path), path_text(problem.path), problem.message) for problem in problems
        )
        raise ConfigError(
            [f"{source}:{line}: {where}{': ' if where else ''}{what}" for line, where, what in lines]
        )
    return model


def _problems(error: ValidationError, data: Any) -> list[Problem]:
    problems = []
    for item in error.errors(include_url=False):
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, CrossError):
            return cause.problems
        path = tuple(part for part in item["loc"] if part != "[key]")
        problems.append(Problem(path, _message(item["type"], path, item["msg"], item["input"], cause)))
    return problems + cross_problems(data)


def _message(kind: str, path: KeyPath, message: str, value: object, cause: object) -> str:
    if kind == "extra_forbidden":
        return f'unknown key "{path[-1]}" ({nearest(str(path[-1]), _keys_at(path[:-1]))})'
    if kind == "missing":
        return f'key "{path[-1]}" is missing'
    if isinstance(cause, ValueError):
        return str(cause)
    if kind == "too_short":
        return "is empty"
    shown = (
        f"{value!r}"
        if isinstance(value, str | int | float | bool) or value is None
        else f"a {type(value).__name__}"
    )
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{message.replace('Input should be', 'should be')}, not {shown}"


def _keys_at(path: KeyPath) -> list[str]:
    """Return the keys that the section at `path` may have."""
    here: type[BaseModel] = LabModel
    for part in path:
        if isinstance(part, str) and part in here.model_fields:
            inner = _section_of(here.model_fields[part].annotation)
            if inner is None:
                return []
            here = inner
    return list(here.model_fields)


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as dict[str, Host]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        found = _section_of(argument)
        if found is not None:
            return found
    return None
