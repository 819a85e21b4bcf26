"""`opavnic bench` lists the benchmarks that packages bring, and says what to install where there are none."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from opavnic.cli.base import group
from opavnic.cli.main import main

BENCHMARKS = ("datapath", "ejfat", "em", "fabric", "links", "lnet", "mad")


@pytest.mark.parametrize("arguments", [[], ["mad"], ["mad", "--json"]])
def test_without_benchmarks_one_line_says_what_to_install(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(group, "entry_points_of", lambda group: ())
    assert main(["bench", *arguments]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert "install opavnic-bench" in shown.err


def test_help_is_there_without_benchmarks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(group, "entry_points_of", lambda group: ())
    assert main(["bench", "--help"]) == 0
    assert "opavnic-bench" in capsys.readouterr().out


def test_benchmark_of_another_package_runs_where_ours_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = EntryPoint("theirs", "platform:machine", "opavnic.bench")
    monkeypatch.setattr(group, "entry_points_of", lambda group: (theirs,))
    assert main(["bench", "theirs"]) == 0
    assert main(["bench", "mad"]) == 2
    assert "mad" in capsys.readouterr().err


def test_list_has_every_benchmark_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in BENCHMARKS:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_of_a_benchmark_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", name, "--help"]) == 0
    assert f"opavnic bench {name} " in capsys.readouterr().out.partition("Example")[2]
