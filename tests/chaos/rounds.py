"""A round of a campaign, whatever it is played with: what is told of it, and how its actions follow each other."""

from __future__ import annotations

import argparse
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from types import FrameType
from typing import Any, TypeVar


class Told:
    """What was done, and what should not be."""

    def __init__(self, last_notes: int) -> None:
        """Begin. Args: last_notes: what is done is kept up to this many."""
        self.findings: list[str] = []
        self.notes: deque[str] = deque(maxlen=last_notes)
        self.began = time.monotonic()

    def found(self, what: str) -> None:
        """Enter something that should not be."""
        if what not in self.findings:
            self.findings.append(what)

    def note(self, what: str) -> None:
        """Enter what is done, for the report of a failure."""
        self.notes.append(f"{time.monotonic() - self.began:7.2f} s  {what}")


W = TypeVar("W", bound=Any)


def play_round(
    world: W,
    hand: Iterable[tuple[str, object]],
    actions: Mapping[str, Callable[..., None]],
    check: Callable[[W], Iterable[str]],
) -> None:
    """Play one round, settle, check: `world.findings` has what was found."""
    world.findings.clear()
    for name, rng in hand:
        world.note(f"-- {name}")
        world.figures.actions[name] += 1
        try:
            actions[name](world, rng)
        except Exception as error:  # the lab may be broken by now: that is a finding, and the checks say more
            world.found(f"{name}: {type(error).__name__}: {error}")
    world.note("-- settle")
    try:
        world.settle()
    except Exception as error:
        world.found(f"settling: {type(error).__name__}: {error}")
    for wrong in check(world):
        world.found(wrong)


def report(world: Told, seed: int, rounds: str, found: Iterable[str]) -> None:
    """Print what was found in a round, and what was done before."""
    print(f"FAILED: seed {seed}, round {rounds}")
    for line in found:
        print(f"  found: {line}")
    print("  the last actions:")
    for line in world.notes:
        print(f"    {line}")


def table(world: Any, rows: Iterable[tuple[str, object]], replay: str) -> None:
    """Print the figures of a campaign."""
    figures = world.figures
    actions = [(f"  {name}", count) for name, count in sorted(figures.actions.items())]
    actions += [(f"  not playable here: {name}", count) for name, count in sorted(figures.skipped.items())]
    for name, value in (*rows, *actions):
        print(f"{name:36} {value}")
    print(f"replay: {replay}", flush=True)


def missed(
    world: W,
    damages: Collection[Callable[[W], Callable[[], object]]],
    check: Callable[[W], list[str]],
    *,
    settle: Callable[[str], None] = lambda _: None,
    undone_before: Callable[..., object] | None = None,
) -> int:
    """Do each damage, see that the checks find what its docstring says, undo it; return how many they do not find.

    Args:  undone_before: a damage before which nothing is to be wrong any more.
    """
    if found := check(world):
        print(f"MISSED: not clean before anything was done: {found}")
        return 1
    count = 0
    for damage in damages:
        if damage is undone_before and (left := check(world)):
            count += 1
            print(f"MISSED: still wrong after all was undone: {left}", flush=True)
        world.findings.clear()
        undo = damage(world)
        wanted = (damage.__doc__ or "").strip()
        found = [*world.findings, *check(world)]
        seen = any(wanted in line for line in found)
        count += not seen
        told = next(iter(found), "nothing found") if seen else f"wanted: {wanted}; found: {found}"
        print(f"{'red' if seen else 'MISSED'}: {damage.__name__}: {told}", flush=True)
        undo()
        settle(damage.__name__)
    return count


def command_line(program: str, actions: Collection[str]) -> argparse.Namespace:
    """Read the command line of a campaign, which ends well by any polite signal from here on."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--only", default="", help="actions, joined by commas")
    parser.add_argument("--keep-going", action="store_true", help="begin anew after a round that failed")
    parser.add_argument("--sabotage", action="store_true", help="show that every check goes red")
    parser.add_argument("--first", type=int, default=1, help="the round to begin with")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _leave)
    options.only = [name for name in options.only.split(",") if name] or list(actions)
    if unknown := sorted(set(options.only) - set(actions)):
        parser.error(f"unknown actions: {', '.join(unknown)} (known: {', '.join(actions)})")
    return options


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
