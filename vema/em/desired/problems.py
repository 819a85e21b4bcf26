"""Mistakes in a file that a model describes: each with its path and a readable message."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from hfi_sim.base.did_you_mean import like, nearest

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of the file: ("vesws", 0, "members", 1)."""
_CHOICES: Final = ("literal_error", "enum")
"""The types of pydantic's errors that list what a value may be."""
_QUOTED: Final = re.compile(r"'([^']*)'")
_VALUE_SHOWN: Final = 60
_NO_KEYS: Final = ("[key]", "list[str]", "literal['all']")
"""Elements that pydantic adds to a path besides the keys of the file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its place in the file and a message."""

    path: KeyPath
    message: str

    def __str__(self) -> str:
        where = path_text(self.path)
        return f"{where}: {self.message}" if where else self.message


def path_text(path: KeyPath) -> str:
    """Return a path as text: `vesws[0].members[1]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def named(problem: Problem, data: Any) -> str:
    """Return a problem with the names of what its path leads through: for people without a file.

    `vesws "blue".members "h9": unknown host ...` instead of `vesws[0].members[2]: ...`.
    """
    text, here = "", data
    for part in problem.path:
        if isinstance(part, int):
            here = here[part] if isinstance(here, list | tuple) and part < len(here) else None
            text += f" {_name_of(here)}" if here is not None else f"[{part}]"
        elif text and not (isinstance(here, dict) and part in here):
            break  # a key of a short form, or of a default: it is not written
        else:
            here = here.get(part) if isinstance(here, dict) else None
            text += f".{part}" if text else part
    return f"{text}: {problem.message}" if text else problem.message


def _name_of(item: object) -> str:
    """Return what people call an item of a list: its name, the ends of a link, or the item itself."""
    if isinstance(item, dict):
        ends = item.get("ends")
        item = (
            "--".join(map(str, ends)) if isinstance(ends, list) else item.get("name", item.get("host", "..."))
        )
    elif isinstance(item, list):
        item = "--".join(map(str, item))
    return f'"{item!s:.{_VALUE_SHOWN}}"'


def pkeys_text(pkeys: Iterable[int]) -> str:
    """Return P_Keys as a message lists those of a table."""
    return ", ".join(f"{pkey:#06x}" for pkey in sorted(pkeys)) or "it is empty"


def repeated(entries: list[tuple[int, dict[str, Any]]], key: str, *, besides: object = None) -> list[Problem]:
    """Return a problem for each virtual switch whose value of this key, which must be unique, an earlier one has."""
    seen: dict[object, int] = {}
    problems = []
    for index, vesw in entries:
        value = vesw.get(key)
        if not isinstance(value, int | str) or value == besides:
            continue
        if value in seen:
            message = f"{key} {value!r} is already that of vesws[{seen[value]}]"
            problems.append(Problem(("vesws", index, key), message))
        seen.setdefault(value, index)
    return problems


def model_problems(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield every mistake found by `model`."""
    for item in error.errors(include_url=False):
        path = tuple(part for part in item["loc"] if part not in _NO_KEYS)
        cause = item.get("ctx", {}).get("error")
        yield Problem(path, _message(model, item["type"], path, item["msg"], item["input"], cause))


def _message(
    model: type[BaseModel], kind: str, path: KeyPath, message: str, value: object, cause: object
) -> str:
    if kind == "extra_forbidden":
        key, known = str(path[-1]), _keys_at(model, path[:-1])
        belongs = _sections_with(key, model)
        where = f'; it belongs under "{belongs[0]}"' if len(belongs) == 1 and len(path) == 1 else ""
        return f'unknown key "{key}" ({nearest(key, known)}{where})'
    if kind == "missing":
        return f'key "{path[-1]}" is missing'
    if isinstance(cause, ValueError):
        return str(cause)
    if kind == "too_short":
        return "is empty"
    if kind == "string_type" and isinstance(value, int | float):
        what = "yes or no" if isinstance(value, bool) else f"the number {value!r}"
        return f"should be text, but is read as {what}: write it in quotes"
    if kind.startswith("bool_"):
        message = "should be true or false"
    close = like(value, _QUOTED.findall(message)) if kind in _CHOICES else ""
    return f"{message.replace('Input should be', 'should be')}, not {_shown(value)}{close}"


def _shown(value: object) -> str:
    plain = isinstance(value, str | int | float | bool) or value is None
    shown = repr(value) if plain else f"a {type(value).__name__}"
    return shown if len(shown) <= _VALUE_SHOWN else shown[: _VALUE_SHOWN - 3] + "..."


def _keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys that the section at `path` may have; none where it is not a section."""
    here = model
    for part in path:
        if isinstance(part, str) and part in here.model_fields:
            inner = _section_of(here.model_fields[part].annotation)
            if inner is None:
                return []
            here = inner
    return list(here.model_fields)


def _sections_with(key: str, model: type[BaseModel]) -> list[str]:
    """Return the keys of a model whose sections have a key."""
    sections = ((name, _section_of(field.annotation)) for name, field in model.model_fields.items())
    return [name for name, section in sections if section is not None and key in section.model_fields]


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as dict[str, Host]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_section_of(argument) for argument in typing.get_args(annotation))
    return next((section for section in found if section is not None), None)
