"""Actions: labs come and go, and are killed, stopped and interrupted at any instant."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

from chaos.deck import action
from chaos.labs import GONE_S, LabHandle, answers
from chaos.programs import END_S, LIMIT_S, Client, wait_for
from chaos.world import World

_POLITE = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@action
def up_ping_down(world: World, rng: random.Random) -> None:
    """A lab comes, works and goes, as it should."""
    lab = world.brief
    if world.up(lab):
        if not lab.ping("b1", "b2", rng.choice((2, 3))):
            world.found("b1 does not reach b2 in a lab that has just come up")
        world.down(lab)


@action
def kill_and_up_again(world: World, rng: random.Random) -> None:
    """A lab is killed, and comes up again with or without prune; what ran on its hosts ends."""
    lab = world.brief
    if not world.up(lab):
        return
    world.programs.start("exec", "b1", "--lab", lab.name, "--", "sleep", "1000")
    world.figures.kills += lab.kill()
    if rng.random() < 0.5:
        world.programs.run("prune")
        world.expect_gone(lab, "kill -9 and prune", 0.5)
    if world.up(lab) and not lab.ping("b2", "b1"):
        world.found("b2 does not reach b1 in a lab that came up after one that was killed")


@action
def kill_during_up(world: World, rng: random.Random) -> None:
    """The process of a lab, its client, or both are killed while it comes up."""
    world.make_way(world.brief)
    client = world.programs.start("up", str(world.brief.file), "-d")
    time.sleep(rng.uniform(0, 2.5))
    whom = rng.choice(("lab", "client", "both"))
    if whom in ("client", "both"):
        client.kill()
        world.figures.kills += 1
    if whom in ("lab", "both"):
        world.figures.kills += _kill_lab_of(client, world.brief)
    world.note(f"kill -9 during up: {whom}")
    if client.wait(LIMIT_S) is None:
        world.found(f"`opavnic up -d` hangs after kill -9 of {whom}")
    world.programs.let_go(client)
    # where the client alone was killed, the lab may be on its way up, or run: that is settled like any lab
    lab = world.brief
    if wait_for(lambda: not lab.processes() or lab.directory.control_socket.exists(), LIMIT_S):
        world.programs.run("job", "wait", "1", "--lab", lab.name)


@action
def kill_during_down(world: World, rng: random.Random) -> None:
    """The process of a lab is killed while it ends."""
    lab = world.brief
    if not world.up(lab):
        return
    client = world.programs.start("down", lab.name)
    time.sleep(rng.uniform(0, 0.9))
    world.figures.kills += lab.kill()
    if client.wait(LIMIT_S) is None:
        world.found("`opavnic down` hangs after kill -9 of the lab")
    world.programs.let_go(client)
    world.programs.run("prune")
    world.expect_gone(lab, "kill -9 during down, and prune", 0.5)


@action
def interrupt_up(world: World, rng: random.Random) -> None:
    """`up -d` is told to end: then no lab is left, unless it says that one runs."""
    world.make_way(world.brief)
    number = rng.choice(_POLITE)
    client = world.programs.start("up", str(world.brief.file), "-d")
    if rng.random() < 0.7:  # the process of the lab is there
        wait_for(lambda: len(world.brief.processes()) > 1 or client.process.poll() is not None, LIMIT_S)
    time.sleep(rng.uniform(0, 0.8))
    code = world.programs.finish(client, number, LIMIT_S)
    if code == 0 and answers(world.brief):
        return
    if not wait_for(lambda: not world.brief.processes(), GONE_S):
        world.found(f"`up -d` ended with {code} on {number.name}, and its lab comes up all the same")
    world.expect_gone(world.brief, f"`up -d` that ended with {code} on {number.name}")


@action
def interrupt_lab(world: World, rng: random.Random) -> None:
    """The process of a lab is told to end, also while it comes up: nothing of it is left."""
    world.make_way(world.brief)
    lab = world.brief
    client = world.programs.start("up", str(lab.file), *rng.choice(([], ["-d"])))
    number = rng.choice(_POLITE)
    time.sleep(rng.uniform(0.5, 3.0))
    world.note(f"{number.name} to lab {lab.name}")
    if client.words[-1] != "-d":
        world.programs.finish(client, number, LIMIT_S)
    else:
        lab.kill(number)
        if client.wait(LIMIT_S) is None:
            world.found(f"`up -d` hangs after {number.name} to its lab")
        world.programs.let_go(client)
        if lab.running:  # it came up later than the signal
            lab.kill(number)
    world.expect_gone(lab, f"{number.name} to its process")


@action
def stop_and_go_on(world: World, rng: random.Random) -> None:
    """The steady lab stands still for a while: commands say so, and it goes on afterwards."""
    world.note("SIGSTOP to the steady lab")
    world.steady.kill(signal.SIGSTOP)
    client = world.programs.start("status", "--lab", world.steady.name)
    time.sleep(rng.uniform(0, 2.5))
    world.steady.kill(signal.SIGCONT)
    if client.wait(END_S + 10) is None:
        world.found("`opavnic status` hangs on a lab that was stopped for a while")
    world.programs.let_go(client)


@action
def clients_come_and_go(world: World, rng: random.Random) -> None:
    """Clients look at the steady lab and are told to end, stopped or killed; background jobs hear SIGINT too."""
    kinds = [
        ["capture", "--json"],
        ["capture", "on", world.steady.hosts[0]],
        ["logs", "-f"],
        ["top", "--json"],
        ["top"],
        ["em", "show", "vports", "--watch"],
    ]
    clients = [
        world.programs.start(*rng.choice(kinds), "--lab", world.steady.name, deaf=rng.random() < 0.3)
        for _ in range(rng.randint(1, 4))
    ]
    time.sleep(rng.uniform(0.2, 2.0))
    for client in clients:
        number = rng.choice((*_POLITE, signal.SIGSTOP, signal.SIGKILL))
        if number == signal.SIGKILL:
            client.kill()
            world.programs.let_go(client)
            continue
        if number == signal.SIGSTOP:
            client.send(signal.SIGSTOP)
            time.sleep(rng.uniform(0, 0.5))
            client.send(signal.SIGCONT)
            number = signal.SIGTERM
        world.programs.finish(client, number)


@action
def several_ups(world: World, rng: random.Random) -> None:
    """Several `up` of one name at once: one wins, the others say so."""
    world.make_way(world.brief)
    clients = [world.programs.start("up", str(world.brief.file), "-d") for _ in range(rng.randint(2, 3))]
    codes = [client.wait(LIMIT_S) for client in clients]
    for client in clients:
        world.programs.let_go(client)
    if sorted(code or 0 for code in codes) != [0] + [1] * (len(codes) - 1):
        world.found(f"{len(codes)} simultaneous ups of one lab ended with {codes}")


def _kill_lab_of(client: Client, lab: LabHandle) -> int:
    """Kill the process of a lab, also one that has written no journal yet."""
    if lab.kill():
        return 1
    killed = [pid for pid in lab.processes() if pid != client.pid]
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(killed)
