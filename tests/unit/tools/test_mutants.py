"""The mutants that the runner makes of a piece of code, and the tests that it names for each module."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.mutants import NEAREST, ROOT, equal_mutants, mutants_of, run_tests

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


def test_run_tells_tests_that_pass_from_those_that_fail_or_hang(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): assert 1")
    (tmp_path / "test_two.py").write_text("def test_two(): assert 0")
    (tmp_path / "test_ever.py").write_text("def test_ever():\n    while True: pass")
    assert run_tests(tmp_path, ["test_one.py"])[0]
    passed, line = run_tests(tmp_path, ["test_two.py"])
    assert (passed, line.split(" - ")[0]) == (False, "FAILED test_two.py::test_two")
    assert run_tests(tmp_path, ["test_ever.py"], 0.0) == (False, "took more than 0 s")
