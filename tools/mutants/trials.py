"""Tries mutants: copies of the tree, in each of which one lives at a time while the tests nearest to it run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from tools.floors import ROOT
from tools.mutants.changes import Mutant
from tools.mutants.nearest import Killers, failed_test, nearest_files

MADE: Final = ("opavnic/_native*.so", "ejfat/control/pb/*_pb2*.py")
"""What tests need of the tree though git does not hold it."""

PATIENCE: Final = 4.0
"""Tests that killed mutants loop if they take this many times as much of a processor as without one, ..."""
LOOPS_S: Final = 10.0
"""...and this much more."""
ALL_S: Final = 150.0
"""All that are near to a module loop if they take so much: three times what they need."""
WAITS_S: Final = 90.0
"""They hang if they take so much more time than they may take of a processor. A busy machine may do that, too."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How tests ended."""

    passed: bool
    line: str
    """The last line of the tests, or the one that names the first failure."""
    cpu_s: float
    wall_s: float
    late: bool
    """They took too long: maybe it is the machine that is busy."""
    looped: bool
    """They took more of a processor than they may."""

    @property
    def result(self) -> str:
        """What that says of a mutant."""
        return "too long" if self.late or self.looped else "SURVIVED" if self.passed else "killed"


def copy_tree(place: Path) -> None:
    """Copy what git tracks but the sources of the native module, and what was made."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    names = [name for name in tracked.decode().split("\0") if name and not name.startswith("native/")]
    made = [str(file.relative_to(ROOT)) for pattern in MADE for file in ROOT.glob(pattern)]
    for name in names + made:
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)


class Bench:
    """A copy of the tree, and the process that tries tests in it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        copy_tree(place)
        environment = {**os.environ, "CI": "1", "PYTHONDONTWRITEBYTECODE": ""}
        environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.mutants.warm"],
            cwd=place,
            env=environment,
            text=True,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._commands = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def tell(self, **command: Any) -> None:
        """Tell the process what to do."""
        self._commands.write(json.dumps(command) + "\n")
        self._commands.flush()

    def try_tests(self, tests: Sequence[str], cpu_s: float, wall_s: float) -> Trial:
        """Run tests until one fails."""
        self.tell(tests=tests, options=[f"--basetemp={self.place}-tmp"], cpu_s=cpu_s, wall_s=wall_s)
        answer = self._answers.readline()
        if not answer:
            raise SystemExit(f"the process in {self.place} has ended")
        return Trial(**json.loads(answer))


class Judge:
    """Finds for each mutant a test that fails."""

    def __init__(self, killers: Killers) -> None:
        self.killers = killers
        self._needed_s: dict[str, float] = {}
        """How much of a processor the tests that killed mutants of a module take without one."""
        self._sound: set[tuple[str, str]] = set()
        """Modules, and tests that killed their mutants and pass without one."""
        self._lock = threading.Lock()

    def judge(self, bench: Bench, mutant: Mutant, *, patience: float = 1.0) -> Trial:
        """Try the tests that killed its neighbours, then all that are near. Args:  patience: as a factor of the time.

        Raises:  SystemExit: a test that fails does so without a mutant, too.
        """
        rounds = [(nearest_files(mutant, bench.place), ALL_S)]
        if known := self.killers.of(mutant):
            rounds.insert(0, (known, LOOPS_S + PATIENCE * self._needed(bench, mutant.path)))
        for tests, cpu_s in rounds:
            module = bench.place / mutant.path
            source = module.read_bytes()
            try:
                module.write_bytes(mutant.applied(source))
                trial = bench.try_tests(tests, cpu_s, patience * (cpu_s + WAITS_S))
            finally:
                module.write_bytes(source)
            if not trial.passed:
                break
        if trial.result == "killed":
            test = failed_test(trial.line)
            if test and (mutant.path, test) not in self._sound:
                self._needed(bench, mutant.path, [test])
            with self._lock:
                self.killers.learn(mutant, trial.line)
        return trial

    def _needed(self, bench: Bench, module: str, more: Sequence[str] = ()) -> float:
        """Return what the tests take that killed mutants of a module. Args:  more: tests that have just done so."""
        if tests := more or ([] if module in self._needed_s else self.killers.of_module(module)):
            needed_s = self._passing(bench, tests).cpu_s
            self._needed_s[module] = self._needed_s.get(module, 0.0) + needed_s
            self._sound |= {(module, test) for test in tests}
        return self._needed_s[module]

    @staticmethod
    def _passing(bench: Bench, tests: Sequence[str]) -> Trial:
        """Try tests without a mutant. Raises SystemExit: one fails."""
        trial = bench.try_tests(tests, 600.0, 1800.0)
        if not trial.passed:
            raise SystemExit(f"{' '.join(tests)} fail without a mutant: {trial.line}")
        return trial
