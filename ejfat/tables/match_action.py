"""Match-action tables: exact, longest-prefix and masked keys, bounded size, unique keys.

Entries with the same masks form a group, in which a lookup is a single dictionary access. An exact table has one
group, a prefix table one per prefix length in use, and a masked table one per mask in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter

from ejfat.base.errors import TableError

_MEMO_LIMIT = 4096


class MatchKind(StrEnum):
    """How a key field is matched."""

    EXACT = "exact"
    LPM = "lpm"
    """VALUE/PREFIX_LENGTH; the longest matching prefix wins, regardless of priority."""
    FIELD_MASK = "field_mask"
    """VALUE&&&MASK; of several matching entries, the one with the lowest priority number wins."""


@dataclass(frozen=True, slots=True)
class TableField:
    """A field of a table's key, or a parameter of an action."""

    name: str
    width: int
    """In bits."""
    kind: MatchKind = MatchKind.EXACT

    @property
    def full_mask(self) -> int:
        """All bits of the field."""
        return (1 << self.width) - 1

    def number(self, text: str) -> int:
        """Read a value, hexadecimal with 0x or decimal.

        Raises:  TableError: not a number, or too wide.
        """
        try:
            value = int(text, 16) if text[:2].lower() == "0x" else int(text, 10)
        except ValueError:
            raise TableError(f"{self.name} {text!r}, expected a number such as 0x1f or 31") from None
        if not 0 <= value <= self.full_mask:
            raise TableError(f"{self.name} {text} does not fit {self.width} bits")
        return value


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The specification of a table: its key, its actions and its size."""

    name: str
    keys: tuple[TableField, ...]
    actions: dict[str, tuple[TableField, ...]]
    """The parameters of each action."""
    size: int

    @property
    def takes_priority(self) -> bool:
        """Whether entries may have a priority: the key has a prefix or a mask."""
        return any(key.kind is not MatchKind.EXACT for key in self.keys)

    def describe_keys(self) -> str:
        """Return the key as an error message shows it: `tick/lpm, lb_id`."""
        return ", ".join(
            key.name if key.kind is MatchKind.EXACT else f"{key.name}/{key.kind}" for key in self.keys
        )


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """A field of an entry's key: a value, and a mask of the bits that count."""

    value: int
    mask: int

    @property
    def prefix_length(self) -> int:
        """The number of bits that count."""
        return self.mask.bit_count()


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a table."""

    matches: tuple[KeyMatch, ...]
    action: str
    args: tuple[int, ...] = ()
    priority: int = 0


def exact(spec: TableSpec, *values: int) -> tuple[KeyMatch, ...]:
    """Return exact matches (all bits count) for all fields of a key."""
    return tuple(KeyMatch(value, key.full_mask) for key, value in zip(spec.keys, values, strict=True))


def prefix_match(value: int, length: int, width: int = 64) -> KeyMatch:
    """Return VALUE/LENGTH of a `width`-bit field; bits after the prefix are cleared."""
    mask = (1 << width) - (1 << (width - length))
    return KeyMatch(value & mask, mask)


_Row = tuple[int, Entry]
"""The place of an entry in the order of insertion, and the entry."""


class Table:
    """Entries according to `spec`, at most `spec.size` of them."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self.version = 0
        """Increases with every change; results computed from an older version are stale."""
        self._groups: dict[tuple[int, ...], dict[tuple[int, ...], _Row]] = {}
        self._search: list[tuple[tuple[int, ...], dict[tuple[int, ...], _Row]]] = []
        self._exact: dict[tuple[int, ...], _Row] = {}
        self._memo: dict[tuple[int, ...], Entry | None] = {}
        self._first_wins = not any(key.kind is MatchKind.FIELD_MASK for key in spec.keys)
        self._all_exact = not spec.takes_priority
        self._count = 0
        self._order = 0
        self._touched: set[tuple[KeyMatch, ...]] | None = None
        """Keys whose entries have changed since `take_touched`; None: all may have."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries in insertion order."""
        rows = [row for group in self._groups.values() for row in group.values()]
        return (entry for _, entry in sorted(rows, key=itemgetter(0)))

    def lookup(self, *values: int) -> Entry | None:
        """Return the entry that matches `values` (one per key field); None for a miss."""
        if self._all_exact:
            row = self._exact.get(values)
            return row[1] if row else None
        memo = self._memo
        if values in memo:
            return memo[values]
        found = self._find(values)
        if len(memo) >= _MEMO_LIMIT:
            memo.clear()
        memo[values] = found
        return found

    def _find(self, values: tuple[int, ...]) -> Entry | None:
        best: _Row | None = None
        for masks, group in self._search:
            row = group.get(tuple([v & m for v, m in zip(values, masks, strict=True)]))
            if row is None:
                continue
            if self._first_wins:
                return row[1]
            if best is None or (row[1].priority, row[0]) < (best[1].priority, best[0]):
                best = row
        return best[1] if best else None

    def get(self, matches: Sequence[KeyMatch]) -> Entry | None:
        """Return the entry with exactly this key, or None."""
        row = self._groups.get(_masks(matches), {}).get(_values(matches))
        return row[1] if row else None

    def insert(self, entry: Entry) -> None:
        """Add an entry.

        Raises:  TableError: the key is in use, there is no room, or it does not fit the table.
        """
        entry = self.checked(entry)
        if self.get(entry.matches) is not None:
            raise TableError(
                f"{self.spec.name}: there already is an entry for {self._matches_text(entry.matches)}"
            )
        self._add(entry)

    def put(self, entry: Entry) -> Entry | None:
        """Add an entry; replace and return the one with the same key, if there is one.

        Raises:  TableError: no room for a new key, or it does not fit the table.
        """
        entry = self.checked(entry)
        group, values = self._groups.get(_masks(entry.matches), {}), _values(entry.matches)
        row = group.get(values)
        if row is None:
            self._add(entry)
            return None
        order, before = row
        group[values] = order, entry
        self._changed(entry.matches)
        return before

    def delete(self, matches: Sequence[KeyMatch]) -> Entry:
        """Remove and return the entry with this key.

        Raises:  TableError: no such entry.
        """
        masks = _masks(matches)
        group = self._groups.get(masks, {})
        row = group.pop(_values(matches), None)
        if row is None:
            raise TableError(f"{self.spec.name}: no entry for {self._matches_text(matches)}")
        self._count -= 1
        if not group:
            del self._groups[masks]
            self._order_groups()
        self._changed(row[1].matches)
        return row[1]

    def clear(self) -> None:
        """Remove all entries."""
        self._groups.clear()
        self._order_groups()
        self._count = 0
        self._touched = None
        self._changed(())

    def checked(self, entry: Entry) -> Entry:
        """Return `entry` with the bits that do not count cleared.

        Raises:  TableError: wrong number of fields or arguments, a value too wide, an unknown action.
        """
        spec = self.spec
        if len(entry.matches) != len(spec.keys):
            raise TableError(
                f"{spec.name}: {len(entry.matches)} key fields, expected {len(spec.keys)} ({spec.describe_keys()})"
            )
        for key, match in zip(spec.keys, entry.matches, strict=True):
            if not 0 <= match.value <= key.full_mask or not 0 <= match.mask <= key.full_mask:
                raise TableError(f"{spec.name}: {key.name} {match.value:#x} does not fit {key.width} bits")
            if key.kind is MatchKind.EXACT and match.mask != key.full_mask:
                raise TableError(f"{spec.name}: {key.name} is an exact key and takes no mask")
        params = spec.actions.get(entry.action)
        if params is None:
            raise TableError(f"{spec.name}: no action {entry.action!r}, expected {' or '.join(spec.actions)}")
        if len(entry.args) != len(params):
            raise TableError(
                f"{spec.name}: {entry.action} takes {len(params)} arguments, not {len(entry.args)}"
            )
        for param, value in zip(params, entry.args, strict=True):
            if not 0 <= value <= param.full_mask:
                raise TableError(f"{spec.name}: {param.name} {value:#x} does not fit {param.width} bits")
        if all(match.value == match.value & match.mask for match in entry.matches):
            return entry
        matches = tuple(KeyMatch(match.value & match.mask, match.mask) for match in entry.matches)
        return Entry(matches, entry.action, entry.args, entry.priority)

    def _matches_text(self, matches: Sequence[KeyMatch]) -> str:
        return " ".join(match_text(key, match) for key, match in zip(self.spec.keys, matches, strict=False))

    def _add(self, entry: Entry) -> None:
        if self._count >= self.spec.size:
            raise TableError(f"{self.spec.name}: full with {self.spec.size} entries")
        masks = _masks(entry.matches)
        group = self._groups.get(masks)
        if group is None:
            group = self._groups[masks] = {}
            self._order_groups()
        self._order += 1
        group[_values(entry.matches)] = self._order, entry
        self._count += 1
        self._changed(entry.matches)

    def _order_groups(self) -> None:
        self._exact = next(iter(self._groups.values()), {}) if self._all_exact else {}
        self._search = sorted(
            self._groups.items(), key=lambda item: -sum(mask.bit_count() for mask in item[0])
        )

    def take_touched(self) -> set[tuple[KeyMatch, ...]] | None:
        """Return the keys whose entries have changed since the last call; None: all may have, as in the first call.

        For the one copy of the table that follows it.
        """
        touched, self._touched = self._touched, set()
        return touched

    def _changed(self, matches: tuple[KeyMatch, ...]) -> None:
        self.version += 1
        if self._touched is not None:
            self._touched.add(matches)
        if self._memo:
            self._memo.clear()


def match_text(key: TableField, match: KeyMatch) -> str:
    """Return one key field as a table script writes it: `0x10/60`, `0x1&&&0xfff` or plain `0x800`."""
    value = f"{match.value:#0{(key.width + 3) // 4 + 2}x}"
    if key.kind is MatchKind.LPM:
        return f"{value}/{match.prefix_length}"
    if key.kind is MatchKind.FIELD_MASK:
        return f"{value}&&&{match.mask:#x}"
    return value


def _masks(matches: Sequence[KeyMatch]) -> tuple[int, ...]:
    return tuple(match.mask for match in matches)


def _values(matches: Sequence[KeyMatch]) -> tuple[int, ...]:
    return tuple(match.value & match.mask for match in matches)
