"""Mistakes in a file that a model describes: each with its path and a readable message."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from hfi_sim.base.text import MISSPELT, closest, hint, like, nearest
from vema.attributes.vesw_port_info import DEF_PORTS

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of the file: ("vesws", 0, "members", 1)."""
_CHOICES: Final = ("literal_error", "enum")
"""The types of pydantic's errors that list what a value may be."""
_TYPES: Final[Mapping[str, str]] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
"""The types of pydantic's errors about values of another type, and what they should be in words."""
_EXAMPLES: Final[Mapping[str, str]] = {
    "addresses": "{blue: 10.9.2.7/24}",
    "apps": "[{kind: ejfat-lb, host: h1}]",
    "ends": "[h1, sw0:1]",
    "faults": "[loss on h1 20%]",
    "hosts": "{h1: {}, h2: {}}",
    "links": "[[h1, sw0:1], [h2, sw0:2]]",
    "members": "[h1, h2]",
    "switches": "{sw0: {}, sw1: {}}",
    "sysctls": "{net.ipv4.ip_forward: 1}",
    "vesws": "[{id: 2, name: blue, members: [h1, h2]}]",
}
"""What lists and mappings look like, by their keys."""
_DECIMAL: Final = 0xFFF
"""Numbers up to this one are shown as decimal ones: ids of virtual switches."""
_QUOTED: Final = re.compile(r"'([^']*)'")
_VALUE_SHOWN: Final = 60
_SUGGESTED: Final = re.compile(r" *\([^()]*(?:known|nearest)[^()]*\)")
_VARYING: Final = re.compile(r""""[^"]*"|'[^']*'|\b[\da-fA-F]*\d[\w.:/%-]*""")
"""What differs between messages about one mistake that is made many times, besides suggestions: names, numbers."""
_ALIKE: Final = 4
"""Problems that differ in names only are one line from so many on; those that do not, from two on."""
_KINDS: Final[Mapping[type, str]] = {
    list: "list",
    tuple: "list",
    dict: "mapping",
    date: "date",
    datetime: "date",
}
_NAMED: Final = 4
"""Places of other problems of the same kind that a message names."""


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


def all_named(problems: Iterable[Problem], data: Any) -> str:
    """Return problems in one line, for people without a file."""
    return "; ".join(named(problem, data) for problem in gathered(problems, data))


def vesw_text(index: int, vesw: Mapping[str, Any]) -> str:
    """Return what people call a virtual switch in plain data."""
    name = vesw.get("name")
    return f'"{name:.{_VALUE_SHOWN}}"' if isinstance(name, str) and name else f"vesws[{index}]"


def twice_problems(entries: list[tuple[int, dict[str, Any]]]) -> list[Problem]:
    """Return a problem for each virtual switch with the id or the name of an earlier one, or with both."""
    problems = repeated(entries, "id")
    twice = {problem.path[1] for problem in problems}
    return problems + repeated([one for one in entries if one[0] not in twice], "name")


def repeated(entries: list[tuple[int, dict[str, Any]]], key: str, *, besides: object = None) -> list[Problem]:
    """Return a problem for each virtual switch whose value of this key, which must be unique, an earlier one has."""
    seen: dict[object, str] = {}
    problems = []
    for index, vesw in entries:
        value = vesw.get(key)
        if not isinstance(value, int | str) or value == besides:
            continue
        if value in seen:
            shown = f'"{value}"' if isinstance(value, str) else f"{value:#x}" if value > _DECIMAL else value
            problems.append(Problem(("vesws", index, key), f"{key} {shown} is already that of {seen[value]}"))
        which = f"the one with id {vesw.get('id')}" if key == "name" else vesw_text(index, vesw)
        seen.setdefault(value, which)
    return problems


def gathered(problems: Iterable[Problem], data: Any = None) -> list[Problem]:
    """Return problems with those of one kind as one, which says how many there are and where the first others are.

    Args:  data: the file as plain data, for the names of what stands in lists.
    """
    kinds: dict[object, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(_kind(problem), []).append(problem)
    found = []
    for alike in kinds.values():
        if len(alike) < _ALIKE and len({problem.message for problem in alike}) > 1:
            found += alike
        else:
            found.append(_one_of(alike, data))
    return found


def _kind(problem: Problem) -> object:
    """Return what problems have in common that are the same mistake, in other places."""
    path = problem.path
    places = tuple("*" if isinstance(part, int) else part for part in path[2:])
    said = _VARYING.sub("*", _SUGGESTED.sub("", problem.message))
    return path[:1], len(path), places, said


def _one_of(alike: list[Problem], data: Any) -> Problem:
    first, *others = alike
    if not others:
        return first
    names = dict.fromkeys(_place_name(other.path, first.path, data) for other in others[:_NAMED])
    more = ", ..." if len(others) > _NAMED else ""
    return Problem(first.path, f"{first.message}; and {len(others)} more like it: {', '.join(names)}{more}")


def _place_name(path: KeyPath, first: KeyPath, data: Any) -> str:
    """Return what people call the place of a problem, beside that of the first one of its kind."""
    differs = next(
        (at for at, (here, there) in enumerate(zip(path, first, strict=False)) if here != there), 0
    )
    if not isinstance(part := path[differs] if path else "", int):
        return str(part)
    here = data
    for step in path[: differs + 1]:
        try:
            here = here[step]
        except (LookupError, TypeError):
            return path_text(path)
    return _name_of(here)


def default_port_problems(index: int, vesw: Mapping[str, Any], before: int) -> list[Problem]:
    """Return what is wrong with the default ports of the virtual switch at an index, in plain data."""
    problems: list[Problem] = []
    ports, members = vesw.get("default_ports"), vesw.get("members")
    if isinstance(ports, list) and len(ports) > DEF_PORTS:
        message = f"{len(ports)} default ports; a virtual switch has {DEF_PORTS}"
        problems.append(Problem(("vesws", index, "default_ports"), message))
    if isinstance(ports, list) and isinstance(members, list):
        there = {name for name in members if isinstance(name, str)}
        for at, name in enumerate(ports):
            if name in ports[:at]:
                problems.append(Problem(("vesws", index, "default_ports", at), f'"{name}" appears twice'))
            elif isinstance(name, str) and name not in there:
                told = hint(name, map(str, members), before + len(problems))
                message = f'"{name}" is not a member{told}'
                problems.append(Problem(("vesws", index, "default_ports", at), message))
        vports = vesw.get("vports")
        for name in vports if isinstance(vports, Mapping) else ():
            if name not in there:
                told = hint(str(name), map(str, members), before + len(problems))
                problems.append(Problem(("vesws", index, "vports", name), f'"{name}" is not a member{told}'))
    return problems


def model_problems(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Return every mistake found by `model`. Args: data: what it was to be made of."""
    items: dict[KeyPath, list[Any]] = {}
    for item in error.errors(include_url=False):
        items.setdefault(_path_in(data, item["loc"], item["type"]), []).append(item)
    inside = {path[:length] for path in items for length in range(len(path))}
    problems = []
    missing: dict[KeyPath, list[str]] = {}
    for path, here in items.items():
        kinds = [item["type"] for item in here]
        if len(here) > 1 and path in inside and all(kind in _TYPES for kind in kinds):
            continue  # it was tried as values of other types too
        if kinds == ["missing"]:
            missing.setdefault(path[:-1], []).append(str(path[-1]))
        elif len(here) > 1 and all(kind in _TYPES or kind in _CHOICES for kind in kinds):
            problems.append(Problem(path, _either(here)))
        else:
            problems += [Problem(path, _message(model, path, item)) for item in here]
    for path, keys in missing.items():
        strangers = [
            str(at[-1])
            for at, (item, *_) in items.items()
            if at[:-1] == path and item["type"] == "extra_forbidden"
        ]
        if keys := [key for key in keys if not any(closest(one, [key], MISSPELT) for one in strangers)]:
            *most, last = [f'"{key}"' for key in keys]
            text = f"keys {', '.join(most)} and {last} are missing" if most else f"key {last} is missing"
            at = (
                next((at for at, one in enumerate(problems) if one.path == (*path, strangers[0])), -1)
                if strangers
                else -1
            )
            if at < 0:
                problems.append(Problem((*path, keys[0]), text))
            else:
                problems[at] = Problem(problems[at].path, f"{problems[at].message}; {text}")
    return problems


def _path_in(data: Any, location: KeyPath, kind: str) -> KeyPath:
    """Return the part of one of pydantic's paths that stands in the data, and a key that is missing there.

    Between the keys it names the types that it tried, and keys of short forms.
    """
    path: KeyPath = ()
    for part in location:
        inside = (
            part in data
            if isinstance(data, Mapping)
            else isinstance(part, int) and isinstance(data, list | tuple)
        )
        if inside:
            path, data = (*path, part), data[part]
    return (*path, location[-1]) if kind == "missing" and isinstance(data, Mapping) else path


def _either(items: list[Any]) -> str:
    """Return a message about a value that may be of several types, and is of none."""
    may_be = [_TYPES.get(item["type"]) or item["msg"].removeprefix("Input should be ") for item in items]
    value = items[0]["input"]
    choices = [
        choice for item in items if item["type"] in _CHOICES for choice in _QUOTED.findall(item["msg"])
    ]
    return f"should be {' or '.join(dict.fromkeys(may_be))}, not {_shown(value)}{like(value, choices)}"


def _message(model: type[BaseModel], path: KeyPath, item: Any) -> str:
    kind, message, value = item["type"], item["msg"], item["input"]
    cause = item.get("ctx", {}).get("error")
    if kind == "extra_forbidden":
        key, known = str(item["loc"][-1]), _keys_at(model, path[:-1])
        above = f"{path[0]}." if len(path) > 1 else ""
        every = _sections_with(key, model)
        having = [one for one in every if one.startswith(above)] or [
            one for one in every if one == "fabric.link"
        ]
        where = (
            f"; {' and '.join(having)} {'has' if len(having) == 1 else 'have'} one"
            if 0 < len(having) <= _NAMED
            else ""
        )
        return f'unknown key "{key}" ({nearest(key, known, MISSPELT)}{where})'
    if isinstance(cause, ValueError):
        return str(cause)
    if kind in ("too_short", "too_long") and isinstance(value, list) and value:
        need = item["ctx"].get("min_length") or item["ctx"].get("max_length")
        return f"has {len(value)} of {need} items{_such_as(item['loc'])}"
    if kind == "too_short":
        return f"is empty; it should be{_such_as(path)}" if _such_as(path) else "is empty"
    if kind == "string_too_short":
        return "is empty"
    if kind == "string_too_long":
        return f"has {len(value)} characters, more than {item['ctx']['max_length']}"
    if kind == "string_type" and isinstance(value, int | float):
        what = "yes or no" if isinstance(value, bool) else f"the number {value!r}"
        return f"should be text, but is read as {what}: write it in quotes"
    if kind in _TYPES:
        said = f"should be {_TYPES[kind]}{_such_as(path)}, not {_shown(value)}"
        return said + _as_number(value) if _TYPES[kind].endswith("number") else said
    close = like(value, _QUOTED.findall(message)) if kind in _CHOICES else ""
    return f"{message.replace('Input should be', 'should be')}, not {_shown(value)}{close}"


def _such_as(path: KeyPath) -> str:
    example = _EXAMPLES.get(str(path[-1]) if path else "")
    return f" such as {example}" if example else ""


def _as_number(value: object) -> str:
    """Return what was meant by a value that is no whole number, as a remedy."""
    if isinstance(value, float) and value.is_integer():
        return f": write {int(value)}"
    text = str(value)
    try:
        number = int(text, 0)
    except ValueError:
        return ""
    return f": write {text if text in (str(number), hex(number)) or 'x' in text else number} without quotes"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    shown = repr(value) if isinstance(value, str | int | float) else f"a {_KINDS.get(type(value), 'value')}"
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


def _sections_with(key: str, model: type[BaseModel], above: str = "", depth: int = 2) -> list[str]:
    """Return the sections below a model that have a key, by their paths."""
    sections = [
        (f"{above}{name}", section)
        for name, field in model.model_fields.items()
        if (section := _section_of(field.annotation)) is not None
    ]
    found = [path for path, section in sections if key in section.model_fields]
    for name, section in sections if depth > 1 else ():
        found += _sections_with(key, section, f"{name}.", depth - 1)
    return found


def _section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as dict[str, Host]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_section_of(argument) for argument in typing.get_args(annotation))
    return next((section for section in found if section is not None), None)
