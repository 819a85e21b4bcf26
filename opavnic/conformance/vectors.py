"""Reading vector files: JSON lines, plain or gzip'ed, one case a line."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from opavnic.errors import VectorFileError

Json = dict[str, Any]
Case = TypeVar("Case")

_GZIP_MAGIC = b"\x1f\x8b"


def read_cases(path: Path, parse: Callable[[Json], Case]) -> Iterator[Case]:
    """Yield the cases of a file, each made by `parse` from its JSON object.

    Raises:  VectorFileError: the file cannot be read, a line is no JSON object, or a field is missing or wrong.
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
        raise VectorFileError(f"{path}: no cases in it")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as raw:  # opened once: it may be a pipe
            packed = raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            with gzip.open(raw, "rt", encoding="utf-8") if packed else io.TextIOWrapper(raw, "utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield number, line
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise VectorFileError(f"{path}: cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise VectorFileError(f"{path}: not text in UTF-8") from None
