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


class EmFile:
    """An EM file that has been read; it knows the line of each problem."""

    def __init__(self, file: Path, elsewhere: Callable[[Any], Iterable[Problem]] = lambda _: ()) -> None:
        """Read and check.

        Args:    elsewhere: returns further problems of a file that has mistakes, such as those on a running fabric.
        Raises:  ConfigError: one line for each mistake.
        """
        self._file = file
        try:
            self._source = YamlSource(read_text(file, MAX_FILE_BYTES, KIND), KIND)
        except YamlError as error:
            raise ConfigError([f"{file}:{error.line}: {error.reason}"]) from error
        problems = list(self._source.problems)
        if isinstance(self._source.data, dict) and (found := self._source.data.keys() & OF_LABS):
            key = sorted(found)[0]
            raise ConfigError(
                [
                    f"{file}:{self._source.line((key,))}: {key}: this is a lab file, not an EM file: "
                    f"opavnic apply {file} changes a running lab; an EM file has vesws, and keys of its manager"
                ]
            )
        try:
            self.config: EmConfig = parse_config(self._source.data)
        except EmConfigError as error:
            problems += error.problems
        if problems:
            problems += [problem for problem in elsewhere(self._source.data) if problem not in problems]
            raise ConfigError(self.lines(problems))

    def lines(self, problems: Iterable[Problem]) -> list[str]:
        """Return problems as lines of text, in the order of the file."""
        return self._source.lines(str(self._file), problems)
