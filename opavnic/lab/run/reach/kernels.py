"""The echoes of `opavnic check` from hosts that are kernels of their own: this module runs there, too.

A host's kernel sends what its programs send, so a program there asks. It says on one line of its output what its VNICs
are like, reads on one line of its input those of all hosts, says now and then how many of its probes are over, and last
what came of them.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from ipaddress import ip_address
from types import TracebackType
from typing import Any, Self

from opavnic.kernel.client import client_words
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.runtime import Journal, LabDir, runtime_root
from opavnic.lab.run.reach.echoes import EchoRun, open_sockets, places_here, told_now_and_then
from opavnic.lab.run.reach.plan import EchoKind, PairSample, Probe, ProbeOutcome, VnicPlace


class KernelAsker:
    """A program in the kernel of a host that sends its echoes."""

    def __init__(self, journal: Journal, host: str, vnics: Sequence[tuple[str, str]]) -> None:
        """Start it. Raises LabError.

        Args:  vnics: interface and virtual switch of each VNIC of the host that is up.
        """
        self._host = host
        path = LabDir(runtime_root() / journal.lab).kernel_socket
        program = [sys.executable, "-P", "-m", __name__, host, json.dumps(vnics)]
        try:
            self._program = subprocess.Popen(
                [*client_words(path, host), *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise LabError(f"cannot check from host {host}: {sys.executable}: {error.strerror}") from error

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._program.kill()
        self._program.communicate()

    def places(self) -> list[VnicPlace]:
        """Return the VNICs of the host. Raises LabError."""
        return [_place(told) for told in self._line()]

    def ask(
        self,
        places: Iterable[VnicPlace],
        timeout_s: float,
        sample: PairSample,
        progress: Callable[[int, int], None],
    ) -> list[ProbeOutcome]:
        """Let it send its probes to these VNICs, and return what came of them. Raises LabError.

        Args:  progress: called with the number of its probes that are over, and of all.
        """
        assert self._program.stdin is not None  # noqa: S101 - asked for
        told = {
            "places": [asdict(place) for place in places],
            "timeout_s": timeout_s,
            "sample": asdict(sample),
        }
        with contextlib.suppress(OSError):  # it has ended, which is said below
            self._program.stdin.write(json.dumps(told, default=str) + "\n")
            self._program.stdin.flush()
        return [outcome_of(told) for told in self._line(progress)]

    def _line(self, progress: Callable[[int, int], None] = lambda done, total: None) -> list[dict[str, Any]]:
        assert self._program.stdout is not None  # noqa: S101 - asked for
        try:
            while isinstance(told := json.loads(self._program.stdout.readline()), dict):
                progress(told["done"], told["total"])
            return list(told)
        except ValueError:
            raise LabError(
                f"cannot check from host {self._host}: its kernel does not run the check"
            ) from None


def _place(told: dict[str, Any]) -> VnicPlace:
    addresses = {key: told[key] and ip_address(told[key]) for key in ("ipv4", "ipv6")}
    return VnicPlace(**(told | addresses))


def outcome_of(told: dict[str, Any]) -> ProbeOutcome:
    """Return what came of a probe of a host's kernel. Args: told: by the program there, from JSON."""
    probe = told["probe"]
    asked = Probe(
        EchoKind(probe["kind"]),
        _place(probe["source"]),
        probe["target"] and _place(probe["target"]),
        ip_address(probe["address"]),
        probe["payload"],
    )
    return ProbeOutcome(**(told | {"probe": asked, "heard": tuple(map(_place, told["heard"]))}))


def main() -> None:
    """Ask on behalf of this host: HOST VNICS."""
    host, vnics = sys.argv[1], json.loads(sys.argv[2])
    with contextlib.ExitStack() as ends:
        sockets = open_sockets(ends)
        _tell([asdict(place) for place in places_here(host, vnics)])
        told = json.loads(sys.stdin.readline())
        places = [_place(place) for place in told["places"]]
        run = EchoRun({host: sockets}, places, told["timeout_s"], PairSample(**told["sample"]))
        report = run.run(told_now_and_then(lambda done, total: _tell({"done": done, "total": total})))
        _tell([asdict(outcome) for outcome in report.outcomes])


def _tell(what: object) -> None:
    sys.stdout.write(json.dumps(what, default=str) + "\n")  # addresses are texts
    sys.stdout.flush()


if __name__ == "__main__":
    main()
