"""Epoch transitions while packets pass at 20,000 a second and more, in real time."""

from __future__ import annotations

import time
from collections import Counter
from ipaddress import ip_address

import pytest

from ejfat.control import programming
from ejfat.control.balancer import LoadBalancer, Policy
from ejfat.control.members import ReceiverCounters, Worker
from ejfat.control.programming import Target
from ejfat.pipeline import Pipeline
from ejfat.segmentation import Segmenter

LB, SENDER = ip_address("10.0.0.1"), ip_address("10.0.0.2")
EVENTS = 40_000
FIRST_TICK = 1_000_000
pytestmark = pytest.mark.slow


def test_epoch_transitions_under_load_in_real_time_keep_every_event_whole() -> None:
    segmenter = Segmenter(version=2, mtu=200)
    frames = []
    for tick in range(FIRST_TICK, FIRST_TICK + EVENTS):
        parts = segmenter.frames(bytes(200), tick=tick, data_id=1, event=tick, src=SENDER, dst=LB, dst_mac=1)
        assert len(parts) == 2
        frames.append(parts)
    # each event's second packet comes ten events late: events lie across every boundary
    order = [frames[i][0] for i in range(10)]
    for i in range(10, EVENTS):
        order += (frames[i][0], frames[i - 10][1])
    order += [frames[i][1] for i in range(EVENTS - 10, EVENTS)]

    pipeline = Pipeline()
    target = Target(0, with_v1=True)
    balancer = LoadBalancer(target, "load", Policy(lead_s=0.02, quiescence_s=0.05, min_change=1))
    pipeline.tables.apply(programming.own_addresses(target, 1, [LB]) + balancer.add_senders([SENDER]))
    now = time.monotonic()
    for number in range(4):
        worker = Worker(name=f"w{number}", ip=ip_address(f"10.0.1.{number + 1}"), port=5000, mac=number + 2)
        pipeline.tables.apply(balancer.register(worker, now)[1])
    pipeline.tables.apply(balancer.advance(now))

    where: dict[int, set[bytes]] = {}
    arrived: Counter[int] = Counter()
    started = time.perf_counter()
    for number, frame in enumerate(order):
        if number % 8000 == 0:  # the control plane's turn: one worker asks for less
            now = time.monotonic()
            for index, session in enumerate(balancer.sessions.values()):
                control = -4000.0 if index == number // 8000 % 4 else 0.0
                session.report(now, fill=0.0, control=control, ready=True, counters=ReceiverCounters())
            lb = pipeline.counters.lb(0)
            balancer.observe(lb.max_tick, lb.rx_packets, now)
            pipeline.tables.apply(balancer.advance(now))
        out = pipeline.process(frame).frame
        assert out is not None
        tick = int.from_bytes(frame[50:58], "big")
        where.setdefault(tick, set()).add(out[30:34])
        arrived[tick] += 1
    elapsed = time.perf_counter() - started

    assert len(order) / elapsed >= 20_000
    assert balancer.epochs.next_number >= 5
    assert len(where) == EVENTS
    assert {len(workers) for workers in where.values()} == {1}
    assert set(arrived.values()) == {2}
    assert pipeline.counters.dropped == 0
