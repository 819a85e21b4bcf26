"""Epoch transitions while packets pass: 20,000 a second by the clock that the control plane sees."""

from __future__ import annotations

import asyncio
import contextlib
import random
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from ejfat.control.balancer import Policy, ReservedInstance
from ejfat.control.members import ReceiverCounters, Worker
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.events.event import Segmenter
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.carrier import NativeCarrier
from ejfat.live.ports import EthernetPort
from ejfat.pipeline.native import NativePipeline, Wanted
from native_module import needs_native
from opavnic_bench.ejfat.frames import event_frames
from unit.ejfat.pipelines import IMPLEMENTATIONS

LB, SENDER = ip_address("10.0.0.1"), ip_address("10.0.0.2")
PACKETS_PER_SECOND = 20_000
LATE = 10
"""How many events later the second packet of an event comes: events lie across every boundary."""
FIRST_TICK = 1_000_000
EVENTS = 15_000
WORKERS = 4
TICK = slice(50, 58)
DESTINATION = slice(30, 34)


class Load:
    """A load balancer with four workers, on a clock that packets move."""

    def __init__(self, implementation: Wanted, quiescence_s: float) -> None:
        self.packets = 0
        plane = PlaneConfig(
            mac=1,
            instances=(InstanceAddresses(LB),),
            policy=Policy(lead_s=0.02, quiescence_s=quiescence_s, min_change=1),
        )
        self.app = LbApp(AppConfig(plane, pipeline=implementation), lambda frame: None, now=self.now)
        self.app.plane.start()
        self.balancer: ReservedInstance = self.app.plane.reserve("load", senders=[SENDER], now=0).balancer
        for number in range(WORKERS):
            ip = ip_address(f"10.0.1.{number + 1}")
            worker = Worker(name=f"w{number}", ip=ip, port=5000, mac=number + 2)
            self.app.plane.program(self.balancer.register(worker, 0)[1])
        self.app.advance()
        self.where: dict[int, set[bytes]] = {}
        self.arrived: Counter[int] = Counter()

    def now(self) -> float:
        return self.packets / PACKETS_PER_SECOND

    def take(self, frame: bytes, tick: int) -> None:
        """Note a forwarded frame."""
        self.packets += 1
        self.where.setdefault(tick, set()).add(frame[DESTINATION])
        self.arrived[tick] += 1

    def turn(self, number: int) -> None:
        """Let one worker ask for less, and the control plane do what is due."""
        for index, session in enumerate(self.balancer.sessions.values()):
            control = -4000.0 if index == number % WORKERS else 0.0
            session.report(self.now(), fill=0.0, control=control, ready=True, counters=ReceiverCounters())
        self.app.advance()

    def check(self, events: int) -> None:
        assert len(self.where) == events
        assert {len(workers) for workers in self.where.values()} == {1}
        assert set(self.arrived.values()) == {2}
        assert self.app.pipeline.counters.dropped == 0
        assert self.app.pipeline.counters.balance == 0


def packets_of(tick: int, segmenter: Segmenter) -> list[bytes]:
    parts = event_frames(
        segmenter, bytes(200), tick=tick, data_id=1, event=tick, src=SENDER, dst=LB, dst_mac=1
    )
    assert len(parts) == 2
    return parts


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_epoch_transitions_under_load_keep_every_event_whole(implementation: Wanted) -> None:
    segmenter = Segmenter(version=2, mtu=200)
    events = [packets_of(tick, segmenter) for tick in range(FIRST_TICK, FIRST_TICK + EVENTS)]
    order = []
    for number in range(EVENTS + LATE):
        order += [events[number][0]] if number < EVENTS else []
        order += [events[number - LATE][1]] if number >= LATE else []
    load = Load(implementation, quiescence_s=0.05)
    for number, frame in enumerate(order):
        if number % 3000 == 0:
            load.turn(number // 3000)
        out = load.app.pipeline.process(frame).frame
        assert out is not None
        load.take(out, int.from_bytes(frame[TICK], "big"))
    load.check(EVENTS)
    assert load.balancer.epochs.next_number >= 5
    assert load.now() == len(order) / PACKETS_PER_SECOND


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_boundary_lies_behind_all_that_passed_until_the_datapath_stood_still(implementation: Wanted) -> None:
    segmenter = Segmenter(version=2, mtu=200)
    load = Load(implementation, quiescence_s=0.05)

    def forward(frame: bytes) -> None:
        out = load.app.pipeline.process(frame).frame
        assert out is not None
        load.take(out, int.from_bytes(frame[TICK], "big"))

    late: list[bytes] = []

    @contextlib.contextmanager
    def still() -> Iterator[None]:
        # what a thread has done since the control plane looked last, up to the burst that it ends before it rests
        for tick in range(FIRST_TICK + 1, FIRST_TICK + 400):
            first, second = packets_of(tick, segmenter)
            forward(first)
            late.append(second)
        yield

    load.app.still = still
    for frame in packets_of(FIRST_TICK, segmenter):
        forward(frame)
    epochs = load.balancer.epochs.next_number
    load.packets += PACKETS_PER_SECOND  # a second goes by, in which the worker's report moves its weight
    load.turn(0)
    assert load.balancer.epochs.next_number == epochs + 1
    for frame in late:
        forward(frame)
    load.check(400)


class Wire(EthernetPort):
    """A port of this process, on which nothing is lost."""

    medium = "tap"
    lost = 0

    def __init__(self) -> None:
        self.inside, self.outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.inside.setblocking(False)
        for end in (self.inside, self.outside):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def filenos(self) -> list[int]:
        return [self.inside.fileno()]

    def close(self) -> None:
        self.inside.close()
        self.outside.close()


@needs_native
async def test_epoch_transitions_beside_the_native_thread_keep_every_event_whole() -> None:
    """The thread forwards while the control plane decides: no tick may slip between its look and its boundary."""
    load = Load("native", quiescence_s=0.5)
    wire = Wire()
    assert isinstance(load.app.pipeline, NativePipeline)
    carrier = NativeCarrier(load.app.pipeline, wire, lambda frame: None, pytest.fail)
    load.app.still = carrier.still
    window = threading.Semaphore(200)  # packets under way: fewer than a socket holds
    enough = threading.Event()
    sent: list[int] = []

    def send() -> None:
        segmenter = Segmenter(version=2, mtu=200)
        late: list[bytes] = []
        tick = FIRST_TICK
        while not enough.is_set() or late:
            if not enough.is_set():
                first, second = packets_of(tick, segmenter)
                late.append(second)
                sent.append(tick)
                tick += 1
                window.acquire()
                wire.outside.send(first)
            if len(late) > LATE or enough.is_set():
                window.acquire()
                wire.outside.send(late.pop(0))

    def receive(turns: random.Random) -> None:
        due = 500
        while load.packets < 2 * len(sent) or sender.is_alive():
            if not select.select([wire.outside], [], [], 1.0)[0]:
                continue  # the sender was about to end
            frame = wire.outside.recv(2000)
            window.release()
            # behind the load balancer's header, which is gone, the reassembly header tells the event
            load.take(frame, int.from_bytes(frame[54:62], "big"))
            if load.packets >= due and not enough.is_set():
                due = load.packets + turns.randrange(200, 3000)
                load.turn(load.packets)
                if load.balancer.epochs.next_number >= 8:
                    enough.set()

    sender = threading.Thread(target=send, daemon=True)
    carrier.start()
    try:
        sender.start()
        await asyncio.wait_for(asyncio.to_thread(receive, random.Random(1)), 100)
        sender.join()
    finally:
        carrier.close()
        wire.close()
    load.check(len(sent))
    assert carrier.lost == 0
