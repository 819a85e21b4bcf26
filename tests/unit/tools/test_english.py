"""The check of turns of phrase finds them, and fails on a path that is not there."""

from pathlib import Path

import pytest

from tools import english


def test_turn_is_found_with_its_line_and_what_to_write(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("One line.\nIt tried In Vain.\n")
    assert list(english.findings(page)) == [(2, "in vain", "failed, was refused")]


def test_path_that_is_not_tracked_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main(["docs/no-such-page.md"]) == 1
    assert "docs/no-such-page.md is not a tracked file" in capsys.readouterr().out
