"""The labs of a campaign: one that runs all the time, and those that come and go beside it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from chaos import machine
from chaos.ground import FILES, RUNTIME
from chaos.machine import NETNS
from chaos.programs import Client, Programs, wait_for
from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import Journal, LabDir

STEADY: Final = "steady"
BRIEF: Final = "brief"
OTHER: Final = "other"
_SHAPES: Final = ("{kind: single-switch}", "{kind: clos, leaves: 2, spines: 2}")
GONE_S: Final = 20.0
"""How long a lab may take to be gone after its process was told to end."""


def lab_text(name: str, hosts: int, net: int, rng: random.Random | None = None) -> str:
    """Return a lab file: hosts with two virtual switches; what can be one or the other is drawn."""
    names = [f"{name[0]}{number}" for number in range(1, hosts + 1)]
    shape = _SHAPES[0] if rng is None else rng.choice(_SHAPES)
    mac = "learn" if rng is None else rng.choice(("learn", "locally-administered"))
    datapath = "auto" if rng is None else rng.choice(("auto", "auto", "python"))
    return f"""\
name: {name}
fabric: {{id: 0x301, topology: {shape}, link: {{rate: 100G, latency: 300ns}}}}
datapath: {datapath}
hosts: {{{", ".join(f"{host}: {{}}" for host in names)}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, mtu: 1500, subnet: 10.{net}.2.0/24, members: [{", ".join(names)}]}}
  - {{id: 3, name: red, pkey: 0x8003, mtu: 9000, subnet: 10.{net}.3.0/24, members: [{", ".join(names[:2])}]}}
em: {{mac: {mac}}}
seed: {0 if rng is None else rng.randrange(1 << 31)}
"""


class LabHandle:
    """One lab, by name: its file, its directory, what can be asked of it."""

    def __init__(self, name: str, hosts: int, net: int, rng: random.Random | None = None) -> None:
        """Write its file; nothing runs yet."""
        self.name = name
        self.net = net
        self.hosts = [f"{name[0]}{number}" for number in range(1, hosts + 1)]
        self.file = FILES / f"{name}.yaml"
        self.file.write_text(lab_text(name, hosts, net, rng))
        self.directory = LabDir(RUNTIME / name)

    @property
    def journal(self) -> Journal | None:
        """What it has written down; None where nothing can be read."""
        return self.directory.load()

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.directory.running

    @property
    def pid(self) -> int | None:
        """Its process, while it lives."""
        journal = self.journal
        return journal.pid if journal is not None and journal.alive else None

    def namespace(self, host: str) -> Path:
        """Return the file of a host's namespace."""
        return NETNS / f"opavnic-{self.name}-{host}"

    def kill(self, number: signal.Signals = signal.SIGKILL) -> bool:
        """Signal its process; return whether there was one. After SIGKILL it is gone."""
        pid = self.pid
        if pid is None:
            return False
        os.kill(pid, number)
        if number == signal.SIGKILL:
            wait_for(lambda: not self.running, 10)
        return True

    def processes(self) -> list[int]:
        """Return every process with its file on the command line: clients, and a lab that is coming up or runs."""
        found = []
        for pid in machine.processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(self.file).encode() in words:
                found.append(pid)
        return found

    def remains(self) -> list[str]:
        """Return what is there of it."""
        left = [f"namespace {path.name}" for path in sorted(NETNS.glob(f"opavnic-{self.name}-[a-z][0-9]"))]
        if self.directory.path.exists():
            left.append(f"directory {self.directory.path} ({', '.join(os.listdir(self.directory.path))})")
        if self.running:
            left.append(f"process {self.pid}")
        return left

    def ask(self, method: str, path: str, body: object = None, limit_s: float = 60.0) -> Any:
        """Ask its control API; raises LabError where it refuses or does not answer."""
        client = LabClient(self.directory.control_socket, limit_s)
        return client.get(path) if method == "GET" else client.post(path, body)

    def status(self) -> dict[str, Any]:
        """Return its status."""
        data: dict[str, Any] = self.ask("GET", "/status")
        return data

    def ip(self, host: str, *words: str) -> bool:
        """Run `ip` on a host; return whether it did."""
        command = ["ip", "-n", self.namespace(host).name, *words]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def ping(self, source: str, target: str, vesw: int = 2, tries: int = 4) -> bool:
        """Return whether one host hears another: one answer is enough."""
        number = self.hosts.index(target) + 1
        inside = ["ip", "netns", "exec", self.namespace(source).name]
        command = [*inside, "ping", "-q", "-c1", "-W1", f"10.{self.net}.{vesw}.{number}"]
        return any(
            subprocess.run(command, check=False, capture_output=True).returncode == 0 for _ in range(tries)
        )

    def inside(self, host: str, function: Any) -> Any:
        """Run a function in the network namespace of a host."""
        return run_in_namespace(self.namespace(host), function)


class SteadyLab(LabHandle):
    """The lab that runs all the time, in the foreground of a client whose output is read."""

    def __init__(self, seed: str) -> None:
        """Draw its shape, its datapath and the policy of its manager."""
        super().__init__(STEADY, 3, 11, random.Random(seed))
        self.client: Client | None = None
        self.base: dict[str, Any] = {}
        """The configuration of the Ethernet Manager that it begins with, and is brought back to."""
        self.addresses: dict[tuple[str, str], tuple[str, int]] = {}
        """MAC and MTU of each interface, by host and name, as they are to be."""

    def come_up(self, programs: Programs) -> None:
        """Start it and wait until it is ready."""
        from opavnic.lab.file.em_config import em_config
        from opavnic.lab.file.loader import load_lab

        self.client = programs.start("up", str(self.file))
        programs.clients.remove(self.client)  # ended at the end, not at the end of a round
        self.client.wait_ready()
        self.base = json.loads(em_config(load_lab(self.file)).model_dump_json())
        self.note_addresses()

    def note_addresses(self) -> None:
        """Remember the interfaces as they are."""
        for host in self.status()["hosts"]:
            for vnic in host["vnics"]:
                self.addresses[host["name"], vnic["interface"]] = (vnic["mac"], vnic["mtu"])

    def apply(self, config: object, limit_s: float = 60.0) -> dict[str, Any]:
        """Give its manager a configuration."""
        data: dict[str, Any] = self.ask("POST", "/em/apply", config, limit_s)
        return data

    def mend(self) -> None:
        """Bring it back to what it was when it came up, as a person would: nothing is killed or restarted."""
        self.kill(signal.SIGCONT)
        self.ask("POST", "/faults/remove", {"number": None})
        self.apply(
            {**self.base, "vesws": []}
        )  # so that each virtual switch gets the vport that it had at first
        self.apply(self.base)
        for (host, name), (mac, mtu) in self.addresses.items():
            self.ip(host, "link", "set", "dev", name, "down")
            self.ip(host, "link", "set", "dev", name, "address", mac)
            self.ip(host, "link", "set", "dev", name, "mtu", str(mtu))
            self.ip(host, "link", "set", "dev", name, "up")
        for host in self.hosts:
            self.ip(host, "neigh", "flush", "all")

    def logged(self) -> str:
        """Return what lies in its log, in all of its files."""
        files = sorted(self.directory.path.glob("log*"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


def answers(lab: LabHandle) -> bool:
    """Return whether the control API of a lab answers."""
    try:
        lab.status()
    except LabError:
        return False
    return True
