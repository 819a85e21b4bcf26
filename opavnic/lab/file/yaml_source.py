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
from opavnic.lab.file.errors import ConfigError
from vema.em.desired.problems import KeyPath, Problem, gathered, path_text

_VARIABLE: Final = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""Of the environment: `${NAME}`, or `${NAME:-DEFAULT}` where it may be unset or empty; `$${NAME}` is the text."""
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
_KEYS_READ_AS: Final = {
    f"{_TAG}null": "nothing",
    f"{_TAG}bool": "yes or no",
    f"{_TAG}int": "a number",
    f"{_TAG}float": "a number",
    f"{_TAG}timestamp": "a date",
}
"""What YAML reads words as that stand as keys and were meant as text."""
_OF_NAMES: Final = ("em", "fabric", "hosts", "uplinks", "vesws")
"""Sections whose keys are names."""
_INDENTED: Final = (
    "lines of one list or mapping begin in the same column, and what is inside them further right"
)
_SYNTAX: Final = (
    ("cannot start any token", "\\t", "a tab: YAML is indented with spaces"),
    ("cannot start any token", "", "text that begins with this character is quoted"),
    ("unknown escape character", "", "in double quotes a backslash is written twice, in single ones once"),
    ("sequence entries are not allowed", "", "a list begins on a line of its own, or is written [a, b]"),
    ("found another document", "", "a second document begins: a file has one, so remove this ---"),
    ("found undefined alias", "", "no value before it is marked so: &NAME marks one, *NAME repeats it"),
    ("expected <block end>", "", f"the indentation does not fit: {_INDENTED}"),
    (
        "mapping values are not allowed",
        "",
        f"a second colon in a line, or the indentation does not fit: {_INDENTED}",
    ),
    ("could not find expected ':'", "", "a key without its colon, or a line that is not indented enough"),
    ("found unexpected end of stream", "", "a quote is opened and not closed"),
    ("expected ',' or", "", "a bracket is opened and not closed, or a comma is missing"),
    ("did not find expected node content", "", "a value is missing, or a bracket or comma is too many"),
)
"""Words of PyYAML's messages, and what people do about them."""
_IS_OPEN: Final = re.compile("quoted scalar.*end of stream|flow .*<stream end>")


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
        self.is_sound = True
        """Whether values are what is meant: not where a variable is not set, or a name is read as a number."""
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
            raise _syntax_error(error, text) from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise YamlError(
                line, f"not YAML: the character {error.character:#04x} cannot stand in it"
            ) from error
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
        """Return problems as lines of text in the order of the file, one for each kind; `name` is its name in them."""
        placed = sorted(
            problems, key=lambda one: (self.line(one.path), _natural(path_text(one.path)), one.message)
        )
        lines = []
        for one in gathered(placed, self.data):
            where = path_text(self.written(one.path))
            lines.append(f"{name}:{self.line(one.path)}: {where}{': ' if where else ''}{one.message}")
        return lines

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
            if (read_as := _KEYS_READ_AS.get(key.tag)) and _holds_names(path, name):
                self.is_sound = False
                told = f'the key {name or "~"} is read as {read_as}: write it in quotes, "{name}"'
                self.problems.append(Problem(here, told))
            if name in seen:
                self.problems.append(
                    Problem(here, f'key "{name}" appears twice (first in line {seen[name]})')
                )
                self.is_sound &= path != ("hosts",)  # one of the two was to have another name
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
        except LookupError as error:
            self.problems.append(Problem(path, str(error)))
            self.is_sound = False
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


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> YamlError:
    """Return what PyYAML says about the syntax of a text, with a remedy."""
    said = str(error.problem or error.context or error)
    mark = error.problem_mark or error.context_mark
    if _IS_OPEN.search(f"{error.context} {said}") and error.context_mark is not None:
        mark = error.context_mark  # what was opened there reaches to the end
    line = _line(mark)
    hint = _about_ranges(text, line)
    means = next((why for words, more, why in _SYNTAX if words in said and more in said), "")
    return YamlError(line, f"not YAML: {said}{f' ({means})' if means and not hint else ''}{hint}")


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


def _holds_names(path: KeyPath, key: str) -> bool:
    """Return whether the keys of a mapping are names: not deep inside of hosts, where parts have sections."""
    if path[:1] == ("faults",):
        return key != "on"  # which is read as true, and means the key
    return not path or (path[0] in _OF_NAMES and (path[0] != "hosts" or len(path) < 3))


def _natural(text: str) -> list[str | int]:
    """Return what sorts h2 before h10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text)]


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


# --- variables of the environment ----------------------------------------------------------------------------


def with_variables(text: str, environment: Mapping[str, str]) -> str:
    """Return a value of a file with its variables replaced. Raises LookupError: one is not set, and has no default."""

    def value(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        if default is not None:
            return environment.get(name) or default
        if name not in environment:
            raise LookupError(
                f"{name} is not set in the environment: set it, or write ${{{name}:-DEFAULT}}; "
                f"for the text itself, $${{{name}}}"
            )
        return environment[name]

    return _VARIABLE.sub(value, text) if "${" in text else text


def without_variables(text: str) -> str:
    """Return what `with_variables` makes a text of."""
    return _VARIABLE.sub(lambda match: f"${match[0]}", text) if "${" in text else text


def variables_of(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the text of a file mentions and that are set."""
    names = {match[2] for match in _VARIABLE.finditer(text)}
    return {name: environment[name] for name in sorted(names) if name in environment}
