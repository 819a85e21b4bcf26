"""The work queue: fair, and bounded per port and in all."""

from __future__ import annotations

from vema.em.core.turns import WorkQueue


def _drain(queue: WorkQueue[str, int]) -> list[tuple[str, int]]:
    served = []
    while (turn := queue.pop()) is not None:
        queue.started(turn[0])
        served.append(turn)
    return served


def test_ports_take_turns() -> None:
    queue: WorkQueue[str, int] = WorkQueue(in_flight=100, per_port=100)
    for port in "ab":
        for item in (1, 2):
            queue.mark(port, item)
    assert _drain(queue) == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_item_marked_twice_is_served_once() -> None:
    queue: WorkQueue[str, int] = WorkQueue(in_flight=9, per_port=9)
    queue.mark("a", 1)
    queue.mark("a", 1)
    assert _drain(queue) == [("a", 1)]


def test_port_at_its_bound_waits_and_others_go_on() -> None:
    queue: WorkQueue[str, int] = WorkQueue(in_flight=9, per_port=1)
    for port, item in (("a", 1), ("a", 2), ("b", 1)):
        queue.mark(port, item)
    assert _drain(queue) == [("a", 1), ("b", 1)]
    queue.finished("a")
    assert _drain(queue) == [("a", 2)]


def test_bound_in_all_holds() -> None:
    queue: WorkQueue[str, int] = WorkQueue(in_flight=2, per_port=9)
    for port in "abcd":
        queue.mark(port, 1)
    assert len(_drain(queue)) == 2
    queue.finished("a")
    assert _drain(queue) == [("c", 1)]
    assert queue.deepest == 2


def test_forgotten_port_is_not_served() -> None:
    queue: WorkQueue[str, int] = WorkQueue(in_flight=9, per_port=9)
    queue.mark("a", 1)
    queue.forget("a")
    assert not queue.waiting
    assert _drain(queue) == []
    queue.mark("a", 2)
    assert _drain(queue) == [("a", 2)]
