"""Read an EM file and report every mistake with file, line and path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.yaml_source import YamlError, YamlSource, read_text
from vema.em.desired.desired import EmConfig, EmConfigError, parse_config
from vema.em.desired.problems import Problem

MAX_FILE_BYTES: Final = 4 << 20
KIND: Final = "EM file"
OF_LABS: Final = frozenset({"hosts", "uplinks", "apps", "faults", "subnet_manager"})
"""Keys that lab files have and EM files have not."""


def load_em_file(
    file: Path, elsewhere: Callable[[Any], Iterable[Problem]] = lambda _: ()
) -> tuple[EmConfig, YamlSource]:
    """Read and check an EM file; return it, and its text, which knows the line of each problem.

    Args:    elsewhere: returns further problems of a file that has mistakes, such as those on a running fabric.
    Raises:  ConfigError: one line for each mistake.
    """
    try:
        source = YamlSource(read_text(file, MAX_FILE_BYTES, KIND), KIND)
    except YamlError as error:
        raise ConfigError([f"{file}:{error.line}: {error.reason}"]) from error
    if isinstance(source.data, dict) and (found := source.data.keys() & OF_LABS):
        key = sorted(found)[0]
        raise ConfigError(
            [
                f"{file}:{source.line((key,))}: {key}: this is a lab file, not an EM file: opavnic apply {file} "
                "changes a running lab; an EM file has vesws, and keys of its manager"
            ]
        )
    problems, config = list(source.problems), None
    try:
        config = parse_config(source.data)
    except EmConfigError as error:
        problems += error.problems
    if problems or config is None:
        problems += [problem for problem in elsewhere(source.data) if problem not in problems]
        raise ConfigError(source.lines(str(file), problems))
    return config, source
