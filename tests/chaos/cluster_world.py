"""A lab over three machines with TLS between them, and what can be done to those machines."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from chaos import machine
from chaos.ground import FILES, check_ground, kept
from chaos.rounds import Told
from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.cluster.zenoh.credentials import make_authority
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic_bench.base.sites import run, until
from opavnic_bench.base.turns import PeerError
from opavnic_bench.cluster.machines import NETWORK, PORT, BenchCluster, Machines, cluster, machines

Result = TypeVar("Result")
LAB: Final = "threefold"
HOSTS: Final = {"h1": "10.9.2.1", "h2": "10.9.2.2", "h3": "10.9.2.3"}
LATE: Final = "m9"
"""A machine with credentials of the fabric that has no share of the lab."""
STRANGER: Final = f"{NETWORK}.200"
"""The address of those who are no machine of the cluster, at the hub."""
BACK_S: Final = 120.0
"""What all machines together may take until the lab is whole again, on a busy machine."""
_DISK: Final = 24 << 20
_LAST_NOTES: Final = 40


@dataclass
class Figures:
    """What a campaign counts."""

    actions: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    strangers: int = 0
    strangers_refused: int = 0
    crossed: int = 0
    """Packets between machines."""
    lost: int = 0
    """Those of them that are counted as lost or dropped."""
    counted: tuple[int, int] = (0, 0)
    """Both of them as they were counted last: counters begin anew with the processes of machines."""
    memory: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By process of a machine: resident KiB and descriptors after each round that it lived through."""

    def count(self, crossed: int, lost: int) -> None:
        """Add what counters have grown by."""
        before, lost_before = self.counted
        self.crossed += crossed - before if crossed >= before else crossed
        self.lost += lost - lost_before if lost >= lost_before else lost
        self.counted = crossed, lost


class Disk:
    """The file system of one machine's runtime directory: it can be filled, and made to keep writers waiting."""

    def __init__(self, place: Path) -> None:
        """Make one where there are loop devices; elsewhere it is a directory, which is never slow."""
        self.place = place
        self.is_own = False
        self._freeze: subprocess.Popen[bytes] | None = None
        place.mkdir(parents=True, mode=0o700)
        image = FILES / f"disk-{place.name}"
        with image.open("wb") as file:
            file.truncate(_DISK)
        made = subprocess.run(["mkfs.ext4", "-q", "-F", "-m0", str(image)], check=False, capture_output=True)
        if made.returncode == 0:
            mount = ["mount", "-o", "loop,sync", str(image), str(place)]
            self.is_own = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        if self.is_own:
            (place / "lost+found").rmdir()
            place.chmod(0o700)

    def slow_down(self, seconds: float) -> None:
        """Keep all that write waiting for so long, from now on."""
        script = 'fsfreeze -f "$0"; sleep "$1"; fsfreeze -u "$0"'
        self._freeze = subprocess.Popen(["sh", "-c", script, str(self.place), str(seconds)])
        time.sleep(min(seconds, 0.2))

    def fill(self) -> None:
        """Leave no room."""
        with contextlib.suppress(OSError), (self.place / "their-fill").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def mend(self) -> None:
        """Let it be fast again, and empty it."""
        if self._freeze is not None:
            self._freeze.wait()
            self._freeze = None
        (self.place / "their-fill").unlink(missing_ok=True)

    def remove(self) -> None:
        """Take it away."""
        self.mend()
        if self.is_own:
            subprocess.run(["umount", str(self.place)], check=True)


class World(Told):
    """The cluster, what is done to it, and what was seen."""

    def __init__(self, seed: int) -> None:
        """Bring the cluster up."""
        check_ground()
        super().__init__(_LAST_NOTES)
        self.seed = seed
        self.figures = Figures()
        self.open_things: list[Any] = []
        """Connections of strangers that a round leaves open."""
        self.clients: list[subprocess.Popen[bytes]] = []
        """Programs that end with the round."""
        self.read: Counter[Path] = Counter()
        """How much of each log and output has been looked at."""
        run("ip", "netns", "add", "first")  # the directory of namespaces becomes a mount with it
        run("ip", "netns", "delete", "first")
        self.baseline = self.look()
        self._up = contextlib.ExitStack()
        try:
            self._come_up()
        except BaseException:
            self.end()
            raise

    def _come_up(self) -> None:
        self.machines: Machines = self._up.enter_context(machines(3))
        run("ip", "-n", self.machines.hub, "address", "add", f"{STRANGER}/24", "dev", "br0")
        here = self.machines.directory
        make_authority(here / "ca", [*self.machines.names, LATE], coordinators=[self.machines.names[0]])
        make_authority(here / "other-ca", [*self.machines.names, LATE])
        self.disks = {}
        for name in self.machines.names:
            self.disks[name] = Disk(here / "run" / name)
            self._up.callback(self.disks[name].remove)
        self.cluster: BenchCluster = self._up.enter_context(cluster(self.machines, lab_of(self.seed)))
        self.figures.processes = len(self.machines.names)
        until(self.is_whole, "the lab is not whole", pause_s=0.3, limit_s=BACK_S)
        self.lids = {host["name"]: host["lid"] for host in self.status()["hosts"]}
        self.talk()

    def finish(self) -> list[str]:
        """End the lab as a person would; return which machines did not end with it, or badly."""
        self.mend()
        self.cluster.processes[self.machines.names[0]].terminate()
        wrong = []
        for name, process in self.cluster.processes.items():
            try:
                code: object = process.wait(BACK_S / 2)
            except subprocess.TimeoutExpired:
                code = "nothing: it runs"
            if code != 0:
                wrong.append(f"{name} ended with {code}: {self.cluster.said(name)[-300:]}")
        return wrong

    def end(self) -> None:
        """Take everything away."""
        with contextlib.suppress(AttributeError, PeerError):
            self.mend()
        self.silence()
        self._up.close()

    # --- telling -------------------------------------------------------------------------------------------

    # --- looking -------------------------------------------------------------------------------------------

    def look(self) -> machine.Look:
        """Look at the computer, but for what the campaign itself needs."""
        return machine.look([Path("/run/netns"), Path("/run")], [FILES, *kept()])

    def status(self, name: str | None = None) -> dict[str, Any]:
        """Return the status of the whole lab, of the first machine unless another one is named."""
        return self.cluster.status(name or self.machines.names[0])

    def reaches(self, host: str, other: str) -> bool:
        """Return whether a ping passes."""
        words = ["ip", "netns", "exec", self.cluster.namespace(host), "ping", "-c1", "-W1", HOSTS[other]]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def is_whole(self) -> bool:
        """Return whether every machine sees all others, with all links between them open."""
        names = self.machines.names
        with contextlib.suppress(PeerError):
            for name in names:
                shown = self.status(name)["cluster"]
                if shown["there"] != names or not all(link["is_open"] for link in shown["links"]):
                    return False
            return all(self.reaches(a, b) for a in HOSTS for b in HOSTS if a != b)
        return False

    def pid(self, name: str) -> int:
        """Return the process of a machine."""
        return self.cluster.processes[name].pid

    def is_running(self, name: str) -> bool:
        """Return whether a machine has a process."""
        return self.cluster.processes[name].poll() is None

    # --- doing ---------------------------------------------------------------------------------------------

    def talk(self) -> None:
        """Let the hosts of all machines talk to each other: pings, and one TCP stream each."""
        self.silence()
        for number, (host, other) in enumerate((a, b) for a in HOSTS for b in HOSTS if a != b):
            inside = ["ip", "netns", "exec", self.cluster.namespace(host)]
            ping = [*inside, "ping", "-q", "-i0.02", "-s", str((56, 1400, 4000)[number % 3]), HOSTS[other]]
            self._client(ping)
        for host, other in (("h1", "h2"), ("h2", "h3"), ("h3", "h1")):
            there, here = (["ip", "netns", "exec", self.cluster.namespace(one)] for one in (other, host))
            self._client([*there, "iperf3", "-s", "-1", "-p", "5300"])
            stream = f"sleep 1; exec iperf3 -c {HOSTS[other]} -p 5300 -t 600 -b 200M"
            self._client([*here, "sh", "-c", stream])

    def _client(self, words: list[str]) -> None:
        quiet = subprocess.DEVNULL
        self.clients.append(subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet))

    def silence(self) -> None:
        """End all talk."""
        for client in self.clients:
            client.kill()
        for client in self.clients:
            client.wait()
        self.clients.clear()

    def kill(self, name: str) -> None:
        """Kill the process of a machine."""
        if self.is_running(name):
            self.note(f"kill {name}")
            self.cluster.kill(name)

    def start(self, name: str) -> None:
        """Start the process of a machine that has none."""
        if not self.is_running(name):
            self.note(f"start {name}")
            self.figures.processes += 1
            self.cluster.start(name)

    def stop(self, name: str, goes_on: bool) -> None:
        """Stop a machine, or let it go on."""
        if self.is_running(name):
            os.kill(self.pid(name), signal.SIGCONT if goes_on else signal.SIGSTOP)

    def as_stranger(self, function: Callable[[], Result]) -> Result:
        """Run a function as a computer that is no machine of the cluster."""
        return run_in_namespace(NETNS_DIR / self.machines.hub, function)

    def as_late_machine(self, credentials: Path, name: str) -> subprocess.Popen[bytes]:
        """Start a process that wants to join, as a machine beside; it ends with the round."""
        words = ["node", "--join", f"tls/{self.machines.address('m1')}:{PORT}", "--name", name]
        words += ["--listen", f"tls/{STRANGER}:0", "--credentials", str(credentials)]
        output = self.machines.directory / f"stranger-{self.figures.strangers}.out"
        self.figures.strangers += 1
        command = ["nsenter", f"--net={NETNS_DIR / self.machines.hub}", *own(), *words]
        environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(self.machines.directory / "stranger")}
        with output.open("wb") as file:
            client = subprocess.Popen(command, env=environment, stdin=-3, stdout=file, stderr=file)
        self.clients.append(client)
        return client

    def mend(self) -> None:
        """Undo what a round has done, by the means that a person has."""
        for disk in self.disks.values():
            disk.mend()
        for name in self.machines.names:
            self.stop(name, True)
            self.machines.plug(name, True)
        self.machines.part("m1", "m2", apart=False)
        self.machines.part("m3", "m2", apart=False)
        for thing in self.open_things:
            thing.close()
        self.open_things.clear()
        self.silence()
        for name in self.machines.names:
            self.start(name)

    def settle(self) -> None:
        """Mend everything, and wait until the lab is whole and nothing is under way."""
        self.mend()
        names = self.machines.names
        until(self.is_whole, f"not whole again: {self._why_not()}", pause_s=0.3, limit_s=BACK_S)
        self.cluster.opavnic(names[0], "fault", "clear")
        with contextlib.suppress(PeerError):
            until(lambda: not self.cluster.unaccounted(), "", pause_s=0.5, limit_s=30.0)

    def _why_not(self) -> str:
        said = []
        for name in self.machines.names:
            with contextlib.suppress(PeerError):
                shown = self.status(name)["cluster"]
                shut = [link["name"] for link in shown["links"] if not link["is_open"]]
                said.append(f"{name} sees {','.join(shown['there'])}, shut {','.join(shut) or 'none'}")
        return "; ".join(said)


def own() -> list[str]:
    """Return the command of the program."""
    from opavnic_bench.base.running_lab import OWN

    return list(OWN)


def lab_of(seed: int) -> dict[str, Any]:
    """Return the content of the lab file; the shape of its links follows from the seed."""
    rng = random.Random(f"{seed}/cluster")
    link: dict[str, Any] = rng.choice(
        ({}, {"credits": {"vls": 1}}, {"latency": "200us"}, {"jitter": "100us"})
    )
    shape = {"kind": "clos", "leaves": 3, "spines": 2, "hosts_per_leaf": 1, "uplinks": 2}
    return {
        "name": LAB,
        "fabric": {"topology": shape, "link": link},
        "hosts": 3,
        "vesws": [{"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": "all"}],
    }


def logs_of(world: World) -> Iterator[tuple[str, Path]]:
    """Yield what each machine writes for people: its output and its log."""
    for name in world.machines.names:
        yield name, world.cluster.output(name)
        for path in world.disks[name].place.glob("*/log*"):
            yield name, path
