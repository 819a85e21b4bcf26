"""YAML that remembers the line of every value, so that error messages can point at a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import with_article
from opavnic.base import files
from opavnic.base.errors import OpavnicError
from opavnic.lab.file.environment import UnsetError, with_variables
from opavnic.lab.file.errors import ConfigError
from vema.em.desired.problems import KeyPath, Problem, path_text

MAX_DIGITS: Final = 100
"""No file needs longer numbers, and Python refuses to print them."""
MAX_NODES: Final = 100_000
"""Limit for nodes with aliases expanded. No lab or EM file has more; one built to exhaust memory may."""
MAX_DEPTH: Final = 100
"""Nesting depth of lists and mappings."""
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    f"{_TAG}null": "null",
    f"{_TAG}bool": "true or false",
    f"{_TAG}int": "a whole number",
    f"{_TAG}float": "a number",
    f"{_TAG}str": "text",
    f"{_TAG}timestamp": "a date",
}
"""The tags of single values in our files, and their names in messages."""
_NUMBERS: Final = frozenset({f"{_TAG}int", f"{_TAG}float"})
_OLD_NUMBER: Final = re.compile(r"[-+]?(?:0[0-7_]+|(?P<sixties>[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?))")
"""Numbers of YAML 1.1 that a person reads as others: 010 is 8, 1:30 is 90."""
_OTHERS: Final = frozenset({f"{_TAG}map", f"{_TAG}seq", f"{_TAG}merge", f"{_TAG}value"})
_SHOWN: Final = 60
"""Characters of a value that a message shows."""
_MOST_SAID: Final = 300
"""Characters of a reason."""
_COUNTER: Final = getattr(yaml, "CSafeLoader", None)
"""libyaml's parser, if PyYAML has it: about twenty times as fast."""
_PYTHON_WORDS: Final = (
    (re.compile(r"\ba valid dictionary( or instance of \w+)?"), "a mapping"),
    (re.compile(r"\ba valid list\b"), "a list"),
    (re.compile(r", not a dict$"), ", not a mapping"),
)
"""Names of Python types in the messages of models, and their names in YAML."""


class YamlError(OpavnicError, InputError):
    """The text is not YAML, or not of a kind that a lab or EM file can be."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason if len(reason) <= _MOST_SAID else f"{reason[: _MOST_SAID - 3]}..."
        super().__init__(f"{line}: {self.reason}")


def read_text(file: Path, limit: int, what: str, *, gzipped: bool = False) -> str:
    """Return the text of a file.

    Args:    limit: size in bytes that no such file exceeds. what: the kind of file, for messages. gzipped: whether it
             may be compressed.
    Raises:  ConfigError: it cannot be read, is not text, or is too long.
    """
    try:
        return files.read_text(file, limit, what, gzipped=gzipped)
    except files.FileError as error:
        raise ConfigError([str(error)]) from error


class YamlSource:
    """A parsed YAML document: `data` as plain Python objects, and the line of every value in it."""

    def __init__(self, text: str, what: str, environment: Mapping[str, str] | None = None) -> None:
        """Parse `text`.

        Args:    what: the kind of file, for messages. environment: variables that replace `${NAME}` in its values;
                 None: such a text stays as it is.
        Raises:  YamlError: not YAML, more than one document, too large, or an alias that contains itself.
        """
        self.problems: list[Problem] = []
        """Mistakes that YAML itself allows: duplicate keys, variables that are not set."""
        self.has_unset = False
        """Whether a variable is not set: then values are not what they will be."""
        self._lines: dict[KeyPath, int] = {}
        self._nodes = 0
        self._what = what
        self._environment = environment
        self._replaced: set[int] = set()
        self.data: Any = None
        came_to = self._count(text)
        try:
            self._loader = yaml.SafeLoader(text)
            node = self._loader.get_single_node()
            if node is not None:
                self._walk(node, (), ())
                self.data = self._loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            reason = f"not YAML: {error.problem or error.context or error}{_about_ranges(text, _line(mark))}"
            raise YamlError(_line(mark), reason) from error
        except RecursionError as error:
            raise YamlError(came_to, "not YAML: nested too deeply") from error
        except yaml.YAMLError as error:
            raise YamlError(1, f"not YAML: {' '.join(str(error).split())}") from error

    def line(self, path: KeyPath) -> int:
        """Return the line of a value, counted from 1, or that of the innermost enclosing value in the file."""
        return self._lines.get(self.written(path), 1)

    def written(self, path: KeyPath) -> KeyPath:
        """Return the part of a path that stands in the file: its other keys are those of defaults and short forms.

        Where nothing of it stands there, it says where something is missing.
        """
        written = path
        while written and written not in self._lines:
            written = written[:-1]
        return written or path

    def lines(self, name: str, problems: Iterable[Problem]) -> list[str]:
        """Return problems as lines of text in the order of the file; `name` is its name in them."""
        placed = sorted(
            (self.line(one.path), path_text(self.written(one.path)), _in_yaml_words(one.message))
            for one in problems
        )
        return [f"{name}:{line}: {where}{': ' if where else ''}{what}" for line, where, what in placed]

    def _count(self, text: str) -> int:
        """Reject a text with too many values or too deep nesting before anything is built from it.

        Aliases are not expanded here; each counts as one value.

        Returns: the line of a syntax error, otherwise 1. What is nested too deeply is one for libyaml, in some versions
                 long before its parser comes to it.
        """
        if _COUNTER is None:
            return 1
        values = 0
        key_next: list[bool | None] = [None]
        """For each open collection: whether a key comes next; None for a list, which has no keys."""
        try:
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
        except yaml.MarkedYAMLError as error:  # the parser that builds the data reports syntax errors
            return _line(error.problem_mark)
        except yaml.YAMLError:
            pass
        return 1

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
        self._put_variables(node, path)
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
            self._put_variables(key, path)
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

    def _put_variables(self, node: yaml.Node, path: KeyPath) -> None:
        """Replace the variables of a value, once; what stands there without quotes may be a number then."""
        if self._environment is None or not isinstance(node, yaml.ScalarNode) or id(node) in self._replaced:
            return
        self._replaced.add(id(node))
        is_plain = node.style is None and node.tag == self._tag_of(node.value)
        try:
            value = with_variables(node.value, self._environment)
        except UnsetError as error:
            self.problems.append(Problem(path, str(error)))
            self.has_unset = True
            return
        if value != node.value:
            node.value = value
            node.tag = self._tag_of(value) if is_plain else node.tag

    def _tag_of(self, value: str) -> str:
        """Return the tag of a value that stands without quotes."""
        tag: str = self._loader.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
        return tag

    def _check_tag(self, node: yaml.Node, path: KeyPath, line: int) -> None:
        """Reject tags that PyYAML would build but our files do not use: sets, ordered mappings, bytes, objects."""
        if node.tag not in _SCALARS and node.tag not in _OTHERS:
            tag = node.tag.replace(_TAG, "!!")
            raise YamlError(line, f"{_place(path)}the tag {tag:.{_SHOWN}} is not supported here; remove it")

    def _check_scalar(self, node: yaml.ScalarNode, path: KeyPath, line: int) -> None:
        """Build the value of a node, which the loader caches: a tag may not match the text."""
        node.value = _whole_characters(node.value, line)
        if node.style is None and node.tag in _NUMBERS and (trap := _OLD_NUMBER.fullmatch(node.value)):
            means = self._loader.construct_object(node)
            how = "a number of base 60" if trap["sixties"] else "an octal number"
            raise YamlError(
                line,
                f"{_place(path)}{node.value:.{_SHOWN}} is {how} in YAML, {means}: write the decimal number, or "
                f'quote it where it is text: "{node.value:.{_SHOWN}}"',
            )
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


def _about_ranges(text: str, line: int) -> str:
    """Return a hint where brackets of a range stand inside those of YAML, which ends the name there."""
    lines = text.splitlines()[max(0, line - 2) : line]
    if any(re.search(r"[\[{,:] *[\w-]+\[\d[\d,-]*\]", each) for each in lines):
        return ' (inside [ ] and { } a range is quoted: "h[1-4]")'
    return ""


def _line(mark: Any) -> int:
    return 1 if mark is None else int(mark.line) + 1


def _place(path: KeyPath) -> str:
    return f"{path_text(path)}: " if path else ""


def _in_yaml_words(message: str) -> str:
    for pattern, words in _PYTHON_WORDS:
        message = pattern.sub(words, message)
    return message


def _whole_characters(text: str, line: int) -> str:
    r"""Return a text with each surrogate pair, as JSON writes it ("\ud83d\ude00"), joined into one character.

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
