"""Mutants of the modules that decide: small changes of the code, each of which a test should notice.

`python -m tools.mutants` (or `make mutants`) draws a sample, applies each mutant in a copy of the tree, runs the tests
nearest to the module, and prints one line for each mutant: killed, or survived, with the place and the change. A
survivor needs a test, or a row in tools/equal_mutants.toml: a reason why no user can notice it. Otherwise the exit
status is 1. The tests run with the examples that CI plays, so that a sample can be repeated by its seed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).parents[1]

_VNIC: Final = ("tests/unit/opavnic/vnic", "tests/unit/opavnic/test_backpressure.py")
_ENGINE: Final = ("tests/unit/hfi_sim/engine/test_forwarding.py", "tests/unit/hfi_sim/engine/test_port0.py")
_FAULTS: Final = (
    "tests/unit/hfi_sim/fabric/faults",
    "tests/unit/hfi_sim/engine/link/test_link.py",
    "tests/unit/hfi_sim/engine/test_boundary.py",
)
_LINK: Final = ("tests/unit/hfi_sim/engine/link", "tests/unit/hfi_sim/engine/test_boundary.py")
_ROUTING: Final = ("tests/unit/hfi_sim/routing",)
_AGENT: Final = ("tests/unit/vema/agent", "tests/unit/vema/attributes")
_EM: Final = (
    "tests/unit/vema/em/core",
    "tests/unit/vema/em/desired",
    "tests/unit/vema/em/service",
    "tests/unit/vema/em/test_apply.py",
)
_RAILS: Final = (
    "tests/unit/lnet/test_objects.py",
    "tests/unit/lnet/test_lnd.py",
    "tests/unit/lnet/test_lnd_silence.py",
    "tests/unit/lnet/test_node.py",
    "tests/scenarios/test_lnet_sanity.py",
    "tests/scenarios/test_lnet_recovery.py",
    "tests/scenarios/test_lnet_multi_rail.py",
    "tests/unit/lnet/test_lnetctl.py",
    "tests/unit/lnet/test_lnetctl_real.py",
)
_EVENTS: Final = (
    "tests/unit/ejfat/test_ejfat_reassembly.py",
    "tests/unit/ejfat/test_ejfat_reassembly_law.py",
    "tests/unit/ejfat/test_ejfat_runs.py",
)
_CLUSTER: Final = ("tests/unit/opavnic/cluster/machines/test_gate.py",)

NEAREST: Final[dict[str, tuple[str, ...]]] = {
    "opavnic/vnic/encap.py": _VNIC,
    "opavnic/vnic/receive.py": _VNIC,
    "opavnic/vnic/transmit.py": _VNIC,
    "opavnic/vnic/demux.py": _VNIC,
    "hfi_sim/engine/forwarding.py": _ENGINE,
    "hfi_sim/engine/link/arbiter.py": _LINK,
    "hfi_sim/engine/link/credits.py": (*_LINK, "tests/unit/hfi_sim/engine/test_random_fabrics.py"),
    "hfi_sim/engine/link/faults.py": _FAULTS,
    "hfi_sim/fabric/faults/manager.py": _FAULTS,
    "hfi_sim/fabric/faults/targets.py": _FAULTS,
    "hfi_sim/routing/deadlock.py": _ROUTING,
    "hfi_sim/routing/engines.py": _ROUTING,
    "hfi_sim/routing/table.py": _ROUTING,
    "vema/agent/agent.py": _AGENT,
    "vema/attributes/traps.py": _AGENT,
    "vema/em/core/state.py": _EM,
    "vema/em/core/port_lives.py": _EM,
    "vema/em/desired/desired.py": _EM,
    "vema/em/desired/mac_tables.py": _EM,
    "vema/em/desired/plan.py": _EM,
    "lnet/node/deliveries.py": _RAILS,
    "lnet/node/lnd.py": _RAILS,
    "lnet/objects/objects.py": _RAILS,
    "lnet/objects/peers.py": _RAILS,
    "lnet/objects/stats.py": _RAILS,
    "lnet/objects/tx.py": _RAILS,
    "lnet/routes/bonding.py": _RAILS,
    "lnet/routes/messages.py": _RAILS,
    "lnet/routes/multi_rail.py": _RAILS,
    "lnet/routes/rails.py": _RAILS,
    "ejfat/events/event.py": _EVENTS,
    "ejfat/events/stream.py": _EVENTS,
    "ejfat/events/reassembly.py": _EVENTS,
    "ejfat/events/segmentation.py": (*_EVENTS, "tests/unit/ejfat/test_ejfat_pipeline.py"),
    "ejfat/events/uri.py": ("tests/unit/ejfat/test_ejfat_uri.py",),
    "ejfat/control/epochs/calendar.py": ("tests/unit/ejfat/test_ejfat_calendar.py",),
    "opavnic/cluster/protocol/frames.py": _CLUSTER,
}
"""The tests that are nearest to each module."""

EQUAL: Final = Path(__file__).with_name("equal_mutants.toml")
"""Mutants that no user can notice, each with the reason."""

MADE: Final = ("opavnic/_native*.so", "ejfat/control/pb/*_pb2*.py")
"""What tests need of the tree though git does not hold it."""

PATIENCE: Final = 3.0
"""A mutant is killed as well if its tests take this many times as long as without it, ..."""
PATIENCE_MIN_S: Final = 30.0
"""...and at least this long."""

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS: Final = ("debug", "info", "warning")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    path: str
    line: int
    start: int
    """Of the text that changes, in bytes of the file."""
    end: int
    old: str
    new: str
    function: str
    """The function around it, with its class: `Link.send`; empty outside of one."""
    nth: int = 1
    """Which of the equal changes in that function, in the order of the text."""

    def __str__(self) -> str:
        """Show the place and the change."""
        return f"{self.path}:{self.line}: {self.function}: {self.change}"

    @property
    def change(self) -> str:
        """The change, each text in one line, and which one of several that read alike."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{old}  ->  {new}" + (f" #{self.nth}" if self.nth > 1 else "")

    @property
    def key(self) -> tuple[str, str, str]:
        """What a mutant is known by while lines around it move."""
        return self.path, self.function, self.change

    def applied(self, source: bytes) -> bytes:
        """Return the module with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, new, function in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(path, node.lineno, start, end, text[start:end].decode(), new, function))
    found.sort(key=lambda mutant: (mutant.start, mutant.end, mutant.new))
    seen = Counter[tuple[str, str, str]]()
    numbered = []
    for mutant in found:
        seen[mutant.key] += 1
        numbered.append(replace(mutant, nth=seen[mutant.key]))
    return numbered


def equal_mutants() -> dict[tuple[str, str, str], str]:
    """Return the reason of each mutant that no user can notice, by its key."""
    rows = tomllib.loads(EQUAL.read_text())["equal"]
    return {(row["module"], row["function"], row["change"]): row["reason"] for row in rows}


def _changes(node: ast.AST, function: str = "") -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield the expressions and statements to replace, with what, and the function around them."""
    if isinstance(node, ast.stmt) and _does_something(node):
        yield node, "pass", function
    if isinstance(node, ast.expr):
        for new in _other_values(node):
            yield node, f"({ast.unparse(new)})", function
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        function = f"{function}.{node.name}" if function else node.name
    for child in _decisions(node):
        yield from _changes(child, function)


def _decisions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node but annotations, texts of errors, and what only is logged."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
                continue
            if isinstance(child, ast.Expr) and _is_log(child.value):
                continue
            yield child


def _is_log(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _LOGS


def _does_something(node: ast.stmt) -> bool:
    """Tell whether a statement can be left out and the module still compiles and imports."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Delete)


def _other_values(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that take the place of one."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                other = copy.deepcopy(node)
                other.ops[place] = _COMPARISONS[type(op)]()
                yield other
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=ast.Add() | ast.Sub() as op) if not isinstance(node.left, ast.List | ast.Tuple):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), node.right)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield ast.Call(ast.Name(_CALLS[name]), node.args, node.keywords)


# --- running -----------------------------------------------------------------------------------------------------


def copy_tree(place: Path) -> None:
    """Copy what git tracks but the sources of the native module, and what was made."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    names = [name for name in tracked.decode().split("\0") if name and not name.startswith("native/")]
    made = [str(file.relative_to(ROOT)) for pattern in MADE for file in ROOT.glob(pattern)]
    for name in names + made:
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)


def run_tests(place: Path, tests: Sequence[str], limit_s: float | None = None) -> tuple[bool, str]:
    """Run tests in a copy of the tree; return whether they pass, and the last line of what they printed.

    Args:  limit_s: tests that take longer have failed.
    """
    command = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "not long",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = {**os.environ, "CI": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    with subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return False, f"took more than {limit_s:.0f} s"
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}\n{output}")
    return process.returncode == 0, next(
        (line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))),
        output.splitlines()[-1],
    )


class Runner:
    """Copies of the tree, one for each job, in which mutants live one at a time."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for place in places:
            copy_tree(place)
            self._free.put(place)
        self._limits_s: dict[tuple[str, ...], float] = {}

    def try_unchanged(self, tests: tuple[str, ...]) -> None:
        """Run tests without a mutant, for the time that they take.

        Raises:  SystemExit: they fail.
        """
        place = self._free.get()
        began = time.monotonic()
        passed, line = run_tests(place, tests)
        if not passed:
            raise SystemExit(f"{' '.join(tests)} fail without a mutant: {line}")
        self._limits_s[tests] = max(PATIENCE_MIN_S, PATIENCE * (time.monotonic() - began))
        self._free.put(place)

    def survives(self, mutant: Mutant) -> tuple[bool, str]:
        """Run the tests nearest to a mutant; return whether they pass, and their last line."""
        place = self._free.get()
        module = place / mutant.path
        source = module.read_bytes()
        try:
            module.write_bytes(mutant.applied(source))
            tests = NEAREST[mutant.path]
            return run_tests(place, tests, self._limits_s[tests])
        finally:
            module.write_bytes(source)
            self._free.put(place)


def _positive(text: str) -> int:
    """Return a number of 1 or more. Raises ArgumentTypeError: it is none."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def main() -> int:
    """Draw a sample, run it, and print a line for each mutant and the sum; 1: a mutant survived without a reason."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.mutants")
    parser.add_argument("modules", nargs="*", help="some of NEAREST; all unless told otherwise")
    parser.add_argument("--count", type=_positive, default=100, help="mutants to draw (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--jobs", type=_positive, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--list", action="store_true", help="only show the sample")
    options = parser.parse_args()
    for unknown in set(options.modules) - set(NEAREST):
        parser.error(f"{unknown} is not in NEAREST, which names the tests of a module")
    every = [
        mutant
        for module in options.modules or NEAREST
        for mutant in mutants_of(module, (ROOT / module).read_text())
    ]
    sample = random.Random(options.seed).sample(every, min(options.count, len(every)))
    print(f"{len(sample)} of {len(every)} mutants, seed {options.seed}", flush=True)
    if options.list:
        print(*sample, sep="\n")
        return 0
    equal = equal_mutants()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        runner = Runner([Path(directory) / str(job) for job in range(options.jobs)])
        results = Counter[str]()
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(runner.try_unchanged, {NEAREST[mutant.path] for mutant in sample}))
            for mutant, (survives, line) in zip(sample, pool.map(runner.survives, sample), strict=True):
                result = "killed" if not survives else "equal" if mutant.key in equal else "SURVIVED"
                results[result] += 1
                why = line if result == "killed" else equal.get(mutant.key, "needs a test, or a reason")
                print(f"{result:8} {mutant}  [{why}]", flush=True)
    print(f"{results['killed']} killed, {results['equal']} equal, {results['SURVIVED']} survived")
    return 1 if results["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
