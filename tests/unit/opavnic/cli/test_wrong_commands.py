"""Wrong command lines: one line on stderr with what would be right, nothing on stdout, and an exit code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.cli.main import main

VECTORS = Path(__file__).parents[3] / "vectors" / "ejfat"


def told_wrong_commands() -> Iterator[tuple[str, str]]:
    """Yield the command lines of wrong_commands.txt, each with what it is refused with."""
    command = ""
    for line in Path(__file__).with_name("wrong_commands.txt").read_text().splitlines():
        if line.startswith("    "):
            yield command, line.strip()
        elif not line.startswith("#"):
            command = line


TOLD = [*told_wrong_commands()]


@pytest.mark.usefixtures("own_runtime")
@pytest.mark.parametrize(("command", "said"), TOLD, ids=range(len(TOLD)))
def test_wrong_command_line_is_refused_as_it_is_told(
    command: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for variable in ("EJFAT_URI", "EJFAT_ADMIN_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    line = said.removeprefix("[1] ")
    assert main(shlex.split(command.replace("VECTORS", str(VECTORS)))) == (2 if line == said else 1)
    out, err = capsys.readouterr()
    assert out == ""
    expected = re.escape(line.replace("VECTORS", str(VECTORS))).replace(r"\.\.\.", ".*")
    assert re.fullmatch(f"{expected}\n", err), err
