"""Read table scripts: `table_add TABLE ACTION KEY... => ARG... [PRIORITY]`, `run_traffic NAME`.

A command may span several lines, as in the specification; `#` starts a comment. Keys are hexadecimal or
decimal: plain, VALUE/PREFIX_LENGTH or VALUE&&&MASK, in the order of the table's key.

Source: seed 002, "Example Control Plane CLI configuration script".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ejfat.base.errors import ScriptError, TableError
from ejfat.tables.match_action import Entry, KeyField, KeyMatch, MatchKind, TableSpec, prefix_match
from ejfat.tables.schema import Dialect, TableSet, spec_for

TABLE_ADD = "table_add"
RUN_TRAFFIC = "run_traffic"
_COMMANDS = (TABLE_ADD, RUN_TRAFFIC)
_FAMILIES = {"do_ipv4_member_rewrite": 0x0800, "do_ipv6_member_rewrite": 0x86DD}
"""EtherType of the packets that an action can rewrite."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the script and its line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class TableAdd:
    """A parsed `table_add` command."""

    dialect: Dialect
    spec: TableSpec
    entry: Entry
    line: int


@dataclass(slots=True)
class Script:
    """A parsed script."""

    path: str
    entries: list[TableAdd] = field(default_factory=list)
    traffic: str | None = None
    """The name in `run_traffic`; None if the script does not end with this command."""


def read_script(text: str, path: str = "<script>") -> Script:
    """Read a table script.

    Args:    path: name of the script in error messages.
    Raises:  ScriptError: with the line and what was expected.
    """
    script = Script(path)
    for words in _commands(_tokens(text), path):
        head = words[0]
        if script.traffic is not None:
            raise ScriptError(path, head.line, f"{head.text} after {RUN_TRAFFIC}, which ends a script")
        if head.text == TABLE_ADD:
            script.entries.append(_table_add(words, path))
        elif len(words) != 2:
            raise ScriptError(path, head.line, f"{RUN_TRAFFIC} takes one name, not {len(words) - 1}")
        else:
            script.traffic = words[1].text
    return script


def load_script(text: str, path: str = "<script>", tables: TableSet | None = None) -> TableSet:
    """Read a table script into `tables`, or into new ones.

    Raises:  ScriptError: with the line; also if a table is full or a key is already in use.
    """
    tables = tables or TableSet()
    for command in read_script(text, path).entries:
        try:
            tables.table(command.dialect, command.spec.name).insert(command.entry)
        except TableError as error:
            raise ScriptError(path, command.line, str(error)) from None
    return tables


def _tokens(text: str) -> Iterable[Word]:
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.partition("#")[0].split():
            yield Word(word, number)


def _commands(tokens: Iterable[Word], path: str) -> Iterable[list[Word]]:
    current: list[Word] = []
    for token in tokens:
        if token.text in _COMMANDS:
            if current:
                yield current
            current = [token]
        elif not current:
            raise ScriptError(path, token.line, f"{token.text!r}, expected {' or '.join(_COMMANDS)}")
        else:
            current.append(token)
    if current:
        yield current


def _table_add(words: list[Word], path: str) -> TableAdd:
    head = words[0]
    texts = [word.text for word in words]
    if "=>" not in texts:
        raise ScriptError(
            path, words[-1].line, f"expected => after the keys of {TABLE_ADD}, found the end of the command"
        )
    arrow = texts.index("=>")
    if arrow < 3:
        raise ScriptError(path, words[arrow].line, f"expected `{TABLE_ADD} TABLE ACTION KEY... => ARG...`")
    table, action, keys, args = words[1], words[2], words[3:arrow], words[arrow + 1 :]
    try:
        dialect, spec = spec_for(table.text, len(keys))
    except TableError as error:
        raise ScriptError(path, table.line, str(error)) from None
    if action.text not in spec.actions:
        choices = " or ".join(spec.actions)
        raise ScriptError(path, action.line, f"{spec.name}: no action {action.text!r}, expected {choices}")
    matches = tuple(_match(key, word, path) for key, word in zip(spec.keys, keys, strict=True))
    for key, word, match in zip(spec.keys, keys, matches, strict=True):
        family = _FAMILIES.get(action.text)
        if key.name == "ether_type" and family not in (None, match.value):
            raise ScriptError(
                path,
                word.line,
                f"{key.name} {word.text}, expected {family:#06x} for {action.text}: packets of another family that "
                "it matches would always be dropped",
            )
    params = spec.actions[action.text].params
    extra = len(args) - len(params)
    if not 0 <= extra <= spec.takes_priority:
        priority = " and perhaps a priority" if spec.takes_priority else ""
        raise ScriptError(
            path,
            args[len(params) + spec.takes_priority].line if extra > 0 else words[-1].line,
            f"{len(args)} arguments, expected {len(params)} for {action.text}{priority}",
        )
    values = tuple(
        _number(word, param.width, param.name, path) for param, word in zip(params, args, strict=False)
    )
    priority_value = _number(args[-1], 32, "priority", path) if extra else 0
    return TableAdd(dialect, spec, Entry(matches, action.text, values, priority_value), head.line)


def _match(key: KeyField, word: Word, path: str) -> KeyMatch:
    if key.kind is MatchKind.LPM:
        value, slash, length = word.text.partition("/")
        if not slash or not length.isdecimal() or int(length) > key.width:
            raise ScriptError(
                path,
                word.line,
                f"{key.name} {word.text!r}, expected VALUE/PREFIX_LENGTH with a length of 0 to {key.width}",
            )
        return prefix_match(
            _number(Word(value, word.line), key.width, key.name, path), int(length), key.width
        )
    if key.kind is MatchKind.FIELD_MASK:
        value, ampersands, mask_text = word.text.partition("&&&")
        if not ampersands:
            raise ScriptError(path, word.line, f"{key.name} {word.text!r}, expected VALUE&&&MASK")
        mask = _number(Word(mask_text, word.line), key.width, f"mask of {key.name}", path)
        return KeyMatch(_number(Word(value, word.line), key.width, key.name, path) & mask, mask)
    return KeyMatch(_number(word, key.width, key.name, path), key.full_mask)


def _number(word: Word, width: int, name: str, path: str) -> int:
    text = word.text
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text, 10)
    except ValueError:
        raise ScriptError(path, word.line, f"{name} {text!r}, expected a number such as 0x1f or 31") from None
    if not 0 <= value < 1 << width:
        raise ScriptError(path, word.line, f"{name} {text} does not fit {width} bits")
    return value
