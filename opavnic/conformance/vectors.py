"""Reading vector files: JSON lines, plain or gzip'ed, one case a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from opavnic.base.errors import VectorFileError
from opavnic.base.files import FileError, read_lines

if TYPE_CHECKING:
    from pathlib import Path

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
