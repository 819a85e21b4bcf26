"""Machines that a cluster is measured on: network namespaces on one bridge, each with processes of its own.

with machines(3) as found, cluster(found, lab) as running:
    running.status("m1")
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.ownership.runtime import ROOT_VARIABLE, LabDir
from opavnic_bench.base.running_lab import OWN
from opavnic_bench.base.sites import bench_namespaces, run, until
from opavnic_bench.base.turns import PeerError

NETWORK: Final = "192.0.2"
"""What the addresses of machines begin with (TEST-NET-1)."""
PORT: Final = 7447
READY_S: Final = 90.0


@dataclass(slots=True)
class Machines:
    """Machines on one bridge."""

    namespaces: dict[str, str]
    """Of each machine, by its name: m1 is the coordinator."""
    hub: str
    """The namespace of the bridge."""
    directory: Path
    """What they write: runtime directories, credentials, outputs."""

    @property
    def names(self) -> list[str]:
        """All machines."""
        return list(self.namespaces)

    def address(self, name: str) -> str:
        """Return the IPv4 address of a machine."""
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of programs of a machine: it has a runtime directory of its own."""
        return {**os.environ, ROOT_VARIABLE: str(self.directory / "run" / name)}

    def command(self, name: str, *words: str) -> list[str]:
        """Return the command that runs a program on a machine, which shares the mounts of all."""
        return ["nsenter", f"--net={NETNS_DIR / self.namespaces[name]}", *words]

    def plug(self, name: str, plugged: bool) -> None:
        """Put a machine's cable into the bridge, or pull it."""
        run("ip", "-n", self.hub, "link", "set", "dev", _cable(name), "up" if plugged else "down")

    def part(self, one: str, other: str, *, apart: bool) -> None:
        """Let two machines not reach each other, while both reach all others; or let them again."""
        for name in (one, other):
            state = ("isolated", "on" if apart else "off")
            run("ip", "netns", "exec", self.hub, "bridge", "link", "set", "dev", _cable(name), *state)


def _cable(name: str) -> str:
    return f"to-{name}"


@contextlib.contextmanager
def machines(count: int, prefix: str = "") -> Iterator[Machines]:
    """Make so many machines on one bridge.

    Args:    prefix: of the names of their namespaces, where this process has others.
    Raises:  PeerError: a namespace or a device cannot be made.
    """
    names = [f"m{number}" for number in range(1, count + 1)]
    with (
        bench_namespaces(*(prefix + name for name in ("hub", *names))) as (hub, *made),
        tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory,
    ):
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")
        found = Machines(dict(zip(names, made, strict=True)), hub, Path(directory))
        for name, namespace in found.namespaces.items():
            cable = _cable(name)
            run(
                "ip",
                "-n",
                hub,
                "link",
                "add",
                cable,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                namespace,
            )
            run("ip", "-n", hub, "link", "set", cable, "master", "br0", "up")
            run("ip", "-n", namespace, "address", "add", f"{found.address(name)}/24", "dev", "eth0")
            run("ip", "-n", namespace, "link", "set", "eth0", "up")
        yield found


@dataclass(slots=True)
class BenchCluster:
    """A lab that runs on machines."""

    machines: Machines
    lab: str
    file: Path
    security: Sequence[str]
    """Options of the coordinator and of machines, but for --credentials' folder."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    # --- processes -----------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a machine; the first one is the coordinator."""
        found = self.machines
        first = found.names[0]
        proto = "tls" if self.security == ("tls",) else "tcp"
        words = (
            ["up", str(self.file), "--cluster"]
            if name == first
            else ["node", "--join", f"{proto}/{found.address(first)}:{PORT}"]
        )
        words += ["--listen", f"{proto}/{found.address(name)}:{PORT}", "--name", name]
        words += ["--credentials", str(found.directory / "ca" / name)] if proto == "tls" else ["--insecure"]
        with self.output(name).open("ab") as output:
            self.processes[name] = subprocess.Popen(
                found.command(name, *OWN, *words),
                env=found.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def output(self, name: str) -> Path:
        """Return the file with all that a machine has said."""
        return self.machines.directory / f"{name}.out"

    def said(self, name: str) -> str:
        """Return what a machine has said so far."""
        path = self.output(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def kill(self, name: str) -> None:
        """Kill the process of a machine, which leaves no time for a word."""
        self.processes[name].kill()
        self.processes[name].wait()

    def await_ready(self) -> None:
        """Wait until the first machine says that it runs. Raises PeerError if it ends instead, or takes too long."""
        name = self.machines.names[0]

        def is_ready() -> bool:
            if self.processes[name].poll() is not None:
                raise PeerError(f"{name} has ended: {self.said(name).strip().splitlines()[-1:]}")
            return "is running; end it" in self.said(name)

        until(is_ready, f"{name} is not ready: {self.said(name)[-300:]}", pause_s=0.1, limit_s=READY_S)

    def end(self) -> None:
        """End all machines, the coordinator first, which ends the others."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()

    # --- questions -----------------------------------------------------------------------------------------

    def ask(self, name: str, *words: str) -> Any:
        """Run a command that prints JSON on a machine, and return that. Raises PeerError if it fails."""
        command = self.machines.command(name, *OWN, *words, "--json")
        return json.loads(run(*command, env=self.machines.environment(name)))

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of the lab as a machine has it; no program is started. Raises PeerError if it fails."""
        directory = LabDir(self.machines.directory / "run" / name / self.lab)
        try:
            return dict(LabClient(directory.control_socket).get("/status?drift=1"))
        except LabError as error:
            raise PeerError(str(error)) from error

    def opavnic(self, name: str, *words: str, check: bool = True) -> str:
        """Run a command of the program on a machine and return its output. Raises PeerError if it fails."""
        return run(
            *self.machines.command(name, *OWN, *words), env=self.machines.environment(name), check=check
        )

    def namespace(self, host: str) -> str:
        """Return the network namespace of a host, whatever machine it is on."""
        return f"opavnic-{self.lab}-{host}"

    def unaccounted(self, name: str | None = None) -> dict[str, int]:
        """Return where frames are neither delivered nor counted, in an element or between two machines, at rest.

        Args:  name: the machine to ask; the first one unless given.
        """
        return dict(self.status(name or self.machines.names[0])["balance"])


@contextlib.contextmanager
def cluster(found: Machines, lab: Mapping[str, Any], *, tls: bool = True) -> Iterator[BenchCluster]:
    """Have a lab up on machines.

    Args:    lab: the content of its file; `cluster.nodes` is added.
    Raises:  PeerError: it does not start.
    """
    file = found.directory / "lab.yaml"
    file.write_text(
        json.dumps({**lab, "cluster": {**lab.get("cluster", {}), "nodes": found.names}})
    )  # JSON is YAML
    if tls:
        nodes = [word for name in found.names[1:] for word in ("--node", name)]
        run(*OWN, "cluster", "ca", str(found.directory / "ca"), "--coordinator", found.names[0], *nodes)
    running = BenchCluster(found, lab["name"], file, ("tls",) if tls else ())
    try:
        first, *others = found.names
        running.start(first)
        until(lambda: bool(running.said(first)), f"{first} says nothing", limit_s=READY_S)
        for name in others:
            running.start(name)
        running.await_ready()
        yield running
    finally:
        running.end()
