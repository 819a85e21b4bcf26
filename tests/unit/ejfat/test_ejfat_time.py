"""The machine's clock steps, or a program or machine stands still: who is there stays, and who went returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest

from ejfat.control.feedback import Gains
from ejfat.control.grpc.messages import status_reply
from ejfat.control.members import ReceiverCounters, SessionState, Worker
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.feedback import Reporter
from unit.ejfat.test_ejfat_live import SENDER, WORKER, Wire

START = 1_700_000_000.0
STEPS = [sign * seconds for sign in (1, -1) for seconds in (10, 60, 120, 600, 3600)]
LB = ip_address("10.0.0.1")


class Machine:
    """A load balancer on a machine whose clock can be set, and which can be suspended."""

    def __init__(self, state: Path | None = None, period_s: float = 1.0) -> None:
        self.now, self.step = START, 0.0
        plane = PlaneConfig(1, (InstanceAddresses(LB),))
        config = AppConfig(plane, "127.0.0.1:0", state=state, period_s=period_s, pipeline="python")
        self.app = LbApp(config, lambda frame: None, now=lambda: self.now, unix=lambda: self.now + self.step)

    def reserve(self, until: float | None = None) -> None:
        self.reservation = self.app.plane.reserve("run", senders=[SENDER], until=until, now=self.now)
        for number in range(10):
            worker = Worker(f"w{number}", ip_address("10.0.1.1") + number, 5000, mac=number + 1)
            self.app.plane.register(self.reservation, worker, self.now)

    def go(self, seconds: int) -> None:
        """Let every worker report once a second, shortly before the evaluation."""
        for _ in range(seconds):
            self.now += 0.9
            for session in self.reservation.balancer.sessions.values():
                session.report(self.now, fill=0, control=0, ready=True, counters=session.counters)
            self.now += 0.1
            self.app.advance()

    @property
    def states(self) -> set[str]:
        return {session.state.value for session in self.reservation.balancer.sessions.values()}


@pytest.mark.parametrize("step", STEPS)
def test_step_of_the_clock_ends_no_session_and_no_lease_and_is_seen_in_what_clients_are_shown(
    step: int,
) -> None:
    machine = Machine()
    machine.app.program()
    machine.reserve(until=START + 100)
    machine.go(5)
    machine.step = step
    for _ in range(5):
        machine.go(1)
        assert len(machine.reservation.balancer.ready) == 10
    status = status_reply(machine.app.plane, machine.reservation, machine.now, step)
    assert status.timestamp.seconds == round(START + 10 + step)
    assert status.expiresAt.seconds == round(START + 100 + step)
    machine.go(89)
    assert machine.app.plane.reservations, "the lease lasts as long as was asked for"
    machine.go(2)
    assert not machine.app.plane.reservations


def test_lease_of_a_machine_whose_clock_was_set_is_as_long_after_a_restart(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "state.db")
    machine.app.program()
    machine.reserve(until=START + 100)
    machine.step = 3600
    machine.app.advance()
    asyncio.run(machine.app.stop())
    again = Machine(tmp_path / "state.db")
    again.now = START + 3600 + 50
    again.app.program()
    (reservation,) = again.app.plane.reservations.values()
    assert reservation.balancer.expires_at == START + 3600 + 100


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing announces an evaluation
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("pause", [10, 70, 600, 3600])
async def test_balancer_that_stood_still_takes_its_own_pause_for_nobodys_silence(pause: int) -> None:
    machine = Machine(period_s=0.05)
    await machine.app.start()
    machine.reserve()
    await until(lambda: bool(machine.reservation.balancer.slots().get(1)))
    await until(lambda: machine.app._advanced_at is not None)
    machine.now += pause
    await until(lambda: machine.app._advanced_at == machine.now)
    assert machine.states == {"ready"}
    for _ in range(5):
        machine.now += 0.5
        await until(lambda: machine.app._advanced_at == machine.now)
    assert machine.states == {"draining"}, "silence after the pause counts"
    await machine.app.stop()


async def test_worker_whose_session_was_ended_registers_again_with_the_token_that_it_has() -> None:
    wire = Wire()
    await wire.app.start()
    uri = wire.app.reserve("run", [SENDER])
    request = pb.RegisterRequest(name="w", weight=1, ipAddress=str(WORKER), udpPort=5000)
    reporter = Reporter(uri, request, Gains())
    balancer = wire.app.plane.get(uri.lb_id).balancer
    first = balancer.session(int(await reporter.register()))
    task = asyncio.create_task(reporter.report(lambda: (0.5, ReceiverCounters())))
    first.reported_at -= 61  # it was stopped for so long
    wire.app.advance()
    assert first.state is SessionState.GONE
    await until(lambda: [(one.worker.name, one.fill) for one in balancer.ready] == [("w", 0.5)])
    wire.app.advance()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await reporter.close()
    assert not balancer.ready
    await wire.app.stop()
