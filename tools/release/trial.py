"""Tries what was built as a user would: fresh virtual environments, no compiler and no cargo on PATH."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.release.build import Built, DistError, run

_COMPILERS: Final = re.compile(
    r"(.*-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|ld|as|cpp|rustc|cargo|rustup|make|cmake)([-.0-9]|$).*"
)
_SYSTEM: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_LAB: Final = "two-hosts"
_PINGED: Final = "h2"


def programs_without_compilers(directory: Path) -> Path:
    """Fill a directory with links to the system's programs, all but those that compile; return it."""
    directory.mkdir(parents=True)
    for place in filter(os.path.isdir, _SYSTEM):
        for program in os.scandir(place):
            if not _COMPILERS.fullmatch(program.name):
                with contextlib.suppress(FileExistsError):
                    (directory / program.name).symlink_to(program.path)
    return directory


class Trial:
    """A fresh virtual environment, and an environment of variables that names nothing else of this user's."""

    def __init__(self, directory: Path, programs: Path, python: str) -> None:
        """Make it. Args: directory: does not exist yet. programs: see above. python: the interpreter."""
        self.directory = directory
        self._bin = directory / "venv/bin"
        run([python, "-m", "venv", directory / "venv"])
        kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "LANG"))}
        self.env = {
            **kept,
            "PATH": f"{self._bin}:{programs}",
            "HOME": str(directory),
            "OPAVNIC_RUNTIME_DIR": str(directory / "run"),
        }

    def install(self, requirement: str) -> None:
        """Install; nothing is there that could compile."""
        run(
            [self._bin / "python", "-m", "pip", "install", "--quiet", requirement],
            env=self.env,
            cwd=self.directory,
        )

    def opavnic(self, *words: str) -> str:
        """Run the installed program and return what it printed."""
        return run([self._bin / "opavnic", *words], env=self.env, cwd=self.directory)

    def pytest(self, project: Path) -> str:
        """Run the tests of a copy of a project, warnings being errors, and return what pytest printed."""
        copy = shutil.copytree(
            project, self.directory / project.name, ignore=shutil.ignore_patterns(".*", "__pycache__")
        )
        command: list[str | Path] = [
            self._bin / "python",
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
        ]
        return run(command, env={**self.env, "PYTHONPATH": str(copy)}, cwd=copy)

    def labs(self) -> Iterator[str]:
        """Write a lab file, start it, ping by name, check, end it; yield what was printed.

        Without the privilege: `opavnic demo`.
        """
        if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
            yield self.opavnic("demo")
            return
        yield self.opavnic("init", _LAB, "lab.yaml")
        text = (self.directory / "lab.yaml").read_text()
        name = f"dist-{os.getpid()}"  # not that of a lab that somebody runs
        (self.directory / "lab.yaml").write_text(text.replace(f"name: {_LAB}", f"name: {name}"))
        yield self.opavnic("up", "lab.yaml", "-d")
        try:
            yield self.opavnic("exec", "h1", "--", "ping", "-c1", _PINGED)
            yield self.opavnic("check")
        finally:
            down = self.opavnic("down")
        yield down


def try_all(built: Built, examples: Path, scratch: Path) -> Iterator[str]:
    """Try wheel, wheel with its extra `testing`, and sdist; yield a line for each step that went well.

    Raises:  DistError: one did not.
    """
    programs = programs_without_compilers(scratch / "programs")
    for python in _pythons():
        shown = run([python, "--version"]).split()[-1]
        wheel = Trial(scratch / f"wheel-{shown}", programs, python)
        wheel.install(str(built.wheel))
        yield f"Python {shown}, wheel: {_version(wheel, 'datapath native')}"
        yield from _last_lines(wheel.labs())
    testing = Trial(scratch / "testing", programs, sys.executable)
    testing.install(f"{built.wheel}[testing]")
    yield f"wheel[testing], examples/pytest-project: {testing.pytest(examples / 'pytest-project').splitlines()[-1]}"
    source = Trial(scratch / "sdist", programs, sys.executable)
    source.install(str(built.sdist))
    yield f"sdist without cargo: {_version(source, 'datapath python')}"
    yield from _last_lines(source.labs())


def _version(trial: Trial, wanted: str) -> str:
    said = trial.opavnic("--version").strip().replace("\n", ", ")
    if wanted not in said:
        raise DistError(f"opavnic --version: {said}; expected was {wanted}")
    return said


def _last_lines(printed: Iterator[str]) -> Iterator[str]:
    for text in printed:
        yield from (f"    {line}" for line in text.splitlines() if line.strip())


def _pythons() -> list[str]:
    """Return the interpreters to try the wheel with: this one, and those that DIST_PYTHONS names."""
    return list(dict.fromkeys([sys.executable, *os.environ.get("DIST_PYTHONS", "").split()]))
