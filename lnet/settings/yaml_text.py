"""YAML as lnetctl prints it: indented by four columns, with texts in double quotes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from lnet.base.errors import CommandError


class Quoted(str):
    """Text that is always printed in double quotes, as lnetctl prints `descr`."""

    __slots__ = ()


def format_yaml(data: dict[str, Any]) -> str:
    """Return YAML indented as by lnetctl: four columns for top-level lists and keys, two for nested lists."""
    return "".join(f"{line}\n" for line in _mapping_lines(data, 0, top=True))


def errors_yaml(errors: Iterable[tuple[str, str, CommandError]]) -> str:
    """Return errors as lnetctl prints them: a list under each verb, with errno and descr of each noun."""
    verbs: dict[str, list[dict[str, Any]]] = {}
    for verb, noun, error in errors:
        document = {"errno": error.errno, "descr": Quoted(error.descr)}
        verbs.setdefault(verb, []).append({noun: document})
    return format_yaml(verbs)


def _mapping_lines(data: dict[Any, Any], indent: int, *, top: bool = False) -> list[str]:
    lines: list[str] = []
    for key, value in data.items():
        head = " " * indent + f"{_scalar(key)}:"
        if isinstance(value, dict) and value:
            lines += [head, *_mapping_lines(value, indent + 4)]
        elif isinstance(value, list) and value:
            lines.append(head)
            for item in value:
                at = indent + (4 if top else 2)
                inner = _mapping_lines(item, at + 2)
                lines += [" " * at + "- " + inner[0][at + 2 :], *inner[1:]]
        else:
            lines.append(f"{head} {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, Quoted):
        return _quoted(value)
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, list | dict):
        return "[]" if isinstance(value, list) else "{}"
    text = str(value)
    if isinstance(value, str):
        try:
            plain = bool(text) and yaml.safe_load(f"a: {text}\n") == {"a": text} and "\n" not in text
        except yaml.YAMLError:
            plain = False
        return text if plain else _quoted(text)
    return text


def _quoted(text: str) -> str:
    return yaml.safe_dump(str(text), default_style='"', width=float("inf")).rstrip("\n")
