"""Labs that a benchmark starts and asks, with the `opavnic` of this installation or of another."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opavnic.lab.ownership.runtime import ROOT_VARIABLE, runtime_root
from opavnic_bench.base.sites import HostPair, run
from opavnic_bench.base.turns import PeerError

OWN: Final = (sys.executable, "-m", "opavnic.cli.main")
"""The program of this installation."""


def environment() -> dict[str, str]:
    """Return the environment in which labs of benchmarks run: with a runtime directory of their own.

    So nothing that is asked for "the lab" gets one of the user's, and the user's commands get none of these.
    """
    root = runtime_root()
    return {**os.environ, ROOT_VARIABLE: str(root.with_name(f"{root.name}-bench"))}


@dataclass(frozen=True, slots=True)
class RunningLab:
    """A lab that is up, asked through the command line."""

    name: str
    program: Sequence[str] = OWN

    def ask(self, *words: str) -> Any:
        """Run a command that prints JSON about the lab, and return that. Raises PeerError if it fails."""
        text = run(*self.program, *words, "--lab", self.name, "--json", env=environment())
        try:
            return json.loads(text)
        except ValueError as error:
            raise PeerError(f"opavnic {' '.join(words)} printed no JSON: {text!r:.80}") from error

    def site(self, client: str, server: str) -> HostPair:
        """Return two of its hosts; the server has one VNIC, with an address."""
        status = self.ask("status")
        hosts = {host["name"]: host for host in status["hosts"]}
        address = hosts[server]["vnics"][0]["ip"].partition("/")[0]
        return HostPair(hosts[client]["namespace"], hosts[server]["namespace"], address, (status["pid"],))


@contextlib.contextmanager
def running_lab(lab: Mapping[str, Any], program: Sequence[str] = OWN) -> Iterator[RunningLab]:
    """Have a lab up.

    Args:    lab: the content of its file.
    Raises:  PeerError: it does not start.
    """
    name = lab["name"]
    with tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory:
        file = Path(directory) / "lab.yaml"
        file.write_text(json.dumps(lab))  # JSON is YAML
        try:
            run(*program, "up", str(file), "-d", env=environment())
            yield RunningLab(name, program)
        finally:
            run(*program, "down", name, check=False, env=environment())


def end_labs() -> list[str]:
    """End the labs that a killed benchmark left, and return their names."""
    left = json.loads(run(*OWN, "ps", "--json", env=environment()))
    for lab in left:
        run(*OWN, "down", lab["lab"], check=False, env=environment())
    return [lab["lab"] for lab in left]


def check_program(path: str) -> tuple[str, ...]:
    """Return the program `opavnic` of another installation, as `running_lab` takes it.

    Raises:  PeerError: there is no such program, or it is not that one.
    """
    if not os.access(path, os.X_OK) or not Path(path).is_file():
        raise PeerError(f"{path} is not a program; it should be the `opavnic` of another installation")
    said = run(path, "--version")
    if not said.startswith("opavnic "):
        raise PeerError(f"{path} is not the `opavnic` of another installation: --version says {said!r:.60}")
    return (str(Path(path).absolute()),)
