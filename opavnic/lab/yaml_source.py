"""YAML with the line of every value kept, so that a mistake in a lab file can be pointed at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from opavnic.lab.errors import ConfigError
from vema.em.problems import KeyPath, Problem, path_text

MAX_DIGITS: Final = 100
"""Longer numbers mean nothing in any file, and Python refuses to print them."""
MAX_NODES: Final = 100_000
"""More nodes than this, aliases followed, is no file of ours: it would be built to exhaust memory."""
_PYTHON_WORDS: Final = (
    (re.compile(r"\ba valid dictionary( or instance of \w+)?"), "a mapping"),
    (re.compile(r"\ba valid list\b"), "a list"),
    (re.compile(r", not a dict$"), ", not a mapping"),
)
"""What a model says of types, in the words of YAML."""


class YamlError(Exception):
    """The text is no YAML that a lab file or an EM file could be."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"{line}: {reason}")
        self.line = line
        self.reason = reason


def read_text(file: Path, limit: int, what: str) -> str:
    """Return the text of a file.

    Args:    limit: bytes that no such file has; what: how messages name the kind of file.
    Raises:  ConfigError: it cannot be read, is no text, or is too long.
    """
    try:
        with file.open("rb") as stream:
            raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise ConfigError([f"{file}: more than {limit} bytes: this is no {what}"])
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: not UTF-8 text (byte {error.start})"]) from error
    except OSError as error:
        raise ConfigError([f"{file}: {error.strerror}"]) from error


class YamlSource:
    """A parsed YAML document: `data` in plain Python, and the line of everything in it."""

    def __init__(self, text: str, what: str) -> None:
        """Parse `text`.

        Args:    what: how messages name the kind of file.
        Raises:  YamlError: no YAML, more than one document, or aliases without end.
        """
        self.problems: list[Problem] = []
        """Mistakes that YAML itself forgives: keys that stand twice."""
        self._lines: dict[KeyPath, int] = {}
        self._nodes = 0
        self._what = what
        self.data: Any = None
        try:
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            if node is not None:
                self._walk(node, (), ())
                self.data = loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = 1 if mark is None else mark.line + 1
            raise YamlError(line, f"not YAML: {error.problem or error.context or error}") from error
        except RecursionError as error:
            raise YamlError(1, "not YAML: nested too deeply") from error
        except (yaml.YAMLError, ValueError) as error:
            raise YamlError(1, f"not YAML: {' '.join(str(error).split())}") from error

    def line(self, path: KeyPath) -> int:
        """Return the line of a value, or of the nearest thing around it that the file has. Lines begin at 1."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def lines(self, name: str, problems: Iterable[Problem]) -> list[str]:
        """Return problems as lines for people, in the order of the file, which they call `name`."""
        placed = sorted(
            (self.line(one.path), path_text(one.path), _in_yaml_words(one.message)) for one in problems
        )
        return [f"{name}:{line}: {where}{': ' if where else ''}{what}" for line, where, what in placed]

    def _walk(self, node: yaml.Node, path: KeyPath, above: tuple[int, ...]) -> None:
        line = node.start_mark.line + 1
        self._nodes += 1
        if id(node) in above:
            raise YamlError(line, f"{path_text(path)}: an alias that contains itself")
        if self._nodes > MAX_NODES:
            raise YamlError(line, f"more than {MAX_NODES} values: this is no {self._what}")
        self._lines.setdefault(path, line)
        if isinstance(node, yaml.ScalarNode):
            node.value = _whole_characters(node.value, line)
            if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MAX_DIGITS:
                raise YamlError(line, f"{path_text(path)}: a number of {len(node.value)} digits")
        elif isinstance(node, yaml.MappingNode):
            self._walk_mapping(node, path, (*above, id(node)))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._walk(item, (*path, index), (*above, id(node)))

    def _walk_mapping(self, node: yaml.MappingNode, path: KeyPath, above: tuple[int, ...]) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                key.value = _whole_characters(key.value, line)
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            if key.tag == "tag:yaml.org,2002:merge":
                self._walk(value, path, above)
                continue
            here = (*path, name)
            if name in seen:
                self.problems.append(Problem(here, f'key "{name}" stands twice (first in line {seen[name]})'))
            seen.setdefault(name, line)
            self._lines[here] = line
            self._walk(value, here, above)


def _in_yaml_words(message: str) -> str:
    for pattern, words in _PYTHON_WORDS:
        message = pattern.sub(words, message)
    return message


def _whole_characters(text: str, line: int) -> str:
    r"""Return a text with each surrogate pair, as JSON writes it ("\ud83d\ude00"), made one character.

    Raises:  YamlError: half of a pair, which is no text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise YamlError(line, "not text: half of a surrogate pair") from None
    return text
