"""`python -m tools.layout` names each rule of text and layout that a tree breaks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools import layout

SOUND = {
    "hfi_sim/sound.py": '''"""A module."""
# generated: a table
{lines}
# end of generated
class A:
    """A class."""
    def _own(self): ...
    def ndo_open(self): ...
    @property
    def x(self):
        """A value."""
    @x.setter
    def x(self, value): ...
class B(A):
    """Another one."""
    def explained_by_a(self): ...
def _helper(): ...
'''.format(lines="x = 1\n" * 700),
    "hfi_sim/made_pb2.py": "x = 1",
    "tests/processes.py": "with subprocess.Popen(x): ...",
    "tests/conftest.py": "settings.register_profile('p', deadline=None)",
    "native/fuzz/Cargo.lock": '[[package]]\nname = "engine"\ndependencies = ["wire", "rand 0.9"]\n',
    "native/engine/Cargo.toml": '[package]\nname = "engine"\n[dependencies]\nwire = "1"\nrand = "0.9"\n',
    "native/python/Cargo.toml": '[package]\nname = "not-fuzzed"\n[dependencies]\npyo3 = "1"\n',
}


def _problems(root: Path, files: Mapping[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(layout.problems(root))


def test_tree_that_keeps_the_rules_has_no_problem(tmp_path: Path) -> None:
    assert _problems(tmp_path, SOUND) == []


def test_each_broken_rule_is_named_with_its_file(tmp_path: Path) -> None:
    broken = {
        "vema/long.py": '"""A module."""\n' + "x = 1\n" * layout.MAX_LINES,
        "vema/utils.py": '"""A module."""',
        "vema/without.py": "class A:\n    def public(self): ...\n    async def late(self): ...\nasync def f(): ...\n",
        "tests/unit/a.py": "async def test():\n    with open(x), subprocess.Popen(y) as program: ...",
        "tests/unit/b.py": "@settings(max_examples=3, deadline=100)\ndef test(): ...",
        "native/tap/Cargo.toml": '[package]\nname = "tap"\n[dependencies]\nlibc = "1"\n',
        "native/fuzz/Cargo.lock": SOUND["native/fuzz/Cargo.lock"] + '[[package]]\nname = "tap"\n',
    }
    assert _problems(tmp_path, {**SOUND, **broken}) == [
        "vema/long.py: 601 lines, more than 600: split it by duty",
        "vema/utils.py: utils.py is no duty: name it after what it does",
        *(f"vema/without.py: no docstring: {name}" for name in ("module", "A", "A.public", "A.late", "f")),
        "tests/unit/a.py: with Popen: use processes.child, which ends the program",
        "tests/unit/b.py: a deadline of its own: leave it to the profile in tests/conftest.py",
        "native/fuzz/Cargo.lock: tap needs libc: cd native/fuzz && cargo update --workspace",
    ]


def test_long_subject_of_a_commit_that_main_does_not_have_is_named(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    _problems(tmp_path, SOUND)
    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "A subject of main may be long: " + "x" * 60)
    git("checkout", "-b", "mine")
    git("commit", "--allow-empty", "-m", "x" * 72)
    assert list(layout.problems(tmp_path)) == []
    git("commit", "--allow-empty", "-m", "x" * 73)
    (problem,) = layout.problems(tmp_path)
    assert problem.endswith(f": a subject of 73 characters, more than 72: {'x' * 73}")
