"""A campaign over three machines: rounds of actions drawn from one seed, checks after each, a table at the end.

python -m chaos.cluster_campaign --seed 7 --seconds 240     on ground of its own only; `make chaos-cluster` sees to that
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from chaos import machine
from chaos.cluster_actions import ACTIONS
from chaos.cluster_world import LATE, World, logs_of
from chaos.deck import hands
from chaos.programs import bad_line, wait_for
from chaos.rounds import command_line, play_round, report, table
from opavnic_bench.base.turns import PeerError

HAND: Final = 3
RSS_SLACK_KIB: Final = 24 << 10
"""What resident memory of a process may grow by: buffers of the largest round, not of every one."""
FDS_SLACK: Final = 8
WARM_UP: Final = 2
GONE_S: Final = 20.0
LOOK_S: Final = 0.2
"""How often the machines are asked: that costs them some of the processor that they wait for."""


def whole_again(world: World) -> Iterator[str]:
    """All machines see each other, all links are open, all hosts reach each other, under the LIDs of the start."""
    if not world.is_whole():
        yield "the lab is not whole"
    lids = {host["name"]: host["lid"] for host in world.status()["hosts"]}
    if lids != world.lids:
        yield f"LIDs are {lids}, and were {world.lids}"


def every_packet_is_accounted_for(world: World) -> Iterator[str]:
    """Nothing is missing at rest, in any element or between machines, whichever machine is asked.

    One look without a finding is enough: at another one a host may have sent something of its own.
    """
    for name in world.machines.names:
        missing: dict[str, int] = {}

        def is_complete(name: str = name, missing: dict[str, int] = missing) -> bool:
            missing.clear()
            missing |= world.cluster.unaccounted(name)
            return not missing

        wait_for(is_complete, GONE_S, LOOK_S)
        for place, packets in missing.items():
            yield f"{name}: {packets} packets are unaccounted for at {place}"
    counters: dict[str, dict[str, int]] = {}

    def is_at_rest() -> bool:
        shown = world.cluster.ask(world.machines.names[0], "status", "--counters")["counters"]
        counters.clear()
        counters.update({place: counts for place, counts in shown.items() if place.endswith(" network")})
        return not any(counts["in_flight"] for counts in counters.values())

    wait_for(is_at_rest, GONE_S, LOOK_S)
    for place, counts in counters.items():
        if counts["in_flight"]:
            yield f"packets are under way between machines at rest: {place}: {counts}"
    world.figures.count(
        sum(counts["out_packets"] for counts in counters.values()),
        sum(counts.get("drop_net_lost", 0) for counts in counters.values()),
    )


def strangers_stay_out(world: World) -> Iterator[str]:
    """No machine beside the three has a share, and nobody has been told of the lab who should not be."""
    for name in world.machines.names:
        if LATE in world.status(name)["cluster"]["placed"]:
            yield f"{LATE} has a share of the lab"
    for path in world.machines.directory.glob("stranger-*.out"):
        if "is running" in path.read_text(errors="replace"):
            yield f"a stranger runs a share of the lab: {path.read_text(errors='replace')[-200:]}"


def nothing_bad_is_said(world: World) -> Iterator[str]:
    """No traceback and no internal error, in what machines print and log."""
    for name, path in logs_of(world):
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        begin = world.read[path] if len(text) >= world.read[path] else 0
        world.read[path] = len(text)
        if (line := bad_line(text[begin:])) is not None:
            yield f"{path.name} of {name} says: {line[:400]}"


def nothing_grows(world: World) -> Iterator[str]:
    """A process that lives through many rounds keeps its size."""
    for name in world.machines.names:
        samples = world.figures.memory.setdefault(world.pid(name), [])
        samples.append(machine.memory_and_descriptors(world.pid(name)))
        if len(samples) > WARM_UP:
            (rss, fds), (rss_now, fds_now) = samples[WARM_UP], samples[-1]
            if rss_now > rss + RSS_SLACK_KIB:
                yield f"{name} grows: {rss} KiB after {WARM_UP} rounds, {rss_now} KiB after {len(samples)}"
            if fds_now > fds + FDS_SLACK:
                yield f"{name} grows: {fds} descriptors after {WARM_UP} rounds, {fds_now} after {len(samples)}"


CHECKS: Final[tuple[Callable[[World], Iterator[str]], ...]] = (
    whole_again,
    every_packet_is_accounted_for,
    strangers_stay_out,
    nothing_bad_is_said,
    nothing_grows,
)


def check(world: World) -> list[str]:
    """Hold all of that; what cannot even be looked at is a finding of its own."""
    wrong: list[str] = []
    for one in CHECKS:
        try:
            wrong += one(world)
        except (PeerError, OSError, LookupError) as error:
            wrong.append(f"{one.__name__}: {type(error).__name__}: {error}")
    return wrong


def run(seed: int, seconds: float, only: list[str], first: int) -> int:
    """Play a campaign from its round `first` on; return how many rounds failed. It ends with the first that does."""
    began, rounds, failed = time.monotonic(), 0, 0
    world = World(seed)
    try:
        print(f"chaos over machines: seed {seed}, {seconds:g} s, {len(only)} kinds of actions", flush=True)
        for rounds, hand in enumerate(hands(seed, only, min(HAND, len(only))), 1):
            if rounds < first:
                continue
            started = time.monotonic()
            play_round(world, list(hand), ACTIONS, check)
            if not world.findings:
                world.talk()
            found = list(world.findings)
            verdict = "ok" if not found else f"{len(found)} FOUND"
            took = time.monotonic() - started
            print(
                f"round {rounds:3} {took:5.1f} s {verdict:8} {', '.join(name for name, _ in hand)}",
                flush=True,
            )
            if found:
                failed += 1
                _report(world, seed, rounds, found)
                break
            if time.monotonic() - began >= seconds:
                break
        _table(world, seed, rounds, failed, time.monotonic() - began)
        for line in world.finish():
            failed += 1
            print(f"FAILED: {line}")
    finally:
        world.end()
    wait_for(lambda: not machine.compare(world.baseline, world.look()), GONE_S)
    for name in machine.compare(world.baseline, world.look()).came:
        failed += 1
        print(f"FAILED: left at the end: {name}")
    return failed


def _report(world: World, seed: int, rounds: int, found: list[str]) -> None:
    report(world, seed, str(rounds), found)
    for name, path in logs_of(world):
        lines = path.read_text(errors="replace").splitlines()[-30:] if path.exists() else []
        print(f"  {path.name} of {name}:")
        for line in lines:
            print(f"    {line[:300]}")
    print(f"  replay: make chaos-cluster CHAOS_SEED={seed} CHAOS_FIRST={rounds}", flush=True)


def _table(world: World, seed: int, rounds: int, failed: int, took: float) -> None:
    figures = world.figures
    rows = [
        ("seed", seed),
        ("seconds", round(took)),
        ("rounds", rounds),
        ("rounds that failed", failed),
        ("processes of machines", figures.processes),
        ("packets between machines", figures.crossed),
        ("  of them lost and counted", figures.lost),
        ("strangers, refused at once", f"{figures.strangers}, {figures.strangers_refused}"),
    ]
    table(world, rows, f"make chaos-cluster CHAOS_SEED={seed}")


def main() -> int:
    """Read the command line."""
    options = command_line("chaos.cluster_campaign", ACTIONS)
    if options.sabotage:
        from chaos.cluster_sabotage import run_sabotage

        return run_sabotage()
    return 1 if run(options.seed, options.seconds, options.only, options.first) else 0


if __name__ == "__main__":
    os.environ.pop("OPAVNIC_RUNTIME_DIR", None)
    sys.exit(main())
