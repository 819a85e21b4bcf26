"""The result of a run of vectors: how many cases passed, and the first differences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opavnic.base.errors import VectorFileError
from opavnic.base.files import FileError, read_lines

if TYPE_CHECKING:
    from pathlib import Path


DEFAULT_KEPT: Final = 10
"""How many differing cases a result describes; the others are only counted."""
_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """One field of one case that differs from the recording."""

    case: int
    """The id of the case."""
    where: str
    """The step and the field."""
    expected: Any
    got: Any

    def lines(self) -> list[str]:
        """Return the difference as text; bytes are shown around the first one that differs."""
        head = f"case {self.case}: {self.where}"
        if isinstance(self.expected, bytes) and isinstance(self.got, bytes):
            return [head, *_hex_difference(self.expected, self.got)]
        return [head, f"  expected {_text(self.expected)}", f"  got      {_text(self.got)}"]

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        document: dict[str, Any] = {"case": self.case, "where": self.where}
        if isinstance(self.expected, bytes) and isinstance(self.got, bytes):
            document["offset"] = _first_difference(self.expected, self.got)
        return document | {"expected": _plain(self.expected), "got": _plain(self.got)}


@dataclass(slots=True)
class Result:
    """The outcome of one file."""

    kind: str
    """encap, rx, vema, probes, sma or pma."""
    title: str
    """The file, or what was compared."""
    total: int = 0
    failed: int = 0
    skipped: int = 0
    """Steps that the target cannot do (a running lab takes no host operations from here)."""
    cleared: int = 0
    """Requests that a MAD layer would not pass on as they are: sent without the ACTIVE bit of RMPP."""
    by_design: Counter[str] = field(default_factory=Counter)
    """Cases that passed although they differ, by the reason."""
    unsent: Counter[str] = field(default_factory=Counter)
    """Cases that cannot be sent, by the reason; they are not in `total`."""
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    """Of what is told apart: how many cases are equal, by design, or differ."""
    differences: list[CaseDifference] = field(default_factory=list)
    kept: int = DEFAULT_KEPT

    @property
    def ok(self) -> bool:
        """Whether there were cases and all passed."""
        return self.total > 0 and not self.failed

    def add(self, differences: list[CaseDifference]) -> None:
        """Count one case with these differences."""
        self.total += 1
        if differences:
            self.failed += 1
            if self.failed <= self.kept:
                self.differences.extend(differences)

    def summary(self) -> str:
        """Return `PASS n/n FILE`, or `FAIL n/m FILE`."""
        skipped = f", {self.skipped} steps skipped" if self.skipped else ""
        cleared = f", {self.cleared} requests sent without the ACTIVE bit of RMPP" if self.cleared else ""
        verdict = "PASS" if self.ok else "FAIL"
        return f"{verdict} {self.total - self.failed}/{self.total} {self.title}{skipped}{cleared}"

    def reasons(self) -> list[str]:
        """Return what is not simply equal, a line for each reason."""
        by_design = [f"  {count} differ by design: {why}" for why, count in self.by_design.items()]
        return [*by_design, *(f"  {count} not sent: {why}" for why, count in self.unsent.items())]

    def table(self) -> list[str]:
        """Return a line for each row."""
        return [
            f"  {name}: " + ", ".join(f"{count} {what}" for what, count in row.items())
            for name, row in sorted(self.rows.items())
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "kind": self.kind,
            "file": self.title,
            "ok": self.ok,
            "total": self.total,
            "passed": self.total - self.failed,
            "skipped_steps": self.skipped,
            "requests_without_active": self.cleared,
            "by_design": dict(self.by_design),
            "unsent": dict(self.unsent),
            "rows": {name: dict(row) for name, row in self.rows.items()},
            "differences": [difference.to_json() for difference in self.differences],
        }


def compare(case: int, where: str, expected: dict[str, Any], got: dict[str, Any]) -> list[CaseDifference]:
    """Return a difference for each key of `expected` that has another value in `got`."""
    prefix = f"{where}, " if where else ""
    return [
        CaseDifference(case, prefix + key, value, got.get(key))
        for key, value in expected.items()
        if value != got.get(key)
    ]


def _text(value: Any) -> str:
    return value.hex() or "no bytes" if isinstance(value, bytes) else repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _first_difference(expected: bytes, got: bytes) -> int:
    for offset, (a, b) in enumerate(zip(expected, got, strict=False)):
        if a != b:
            return offset
    return min(len(expected), len(got))


def _hex_difference(expected: bytes, got: bytes) -> list[str]:
    offset = _first_difference(expected, got)
    row = offset - offset % _ROW
    sizes = "" if len(expected) == len(got) else f"; {len(expected)} bytes expected, {len(got)} got"
    return [
        f"  first difference at byte {offset} ({offset:#x}){sizes}",
        f"  expected {row:#06x}: {expected[row : row + _ROW].hex(' ')}",
        f"  got      {row:#06x}: {got[row : row + _ROW].hex(' ')}",
    ]


Json = dict[str, Any]
Case = TypeVar("Case")


def read_cases(path: Path, parse: Callable[[Json], Case]) -> Iterator[Case]:
    """Yield the cases of a file, each made by `parse` from its JSON object.

    Raises:  VectorFileError: the file cannot be read, a line is not a JSON object, or a field is missing or wrong.
    """
    count = 0
    for number, line in _lines(path):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise VectorFileError(
                f"{path}:{number}: no JSON: a vector file has one JSON object a line"
            ) from None
        if not isinstance(document, dict):
            raise VectorFileError(
                f"{path}:{number}: a case is a JSON object, this is {type(document).__name__}"
            )
        try:
            case = parse(document)
        except KeyError as error:
            raise VectorFileError(f"{path}:{number}: the case has no field {error}") from None
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            raise VectorFileError(f"{path}:{number}: the case cannot be read: {error}") from None
        count += 1
        yield case
    if not count:
        raise VectorFileError(f"{path}: the file has no cases")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        yield from read_lines(path, "vector file")
    except FileError as error:
        raise VectorFileError(f"{error.name}: cannot be read: {error.reason}") from None
