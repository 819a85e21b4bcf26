"""Read table scripts: `table_add TABLE ACTION KEY... => ARG... [PRIORITY]`, `run_traffic NAME`.

A command may span several lines, as in the specification; `#` starts a comment. Keys are hexadecimal or
decimal: plain, VALUE/PREFIX_LENGTH or VALUE&&&MASK, in the order of the table's key.

Source: seed 002, "Example Control Plane CLI configuration script".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ejfat.base.errors import BadRequestError, TableError
from ejfat.tables.match_action import Entry, KeyMatch, MatchKind, TableField, TableSpec, prefix_match
from ejfat.tables.schema import FAMILIES, Dialect, TableSet, spec_for

TABLE_ADD = "table_add"
RUN_TRAFFIC = "run_traffic"
_COMMANDS = (TABLE_ADD, RUN_TRAFFIC)


class Word(NamedTuple):
    """A word of the script."""

    text: str
    place: str
    """PATH:LINE."""

    def error(self, reason: object) -> BadRequestError:
        """Return the error that names its place."""
        return BadRequestError(f"{self.place}: {reason}")


def load_script(text: str, path: str = "<script>", tables: TableSet | None = None) -> TableSet:
    """Read a table script into `tables`, or into new ones.

    Args:    path: name of the script in error messages.
    Raises:  BadRequestError: with the line and what was expected; also if a table is full or a key is already in use.
    """
    tables = tables or TableSet()
    has_ended = False
    for head, *words in _commands(text, path):
        if has_ended:
            raise head.error(f"{head.text} after {RUN_TRAFFIC}, which ends a script")
        if head.text == TABLE_ADD:
            dialect, spec, entry = _table_add(head, words)
            try:
                tables.table(dialect, spec.name).insert(entry)
            except TableError as error:
                raise head.error(error) from None
        elif len(words) != 1:
            raise head.error(f"{RUN_TRAFFIC} takes one name, not {len(words)}")
        else:
            has_ended = True
    return tables


def _commands(text: str, path: str) -> Iterable[list[Word]]:
    current: list[Word] = []
    for number, line in enumerate(text.splitlines(), 1):
        for one in line.partition("#")[0].split():
            word = Word(one, f"{path}:{number}")
            if one in _COMMANDS:
                if current:
                    yield current
                current = [word]
            elif not current:
                raise word.error(f"{one!r}, expected {' or '.join(_COMMANDS)}")
            else:
                current.append(word)
    if current:
        yield current


def _table_add(head: Word, words: list[Word]) -> tuple[Dialect, TableSpec, Entry]:
    arrow = next((index for index, word in enumerate(words) if word.text == "=>"), None)
    last = words[-1] if words else head
    if arrow is None:
        raise last.error(f"expected => after the keys of {TABLE_ADD}, found the end of the command")
    if arrow < 2:
        raise words[arrow].error(f"expected `{TABLE_ADD} TABLE ACTION KEY... => ARG...`")
    table, action, keys, args = words[0], words[1], words[2:arrow], words[arrow + 1 :]
    try:
        dialect, spec = spec_for(table.text, len(keys))
    except TableError as error:
        raise table.error(error) from None
    if action.text not in spec.actions:
        choices = " or ".join(spec.actions)
        raise action.error(f"{spec.name}: no action {action.text!r}, expected {choices}")
    matches = tuple(_match(key, word) for key, word in zip(spec.keys, keys, strict=True))
    for key, word, match in zip(spec.keys, keys, matches, strict=True):
        family = FAMILIES.get(action.text)
        if key.name == "ether_type" and family not in (None, match.value):
            raise word.error(
                f"{key.name} {word.text}, expected {family:#06x} for {action.text}: packets of another family that "
                "it matches would always be dropped"
            )
    params = spec.actions[action.text]
    extra = len(args) - len(params)
    if not 0 <= extra <= spec.takes_priority:
        priority = " and perhaps a priority" if spec.takes_priority else ""
        wrong = args[len(params) + spec.takes_priority] if extra > 0 else last
        raise wrong.error(f"{len(args)} arguments, expected {len(params)} for {action.text}{priority}")
    values = tuple(_number(word, param) for param, word in zip(params, args, strict=False))
    priority_value = _number(args[-1], TableField("priority", 32)) if extra else 0
    return dialect, spec, Entry(matches, action.text, values, priority_value)


def _match(key: TableField, word: Word) -> KeyMatch:
    if key.kind is MatchKind.LPM:
        value, slash, length = word.text.partition("/")
        if not slash or not length.isdecimal() or int(length) > key.width:
            raise word.error(
                f"{key.name} {word.text!r}, expected VALUE/PREFIX_LENGTH with a length of 0 to {key.width}"
            )
        return prefix_match(_number(word._replace(text=value), key), int(length), key.width)
    if key.kind is MatchKind.FIELD_MASK:
        value, ampersands, mask_text = word.text.partition("&&&")
        if not ampersands:
            raise word.error(f"{key.name} {word.text!r}, expected VALUE&&&MASK")
        mask = _number(word._replace(text=mask_text), TableField(f"mask of {key.name}", key.width))
        return KeyMatch(_number(word._replace(text=value), key) & mask, mask)
    return KeyMatch(_number(word, key), key.full_mask)


def _number(word: Word, field: TableField) -> int:
    try:
        return field.number(word.text)
    except TableError as error:
        raise word.error(error) from None
