"""Short runs, as of files that are played back: ticks start anew or jump, workers come and go between the runs."""

from __future__ import annotations

import random
from ipaddress import ip_address

import pytest

from ejfat.control.health import issues_of
from ejfat.control.members import Worker
from unit.ejfat.test_ejfat_syncs import START, Run

RATE_HZ = 60


class Runs(Run):
    """One worker at a time; each run sends events of two packets, and tells which arrived at a worker that is there."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(first_tick=0)
        self.random = random.Random(seed)
        self.lost = 0
        self.issues: set[str] = set()
        self.elapsed = 0.0

    def wait(self, seconds: float) -> None:
        """Let time pass in small steps, with an evaluation each second and reports of all who are there."""
        for _ in range(round(seconds * RATE_HZ)):
            before = int(self.elapsed)
            self.elapsed += 1 / RATE_HZ
            self.now = START + self.elapsed
            if int(self.elapsed) != before:
                for session in self.sessions:
                    session.report(self.now, fill=0, control=0, ready=True, counters=session.counters)
                self.app.advance()
                self.issues |= {issue.kind for issue in issues_of(self.balancer, self.now)}

    def swap(self) -> None:
        """Replace all workers by another one."""
        for session in self.sessions:
            self.balancer.deregister(session.session_id)
        self.sessions = []
        self.register(1)

    def register(self, weight: float) -> None:
        number = self.balancer.next_session
        worker = Worker(f"w{number}", ip_address("10.0.1.0") + number, 5000, weight=weight, mac=number)
        session, updates = self.balancer.register(worker, self.now)
        self.app.plane.program(updates)
        self.sessions.append(session)

    def burst(self, first: int, step: int, events: int = RATE_HZ, sync_hz: int = 0) -> None:
        """Send a run of events, 60 a second; a packet that none of the present workers gets is lost."""
        there = {session.session_id.to_bytes(6, "big") for session in self.sessions}
        for number in range(events):
            tick = first + number * step
            if sync_hz and number % RATE_HZ == 0:
                self.sync(tick, rate=sync_hz)
            for _ in range(2):
                self.sent.clear()
                self.app.receive(self.frame(b"LB\x02\x01\0\0\0\0" + tick.to_bytes(8, "big") + b"data"))
                self.lost += not self.sent or self.sent[0][:6] not in there
            self.wait(1 / RATE_HZ)

    def slots(self) -> int:
        return sum(self.balancer.slots().get(session.session_id, 0) for session in self.sessions)


def clock_us(run: Runs) -> int:
    return round(run.now * 1e6)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("synced", [0, 1_000_000])
@pytest.mark.parametrize("runs", [15, pytest.param(60, marks=pytest.mark.long)])
def test_runs_of_replayed_ticks_lose_nothing_with_workers_that_come_and_go(
    runs: int, seed: int, synced: int
) -> None:
    run = Runs(seed)
    for number in range(runs):
        gap = run.random.choice([5, 9, 18, 33])
        run.wait(gap / 2)
        if number % 3:
            run.swap()
        run.wait(gap / 2 + 1)
        assert run.slots() == 512, "the worker is ready"
        kind = run.random.choice(["anew", "jump", "clock", "far"])
        first = {"anew": 0, "jump": number * 10**6, "clock": clock_us(run), "far": 1 << 60}[kind]
        step = run.random.choice([1, 1000, 16_667])
        run.burst(first, step, run.random.choice([3, 60, 90, 200]), sync_hz=synced)
    assert (run.lost, run.issues - {"no_receiver_ready"}) == (0, set())
    assert run.app.pipeline.counters.balance == 0


@pytest.mark.parametrize("after", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("gap", [2.0, 3.0, 3.5, 5.0, 10.0, 55.0])
@pytest.mark.parametrize("synced", [0, 1_000_000])
def test_short_run_is_followed_by_another_one_without_a_warning(
    after: float, gap: float, synced: int
) -> None:
    run = Runs()
    run.wait(10)
    for _ in range(4):
        start = -0.75 + after - run.elapsed % 1 + 2  # of 0.75 s, a part behind the evaluation
        run.wait(start)
        run.burst(clock_us(run), 16_667, 45, sync_hz=synced)
        run.wait(gap)
    assert (run.lost, run.issues) == (0, set())
    assert run.refused() == {}
    assert run.app.status()["refused_ticks"] == {}


def test_ticks_that_start_anew_at_once_lose_nothing_for_long() -> None:
    run = Runs()
    run.wait(5)
    run.burst(10**6, 1000, 300)
    run.swap()
    run.wait(2)
    run.burst(0, 1000, 600)
    assert run.lost <= 2 * 4 * RATE_HZ, "three seconds and an evaluation"
    lost = run.lost
    run.burst(600_000, 1000, 300)
    assert run.lost == lost
