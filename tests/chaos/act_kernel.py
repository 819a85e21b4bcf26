"""Actions: a host that is a kernel of its own is killed, stopped and booted again, and its lab is killed under it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from chaos.deck import action
from chaos.labs import GONE_S, LabHandle
from chaos.programs import wait_for
from chaos.world import World
from opavnic.kernel.cache import KernelError, find_kernel


@contextmanager
def _with_kernel(lab: LabHandle) -> Iterator[None]:
    """Let the second host of a lab that does not run be a kernel."""
    text = lab.file.read_text()
    lab.file.write_text(text.replace("b2: {}", "b2: {kernel: opa_vnic}"))
    try:
        yield
    finally:
        lab.file.write_text(text)


def _kernel(lab: LabHandle) -> int | None:
    pid: int | None = lab.status()["parts"]["kernels"]["b2"]["pid"]
    return pid


@action
def a_kernel_ends(world: World, rng: random.Random) -> None:
    """A kernel is killed at any moment, boots again, is stopped; then its lab ends, or is killed."""
    try:
        find_kernel()
    except KernelError as error:
        world.skip(str(error))
        return
    lab = world.brief
    world.make_way(lab)
    with _with_kernel(lab):
        if not world.up(lab):
            return
        pid = _kernel(lab)
        if not lab.ping("b1", "b2") or pid is None:
            world.found("b1 does not reach the kernel b2 in a lab that has just come up")
            return
        world.programs.start("exec", "b2", "--lab", lab.name, "--", "sleep", "1000")
        if rng.random() < 0.7:
            os.kill(pid, rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)))
            world.figures.kills += 1
            if not wait_for(lambda: _kernel(lab) is None, GONE_S):
                world.found("a kernel that was killed is not said to have ended")
            for words in (("add", "crash on b2"), ("clear",)):
                world.programs.run("fault", *words[:1], "--lab", lab.name, *words[1:])
            if not wait_for(lambda: lab.ping("b1", "b2", tries=1), GONE_S):
                world.found("b1 does not reach a kernel that was booted again")
            pid = _kernel(lab)
        if pid is not None and rng.random() < 0.5:
            os.kill(pid, signal.SIGSTOP)
        if rng.random() < 0.5:
            world.down(lab)
        else:
            world.figures.kills += lab.kill()
            world.programs.run("prune")
            world.expect_gone(lab, "kill -9 of a lab with a kernel, and prune")
