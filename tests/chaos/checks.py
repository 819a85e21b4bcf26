"""What is held after each round, and at the end. Each check returns one line for each thing that is wrong."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from chaos import machine
from chaos.labs import answers
from chaos.programs import bad_line, wait_for
from chaos.world import World
from opavnic.lab.file.errors import LabError

Check = Callable[[World], list[str]]
LOG_MAX: Final = (2 << 20) + 65536
"""Bytes that the log of a lab may take, all its files together: the one that is written and the one before."""
RSS_SLACK_KIB: Final = 16 << 10
"""What resident memory may grow by from early to late rounds: buffers of the largest round, not of every one."""
FDS_SLACK: Final = 16
"""Descriptors: those of vports that a configuration of the campaign made, which stay without one."""
WARM_UP: Final = 3
"""Rounds before memory is what it is to stay: each kind of work has been done once."""
_SETTLED_S: Final = 20.0
_LOOK_S: Final = 0.1
"""How often it is looked: a look at the machine or at a lab costs some of the processor that they wait for."""
_ADDRESSES: Final = "has an address list"


def nothing_of_ours_is_left(world: World) -> list[str]:
    """What the machine holds is what it held before the first round."""

    def came() -> list[str]:
        return machine.compare(world.baseline, world.look()).came

    wait_for(lambda: not came(), world.patience_s, _LOOK_S)  # what was killed may take an instant to go
    return [f"left after prune: {name}" for name in came()]


def nothing_of_others_is_touched(world: World) -> list[str]:
    """Every thing of others is there and as it was; so is every thing that the machine had.

    Those that were there for this round alone go with it.
    """
    harmed = [f"harmed: {trouble}" for trouble in world.foreigners.trouble()]
    world.foreigners.end_round()
    difference = machine.compare(world.baseline, world.look())
    gone = [f"gone: {name}" for name in difference.went]
    return [*harmed, *gone, *(f"replaced: {name}" for name in difference.changed)]


def steady_lab_lives(world: World) -> list[str]:
    """The lab that runs all the time is the process that it was, and answers."""
    steady = world.steady
    if steady.client is None or steady.client.process.poll() is not None or not steady.running:
        said = "" if steady.client is None else steady.client.said()[-300:]
        return [f"the steady lab has ended: {said}"]
    return [] if answers(steady) else ["the steady lab does not answer"]


def manager_converges(world: World) -> list[str]:
    """What agents have is what is wanted, and a second apply sends nothing."""
    try:
        last = {"converged": False, "sets": 0}
        for _ in range(4):  # traps of what was mended last may still be on their way
            last = world.steady.apply(world.steady.base)
            if last["converged"] and last["sets"] == 0:
                break
        else:
            return [
                f"a repeated em apply does not come to rest: {last['sets']} Sets, converged: {last['converged']}"
            ]
        first = _differences(world)
        # an address list that has just changed is told by a trap, and traps are limited in rate
        wait_for(lambda: not any(_ADDRESSES in line for line in _differences(world)), _SETTLED_S, _LOOK_S)
        wrong = [line for line in first if _ADDRESSES not in line] + _differences(world)
        return [f"em verify: {difference}" for difference in dict.fromkeys(wrong)]
    except LabError as error:
        return [f"the manager: {error}"]


def _differences(world: World) -> list[str]:
    differences: list[str] = world.steady.ask("POST", "/em/verify")["differences"]
    return differences


def every_vnic_is_up(world: World) -> list[str]:
    """Every VNIC of the lab file is up again.

    A vport that an earlier configuration made stays on its port, without one: that is no matter here.
    """

    def not_up() -> list[str]:
        states = {
            (host["name"], vnic["interface"]): vnic["state"]
            for host in world.steady.status()["hosts"]
            for vnic in host["vnics"]
        }
        return [
            f"{host}/{name} is {state}"
            for host, name in world.steady.addresses
            if (state := states.get((host, name), "missing")) != "up"
        ]

    wait_for(lambda: not not_up(), _SETTLED_S, _LOOK_S)
    return not_up()


def every_packet_is_accounted_for(world: World) -> list[str]:
    """Nothing is missing in the balance of the fabric."""
    wait_for(lambda: not world.steady.status()["balance"], world.patience_s, _LOOK_S)
    status = world.steady.status()
    world.figures.frames = sum(link["packets_forth"] + link["packets_back"] for link in status["links"])
    world.figures.mads = status["mads"]
    return [f"balance: {name}: {text}" for name, text in status["balance"].items()]


def members_hear_each_other(world: World) -> list[str]:
    """A ping passes between the members of each virtual switch."""
    pairs = [("s1", "s2", 2), ("s2", "s3", 2), ("s3", "s1", 2), ("s1", "s2", 3), ("s2", "s1", 3)]
    return [
        f"{a} does not reach {b} in vesw {vesw}" for a, b, vesw in pairs if not world.steady.ping(a, b, vesw)
    ]


def nothing_bad_is_said(world: World) -> list[str]:
    """No traceback and no internal error, in what the steady lab prints and logs."""
    logged = world.steady.logged()
    fresh = logged[world.log_read :] if len(logged) >= world.log_read else logged
    world.log_read = len(logged)
    said = "" if world.steady.client is None else world.steady.client.said()
    lines = [("log", bad_line(fresh)), ("output", bad_line(said))]
    return [f"the {where} of the steady lab says: {line[:300]}" for where, line in lines if line is not None]


def log_is_bounded(world: World) -> list[str]:
    """The log does not take all the memory that it lies in."""
    size = sum(file.stat().st_size for file in world.steady.directory.path.glob("log*"))
    return [] if size <= LOG_MAX else [f"the log of the steady lab has {size} bytes, more than {LOG_MAX}"]


EACH_ROUND: Final[tuple[Check, ...]] = (
    nothing_of_others_is_touched,
    nothing_of_ours_is_left,
    steady_lab_lives,
    manager_converges,
    every_vnic_is_up,
    every_packet_is_accounted_for,
    members_hear_each_other,
    nothing_bad_is_said,
    log_is_bounded,
)


def check(world: World) -> list[str]:
    """Hold all of that; one that cannot even be made is a finding of its own."""
    wrong: list[str] = []
    for one in EACH_ROUND:
        try:
            wrong += one(world)
        except (LabError, OSError) as error:
            wrong.append(f"{one.__name__}: {error}")
    return wrong


def early_and_late(samples: Sequence[int]) -> tuple[float, float] | None:
    """Return the medians of the first and the last third after the warm-up; None where there are too few."""
    flat = samples[WARM_UP:]
    third = len(flat) // 3
    if third < 1:
        return None
    return statistics.median(flat[:third]), statistics.median(flat[-third:])


def growth(what: str, samples: Sequence[int], slack: int) -> list[str]:
    """Find fault with what grows over a campaign."""
    medians = early_and_late(samples)
    if medians is None or medians[1] - medians[0] <= slack:
        return []
    early, late = medians
    return [f"{what} of the steady lab grows: {early:g} early, {late:g} late, allowed are {slack} more"]


def check_growth(world: World) -> list[str]:
    """Hold, over the whole campaign, that the steady lab does not grow."""
    return [
        *growth("resident memory (KiB)", world.figures.rss, RSS_SLACK_KIB),
        *growth("the number of descriptors", world.figures.fds, FDS_SLACK),
    ]
