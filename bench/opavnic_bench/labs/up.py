"""`opavnic bench up`: how long a lab takes from the command line to its last VNIC, phase by phase, and what it needs.

The lab is started by the program, as a person would; the lines of progress that it prints are the ends of its phases.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from opavnic_bench.base.machine import machine
from opavnic_bench.base.processes import children_s, peak_mib, processor_s
from opavnic_bench.base.running_lab import OWN, environment
from opavnic_bench.base.sites import run
from opavnic_bench.base.turns import PeerError, Progress, ratio, silent, take_turns
from opavnic_bench.labs.floor import Floor, Spent, measure_floor

PHASES: Final = {"making ": "hosts", "the Ethernet Manager ": "vnics", "ready": "report"}
"""How the line begins with which a phase begins; before the first of them it is `start`: Python, and the lab file."""
COLUMNS: Final = ("hosts", "ready_s", "processor_s", "peak_mib", "down_s", "floor_s", "ratio_to_floor")
COMMANDS: Final = (
    ("status",),
    ("status", "--json"),
    ("top", "-c", "1"),
    ("ps",),
    ("metrics",),
    ("prune", "--dry-run"),
)
"""What is asked of the lab while nothing moves, besides `validate`."""
HOSTS_PER_LEAF: Final = 50
_ENDING_S: Final = 300.0


@dataclass(slots=True)
class UpFigure:
    """One lab of TAPs: all of its hosts on one virtual switch."""

    hosts: int
    ready_s: float = 0.0
    """From the command line until every VNIC is up."""
    processor_s: float = 0.0
    """Of the lab's process until then."""
    peak_mib: float = 0.0
    """The most memory that the lab's process has had."""
    down_s: float = 0.0
    phases: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds and processor seconds of each phase."""
    commands: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of each command, its processor seconds, and those of the lab's process meanwhile."""


@dataclass(frozen=True, slots=True)
class UpCase:
    """What is measured: a lab, or the floor."""

    hosts: int
    is_floor: bool

    def __str__(self) -> str:
        """Return its name for progress."""
        return f"{self.hosts} namespaces by ip -batch" if self.is_floor else f"a lab of {self.hosts} hosts"


def bench_up(
    sizes: Sequence[int], *, program: Sequence[str] = OWN, commands: bool = True, progress: Progress = silent
) -> dict[str, Any]:
    """Measure a lab of each size, and the floor beside it.

    Args:  program: the `opavnic` that starts the labs. commands: also ask each lab.
    """

    def measure(case: UpCase) -> UpFigure | Floor:
        return measure_floor(case.hosts) if case.is_floor else _measure_lab(case.hosts, program, commands)

    cases = [UpCase(hosts, is_floor) for hosts in sizes for is_floor in (True, False)]
    turns = take_turns(cases, measure, progress=progress)
    runs = []
    for hosts in sizes:
        lab = _only(turns.samples[UpCase(hosts, False)], UpFigure)
        floor = _only(turns.samples[UpCase(hosts, True)], Floor)
        if lab is None:
            continue
        floor_s = None if floor is None else round(floor.made.seconds, 3)
        runs.append(
            asdict(lab)
            | {
                "floor": None if floor is None else asdict(floor),
                "floor_s": floor_s,
                "ratio_to_floor": ratio(lab.ready_s, floor_s),
            }
        )
    return {"machine": machine(), "runs": runs, "growth": _growth(runs), "skipped": turns.skipped}


def _only(samples: Sequence[object], kind: type[Any]) -> Any:
    return next((sample for sample in samples if isinstance(sample, kind)), None)


def _growth(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare each size with the one before it."""
    return [
        {
            "from": before["hosts"],
            "to": run["hosts"],
            "hosts": ratio(run["hosts"], before["hosts"]),
            **{name: ratio(run[name], before[name]) for name in ("ready_s", "processor_s", "peak_mib")},
        }
        for before, run in itertools.pairwise(runs)
    ]


def _measure_lab(hosts: int, program: Sequence[str], commands: bool) -> UpFigure:
    name = f"bench-up-{hosts}"
    leaves = -(-hosts // HOSTS_PER_LEAF)
    clos = {"kind": "clos", "leaves": leaves, "spines": 2, "hosts_per_leaf": -(-hosts // leaves)}
    lab = {
        "name": name,
        "fabric": {"topology": clos},
        "hosts": hosts,
        "vesws": [{"id": 2, "name": "net", "subnet": "10.0.0.0/16", "members": "all"}],
    }
    with tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory:
        file = Path(directory) / "lab.yaml"
        file.write_text(json.dumps(lab))  # JSON is YAML
        figure = UpFigure(hosts)
        with _started(figure, name, program, file) as pid:
            for words in COMMANDS if commands else ():
                _ask(figure, program, words, pid)
            if commands:
                _ask(figure, program, ("validate", str(file)), pid, "validate")
            start = time.perf_counter()
            run(*program, "down", name, env=environment(), timeout_s=_ENDING_S)
            figure.down_s = round(time.perf_counter() - start, 3)
    return figure


@contextlib.contextmanager
def _started(figure: UpFigure, name: str, program: Sequence[str], file: Path) -> Iterator[int]:
    """Have the lab up; yield the pid of its process. Raises PeerError."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [*program, "up", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment(),
    )
    try:
        said = ""
        phase, since, used = "start", start, 0.0
        assert process.stderr is not None  # noqa: S101 - a pipe was asked for
        for line in process.stderr:
            said = line.strip()
            is_up = said.startswith(f"lab {name} is running")
            began = next((kind for words, kind in PHASES.items() if said.startswith(words)), None)
            if began is None and not is_up:
                continue
            now, used_now = time.perf_counter(), processor_s(process.pid)
            spent = Spent(round(now - since, 3), round(used_now - used, 3))
            figure.phases[phase] = asdict(spent)
            phase, since, used = began or "", now, used_now
            if is_up:
                break
        else:
            raise PeerError(f"the lab did not start: {said}")
        figure.ready_s, figure.processor_s = round(since - start, 3), round(used, 3)
        figure.peak_mib = round(peak_mib(process.pid), 1)
        yield process.pid
        process.communicate(timeout=_ENDING_S)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=_ENDING_S)


def _ask(figure: UpFigure, program: Sequence[str], words: Sequence[str], pid: int, label: str = "") -> None:
    start, before, lab = time.perf_counter(), children_s(), processor_s(pid)
    run(*program, *words, env=environment(), timeout_s=_ENDING_S)
    figure.commands[label or " ".join(words)] = {
        "seconds": round(time.perf_counter() - start, 3),
        "processor_s": round(children_s() - before, 3),
        "lab_processor_s": round(processor_s(pid) - lab, 3),
    }
