"""Who takes in what hosts receive: the worker that hands it over, or all processors where it has no time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.datapath.steering import Steering, Time

SECOND = 1_000_000_000
TWO_HOSTS = ("h1", "h2")


class Device(MemoryNetdev):
    """A device whose host receives as it is told."""

    def __init__(self, name: str, *, is_steerable: bool = True) -> None:
        super().__init__(name)
        self.is_steered = False
        self.may_be_left = False
        self.is_steerable = is_steerable

    def steer(self, on: bool) -> bool:
        assert on or self.may_be_left or not self.is_steered, "what waits elsewhere would be overtaken"
        self.is_steered = on and self.is_steerable
        return self.is_steered


class Lab:
    """Hosts at workers, and what has passed so far; a look each tenth of a second."""

    def __init__(self, *hosts: Device, workers: tuple[int, ...] = (0, 0)) -> None:
        self.all_hosts = hosts
        self.hosts = dict(enumerate(hosts))
        """Those that are still there, by vport."""
        self.workers = workers
        self.mixes = [(worker, 0, 0) for worker in workers]
        self.asked = 0
        self.used = [0] * (max(workers) + 1)
        self.now = 0
        self.steering = Steering(self._ask, self._drained)

    @contextmanager
    def _drained(self) -> Iterator[None]:
        for host in self.all_hosts:
            host.may_be_left = True
        yield
        for host in self.all_hosts:
            host.may_be_left = False

    def _ask(self) -> list[tuple[int, int, int]]:
        self.asked += 1
        return list(self.mixes)

    def pass_on(self, *flows: float, busy: tuple[float, ...], bursts: int = 100) -> list[bool]:
        """Let each host receive bursts of so many flows; return which are steered after that."""
        self.now += SECOND // 10
        self.used = [used + round(part * SECOND / 10) for used, part in zip(self.used, busy, strict=True)]
        more = [(bursts if here else 0, round(bursts * here)) for here in flows]
        self.mixes = [(w, b + d, f + e) for (w, b, f), (d, e) in zip(self.mixes, more, strict=True)]
        self.steering.look([Time(used, self.now) for used in self.used], self.hosts)
        return [host.is_steered for host in self.hosts.values()]


def two_hosts(**options: bool) -> Lab:
    return Lab(*(Device(name, **options) for name in TWO_HOSTS))


def test_many_flows_at_a_worker_without_time_are_taken_in_elsewhere_until_they_are_few() -> None:
    lab = two_hosts()
    for _ in range(3):
        shown = lab.pass_on(5.0, 6.0, busy=(0.97,))
    assert shown == [True, True]
    assert lab.steering.count == 2
    assert lab.pass_on(5.0, 6.0, busy=(0.7,)) == [True, True]  # as others do much of it now
    assert lab.pass_on(2.1, 2.1, busy=(0.7,)) == [True, True]
    assert lab.pass_on(1.0, 1.0, busy=(1.0,)) == [False, False]
    assert lab.steering.count == 0


@pytest.mark.parametrize(
    ("flows", "busy"),
    [
        pytest.param((5.0, 6.0), 0.4, id="much less to do"),
        pytest.param((1.0, 1.0), 0.1, id="hosts that ping each other"),
        pytest.param((0.0, 0.0), 1.0, id="datagrams"),
        pytest.param((0, 0), 0.0, id="nothing"),
    ],
)
def test_other_traffic_ends_it(flows: tuple[float, ...], busy: float) -> None:
    lab = two_hosts()
    for _ in range(3):
        lab.pass_on(8.0, 8.0, busy=(1.0,))
    assert lab.steering.count == 2
    assert lab.pass_on(*flows, busy=(busy,)) == [False, False]
    asked = lab.asked
    lab.pass_on(*flows, busy=(busy / 2,))
    assert lab.asked == asked


@pytest.mark.parametrize(
    ("flows", "busy"),
    [
        pytest.param((1.0, 1.0), 1.0, id="one flow"),
        pytest.param((2.0, 2.0), 1.0, id="two flows"),
        pytest.param((8.0, 8.0), 0.8, id="a worker with time left"),
        pytest.param(
            (0.0, 0.0), 1.0, id="hosts that want frames as they were sent, whose flows nobody counts"
        ),
    ],
)
def test_others_take_nothing_over(flows: tuple[float, ...], busy: float) -> None:
    lab = two_hosts()
    for _ in range(5):
        assert lab.pass_on(*flows, busy=(busy,)) == [False, False]


def test_lab_that_does_little_is_never_asked_what_passes() -> None:
    lab = two_hosts()
    for _ in range(10):
        lab.pass_on(8.0, 8.0, busy=(0.4,))
    assert lab.asked == 0


def test_only_hosts_of_the_worker_without_time_and_only_those_that_receive_are_steered() -> None:
    hosts = [Device(f"h{number}") for number in range(4)]
    lab = Lab(*hosts, workers=(0, 0, 1, 1))
    for _ in range(3):
        shown = lab.pass_on(8.0, 0, 8.0, 8.0, busy=(1.0, 0.5))
    assert shown == [True, False, False, False]


def test_host_that_sees_to_it_itself_and_one_that_goes_away_are_no_matter() -> None:
    lab = two_hosts(is_steerable=False)
    for _ in range(3):
        assert lab.pass_on(8.0, 8.0, busy=(1.0,)) == [False, False]
    assert lab.steering.count == 0
    lab = two_hosts()
    for _ in range(3):
        lab.pass_on(8.0, 8.0, busy=(1.0,))
    lab.hosts[0].is_steerable = False
    lab.pass_on(8.0, 8.0, busy=(1.0,))
    assert lab.steering.count == 1
    del lab.hosts[1]
    lab.pass_on(8.0, 8.0, busy=(1.0,))
    assert lab.steering.count == 0


def test_host_whose_frames_another_worker_hands_over_now_is_not_taken_for_one_that_nothing_comes_to() -> None:
    lab = two_hosts()
    for _ in range(3):
        lab.pass_on(8.0, 8.0, busy=(1.0,))
    worker, bursts, flows = lab.mixes[1]
    lab.mixes[1] = worker + 1, bursts, flows
    assert lab.pass_on(1.0, 1.0, busy=(1.0,)) == [False, True]


def test_vport_that_is_another_ones_now_starts_anew_and_a_dead_thread_is_no_error() -> None:
    lab = two_hosts()
    for _ in range(2):
        lab.pass_on(0, 0, busy=(1.0,))
    lab.mixes = [(0, 0, 0), (0, 0, 0)]
    assert lab.pass_on(1.0, 1.0, busy=(1.0,)) == [False, False]
    lab.steering.look([], lab.hosts)
    assert lab.pass_on(8.0, 8.0, busy=(1.0,)) == [False, False]  # who has just begun has no past
