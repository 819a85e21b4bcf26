"""The mutants that the runner makes of a piece of code, and the tests that it names for each module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.floors import ROOT
from tools.mutants.__main__ import sample_of
from tools.mutants.changes import mutants_of
from tools.mutants.nearest import NEAREST, Killers, equal_mutants, nearest_files
from tools.mutants.trials import Bench, Judge

SOURCE = '''\
def room(limit: int = 8, *, open: bool = True) -> int:
    """Docstring: 1 < 2 is no mutant."""
    _log.debug("room for %d", limit + 1)
    if not open or limit <= 0:
        raise ValueError(f"a room of {limit - 1}")
    self.left = min(limit, 3)
    self.turns += 1
    grant(limit)
    return 0
'''


def changes(source: str) -> set[tuple[int, str, str]]:
    return {(mutant.line, mutant.old, mutant.new) for mutant in mutants_of("m.py", source)}


def test_mutants_are_the_changes_of_decisions_and_spare_texts_logs_and_annotations() -> None:
    assert changes(SOURCE) == {
        (1, "8", "(9)"),
        (1, "8", "(7)"),
        (1, "True", "(False)"),
        (4, "not open or limit <= 0", "(not open and limit <= 0)"),
        (4, "not open", "(open)"),
        (4, "limit <= 0", "(limit < 0)"),
        (4, "0", "(1)"),
        (4, "0", "(-1)"),
        (6, "self.left = min(limit, 3)", "pass"),
        (6, "min(limit, 3)", "(max(limit, 3))"),
        (6, "3", "(4)"),
        (6, "3", "(2)"),
        (7, "self.turns += 1", "pass"),
        (7, "1", "(2)"),
        (7, "1", "(0)"),
        (8, "grant(limit)", "pass"),
        (9, "0", "(1)"),
        (9, "0", "(-1)"),
    }


def test_modules_and_their_tests_exist_and_mutants_are_other_programs_that_compile() -> None:
    for module, tests in NEAREST.items():
        source = (ROOT / module).read_text()
        unchanged = ast.dump(ast.parse(source))
        for mutant in mutants_of(module, source)[::150]:
            assert ast.dump(ast.parse(mutant.applied(source.encode()))) != unchanged, mutant
        assert all((ROOT / test).exists() for test in tests), module


def test_mutants_of_one_function_that_read_alike_are_told_apart() -> None:
    made = mutants_of(
        "m.py",
        "class Room:\n    def left(self) -> int:\n        return self.all[8] if self.size > 8 else 0\n",
    )
    eights = [mutant for mutant in made if mutant.old == "8" and mutant.new == "(9)"]
    assert [mutant.key for mutant in eights] == [
        ("m.py", "Room.left", "8  ->  (9)"),
        ("m.py", "Room.left", "8  ->  (9) #2"),
    ]


def test_each_row_of_equal_mutants_is_a_mutant_of_the_code_as_it_is() -> None:
    keys = {mutant.key for module in NEAREST for mutant in mutants_of(module, (ROOT / module).read_text())}
    assert set(equal_mutants()) <= keys
    assert all(equal_mutants().values())


def test_sample_of_a_seed_holds_the_same_mutants_while_other_code_changes() -> None:
    functions = [f"def f{number}(a: int) -> bool:\n    return a > {number}\n" for number in range(40)]
    before = {m.key for m in sample_of(mutants_of("m.py", "".join(functions)), 1, 30)}
    after = {m.key for m in sample_of(mutants_of("m.py", "x = 1\n" + "".join(functions[1:])), 1, 30)}
    assert len(before) == len(after) == 30
    assert len(before & after) >= 27, "those of f0 have gone, and x has come"
    assert before != {m.key for m in sample_of(mutants_of("m.py", "".join(functions)), 2, 30)}


def test_files_that_import_the_module_are_the_first_to_be_tried() -> None:
    (mutant, *_) = mutants_of("opavnic/vnic/encap.py", (ROOT / "opavnic/vnic/encap.py").read_text())
    assert nearest_files(mutant)[0] == "tests/unit/opavnic/vnic/test_encap.py"


def test_test_that_killed_a_mutant_is_tried_first_on_others_of_its_function() -> None:
    killers = Killers({})
    one, two = mutants_of("m.py", "def f(a): return a > 1\ndef g(a): return a\ndef h(a): return a is None\n")[
        ::3
    ]
    killers.learn(one, "FAILED tests/test_m.py::test_f[1 - 2] - assert 1 == 2")
    killers.learn(two, "ERROR tests/test_m.py::test_h - KeyError")
    killers.learn(two, "ERROR tests/test_m.py")
    assert killers.of(one) == ["tests/test_m.py::test_f", "tests/test_m.py::test_h"]
    assert killers.of(two) == ["tests/test_m.py::test_h", "tests/test_m.py::test_f"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A copy of what tries tests, with tests of a small module."""
    place = tmp_path_factory.mktemp("bench")
    bench = Bench(place)
    try:
        (place / "tests/conftest.py").unlink()
        (place / "test_small.py").write_text(
            "import time\nfrom hfi_sim.base.counters import Drop\n"
            "def test_one(): pass\n"
            "def test_two(): assert 0\n"
            "def test_loop():\n    while True: pass\n"
            "def test_wait(): time.sleep(300)\n"
            "def test_hoard():\n    bytearray(5 << 30)\n"
        )
        bench.tell(learn=["test_small.py"], modules=["hfi_sim.base.counters"])
        bench.tell(module="hfi_sim.base.counters")
        yield bench
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("test", "cpu_s", "wall_s", "result"),
    [
        ("one", 9.0, 99, "SURVIVED"),
        ("two", 9.0, 99, "killed"),
        ("hoard", 9.0, 99, "killed"),
        ("loop", 0.3, 99, "too long"),
        ("wait", 9.0, 0, "too long"),
    ],
)
def test_trial_tells_tests_that_pass_from_those_that_fail_loop_or_hang(
    bench: Bench, test: str, cpu_s: float, wall_s: float, result: str
) -> None:
    assert bench.try_tests([f"test_small.py::test_{test}"], cpu_s, wall_s).result == result


def test_trial_imports_the_module_as_it_is_then(bench: Bench) -> None:
    module = bench.place / "hfi_sim/base/counters.py"
    source = module.read_text()
    module.write_text(source.replace("class Drop", "class Other"))
    assert bench.try_tests(["test_small.py::test_one"], 9.0, 99.0).result == "killed"
    module.write_text(source)
    assert bench.try_tests(["test_small.py::test_one"], 9.0, 99.0).result == "SURVIVED"


def test_test_that_fails_without_a_mutant_ends_the_trial_of_mutants(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "hfi_sim/base/counters.py"
    monkeypatch.setitem(NEAREST, path, ("test_small.py",))
    (mutant, *_) = mutants_of(path, (bench.place / path).read_text())
    with pytest.raises(SystemExit, match="test_two fail without a mutant"):
        Judge(Killers({})).judge(bench, mutant)


def test_tests_of_the_copied_tree_are_tried_whatever_has_come_since(tmp_path: Path) -> None:
    (mutant, *_) = mutants_of("ejfat/events/uri.py", (ROOT / "ejfat/events/uri.py").read_text())
    test = tmp_path / "tests/unit/ejfat/test_ejfat_uri.py"
    test.parent.mkdir(parents=True)
    test.write_text("")
    assert nearest_files(mutant, tmp_path) == [str(test.relative_to(tmp_path))]
