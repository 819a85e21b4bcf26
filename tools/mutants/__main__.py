"""Mutants of the modules that decide: small changes of the code, each of which a test should notice.

`python -m tools.mutants` (or `make mutants`) draws a sample, applies each mutant in a copy of the tree, runs the tests
nearest to the module until one fails, and prints one line for each mutant: killed, or survived, with the place and the
change. A survivor needs a test, or a row in tools/mutants/equal.toml: a reason why no user can notice it. Otherwise the
exit status is 1. A mutant whose tests take too long is tried again beside no other, with three times the time, before
that counts; it is counted apart. The tests run with the examples that CI plays, and a mutant is in the sample of a seed
whatever changes elsewhere.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tools.floors import ROOT
from tools.mutants.changes import Mutant, mutants_of
from tools.mutants.nearest import NEAREST, Killers, equal_mutants, nearest_files
from tools.mutants.trials import Bench, Judge, Trial

_BATCH: Final = 12
"""Mutants of one module that one process tries in a row."""
_AGAIN: Final = 3.0
"""How much longer a mutant may take that is tried again."""


def sample_of(mutants: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """Return some mutants, in the order of their places: the same ones as long as their own code stays."""

    def drawn(mutant: Mutant) -> bytes:
        return hashlib.sha256(repr((seed, mutant.key)).encode()).digest()

    return sorted(sorted(mutants, key=drawn)[:count], key=lambda mutant: (mutant.path, mutant.start))


def _batches(sample: Sequence[Mutant]) -> list[list[Mutant]]:
    found = []
    for _, mutants in groupby(sample, key=lambda mutant: mutant.path):
        rest = list(mutants)
        while rest:
            found.append(rest[:_BATCH])
            rest = rest[_BATCH:]
    return sorted(found, key=len, reverse=True)


def _name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def try_all(sample: Sequence[Mutant], judge: Judge, jobs: int) -> Iterator[tuple[Mutant, Trial]]:
    """Yield what becomes of mutants. Args:  jobs: how many are tried at a time."""
    batches = _batches(sample)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        free = SimpleQueue[Bench]()
        benches = [Bench(Path(directory) / str(job)) for job in range(min(jobs, len(batches)))]
        tests = sorted({file for batch in batches for file in nearest_files(batch[0])})
        for bench in benches:
            bench.tell(learn=tests, modules=[_name(path) for path in NEAREST])
            free.put(bench)

        done = SimpleQueue[tuple[Mutant, Trial] | BaseException]()

        def try_batch(batch: Sequence[Mutant], patience: float = 1.0) -> None:
            bench = free.get()
            try:
                bench.tell(module=_name(batch[0].path))
                for mutant in batch:
                    done.put((mutant, judge.judge(bench, mutant, patience=patience)))
            except BaseException as error:
                done.put(error)
            finally:
                bench.tell()
                free.put(bench)

        with ThreadPoolExecutor(len(benches)) as pool:
            for batch in batches:
                pool.submit(try_batch, batch)
            late = []
            for _ in sample:
                mutant, trial = _raised(done.get())
                if trial.late:
                    late.append(mutant)
                else:
                    yield mutant, trial
        for mutant in late:
            try_batch([mutant], _AGAIN)
            yield _raised(done.get())
        for bench in benches:
            bench.close()


def _raised(found: tuple[Mutant, Trial] | BaseException) -> tuple[Mutant, Trial]:
    if isinstance(found, BaseException):
        raise found
    return found


def _positive(text: str) -> int:
    """Return a number of 1 or more. Raises ArgumentTypeError: it is none."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def main() -> int:
    """Draw a sample, run it, and print a line for each mutant and the sum; 1: a mutant survived without a reason."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.mutants")
    parser.add_argument(
        "modules", nargs="*", help="some of NEAREST (tools/mutants/nearest.py); all unless told otherwise"
    )
    parser.add_argument("--count", type=_positive, default=100, help="mutants to draw (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--jobs", type=_positive, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--list", action="store_true", help="only show the sample")
    parser.add_argument(
        "--learn", action="store_true", help="keep which tests killed: the next run is faster"
    )
    options = parser.parse_args()
    for unknown in set(options.modules) - set(NEAREST):
        parser.error(f"{unknown} is not in NEAREST, which names the tests of a module")
    every = [
        mutant
        for module in options.modules or NEAREST
        for mutant in mutants_of(module, (ROOT / module).read_text())
    ]
    sample = sample_of(every, options.seed, options.count)
    print(f"{len(sample)} of {len(every)} mutants, seed {options.seed}", flush=True)
    if options.list:
        print(*sample, sep="\n")
        return 0
    began = time.monotonic()
    results, equal, judge = Counter[str](), equal_mutants(), Judge(Killers.read())
    for mutant in sample:
        if mutant.key in equal:
            results["equal"] += 1
            print(f"equal    {mutant}  [{equal[mutant.key]}]")
    left = [mutant for mutant in sample if mutant.key not in equal]
    for mutant, trial in try_all(left, judge, options.jobs):
        results[trial.result] += 1
        why = "needs a test, or a reason" if trial.passed else trial.line
        print(f"{trial.result:8} {mutant}  [{why}] {trial.cpu_s:.1f} s", flush=True)
        if options.learn:
            judge.killers.write()
    print(
        ", ".join(f"{results[result]} {result}" for result in ("killed", "too long", "equal", "SURVIVED")),
        end="",
    )
    print(f", in {time.monotonic() - began:.0f} s")
    return 1 if results["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
