"""Rules of text and layout that no linter knows: `python -m tools.layout` prints what breaks one; exit 1 if any does.

- A module has at most MAX_LINES lines by hand, is not called utils.py, and explains itself and its public names.
- `with subprocess.Popen`, which waits for a program without end, stands in tests/processes.py only: `child` ends it.
- The deadline of property tests stands in the profile of tests/conftest.py only.
- The subject of a commit beyond main has at most SUBJECT characters: `git log --oneline` shows it whole.
- native/fuzz/Cargo.lock has the dependencies of its crates: `make fuzz` builds with --locked, and CI builds no target.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.floors import PACKAGES, ROOT

MAX_LINES: Final = 600
SUBJECT: Final = 72
_GENERATED: Final = re.compile(r"^ *# generated: .*?^ *# end of generated$", re.DOTALL | re.MULTILINE)


def modules(root: Path) -> list[Path]:
    """Return the modules of the packages that people write."""
    return [
        path
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    ]


def problems(root: Path) -> Iterator[str]:
    """Yield what breaks a rule in a checkout, one line each."""
    for path in modules(root):
        for problem in _module(path):
            yield f"{path.relative_to(root)}: {problem}"
    for path in sorted((root / "tests").rglob("*.py")):
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        if name != "tests/processes.py" and "Popen" in text and _waits_for_program(ast.parse(text)):
            yield f"{name}: with Popen: use processes.child, which ends the program"
        if name != "tests/conftest.py" and "deadline" in text and _sets_deadline(ast.parse(text)):
            yield f"{name}: a deadline of its own: leave it to the profile in tests/conftest.py"
    yield from _fuzz_lock(root / "native")
    yield from _subjects(root)


def _module(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    lines = len(_GENERATED.sub("", source).splitlines())
    if lines > MAX_LINES:
        yield f"{lines} lines, more than {MAX_LINES}: split it by duty"
    if path.name == "utils.py":
        yield "utils.py is no duty: name it after what it does"
    for name in _unexplained(ast.parse(source)):
        yield f"no docstring: {name}"


def _unexplained(tree: ast.Module) -> Iterator[str]:
    """Yield the public names of a module that have no docstring, and `module` if it has none itself."""
    if not ast.get_docstring(tree):
        yield "module"
    for node in tree.body:
        if not isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield node.name
        if isinstance(node, ast.ClassDef) and not node.bases:  # a base class or Protocol explains its methods
            for member in node.body:
                if (
                    isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not member.name.startswith(("_", "ndo_"))
                    and not {"overload", "setter"}
                    & {_last_word(decorator) for decorator in member.decorator_list}
                    and not ast.get_docstring(member)
                ):
                    yield f"{node.name}.{member.name}"


def _last_word(decorator: ast.expr) -> str:
    return getattr(decorator, "id", getattr(decorator, "attr", ""))


def _waits_for_program(tree: ast.Module) -> bool:
    """Return whether a file has a `with Popen(...)`."""
    return any(
        isinstance(node, ast.withitem)
        and isinstance(node.context_expr, ast.Call)
        and ast.unparse(node.context_expr.func) in ("Popen", "subprocess.Popen")
        for node in ast.walk(tree)
    )


def _sets_deadline(tree: ast.Module) -> bool:
    """Return whether a file gives settings of Hypothesis a deadline."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("settings", "settings.register_profile")
        and any(keyword.arg == "deadline" for keyword in node.keywords)
        for node in ast.walk(tree)
    )


def _subjects(root: Path) -> Iterator[str]:
    """Yield commits beyond main with a long subject; none where there is no git, or no branch main."""
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", "main..HEAD"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return
    for commit, _, subject in (line.partition(" ") for line in listed.stdout.splitlines()):
        if len(subject) > SUBJECT:
            yield f"commit {commit}: a subject of {len(subject)} characters, more than {SUBJECT}: {subject}"


def _fuzz_lock(native: Path) -> Iterator[str]:
    lock = tomllib.loads((native / "fuzz/Cargo.lock").read_text(encoding="utf-8"))
    locked = {package["name"]: package.get("dependencies", []) for package in lock["package"]}
    for manifest in sorted(native.glob("*/Cargo.toml")):
        crate = tomllib.loads(manifest.read_text(encoding="utf-8"))
        if (name := crate["package"]["name"]) in locked:
            has = {dependency.partition(" ")[0] for dependency in locked[name]}
            for missing in sorted(crate.get("dependencies", {}).keys() - has):
                yield f"native/fuzz/Cargo.lock: {name} needs {missing}: cd native/fuzz && cargo update --workspace"


def main(root: Path = ROOT) -> int:
    """Print the problems; return 1 if there are any."""
    found = list(problems(root))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
