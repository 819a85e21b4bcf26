"""YAML with the line of every value kept, so that a mistake in a lab file can be pointed at."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from hfi_sim.errors import InputError
from hfi_sim.text import with_article
from opavnic import files
from opavnic.errors import OpavnicError
from opavnic.lab.errors import ConfigError
from vema.em.problems import KeyPath, Problem, path_text

MAX_DIGITS: Final = 100
"""Longer numbers mean nothing in any file, and Python refuses to print them."""
MAX_NODES: Final = 100_000
"""More nodes than this, aliases followed, is not a file of ours: it would be built to exhaust memory."""
MAX_DEPTH: Final = 100
"""Lists and mappings inside each other."""
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    f"{_TAG}null": "null",
    f"{_TAG}bool": "true or false",
    f"{_TAG}int": "a whole number",
    f"{_TAG}float": "a number",
    f"{_TAG}str": "text",
    f"{_TAG}timestamp": "a date",
}
"""The tags of single values in our files, and what they are called."""
_OTHERS: Final = frozenset({f"{_TAG}map", f"{_TAG}seq", f"{_TAG}merge", f"{_TAG}value"})
_SHOWN: Final = 60
"""Characters of a value that a message shows."""
_MOST_SAID: Final = 300
"""Characters of a reason."""
_COUNTER: Final = getattr(yaml, "CSafeLoader", None)
"""libyaml's parser, where PyYAML has it: some twenty times as fast."""
_PYTHON_WORDS: Final = (
    (re.compile(r"\ba valid dictionary( or instance of \w+)?"), "a mapping"),
    (re.compile(r"\ba valid list\b"), "a list"),
    (re.compile(r", not a dict$"), ", not a mapping"),
)
"""What a model says of types, in the words of YAML."""


class YamlError(OpavnicError, InputError):
    """The text is not YAML that a lab file or an EM file could be."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason if len(reason) <= _MOST_SAID else f"{reason[: _MOST_SAID - 3]}..."
        super().__init__(f"{line}: {self.reason}")


def read_text(file: Path, limit: int, what: str) -> str:
    """Return the text of a file.

    Args:    limit: bytes that no such file has; what: how messages name the kind of file.
    Raises:  ConfigError: it cannot be read, is not text, or is too long.
    """
    try:
        return files.read_text(file, limit, what)
    except files.FileError as error:
        raise ConfigError([str(error)]) from error


class YamlSource:
    """A parsed YAML document: `data` in plain Python, and the line of everything in it."""

    def __init__(self, text: str, what: str) -> None:
        """Parse `text`.

        Args:    what: how messages name the kind of file.
        Raises:  YamlError: no YAML, more than one document, or aliases without end.
        """
        self.problems: list[Problem] = []
        """Mistakes that YAML itself forgives: keys that appear twice."""
        self._lines: dict[KeyPath, int] = {}
        self._nodes = 0
        self._what = what
        self.data: Any = None
        self._count(text)
        try:
            self._loader = yaml.SafeLoader(text)
            node = self._loader.get_single_node()
            if node is not None:
                self._walk(node, (), ())
                self.data = self._loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise YamlError(_line(mark), f"not YAML: {error.problem or error.context or error}") from error
        except RecursionError as error:
            raise YamlError(1, "not YAML: nested too deeply") from error
        except yaml.YAMLError as error:
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

    def _count(self, text: str) -> None:
        """Stop at a text of too many values, or nested too deeply, before anything is made of it.

        Aliases are not followed here, and each is one value.
        """
        if _COUNTER is None:
            return
        values = 0
        key_next: list[bool | None] = [None]
        """Of each collection that is open whether a key comes next; None in a list, where none does."""
        with contextlib.suppress(yaml.YAMLError):  # what is not YAML is told by the one that builds
            for event in yaml.parse(text, _COUNTER):
                if isinstance(event, yaml.CollectionEndEvent):
                    key_next.pop()
                if not isinstance(event, yaml.NodeEvent):
                    continue
                values += not key_next[-1]
                if values > MAX_NODES:
                    raise self._too_many(_line(event.start_mark))
                if key_next[-1] is not None:
                    key_next[-1] = not key_next[-1]
                if isinstance(event, yaml.CollectionStartEvent):
                    key_next.append(True if isinstance(event, yaml.MappingStartEvent) else None)
                if len(key_next) > MAX_DEPTH:
                    raise YamlError(_line(event.start_mark), "not YAML: nested too deeply")

    def _too_many(self, line: int) -> YamlError:
        return YamlError(line, f"more than {MAX_NODES} values: this is not {with_article(self._what)}")

    def _walk(self, node: yaml.Node, path: KeyPath, above: tuple[int, ...]) -> None:
        line = node.start_mark.line + 1
        self._nodes += 1
        if id(node) in above:
            raise YamlError(line, f"{path_text(path)}: an alias that contains itself")
        if self._nodes > MAX_NODES:
            raise self._too_many(line)
        self._lines.setdefault(path, line)
        self._check_tag(node, path, line)
        if isinstance(node, yaml.ScalarNode):
            self._check_scalar(node, path, line)
        elif isinstance(node, yaml.MappingNode):
            self._walk_mapping(node, path, (*above, id(node)))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._walk(item, (*path, index), (*above, id(node)))

    def _walk_mapping(self, node: yaml.MappingNode, path: KeyPath, above: tuple[int, ...]) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise YamlError(line, f"{_place(path)}a {key.id} cannot be a key: a key is a word")
            if key.tag == f"{_TAG}merge":
                self._walk(value, path, above)
                continue
            self._check_tag(key, path, line)
            self._check_scalar(key, path, line)
            name = key.value
            here = (*path, name)
            if name in seen:
                self.problems.append(
                    Problem(here, f'key "{name}" appears twice (first in line {seen[name]})')
                )
            seen.setdefault(name, line)
            self._lines[here] = line
            self._walk(value, here, above)

    def _check_tag(self, node: yaml.Node, path: KeyPath, line: int) -> None:
        """Refuse what PyYAML would build and no file of ours has: sets, ordered mappings, bytes, objects."""
        if node.tag not in _SCALARS and node.tag not in _OTHERS:
            tag = node.tag.replace(_TAG, "!!")
            raise YamlError(line, f"{_place(path)}the tag {tag:.{_SHOWN}} is not supported here; remove it")

    def _check_scalar(self, node: yaml.ScalarNode, path: KeyPath, line: int) -> None:
        """Make the value of a node, which the loader keeps; a tag may claim what the text is not."""
        node.value = _whole_characters(node.value, line)
        if node.tag == f"{_TAG}int" and len(node.value) > MAX_DIGITS:
            raise YamlError(line, f"{path_text(path)}: a number of {len(node.value)} digits")
        try:
            self._loader.construct_object(node)
        except yaml.YAMLError:
            raise
        except (
            ValueError,
            LookupError,
            AttributeError,
            OverflowError,
        ) as error:  # PyYAML does not check first
            shown = f'{_place(path)}"{node.value:.{_SHOWN}}" is not {_SCALARS.get(node.tag, "a value")}'
            raise YamlError(line, shown) from error


def _line(mark: Any) -> int:
    return 1 if mark is None else int(mark.line) + 1


def _place(path: KeyPath) -> str:
    return f"{path_text(path)}: " if path else ""


def _in_yaml_words(message: str) -> str:
    for pattern, words in _PYTHON_WORDS:
        message = pattern.sub(words, message)
    return message


def _whole_characters(text: str, line: int) -> str:
    r"""Return a text with each surrogate pair, as JSON writes it ("\ud83d\ude00"), made one character.

    Raises:  YamlError: half of a pair, which is not text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise YamlError(line, "not text: half of a surrogate pair") from None
    return text
