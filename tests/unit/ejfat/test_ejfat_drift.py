"""Predictions that one of several senders pulls ahead slowly, each message within bounds; huge ticks of strangers."""

from __future__ import annotations

import pytest

from ejfat.control.epochs.calendar import TICKS
from unit.ejfat.test_ejfat_syncs import OTHER, STRANGER, Run


def drift(run: Run, seconds: int, *, factor: float, rate: int, number: int = 5) -> None:
    """Have OTHER claim ticks that run `factor` times as fast as they do, from the start again once it is refused."""
    claimed = run.tick
    for _ in range(seconds):
        refused = run.app.pipeline.counters.bad_syncs
        ahead = claimed + round(factor * run.rate_hz)
        run.sync(ahead, source=OTHER, rate=rate, number=number)
        is_believed = run.app.pipeline.counters.bad_syncs == refused
        claimed = ahead if is_believed else run.tick  # too far: it begins again, as an attacker would
        run.go(1)


@pytest.mark.parametrize("rate", [1000, 0xFFFFFFFF])
@pytest.mark.parametrize("factor", [1.5, 9.5])
def test_slow_drift_of_one_of_two_senders_keeps_boundaries_within_reach(factor: float, rate: int) -> None:
    run = Run()
    run.go(5)
    for weight in (4, 8):
        run.register(weight)
        drift(run, 12, factor=factor, rate=rate)
        current = run.balancer.epochs.current
        assert current is not None
        assert current.start <= run.tick, "the boundary was reached while the sender went on claiming more"
    assert run.shares() == [64, 64, 128, 256]
    assert run.balancer.takebacks == 0
    run.check()


@pytest.mark.parametrize("factor", [9.5])
def test_drift_while_no_data_passes_delays_balancing_by_seconds(factor: float) -> None:
    run = Run()
    run.go(5)
    for _ in range(9):  # over a minute: the data plane's ticks are no witnesses any more
        claimed = run.tick
        for _ in range(8):
            claimed += round(factor * run.rate_hz)
            run.sync(claimed, source=OTHER, rate=0xFFFFFFFF, number=5)
            run.go(1, data=False)
    run.register(4)
    run.go(3, data=False)
    run.late = []
    run.go(15)
    assert run.shares() == [128, 128, 256]
    run.check()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_data_of_strangers_with_huge_ticks_moves_no_prediction(version: int) -> None:
    run = Run()
    run.go(5)
    before = run.balancer.watch.ticks.latest(run.now)
    header = b"LB" + bytes([version, 1, 0, 0, 0, 0]) + (TICKS - 1).to_bytes(8, "big")
    for _ in range(1000):
        run.app.receive(run.frame(header, STRANGER))
    run.app.advance()
    assert run.balancer.watch.ticks.latest(run.now) == before
    run.register(4)
    run.go(10)
    assert run.shares() == [128, 128, 256]
    drops = run.app.pipeline.counters.drops
    assert sum(drops.values()) >= 1000
    run.check()


def test_sender_that_repeats_a_huge_tick_in_data_does_not_stop_balancing() -> None:
    run = Run()
    run.go(5)
    run.register(4)
    for _ in range(20):
        run.send(TICKS - 1)
        run.go(1)
    assert run.shares() == [128, 128, 256]
    assert run.app.pipeline.counters.balance == 0
