"""Ticks in the data of an allowed sender, whatever they are: no prediction follows them, balancing goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.base.drops import TICK_AHEAD
from ejfat.control.epochs.calendar import TICKS
from ejfat.control.epochs.ticks import DATA_SLACK_S, PACE
from ejfat.control.grpc.stats import Metrics
from ejfat.control.health import issues_of
from unit.ejfat.pipelines import IMPLEMENTATIONS
from unit.ejfat.test_ejfat_magic import Way, header
from unit.ejfat.test_ejfat_syncs import OTHER, Run

REACH_S = 1.0 + PACE + DATA_SLACK_S
"""Seconds of ticks by which data can be ahead and be believed, a second after the last message."""
FAR = [TICKS - 1, TICKS // 2, 1_000_000 + 10**9]


def data(run: Run, tick: int, version: int = 2) -> None:
    """Have OTHER, an allowed sender, send a packet of some event."""
    selectors = b"" if version == 1 else b"\0\0\0\0"
    run.app.receive(run.frame(b"LB" + bytes([version, 1]) + selectors + tick.to_bytes(8, "big"), OTHER))


def attacked(run: Run, attack: Callable[[Run, int], None]) -> list[int]:
    """Let a worker come while `attack(run, tenth of a second)` goes on for ten seconds; return where epochs began."""
    run.go(5)
    starts = []
    run.register(4)
    for step in range(100):
        attack(run, step)
        run.go(0.1)
        if step % 10 == 9:
            look(run)
        current = run.balancer.epochs.current
        assert current is not None
        if not starts or starts[-1] != current.start:
            starts.append(current.start)
    return starts


def look(run: Run) -> None:
    for session in run.sessions:
        session.report(run.now, fill=0, control=0, ready=True, counters=session.counters)
    run.sync(run.tick)
    run.app.advance()


@cache
def undisturbed(rate_hz: int) -> tuple[Run, list[int]]:
    """A run that nobody disturbs, and where its epochs began."""
    run = Run(rate_hz)
    return run, attacked(run, lambda run, step: None)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("tick", FAR)
def test_far_ticks_in_data_leave_boundary_and_shares_as_they_would_be(version: int, tick: int) -> None:
    run = Run()
    calm, expected = undisturbed(run.rate_hz)
    assert attacked(run, lambda run, step: data(run, tick, version)) == expected
    assert run.shares() == calm.shares() == [128, 128, 256]
    assert len(run.balancer.epochs.live) == len(calm.balancer.epochs.live) == 1
    assert run.app.status()["refused_ticks"] == {"tick:too_far_ahead": 100}
    assert run.balancer.watch.refused_ticks == 100
    assert [issue.kind for issue in issues_of(run.balancer, run.now)] == ["tick_refused"]
    run.go(61)
    assert [issue.kind for issue in issues_of(run.balancer, run.now)] == []
    assert calm.app.status()["refused_ticks"] == {}
    run.check()


@given(
    rate_hz=st.sampled_from([1000, 1_000_000]),
    ticks=st.lists(
        st.tuples(
            st.integers(0, 99),
            st.one_of(
                st.sampled_from([-(10**9), -1, 0, 1, 2, 3, 3.5, 4, 5, 10, 30, 3600, 10**9]).map(
                    lambda seconds: ("after", seconds)
                ),
                st.sampled_from([0, 1, TICKS // 2, TICKS - 2, TICKS - 1]).map(lambda tick: ("at", tick)),
            ),
        ),
        max_size=40,
    ),
)
def test_whatever_data_a_sender_sends_shares_are_the_same_ten_seconds_later_and_events_are_whole(
    rate_hz: int, ticks: list[tuple[int, tuple[str, float]]]
) -> None:
    def attack(run: Run, step: int) -> None:
        for when, (kind, value) in ticks:
            if when == step:
                tick = int(value) if kind == "at" else run.tick + round(value * run.rate_hz)
                data(run, min(max(tick, 0), TICKS - 1))

    run = Run(rate_hz)
    starts = attacked(run, attack)[1:]
    assert len(starts) == 1, "no boundary is taken back"
    calm, (_, expected) = undisturbed(rate_hz)
    assert expected <= starts[0] <= expected + REACH_S * rate_hz
    assert run.shares() == calm.shares() == [128, 128, 256]
    assert (run.balancer.watch.restarts, run.balancer.takebacks) == (0, 0)
    run.check()


def test_far_ticks_before_the_first_message_are_forgotten_with_it() -> None:
    run = Run()
    data(run, TICKS - 1)  # nothing is known yet: it is believed
    run.app.advance()
    run.register(4)
    for _ in range(10):
        data(run, TICKS - 1)
        run.go(1)
    assert run.shares() == [128, 128, 256]
    assert len(run.balancer.epochs.live) == 1
    run.check()


def test_old_ticks_while_the_senders_pause_are_no_restart() -> None:
    run = Run()
    run.go(5)
    seen, run.late = run.balancer.watch.ticks.seen, []
    for _ in range(10):
        data(run, 5)
        run.go(1, data=False)
    assert run.balancer.watch.restarts == 0
    assert run.balancer.watch.ticks.seen == seen


def test_far_ticks_while_the_senders_pause_are_no_restart() -> None:
    run = Run()
    run.go(5)
    run.late = []
    for _ in range(10):
        data(run, TICKS - 1)
        run.go(1, data=False)
    assert run.balancer.watch.restarts == 0
    run.register(4)
    run.go(10)
    assert run.shares() == [128, 128, 256]


def test_without_messages_data_may_run_ahead_as_fast_as_it_did_and_not_faster() -> None:
    run = Run()
    run.go(15, synced=False)
    run.register(4)
    for _ in range(10):
        data(run, TICKS - 1)
        run.go(1, synced=False)
    assert run.shares() == [128, 128, 256]
    assert run.app.status()["refused_ticks"] == {TICK_AHEAD: 10}
    run.check()


def test_sender_that_jumps_ahead_with_all_its_data_is_followed_after_a_while() -> None:
    run = Run()
    run.go(5)
    run.tick, run.late = 10**12, []
    run.events.clear()
    run.go(10)
    assert run.balancer.watch.restarts == 1
    refused = run.balancer.watch.refused_ticks
    run.register(4)
    run.go(10)
    assert run.shares() == [128, 128, 256]
    assert run.balancer.watch.refused_ticks == refused, "it is believed again"
    run.check()


def test_reservation_after_another_does_not_begin_with_what_that_one_refused() -> None:
    run = Run()
    run.go(5)
    data(run, TICKS - 1)
    run.go(1)
    assert run.balancer.watch.refused_ticks == 1
    (reservation,) = run.app.plane.reservations.values()
    run.app.plane.free(reservation)
    next_one = run.app.plane.reserve("next", senders=[OTHER], now=run.now).balancer
    run.app.advance()
    assert next_one.watch.refused_ticks == 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_packet_beyond_the_furthest_believed_tick_is_forwarded_and_counted(
    implementation: str, version: int
) -> None:
    way = Way(implementation, 4)
    way.app.pipeline.believe(0, 1000)
    assert [
        len(way.put(way.frame(header(version, tick) + b"data"))) for tick in (1, 1000, 1001, 1 << 63)
    ] == [1] * 4
    lb = way.counters.lbs[0]
    assert (lb.max_tick, lb.last_tick, lb.ahead) == (1000, 1 << 63, 2)
    assert way.counters.refusals == {"tick:too_far_ahead": 2}
    shown = dict(Metrics(lambda: way.counters).read())
    assert shown["lb_ctx_tick_too_far_ahead_pkt_counter"][:2] == [2, 0], (
        "as GetStats of the P4 service says it"
    )
    way.app.pipeline.believe(0, None)
    way.put(way.frame(header(version, 1 << 62)))
    assert (way.counters.lbs[0].max_tick, way.counters.lbs[0].ahead, way.counters.balance) == (1 << 62, 2, 0)
