"""Read an EM file: every mistake with file, line and path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from opavnic.lab.errors import ConfigError
from opavnic.lab.yaml_source import YamlError, YamlSource
from vema.em.desired import EmConfig, EmConfigError, parse_config
from vema.em.problems import Problem, path_text

MAX_FILE_BYTES: Final = 4 << 20


class EmFile:
    """An EM file that has been read; it can say where in it a problem stands."""

    def __init__(self, file: Path) -> None:
        """Read and check.

        Raises:  ConfigError: one line for each mistake.
        """
        self._file = file
        try:
            raw = file.read_bytes()
            if len(raw) > MAX_FILE_BYTES:
                raise ConfigError([f"{file}: more than {MAX_FILE_BYTES} bytes: this is no EM file"])
            self._source = YamlSource(raw.decode("utf-8"))
        except OSError as error:
            raise ConfigError([f"{file}: {error.strerror}"]) from error
        except UnicodeDecodeError as error:
            raise ConfigError([f"{file}: not UTF-8 text (byte {error.start})"]) from error
        except YamlError as error:
            raise ConfigError([f"{file}:{error.line}: {error.reason}"]) from error
        problems = list(self._source.problems)
        try:
            self.config: EmConfig = parse_config(self._source.data)
        except EmConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(self.lines(problems))

    def lines(self, problems: list[Problem]) -> list[str]:
        """Return problems as lines for people, in the order of the file."""
        placed = sorted((self._source.line(p.path), path_text(p.path), p.message) for p in problems)
        return [f"{self._file}:{line}: {where}{': ' if where else ''}{what}" for line, where, what in placed]
