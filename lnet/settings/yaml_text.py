"""YAML as lnetctl prints it, indented by four columns and with texts in double quotes; and a reader whose errors have
line and path."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import yaml

from lnet.base.errors import CommandError, NidError
from lnet.settings.networks import parse_cpts
from opavnic.lab.file.yaml_source import YamlSource
from vema.em.desired.problems import KeyPath, path_text


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


_INT: Final = re.compile(r"-?\d{1,12}", re.ASCII)


class DlcReader:
    """Reads plain data and turns each error into a CommandError with its line and path."""

    def __init__(self, source: YamlSource) -> None:
        self._source = source

    def wrong(self, path: KeyPath, reason: str) -> CommandError:
        """Return the error for what stands at `path`."""
        where = f"{path_text(path)}: " if path else ""
        return CommandError(errno.EINVAL, f"line {self._source.line(path)}: {where}{reason}")

    def mapping(
        self,
        data: Any,
        path: KeyPath,
        known: set[str],
        needed: set[str],
        ignored: frozenset[str] = frozenset(),
    ) -> dict[str, Any]:
        """Return a mapping whose keys are all among `known` or `ignored`, and that has those in `needed`."""
        if not isinstance(data, dict):
            shown = "nothing" if data is None else type(data).__name__
            raise self.wrong(path, f"expected keys ({', '.join(sorted(known))}), not {shown}")
        for key in data:
            if key not in known and key not in ignored:
                raise self.wrong((*path, str(key)), f"unknown key (known: {', '.join(sorted(known))})")
        for key in sorted(needed):
            if data.get(key) is None:
                raise self.wrong(path, f'key "{key}" is missing')
        return data

    def sequence(self, data: Any, path: KeyPath) -> list[tuple[Any, KeyPath]]:
        """Return the items of a list, each with its path; an empty list for nothing."""
        if data is None:
            return []
        if not isinstance(data, list):
            raise self.wrong(path, f"expected a list, not {type(data).__name__}")
        return [(item, (*path, index)) for index, item in enumerate(data)]

    def value(self, entry: dict[str, Any], key: str, path: KeyPath, parse: Callable[[str], Any]) -> Any:
        """Return a value as `parse` reads it."""
        try:
            return parse(str(entry[key]))
        except NidError as error:
            raise self.wrong((*path, key), str(error)) from None

    def number(self, entry: dict[str, Any], key: str, path: KeyPath) -> int:
        """Return an integer of at most 12 digits."""
        value = entry[key]
        if not _INT.fullmatch(str(int(value) if isinstance(value, bool) else value)):
            shown = "nothing" if value is None else f"{str(value)[:40]!r}"
            raise self.wrong((*path, key), f"expected an integer, not {shown}")
        return int(value)

    def flag(self, entry: dict[str, Any], key: str, path: KeyPath, *, default: bool) -> bool:
        """Return a truth value: True, False, 1 or 0."""
        value = entry.get(key, default)
        if value not in (True, False):
            raise self.wrong((*path, key), f"expected True or False, not {str(value)[:40]!r}")
        return bool(value)

    def cpts(self, entry: dict[str, Any], path: KeyPath) -> tuple[int, ...] | None:
        """Return the CPU partitions of an entry, "[0,1]" or a list of numbers; None where it has none."""
        value = entry.get("CPT")
        if value is None:
            return None
        text = str(value).replace("'", "") if isinstance(value, list) else str(value)
        try:
            return parse_cpts(text)
        except NidError as error:
            raise self.wrong((*path, "CPT"), str(error)) from None

    def unique(self, values: list[Any], section: str, key: str) -> None:
        """Check that no value appears twice."""
        for index, value in enumerate(values):
            if value in values[:index]:
                raise self.wrong((section, index, key), f"{value} appears twice")
