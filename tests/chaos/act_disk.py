"""Actions: the disk of the runtime directory is full, read-only, or a file of ours is gone from it."""

from __future__ import annotations

import random
import time

from chaos import disk
from chaos.act_peers import short_mads
from chaos.deck import action
from chaos.world import World
from opavnic.lab.file.errors import LabError


@action
def full_disk(world: World, rng: random.Random) -> None:
    """The disk is filled while labs run; they go on working, and `down` leaves nothing."""
    second = rng.random() < 0.5 and world.up(world.brief)
    world.note("the disk is filled")
    disk.fill(rng.choice((0, 0, 300, 5000)))
    try:
        _use(world, rng)
        if second:
            world.down(world.brief)
        elif rng.random() < 0.5:
            world.programs.run("up", str(world.brief.file), "-d")  # may fail, in one line
    finally:
        world.note("the disk is freed")
        disk.free()


@action
def disk_comes_and_goes(world: World, rng: random.Random) -> None:
    """It is filled and freed again and again while the manager is at work."""
    world.note("the disk is filled and freed, again and again")
    try:
        for _ in range(rng.randint(2, 5)):
            disk.fill()
            short_mads(world.steady.directory.mad_socket, 100, 2.0)
            try:
                world.steady.ask("POST", "/faults", {"fault": "loss on s1 5% for=1ms"})
            except LabError as error:
                world.found(f"POST /faults fails where nothing can be written: {error}")
            time.sleep(rng.uniform(0, 0.1))
            disk.free()
            time.sleep(rng.uniform(0, 0.1))
    finally:
        disk.free()


@action
def closed_disk(world: World, rng: random.Random) -> None:
    """Nothing can be written by way of the path any more."""
    world.note("the runtime directory is read-only")
    disk.close()
    try:
        _use(world, rng)
        world.programs.run("up", str(world.brief.file), "-d")
        world.programs.run("prune")
    finally:
        disk.open_again()
        world.note("the runtime directory can be written again")


@action
def lost_log(world: World, rng: random.Random) -> None:
    """The log of the steady lab is removed by somebody."""
    (world.steady.directory.log_file).unlink(missing_ok=True)
    world.note("the log of the steady lab is removed")
    _use(world, rng)
    done = world.programs.run("logs", "--lab", world.steady.name)
    if not done.ok:
        world.found(f"`opavnic logs` of a lab that runs and lost its file failed: {done.err.strip()[-200:]}")


@action
def lost_socket(world: World, rng: random.Random) -> None:
    """The control socket of a lab is removed by somebody: `down` ends it all the same."""
    if world.up(world.brief):
        name = rng.choice(("control_socket", "mad_socket"))
        getattr(world.brief.directory, name).unlink()
        world.note(f"{name} of the brief lab is removed")
        world.down(world.brief)


def _use(world: World, rng: random.Random) -> None:
    """Let the steady lab work and log: none of it depends on what can be written."""
    steady, where = world.steady, "where nothing can be written"
    short_mads(steady.directory.mad_socket, 200, 5.0)  # a line in the log for each: the last page fills up
    fault = f"crash on {rng.choice(steady.hosts)} for=100ms"
    for path, body in (("/em/apply", steady.base), ("/faults", {"fault": fault}), ("/em/verify", None)):
        try:
            answer = steady.ask("POST", path, body, 40.0)
        except LabError as error:
            world.found(f"POST {path} fails {where}: {error}")
            continue
        if path == "/em/apply" and not answer["converged"]:
            world.found(f"em apply is still at work after its limit {where}")
    if not world.programs.run("status", "--lab", steady.name).ok:
        world.found(f"`opavnic status` fails {where}")
