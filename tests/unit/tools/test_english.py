"""The check of turns of phrase finds them, and fails on a path that is not there."""

import pytest

from tools import english


def test_path_that_is_not_tracked_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main(["docs/no-such-page.md"]) == 1
    assert "docs/no-such-page.md is not a tracked file" in capsys.readouterr().out


def test_paths_of_the_list_exist_and_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main([]) == 0, capsys.readouterr().out
