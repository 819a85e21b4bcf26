"""Damage done on purpose, one for each check: a check that does not see it is worth nothing."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.checks import check
from chaos.foreign import Program
from chaos.ground import RUNTIME
from chaos.labs import BRIEF
from chaos.machine import NETNS
from chaos.programs import wait_for
from chaos.rounds import missed
from chaos.world import World

Undo = Callable[[], object]


def leave_a_namespace(world: World) -> Undo:
    """left after prune: namespace opavnic-brief-b1"""
    subprocess.run(["ip", "netns", "add", f"opavnic-{BRIEF}-b1"], check=True)
    return lambda: subprocess.run(["ip", "netns", "delete", f"opavnic-{BRIEF}-b1"], check=True)


def leave_a_directory(world: World) -> Undo:
    """left after prune: directory /run/opavnic/brief"""
    (RUNTIME / BRIEF).mkdir()
    return (RUNTIME / BRIEF).rmdir


def leave_a_program(world: World) -> Undo:
    """left after prune: process"""
    return Program().remove


def leave_an_interface(world: World) -> Undo:
    """left after prune: interface left0"""
    subprocess.run(["ip", "tuntap", "add", "left0", "mode", "tap"], check=True)
    return lambda: subprocess.run(["ip", "link", "delete", "left0"], check=True)


def leave_a_mount(world: World) -> Undo:
    """left after prune: mount /run/netns/theirs"""
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", str(NETNS / "theirs")], check=True)
    return lambda: subprocess.run(["umount", str(NETNS / "theirs")], check=True)


def leave_a_file(world: World) -> Undo:
    """left after prune: file /tmp/opavnic-left"""
    file = Path("/tmp/opavnic-left")  # noqa: S108 - /tmp of the campaign's own ground
    file.write_text("")
    return file.unlink


def end_a_program_of_others(world: World) -> Undo:
    """harmed: program sleep"""
    program = Program()
    world.foreigners.add(program)
    program.process.kill()
    program.process.wait()
    return world.foreigners.end_round


def change_a_file_of_others(world: World) -> Undo:
    """harmed: files in /run/opavnic/theirs"""
    file = RUNTIME / "theirs" / "notes.txt"
    file.write_text("changed\n")
    return lambda: file.write_text("of somebody else\n")


def delete_a_file_of_others(world: World) -> Undo:
    """gone: FIFO /run/opavnic/theirs/their.fifo"""
    file = RUNTIME / "theirs" / "their.fifo"
    hidden = RUNTIME / "steady" / "hidden"
    file.rename(hidden)
    return lambda: hidden.rename(file)


def stop_the_steady_lab(world: World) -> Undo:
    """the steady lab does not answer"""
    world.steady.kill(signal.SIGSTOP)
    return lambda: world.steady.kill(signal.SIGCONT)


def configure_behind_the_manager(world: World) -> Undo:
    """em verify:"""
    lid = next(host["lid"] for host in world.steady.status()["hosts"] if host["name"] == "s3")
    set_ = f"mad set vesw-port-info --lid {lid} --vport 1 eth_mtu=999 --lab steady".split()
    ask = world.steady.ask

    def late(method: str, path: str, *rest: Any) -> Any:
        if path == "/em/verify":  # no sooner: the manager looks every few seconds, and mends
            world.programs.run(*set_)
        return ask(method, path, *rest)

    def undo() -> None:
        del world.steady.ask
        world.steady.mend()

    world.steady.ask = late  # type: ignore[method-assign]
    return undo


def take_an_interface_down(world: World) -> Undo:
    """s1/blue is down"""
    world.steady.ip("s1", "link", "set", "dev", "blue", "down")
    return lambda: world.steady.ip("s1", "link", "set", "dev", "blue", "up")


def cut_a_host_off(world: World) -> Undo:
    """s1 does not reach s2 in vesw 2"""
    world.steady.ask("POST", "/faults", {"fault": "loss on s1 100% l4=ethernet"})
    return lambda: world.steady.ask("POST", "/faults/remove", {"number": None})


def log_a_traceback(world: World) -> Undo:
    """the log of the steady lab says: Traceback"""
    with world.steady.directory.log_file.open("a") as log:
        log.write("Traceback (most recent call last):\n")
    return lambda: None


def log_too_much(world: World) -> Undo:
    """the log of the steady lab has"""
    file = world.steady.directory.path / "log.1"
    file.write_text("x" * (3 << 20))
    return file.unlink


def lose_a_packet_from_the_books(world: World) -> Undo:
    """balance: h1"""
    real = world.steady.status

    def wrong() -> dict[str, object]:
        """Return a status with a packet that nobody has counted."""
        return {**real(), "balance": {"h1": "1 packet not accounted for"}}

    world.steady.status = wrong  # type: ignore[method-assign]
    return lambda: setattr(world.steady, "status", real)


def apply_something_else_each_time(world: World) -> Undo:
    """a repeated em apply does not come to rest"""
    real = world.steady.apply
    turn = [0]

    def other(config: object, limit_s: float = 60.0) -> dict[str, object]:
        """Apply another MTU each time."""
        turn[0] += 1
        changed = json.loads(json.dumps(config))
        changed["vesws"][0]["mtu"] = 1000 + turn[0]
        return real(changed, limit_s)

    world.steady.apply = other  # type: ignore[method-assign]

    def undo() -> None:
        """Apply what is right."""
        world.steady.apply = real  # type: ignore[method-assign]
        real(world.steady.base)

    return undo


def print_what_must_not_be(world: World) -> Undo:
    """printed: Traceback (most recent call last):"""
    script = "import sys; print('Traceback (most recent call last):'); sys.exit(0)"
    world.programs.run_as(["python3", "-c", script], "sabotage")
    return lambda: None


def hang(world: World) -> Undo:
    """hangs: it did not end within 1 s"""
    world.programs.run_as(["sleep", "100"], "sabotage", 1.0)
    return lambda: None


def ignore_a_signal(world: World) -> Undo:
    """goes on 1 s after SIGINT"""
    client = world.programs.start("logs", "-f", "--lab", "steady")
    wait_for(lambda: bool(client.said()), 30)
    client.send(signal.SIGSTOP)  # hears nothing
    world.programs.finish(client, signal.SIGINT, 1.0)
    return lambda: None


def leave_a_lab(world: World) -> Undo:
    """left of lab brief after nothing"""
    world.up(world.brief)
    world.expect_gone(world.brief, "nothing", 0.1)
    return lambda: world.down(world.brief)


def end_the_steady_lab(world: World) -> Undo:
    """the steady lab has ended"""
    world.steady.client.kill()
    return lambda: None


SABOTAGE = (
    leave_a_namespace, leave_a_directory, leave_a_program, leave_an_interface, leave_a_mount, leave_a_file,
    end_a_program_of_others, change_a_file_of_others, delete_a_file_of_others, stop_the_steady_lab,
    configure_behind_the_manager, take_an_interface_down, cut_a_host_off, log_a_traceback, log_too_much,
    lose_a_packet_from_the_books, apply_something_else_each_time, print_what_must_not_be, hang, ignore_a_signal,
    leave_a_lab, end_the_steady_lab,
)  # fmt: skip
"""Each says in its docstring what is to be found; the last ends the lab."""


def run_sabotage() -> int:
    """Do each damage, see that the checks find it, undo it; return how many were not found or not undone."""
    world = World(0)
    world.patience_s = 3.0  # most of what is done here stays until it is undone
    try:
        world.begin()
        return missed(world, SABOTAGE, check, undone_before=SABOTAGE[-1])
    finally:
        world.end()
