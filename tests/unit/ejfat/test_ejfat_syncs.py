"""Sync messages of strangers, of senders that jump, restart or talk nonsense: balancing goes on, events stay whole."""

from __future__ import annotations

import logging
from ipaddress import ip_address

import pytest

from ejfat.base.drops import LbDrop
from ejfat.control.epochs.calendar import TICKS
from ejfat.control.members import Session, Worker
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.wire.headers import LB_PORT, SyncHeader
from opavnic_bench.ejfat.frames import udp_packet

LB, SENDER, OTHER, STRANGER = (ip_address(f"10.0.0.{n}") for n in (1, 2, 3, 66))
LB_MAC = bytes.fromhex("020000000001")
START = 1_700_000_000.0


class Run:
    """A load balancer with a sender on a manual clock; every tick is sent in two halves, the second one late."""

    def __init__(self, rate_hz: int = 1000, first_tick: int = 1_000_000) -> None:
        self.now = START
        self.rate_hz, self.tick, self.first_tick = rate_hz, first_tick, first_tick
        self.sent: list[bytes] = []
        plane = PlaneConfig(int.from_bytes(LB_MAC, "big"), (InstanceAddresses(LB),))
        self.app = LbApp(AppConfig(plane, pipeline="python"), self.sent.append, now=lambda: self.now)
        self.app.program()
        self.balancer = self.app.plane.reserve("run", senders=[SENDER, OTHER], now=self.now).balancer
        self.sessions: list[Session] = []
        self.events: dict[int, set[bytes]] = {}
        self.late: list[int] = []
        self.register(2)
        self.register(2)
        self.app.advance()

    def register(self, weight: float) -> None:
        number = len(self.sessions) + 1
        worker = Worker(f"w{number}", ip_address(f"10.0.1.{number}"), 5000, weight=weight, mac=number)
        session, updates = self.balancer.register(worker, self.now)
        self.app.plane.program(updates)
        self.sessions.append(session)

    def frame(self, payload: bytes, source: object = SENDER, port: int = LB_PORT) -> bytes:
        packet = udp_packet(payload, src=ip_address(str(source)), dst=LB, src_port=1, dst_port=port)
        return LB_MAC + b"\x02\0\0\0\0\2" + packet

    def sync(
        self, event: int, *, source: object = SENDER, rate: int = -1, ns: int = -1, number: int = 1
    ) -> None:
        """A sync message on the wire; what is not given is as it should be."""
        header = SyncHeader(
            source_id=number,
            event=event,
            rate_hz=self.rate_hz if rate < 0 else rate,
            unix_ns=round(self.now * 1e9) if ns < 0 else ns,
        )
        self.app.receive(self.frame(header.build(), source, 19531))

    def send(self, tick: int) -> None:
        self.sent.clear()
        self.app.receive(self.frame(b"LB\x02\x01\0\0\0\0" + tick.to_bytes(8, "big") + b"data"))
        self.events.setdefault(tick, set()).update(out[:6] for out in self.sent)

    def go(self, seconds: float, *, synced: bool = True, data: bool = True) -> None:
        """Let time pass: data all the time, a sync message and a look of the control plane once a second."""
        for step in range(round(seconds * 10)):
            self.now += 0.1
            self.tick += self.rate_hz // 10
            if data:
                for late in self.late:
                    self.send(late)
                self.late = [self.tick - 7, self.tick]
                for tick in self.late:
                    self.send(tick)
            if step % 10 == 9:
                for session in self.sessions:
                    session.report(self.now, fill=0, control=0, ready=True, counters=session.counters)
                if synced:
                    self.sync(self.tick)
                self.app.advance()

    def shares(self) -> list[int]:
        """What part of the ticks each worker really gets now, in slots, by probing the data plane."""
        counts = dict.fromkeys(range(1, len(self.sessions) + 1), 0)
        base = self.tick + 1
        for tick in range(base, base + 512):
            self.sent.clear()
            self.app.receive(self.frame(b"LB\x02\x01\0\0\0\0" + tick.to_bytes(8, "big")))
            counts[int.from_bytes(self.sent[0][:6], "big")] += 1
        self.app.pipeline.counters.lbs[0].max_tick = self.tick  # the probes were not sent by anybody
        return list(counts.values())

    def refused(self) -> dict[str, int]:
        drops = self.app.pipeline.counters.drops
        return {str(reason): count for reason, count in drops.items() if reason.stage == "sync"}

    def check(self) -> None:
        """Every event whole, nothing lost, every frame accounted for."""
        assert [tick for tick, members in self.events.items() if len(members) != 1] == []
        assert self.app.pipeline.counters.balance == 0


FORGED = [TICKS - 1, TICKS // 2, 1_000_000 + 10**9]


@pytest.mark.parametrize("event", FORGED)
def test_forged_sync_of_a_stranger_changes_nothing(event: int) -> None:
    run = Run()
    run.go(5)
    assert run.shares() == [256, 256]
    run.sync(event, source=STRANGER, number=7)
    run.register(4)
    run.go(10)
    assert run.shares() == [128, 128, 256]
    assert run.refused() == {"sync:not_a_sender": 1}
    assert len(run.balancer.epochs.live) == 1
    run.check()


@pytest.mark.parametrize("event", FORGED)
def test_sync_under_a_senders_address_that_runs_ahead_is_refused(event: int) -> None:
    run = Run()
    run.go(5)
    for number in (1, 2):
        run.sync(event, number=number, ns=0)
        run.sync(event, number=number, source=OTHER, ns=0)
    run.register(4)
    run.go(10)
    assert run.shares() == [128, 128, 256]
    assert run.refused() == {"sync:too_far_ahead": 4}
    run.check()


@pytest.mark.parametrize("event", FORGED)
def test_nonsense_at_first_contact_delays_balancing_and_does_not_stop_it(event: int) -> None:
    run = Run()
    run.sync(event, number=9)  # nothing is known yet: it is believed
    run.go(3, data=False, synced=False)
    run.register(4)
    run.go(2, data=False, synced=False)
    assert (run.balancer.epochs.current.start if run.balancer.epochs.current else 0) > run.tick + 10**6
    run.go(10)
    assert run.shares() == [128, 128, 256]
    run.register(8)
    run.go(10)
    assert run.shares() == [64, 64, 128, 256]
    run.check()


def test_sender_that_claims_a_mad_rate_for_ever_cannot_stop_balancing() -> None:
    run = Run()
    for weight in (4, 8):
        for _ in range(10):
            run.sync(run.tick, rate=0xFFFFFFFF, number=3)
            run.go(1, synced=False)
        run.register(weight)
    for _ in range(20):
        run.sync(run.tick, rate=0xFFFFFFFF, number=3)
        run.go(1, synced=False)
    assert run.shares() == [64, 64, 128, 256]
    run.check()


@pytest.mark.parametrize("first_tick", [5, 10**15, TICKS - 10**6])
def test_sender_that_begins_anew_is_followed(first_tick: int) -> None:
    run = Run(first_tick=10**9)
    run.go(5)
    run.tick, run.late = first_tick, []
    run.events.clear()
    run.go(15)
    run.register(4)
    run.go(15)
    assert run.shares() == [128, 128, 256]
    before = run.app.pipeline.counters.bad_syncs
    run.go(10)
    assert run.app.pipeline.counters.bad_syncs == before, "the sender is believed again"
    run.late = []
    assert run.app.pipeline.counters.balance == 0


def test_ticks_that_run_over_the_end_are_followed() -> None:
    run = Run(first_tick=TICKS - 10_000)
    run.go(9)
    run.tick, run.late = 0, []
    run.go(15)
    run.register(4)
    run.go(15)
    assert run.shares() == [128, 128, 256]


def test_two_senders_with_one_source_number_and_clocks_apart_are_both_believed() -> None:
    run = Run()
    for _ in range(20):
        run.sync(run.tick, source=OTHER, ns=round((run.now - 86400) * 1e9))
        run.go(1)
    assert run.refused() == {}
    assert run.app.pipeline.counters.syncs == 40


def test_sync_message_that_is_sent_again_is_refused() -> None:
    run = Run()
    run.go(3)
    then = round(run.now * 1e9)
    run.go(3)
    run.sync(run.tick - 3000, ns=then)
    run.sync(run.tick, ns=round((run.now + 3600) * 1e9))
    assert run.refused() == {"sync:timestamp": 2}
    run.go(3)
    assert run.refused() == {"sync:timestamp": 2}, "and the sender is believed as before"


def test_sources_without_number_are_bounded() -> None:
    run = Run()
    for number in range(300):
        run.sync(run.tick, number=number)
    assert run.refused() == {"sync:too_many_sources": 44}


def test_sender_that_takes_every_source_number_leaves_room_for_the_others() -> None:
    run = Run()
    for number in range(300):
        run.sync(run.tick, source=OTHER, number=number)
    refused = run.refused()
    assert refused == {"sync:too_many_sources": 44}
    for number in range(128):
        run.sync(run.tick, number=number)
    assert run.refused() == refused, "SENDER came later, and has its half"
    run.sync(run.tick, number=128)
    assert run.refused() == {"sync:too_many_sources": 45}, "no more than OTHER keeps"
    assert run.app.pipeline.counters.syncs == 256 + 128


def test_removed_sender_is_a_stranger() -> None:
    run = Run()
    run.go(2)
    run.app.plane.program(run.balancer.remove_senders([SENDER]))
    run.sync(run.tick + 500)
    assert run.refused() == {"sync:not_a_sender": 1}


def test_refusals_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ejfat")
    run = Run()
    for _ in range(30):
        for _ in range(50):
            run.sync(TICKS - 1, source=STRANGER)
        run.go(1)
    assert 2 <= len(caplog.records) <= 4
    assert "sync:not_a_sender 50 (the last one from 10.0.0.66)" in caplog.text
    assert run.app.pipeline.counters.drops[LbDrop("sync:not_a_sender")] == 1500
    assert run.app.status()["bad_syncs"] == 1500


def test_senders_pause_and_nothing_is_taken_back_again_and_again() -> None:
    run = Run()
    run.go(5)
    run.register(4)
    rate, run.rate_hz = run.rate_hz, 0
    takebacks = []
    for _ in range(25):
        run.sync(run.tick, rate=0)
        run.go(1, synced=False, data=False)
        takebacks.append(run.balancer.takebacks)
    assert takebacks[12] == takebacks[-1]
    run.rate_hz = rate
    run.go(10)
    assert run.shares() == [128, 128, 256]
    run.check()
