"""A campaign: rounds of actions drawn from one seed, checks after each, a table at the end.

python -m chaos.campaign --seed 7 --seconds 240     on ground of its own only; `make chaos` sees to that
"""

from __future__ import annotations

import sys
import time

from chaos import act_disk, act_em, act_foreign, act_kernel, act_life, act_peers
from chaos.checks import check, check_growth, early_and_late
from chaos.deck import ACTIONS, hands
from chaos.rounds import command_line, play_round, report, table
from chaos.world import World

TOPICS = (act_life, act_disk, act_foreign, act_peers, act_em, act_kernel)
"""Modules that fill the deck."""


def run(seed: int, seconds: float, only: list[str], keep_going: bool, first: int) -> int:
    """Play a campaign from its round `first` on; return how many rounds failed."""
    names = [name for name in ACTIONS if name in only]
    began = time.monotonic()
    rounds = failed = 0
    world = World(seed)
    try:
        world.begin()
        print(f"chaos: seed {seed}, {seconds:g} s, {len(names)} kinds of actions; steady lab up", flush=True)
        for rounds, hand in enumerate(hands(seed, names), 1):
            if rounds < first:
                continue
            started = time.monotonic()
            play_round(world, list(hand), ACTIONS, check)
            world.sample()
            found = list(world.findings)
            took = time.monotonic() - started
            verdict = "ok" if not found else f"{len(found)} FOUND"
            rss = world.figures.rss[-1] // 1024 if world.figures.rss else 0
            print(
                f"round {rounds:3} {took:5.1f} s {verdict:8} {rss:4} MiB  {', '.join(name for name, _ in hand)}",
                flush=True,
            )
            if found:
                failed += 1
                _report(world, seed, rounds, found, time.monotonic() - began)
                if not keep_going:
                    break
                world = _again(world)
            if time.monotonic() - began >= seconds:
                break
        grown = check_growth(world)
        if grown:
            failed += 1
            _report(world, seed, rounds, grown, time.monotonic() - began)
        _table(world, seed, rounds, failed, time.monotonic() - began)
    finally:
        world.end()
    return failed


def _again(world: World) -> World:
    """Begin anew after a failure, with the same figures: what one damage leads to is not reported twice."""
    import shutil
    import subprocess

    from chaos.ground import FILES, RUNTIME
    from chaos.machine import NETNS

    world.end()
    for name in NETNS.iterdir():
        subprocess.run(["ip", "netns", "delete", name.name], check=False, capture_output=True)
    for place in (RUNTIME, FILES, RUNTIME.with_name("elsewhere")):
        for path in place.iterdir() if place.is_dir() else ():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
    shutil.rmtree(RUNTIME.with_name("elsewhere"), ignore_errors=True)
    fresh = World(world.seed)
    fresh.figures, fresh.began = world.figures, world.began
    fresh.figures.rss.clear()
    fresh.figures.fds.clear()
    fresh.programs.counts = world.programs.counts
    fresh.begin()
    return fresh


def _report(world: World, seed: int, rounds: int, found: list[str], took: float) -> None:
    report(world, seed, f"{rounds}, after {took:.0f} s", found)
    print(
        f"  replay: make chaos CHAOS_SEED={seed} CHAOS_FIRST={rounds}"
        " (the actions are the same, their timing is the machine's)",
        flush=True,
    )


def _table(world: World, seed: int, rounds: int, failed: int, took: float) -> None:
    figures = world.figures
    rows = [
        ("seed", seed),
        ("seconds", round(took)),
        ("rounds", rounds),
        ("rounds that failed", failed),
        ("commands, clients", f"{world.programs.counts['commands']}, {world.programs.counts['clients']}"),
        ("kill -9", figures.kills),
        ("packets on links", figures.frames),
        ("hostile frames", figures.hostile_frames),
        ("MADs", figures.mads),
        ("hostile MADs", figures.hostile_mads),
        ("resident KiB early, late", _pair(figures.rss)),
        ("descriptors early, late", _pair(figures.fds)),
    ]
    table(world, rows, f"make chaos CHAOS_SEED={seed}")


def _pair(samples: list[int]) -> str:
    medians = early_and_late(samples)
    return "too few rounds" if medians is None else f"{medians[0]:g}, {medians[1]:g}"


def main() -> int:
    """Read the command line."""
    options = command_line("chaos.campaign", ACTIONS)
    if options.sabotage:
        from chaos.sabotage import run_sabotage

        return run_sabotage()
    return 1 if run(options.seed, options.seconds, options.only, options.keep_going, options.first) else 0


if __name__ == "__main__":
    sys.exit(main())
