"""Run test vectors through a pipeline with their tables, and report differences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ejfat.base.errors import BadRequestError
from ejfat.pipeline.native import Wanted, make_pipeline
from ejfat.tables.script import load_script
from opavnic.base.files import MAX_DOCUMENT, read_bytes
from opavnic.conformance.result import Result, compare

FORMAT = 1
_FORM: Final = "a file of test vectors is a JSON object with `tables` and `vectors`, plain or gzip'ed"


def load_vectors(path: Path) -> Mapping[str, Any]:
    """Read a file of vectors, gzip'ed or plain JSON.

    Raises:  FileError: it cannot be read. BadRequestError: not a file of test vectors.
    """
    try:
        data = json.loads(read_bytes(path, MAX_DOCUMENT, "file of test vectors", gzipped=True))
    except (ValueError, RecursionError):
        raise BadRequestError(f"{path}: not JSON; {_FORM}") from None
    if not isinstance(data, dict) or not isinstance(data.get("vectors"), list) or "tables" not in data:
        raise BadRequestError(f"{path}: {_FORM}")
    tables = data["tables"]
    if not isinstance(tables, list) or not all(isinstance(line, str) for line in tables):
        raise BadRequestError(f"{path}: `tables` is not a list of script lines")
    if data.get("format") != FORMAT:
        raise BadRequestError(f"{path}: format {data.get('format')!r}, expected {FORMAT}")
    return data


def run_ejfat(path: Path, pipeline: Wanted = "auto") -> Result:
    """Run a file of vectors.

    Raises:  FileError, BadRequestError: the file is invalid. BadRequestError: the pipeline is not available.
    """
    return run_vectors(load_vectors(path), str(path), pipeline)


def run_vectors(data: Mapping[str, Any], name: str = "<vectors>", wanted: Wanted = "auto") -> Result:
    """Run vectors through a pipeline with their tables.

    Raises:  BadRequestError: the tables are invalid, a vector lacks a field, or the pipeline is not available.
    """
    pipeline = make_pipeline(wanted, load_script("\n".join(data["tables"]), f"{name}:tables"))
    result = Result("ejfat", name)
    for position, vector in enumerate(data["vectors"]):
        try:
            frame = bytes.fromhex(vector["in"])
            expected = {"frame": None if vector["out"] is None else bytes.fromhex(vector["out"])}
            if vector.get("egress") is not None:
                expected["egress"] = vector["egress"]
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequestError(f"{name}: vector {position}: {error!r}") from None
        verdict = pipeline.process(frame)
        why = f"{vector.get('cat', '')}{f' (dropped: {verdict.drop})' if verdict.drop else ''}"
        got = {"frame": verdict.frame, "egress": "host" if verdict.to_host else "same"}
        result.add(compare(vector.get("i", position), why, expected, got))
    if pipeline.counters.balance:
        raise BadRequestError(
            f"{name}: {pipeline.counters.balance} frames are neither forwarded nor counted as dropped"
        )
    return result
