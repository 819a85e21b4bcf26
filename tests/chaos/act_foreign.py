"""Actions: things of others bear our names, take our numbers, lie in our places. Nobody may touch them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from chaos.deck import action
from chaos.foreign import NOBODY, Files, Namespace, Program, start_time
from chaos.ground import FILES, RUNTIME
from chaos.labs import LabHandle, lab_text
from chaos.machine import NETNS
from chaos.programs import LIMIT_S, OPAVNIC, wait_for
from chaos.world import World
from opavnic.lab.ownership.runtime import Journal

_PROBES = 24
"""How many namespaces are made to get the inode of one that was deleted."""


@action
def numbers_again(world: World, rng: random.Random) -> None:
    """A lab is killed, its namespaces are deleted by hand, and somebody's namespaces get their inodes."""
    if _killed_without_namespaces(world):
        _take_the_numbers(world, [f"theirs-{number}" for number in range(rng.randint(2, 4))])
        _remove(world, rng)
        _judge(world)


@action
def names_and_numbers_again(world: World, rng: random.Random) -> None:
    """The same, under the very names that the lab had."""
    names = _killed_without_namespaces(world)
    if names:
        _take_the_numbers(world, names)
        world.programs.run("prune")
        _judge(world)


@action
def another_lab_on_the_numbers(world: World, rng: random.Random) -> None:
    """A lab is killed, its namespaces are deleted by hand, and another lab of ours gets their inodes."""
    if not _killed_without_namespaces(world) or not world.up(world.other):
        return
    for host in world.other.hosts:
        world.foreigners.add(Program(world.other.namespace(host).name))
    _remove(world, rng)
    if not world.other.ping("o1", "o2"):
        world.found("o1 does not reach o2: a lab that runs was harmed when another's leftovers were removed")
    world.programs.run("prune")
    _judge(world)
    world.down(world.other)


@action
def directory_of_our_name(world: World, rng: random.Random) -> None:
    """A directory with somebody's files has the name of a lab."""
    world.make_way(world.brief)
    theirs = Files(world.brief.directory.path, mode=rng.choice((0o700, 0o755)))
    world.foreigners.add(theirs)
    if world.programs.run("up", str(world.brief.file), "-d").ok:
        world.programs.run("down", world.brief.name)  # may say that it leaves a directory
    world.programs.run("prune")
    for name in ("state.json", "control.sock", "mad.sock", "log"):  # a lab may have been there meanwhile
        if not world.brief.running:
            (world.brief.directory.path / name).unlink(missing_ok=True)
    _judge(world)


@action
def namespace_of_our_name(world: World, rng: random.Random) -> None:
    """A namespace of somebody's has the name that a host of ours would get."""
    world.make_way(world.brief)
    world.foreigners.add(Namespace(f"opavnic-{world.brief.name}-{rng.choice(world.brief.hosts)}"))
    done = world.programs.run("up", str(world.brief.file), "-d")
    if done.ok or "left alone" not in done.err:
        world.found(f"`opavnic up` over a namespace of somebody else: {done.code}, {done.err.strip()[-200:]}")
    world.programs.run("prune")
    _judge(world)


@action
def false_journal(world: World, rng: random.Random) -> None:
    """Another user's directory in the runtime directory says that a program of ours is a lab."""
    victim = Program()
    world.foreigners.add(victim)
    evil = Files(RUNTIME / "evil", kinds="", uid=NOBODY, mode=0o777)
    journal = {
        "lab": "evil", "pid": victim.pid, "start_time": start_time(victim.pid), "file": "", "private": False,
        "namespaces": [], "netdevs": [],
    }  # fmt: skip
    evil.add("state.json", json.dumps(journal), NOBODY)
    if rng.random() < 0.5:
        os.mkfifo(evil.path / "log")
    try:
        for words in (["down", "evil"], ["logs", "--lab", "evil"], ["ps"], ["prune"]):
            world.programs.run(*words, limit_s=25)
        _judge(world)
    finally:
        (evil.path / "log").unlink(missing_ok=True)
        evil.remove()


@action
def hostile_lab_file(world: World, rng: random.Random) -> None:
    """A lab file of nonsense, and a FIFO where a traceback would be kept: one line, no hang."""
    fifo = RUNTIME.with_name(f"{RUNTIME.name}-error.log")
    if rng.random() < 0.5:
        os.mkfifo(fifo)
    try:
        tag = rng.choice(
            ("!!timestamp foo", "!!bool foo", '!!int ""', '!!float ""', "!!binary é", "!!set {a}")
        )
        file = FILES / "hostile.yaml"
        file.write_text(f"name: {tag}\nhosts: {{h1: {{}}}}\n")
        done = world.programs.run("validate", str(file), limit_s=25)
        if done.code != 2:
            world.found(
                f"`opavnic validate` of `name: {tag}` ended with {done.code}: {done.err.strip()[-200:]}"
            )
    finally:
        fifo.unlink(missing_ok=True)


@action
def nobodys_labs(world: World, rng: random.Random) -> None:
    """Labs of a user without privilege: one is killed, a second gets its inodes, `prune` leaves that one alone."""
    root = Path("/run/nobody")
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    mount, tun = Path("/run/nobody-dev"), Path("/dev/net/tun")
    mount.mkdir()
    labs = [LabHandle(name, 2, 14) for name in ("nemo", "outis")]
    for lab in labs:
        lab.file.write_text(lab_text(lab.name, 2, 14))

    script = (
        'mount --bind "$0/tun" /dev/net/tun && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"'
    )
    as_nobody = ["unshare", "--mount", "sh", "-c", script, str(mount), *OPAVNIC]
    place = {"OPAVNIC_RUNTIME_DIR": f"{root}/labs"}

    def run(*words: str) -> bool:
        """Run a command as that user, for whom /dev/net/tun is open."""
        world.note(f"nobody: opavnic {' '.join(words)}")
        return world.programs.run_as([*as_nobody, *words], f"{' '.join(words)} (nobody)", more=place).ok

    programs: list[subprocess.Popen[bytes]] = []
    try:
        status = tun.stat()
        os.mknod(mount / "tun", 0o600 | 0o020000, status.st_rdev)
        (mount / "tun").chmod(0o666)
        if not run("up", str(labs[0].file), "-d"):
            world.skip("nobodys_labs")
            return
        _journal(root / "labs/nemo/state.json", kill=True)
        run("up", str(labs[1].file), "-d")
        second = _journal(root / "labs/outis/state.json")
        environment = {**world.programs.environment, **place}
        for host in labs[1].hosts:
            command = [*as_nobody, "exec", host, "--lab", "outis", "--", "sleep", "1000"]
            programs.append(subprocess.Popen(command, env=environment, stdin=-3, stdout=-3, stderr=-3))
        if not wait_for(lambda: all(_is_in(program, second) for program in programs), LIMIT_S):
            world.found("`opavnic exec` of nobody's lab starts no program")
        run("prune")
        ended = [signal.Signals(-code).name for program in programs if (code := program.poll() or 0) < 0]
        if ended:
            world.found(f"harmed: prune of a killed lab ended programs of a running lab, nobody's: {ended}")
        if not run("down", "outis"):
            world.found("`opavnic down` of nobody's lab failed")
        run("prune")
    finally:
        for program in programs:
            program.kill()
            program.wait()
        (mount / "tun").unlink(missing_ok=True)
        for path in (mount, root / "labs", root):
            if path.exists():
                subprocess.run(["rm", "-rf", str(root / "labs")], check=False)
                subprocess.run(["rmdir", str(path)], check=False, capture_output=True)


def _journal(file: Path, *, kill: bool = False) -> Journal:
    journal = Journal.from_json(file.read_text())
    if kill:
        os.kill(journal.pid, 9)
        wait_for(lambda: not journal.alive, 10)
    return journal


def _is_in(program: subprocess.Popen[bytes], journal: Journal) -> bool:
    """Return whether a program has come into a namespace of a lab and is what it was to become."""
    try:
        inode = os.stat(f"/proc/{program.pid}/ns/net").st_ino
        name = Path(f"/proc/{program.pid}/comm").read_text().strip()
    except OSError:
        return False
    return name == "sleep" and inode in {entry.inode for entry in journal.namespaces}


def _killed_without_namespaces(world: World) -> list[str]:
    """Kill the brief lab and delete its namespaces by hand; return their names."""
    if not world.up(world.brief):
        return []
    journal = world.brief.journal
    world.figures.kills += world.brief.kill()
    names = [] if journal is None else [Path(entry.path).name for entry in journal.namespaces]
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    world.note(f"kill -9 of the brief lab; ip netns delete {' '.join(names)}")
    return names


def _take_the_numbers(world: World, names: list[str]) -> None:
    """Make namespaces of somebody's until they have the inodes of the killed lab; Linux gives the lowest free one."""
    journal = world.brief.journal
    inodes = set() if journal is None else {entry.inode for entry in journal.namespaces}
    held = []
    for name in names:
        for attempt in range(_PROBES):
            subprocess.run(["ip", "netns", "add", name], check=True)
            if (NETNS / name).stat().st_ino in inodes:
                break
            if (
                attempt < _PROBES - 1
            ):  # this number is taken; the kernel may also not be done with the lab's yet
                held.append(os.open(NETNS / name, os.O_RDONLY))
                subprocess.run(["ip", "netns", "delete", name], check=True)
                time.sleep(0.02)
        world.foreigners.add(Namespace(name))
    for fd in held:
        os.close(fd)
    again = sum((NETNS / name).stat().st_ino in inodes for name in names)
    world.note(f"ip netns add {' '.join(names)}, a program in each; {again} have inodes of the lab")


def _judge(world: World) -> None:
    """Look whether the things of others are as they were, and take away those of this action."""
    for trouble in world.foreigners.trouble():
        world.found(f"harmed: {trouble}")
    world.foreigners.end_round()


def _remove(world: World, rng: random.Random) -> None:
    """Let what the killed lab left be removed, by one of the two who do it."""
    if rng.random() < 0.6:
        world.programs.run("prune")
    else:
        world.programs.run("up", str(world.brief.file), "-d")
