"""Which datapath runs, and what is said where it is not the one that was asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from native_module import BUILT, REQUIRED, skip_unless
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath import selection, source_files
from opavnic.datapath.selection import DatapathChoice, choose_datapath, choose_workers
from opavnic.datapath.source_files import checksum


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(selection.importlib, "import_module", refuse)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "load_native", lambda: selection)


@pytest.mark.usefixtures("built")
def test_auto_where_native_is_built_takes_it() -> None:
    assert choose_datapath("auto") == DatapathChoice("native")
    assert choose_datapath("native") == DatapathChoice("native")


@pytest.mark.usefixtures("built")
def test_python_when_asked_for_is_taken_without_a_reason() -> None:
    assert choose_datapath("python") == DatapathChoice("python")


@pytest.mark.usefixtures("unbuilt")
def test_auto_without_native_falls_back_and_says_how_to_get_it() -> None:
    choice = choose_datapath("auto")
    assert choice.name == "python"
    assert "make native" in choice.reason


def test_native_module_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError("libc.so.6: version `GLIBC_2.34' not found")

    monkeypatch.setattr(selection.importlib, "import_module", refuse)
    assert selection.load_native() is None
    assert choose_datapath("auto").reason.startswith("the native module cannot be loaded: libc.so.6: version")


def test_native_module_of_other_sources_is_not_taken_and_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = SimpleNamespace(SOURCES=checksum(_crate(tmp_path / "a", "fn one() {}")))
    monkeypatch.setattr(selection.importlib, "import_module", lambda name: module)
    monkeypatch.setattr(source_files, "NATIVE", tmp_path / "a")
    assert choose_datapath("native") == DatapathChoice("native")
    monkeypatch.setattr(source_files, "NATIVE", _crate(tmp_path / "b", "fn two() {}"))
    with pytest.raises(
        DatapathUnavailableError, match=r"^the native module was built of other sources .*make native"
    ):
        choose_datapath("native")
    monkeypatch.setattr(source_files, "NATIVE", tmp_path / "no sources, as of a wheel")
    assert choose_datapath("native") == DatapathChoice("native")


def test_native_module_before_it_had_a_checksum_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection.importlib, "import_module", lambda name: SimpleNamespace())
    assert choose_datapath("auto") == DatapathChoice("python", selection.OLDER)


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("engine/src/link/wire.rs", True),
        ("fuzz/src/x.rs", False),
        ("target/src/x.rs", False),
        ("wire/tests/x.rs", False),
    ],
)
def test_sources_of_the_module_are_those_of_its_crates(tmp_path: Path, path: str, *, counts: bool) -> None:
    before = checksum(_crate(tmp_path / "a", ""))
    native = _crate(tmp_path / "b", "")
    (native / path).parent.mkdir(parents=True, exist_ok=True)
    (native / path).write_text("fn more() {}")
    assert (checksum(native) != before) is counts


def _crate(native: Path, text: str) -> Path:
    (native / "wire" / "src").mkdir(parents=True)
    (native / "wire" / "src" / "lib.rs").write_text(text)
    return native


@pytest.mark.usefixtures("unbuilt")
def test_native_without_native_is_refused() -> None:
    with pytest.raises(DatapathUnavailableError, match="not built"):
        choose_datapath("native")


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("options", "reason"), [({"tap": False}, "in memory"), ({"polynomial": 3}, "polynomial")]
)
def test_native_that_cannot_serve_the_lab_is_refused(options: dict[str, int], reason: str) -> None:
    assert choose_datapath("auto", **options).name == "python"  # type: ignore[arg-type]
    with pytest.raises(DatapathUnavailableError, match=reason):
        choose_datapath("native", **options)  # type: ignore[arg-type]


def test_native_module_is_built_where_it_is_required() -> None:
    """With OPAVNIC_REQUIRE_NATIVE=1 nothing that compares both datapaths may be skipped."""
    assert BUILT or not REQUIRED, "OPAVNIC_REQUIRE_NATIVE=1, and opavnic._native is not built (make native)"


@pytest.mark.parametrize(
    ("built", "required", "skipped"),
    [(True, False, False), (True, True, False), (False, False, True), (False, True, False)],
)
def test_test_of_native_is_skipped_only_where_it_is_missing_and_may_be(
    built: bool, required: bool, skipped: bool
) -> None:
    assert skip_unless(built=built, required=required).args == (skipped,)


def test_workers_are_as_many_as_asked_for_or_what_processors_and_hosts_are_good_for() -> None:
    assert choose_workers(7, hosts=2, processors=1) == 7
    assert [choose_workers("auto", 64, processors) for processors in (1, 2, 7, 8, 16)] == [1, 1, 1, 2, 4]
    assert choose_workers("auto", hosts=2, processors=128) == 2
    assert choose_workers("auto", hosts=1, processors=16) == 1
