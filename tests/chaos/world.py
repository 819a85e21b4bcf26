"""The world of a campaign: the labs, the programs, the things of others, and what has happened so far."""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos import disk, machine
from chaos.foreign import Foreigners
from chaos.ground import FILES, RUNTIME, check_ground, kept
from chaos.labs import BRIEF, GONE_S, OTHER, LabHandle, SteadyLab
from chaos.machine import Look
from chaos.programs import Programs, wait_for
from chaos.rounds import Told

LAST_ACTIONS: Final = 25


@dataclass
class Figures:
    """What a campaign counts."""

    actions: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    frames: int = 0
    hostile_frames: int = 0
    mads: int = 0
    hostile_mads: int = 0
    rss: list[int] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


class World(Told):
    """Everything that a round plays with."""

    def __init__(self, seed: int) -> None:
        """Make the labs' files and the things of others; the steady lab comes up."""
        check_ground()
        super().__init__(LAST_ACTIONS)
        self.seed = seed
        self.figures = Figures()
        self.programs = Programs(self.found, self.note)
        self.programs.environment["OPAVNIC_RUNTIME_DIR"] = str(RUNTIME)
        self.foreigners = Foreigners()
        self.steady = SteadyLab(f"{seed}/steady")
        self.brief = LabHandle(BRIEF, 2, 12)
        self.other = LabHandle(OTHER, 2, 13)
        self.patience_s = 20.0
        """What a busy machine may take until what was killed is gone, and packets are where they go."""
        self.open_things: list[Any] = []
        """Sockets and the like that a round leaves open: closed when it settles."""
        self.log_read = 0
        self.baseline: Look = {}

    def skip(self, what: str) -> None:
        """Enter an action that cannot be played here."""
        self.figures.skipped[what] += 1

    # coming and going

    def begin(self) -> None:
        """Settle everybody in and take the first look."""
        RUNTIME.chmod(0o700)
        self.foreigners.settle_in(RUNTIME)
        self.steady.come_up(self.programs)
        self.baseline = self.look()

    def look(self) -> Look:
        """Look at the machine.

        What a round leaves open, what is inside the steady lab's directory, and what Python compiles of a checkout that
        lies in /tmp is left out.
        """
        return machine.look(
            [Path("/run/netns"), Path("/run"), Path("/tmp")],  # noqa: S108 - empty, and of this ground alone
            [self.steady.directory.path, Path("/run/campaign"), *kept()],
        )

    def settle(self) -> None:
        """End what a round has begun, by the means that a person has, and mend the steady lab."""
        disk.free()
        disk.open_again()
        self.steady.kill(signal.SIGCONT)
        for thing in self.open_things:
            thing.close()
        self.open_things.clear()
        self.programs.finish_all()
        for lab in (self.brief, self.other):
            lab.kill(signal.SIGCONT)
            if lab.running:
                self.down(lab)
        pruned = self.programs.run("prune")
        if not pruned.ok:
            self.found(f"prune failed: {pruned.err.strip()[-300:]}")
        self.steady.mend()

    def down(self, lab: LabHandle) -> None:
        """End a lab as a person would: it is to be gone, without prune."""
        done = self.programs.run("down", lab.name)
        if not done.ok:
            self.found(f"`opavnic down {lab.name}` failed: {done.err.strip()[-300:]}")
        self.expect_gone(lab, f"`opavnic down {lab.name}`", 0.5)

    def expect_gone(self, lab: LabHandle, after: str, limit_s: float = GONE_S) -> None:
        """Find fault with what is left of a lab that ends by itself."""
        if not wait_for(lambda: not lab.remains(), limit_s):
            self.found(f"left of lab {lab.name} after {after}: {', '.join(lab.remains())}")

    def up(self, lab: LabHandle) -> bool:
        """Bring a lab up as a person would, after one that an action before has left; return whether it runs."""
        if lab.running:  # one that was killed comes up again without help
            self.down(lab)
        done = self.programs.run("up", str(lab.file), "-d")
        if not done.ok:
            self.found(f"`opavnic up {lab.name}` failed: {done.err.strip()[-300:]}")
        return done.ok

    def make_way(self, lab: LabHandle) -> None:
        """End a lab that an action before has left running, and remove what one left that was killed."""
        if lab.running:
            self.down(lab)
        elif lab.remains():
            self.programs.run("prune")

    def em_file(self, config: object) -> Path:
        """Write a configuration of an Ethernet Manager to a file; JSON is YAML."""
        file = FILES / "em.yaml"
        file.write_text(json.dumps(config))
        return file

    def sample(self) -> None:
        """Measure the steady lab."""
        pid = self.steady.pid
        if pid is not None:
            rss, fds = machine.memory_and_descriptors(pid)
            self.figures.rss.append(rss)
            self.figures.fds.append(fds)

    def end(self) -> None:
        """Kill everything; harmless when done twice."""
        disk.free()
        disk.open_again()
        for thing in self.open_things:
            thing.close()
        self.programs.kill_all()
        if self.steady.client is not None:
            self.steady.client.kill()
        for lab in (self.brief, self.other):
            lab.kill()
        self.foreigners.remove()
