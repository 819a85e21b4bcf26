"""Table rules in the form of a foreign control plane: numbers as text, keys by kind, actions by name.

As the public control plane requires, a rule whose key exists replaces the old one, regardless of its replace flag,
and deleting a rule that does not exist is not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ejfat.base.errors import EjfatError
from ejfat.tables.match_action import Entry, KeyField, KeyMatch, MatchKind, TableSpec, prefix_match
from ejfat.tables.schema import V23_SPECS, Dialect, Op, TableSet, Update

_SPECS = {spec.name: spec for spec in V23_SPECS}


class RuleFault(Enum):
    """Kinds of invalid rules; the value names the error code of the P4 service."""

    TABLE = "EC_INVALID_TABLE_NAME"
    ACTION = "EC_INVALID_ACTION_NAME"
    TOO_FEW_MATCHES = "EC_TABLE_RULE_TOO_FEW_MATCHES"
    TOO_MANY_MATCHES = "EC_TABLE_RULE_TOO_MANY_MATCHES"
    TOO_FEW_PARAMETERS = "EC_TABLE_RULE_TOO_FEW_ACTION_PARAMETERS"
    TOO_MANY_PARAMETERS = "EC_TABLE_RULE_TOO_MANY_ACTION_PARAMETERS"
    PARAMETER = "EC_TABLE_RULE_INVALID_ACTION_PARAMETER_FORMAT"
    KEY = "EC_TABLE_RULE_MATCH_INVALID_KEY_FORMAT"
    MASK = "EC_TABLE_RULE_MATCH_INVALID_MASK_FORMAT"
    PREFIX_LENGTH = "EC_TABLE_RULE_MATCH_INVALID_PREFIX_LENGTH"
    MATCH_TYPE = "EC_UNKNOWN_TABLE_RULE_MATCH_TYPE"


class RuleError(EjfatError):
    """A rule that does not fit any table."""

    def __init__(self, fault: RuleFault, reason: str) -> None:
        super().__init__(reason)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A key field of a rule: `key` alone, with `mask`, or with `prefix_length`; all None: any value."""

    key: str | None = None
    mask: str | None = None
    prefix_length: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as text."""

    table: str
    matches: tuple[RuleMatch, ...]
    action: str = ""
    parameters: tuple[str, ...] = ()
    priority: int = 0


def insertion(rule: Rule) -> Update:
    """Return the update that adds or replaces a rule.

    Raises:  RuleError: the rule is invalid.
    """
    spec, matches = _key(rule)
    action = spec.actions.get(rule.action)
    if action is None:
        raise RuleError(
            RuleFault.ACTION, f"{spec.name}: no action {rule.action!r}, expected {' or '.join(spec.actions)}"
        )
    given, wanted = len(rule.parameters), len(action.params)
    if given != wanted:
        fault = RuleFault.TOO_FEW_PARAMETERS if given < wanted else RuleFault.TOO_MANY_PARAMETERS
        raise RuleError(fault, f"{spec.name}: {action.name} takes {wanted} parameters, not {given}")
    args = tuple(
        _number(text, param.width, RuleFault.PARAMETER, f"{spec.name}: {param.name}")
        for param, text in zip(action.params, rule.parameters, strict=True)
    )
    return Update(Op.PUT, Dialect.V23, spec.name, Entry(matches, action.name, args, rule.priority))


def deletion(rule: Rule, tables: TableSet) -> Update | None:
    """Return the update that removes a rule, with any action; None if the rule does not exist.

    Raises:  RuleError: invalid table or key.
    """
    spec, matches = _key(rule)
    entry = tables.v23[spec.name].get(matches)
    return None if entry is None else Update(Op.DELETE, Dialect.V23, spec.name, entry)


def _key(rule: Rule) -> tuple[TableSpec, tuple[KeyMatch, ...]]:
    spec = _SPECS.get(rule.table)
    if spec is None:
        raise RuleError(RuleFault.TABLE, f"no table {rule.table!r}, expected one of {', '.join(_SPECS)}")
    given, wanted = len(rule.matches), len(spec.keys)
    if given != wanted:
        fault = RuleFault.TOO_FEW_MATCHES if given < wanted else RuleFault.TOO_MANY_MATCHES
        raise RuleError(fault, f"{spec.name}: {given} matches, expected {wanted} ({spec.describe_keys()})")
    return spec, _matches(spec, rule.matches)


def _matches(spec: TableSpec, matches: Sequence[RuleMatch]) -> tuple[KeyMatch, ...]:
    return tuple(_match(spec, key, match) for key, match in zip(spec.keys, matches, strict=True))


def _match(spec: TableSpec, key: KeyField, match: RuleMatch) -> KeyMatch:
    name = f"{spec.name}: {key.name}"
    if match.key is None:
        if key.kind is MatchKind.EXACT:
            raise RuleError(RuleFault.MATCH_TYPE, f"{name} needs a key")
        return KeyMatch(0, 0)
    value = _number(match.key, key.width, RuleFault.KEY, name)
    if match.prefix_length is not None:
        if not 0 <= match.prefix_length <= key.width:
            raise RuleError(
                RuleFault.PREFIX_LENGTH, f"{name}/{match.prefix_length}, expected 0 to {key.width}"
            )
        found = prefix_match(value, match.prefix_length, key.width)
    else:
        mask = (
            key.full_mask
            if match.mask is None
            else _number(match.mask, key.width, RuleFault.MASK, f"{name} mask")
        )
        found = KeyMatch(value & mask, mask)
    if key.kind is MatchKind.EXACT and found.mask != key.full_mask:
        raise RuleError(RuleFault.MATCH_TYPE, f"{name} is an exact key; its mask must have all bits set")
    if key.kind is MatchKind.LPM and found.mask != prefix_match(0, found.prefix_length, key.width).mask:
        raise RuleError(RuleFault.MASK, f"{name} mask {found.mask:#x} is not a prefix")
    return found


def _number(text: str, width: int, fault: RuleFault, name: str) -> int:
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text, 10)
    except ValueError:
        raise RuleError(fault, f"{name} {text!r}, expected a number such as 0x1f") from None
    if not 0 <= value < 1 << width:
        raise RuleError(fault, f"{name} {text} does not fit {width} bits")
    return value
