"""The state of a lab on several machines, joined of those of its machines."""

from __future__ import annotations

from typing import Any

import pytest
from lab_states import lab_state

from opavnic.cli.view.status import status_items
from opavnic.cluster.protocol.status import fold
from opavnic.state.lab import LabState

CLUSTER = {
    "machine": "a",
    "placed": ["a", "b"],
    "there": ["a", "b"],
    "manager": "a",
    "links": [],
    "clocks": {},
}


def share(machine: str, **more: Any) -> LabState:
    return lab_state(cluster={**CLUSTER, "machine": machine}, **more)


def test_counters_of_each_element_are_those_of_the_machine_that_carries_it() -> None:
    a = share(
        "a", counters={"h1": {"in_packets": 7, "drop_no_route": 1}, "h2": {"in_packets": 0}, "cut": {"n": 5}}
    )
    b = share(
        "b",
        counters={"h1": {"in_packets": 0}, "h2": {"in_packets": 9}, "cut": {"n": 5}, "h2 ethtool": {"x": 1}},
    )
    assert fold({"a": a, "b": b}, []).counters == {
        "h1": {"in_packets": 7, "drop_no_route": 1},
        "h2": {"in_packets": 9},
        "cut": {"n": 5},
        "h2 ethtool": {"x": 1},
    }


def test_counters_that_were_not_asked_for_are_not_there() -> None:
    assert "counters" not in fold({"a": share("a"), "b": share("b")}, []).as_json()


def load(used: float = 0.1, busy: float = 0.1, late_ms: float = 1.0) -> dict[str, float]:
    return {"processors": 2, "used": used, "busy": busy, "late_ms": late_ms}


def link_to(peer: str, waiting: int) -> dict[str, Any]:
    packets = {"waiting": waiting, "sent": 0, "under_way": waiting, "lost": 0, "received": 0}
    times = {"latency_us": 1.0, "network_us": None, "network_is_slower": False}
    ends = {"name": "a--b", "leaves": "a->b", "arrives": "b->a", "is_open": True}
    return {**ends, "peer": peer, **packets, **times}


@pytest.mark.parametrize(
    ("of_a", "of_b", "slowest", "why"),
    [
        ({"load": load(1.8, 0.95)}, {"load": load()}, "a", "the lab uses 1.8 of 2 processors, other programs 0.1"),
        ({"load": load(busy=0.9)}, {"load": load(used=1.5, busy=0.75)}, "a", "other programs 1.7"),
        ({"load": load(busy=0.5)}, {"load": load(late_ms=80.0)}, "b", "its event loop is late by up to 80 ms"),
        ({"load": load(), "links": [link_to("b", 4000)]}, {"load": load()}, "b", "4000 packets wait for it at a"),
    ],
)  # fmt: skip
def test_slowest_machine_is_the_one_nearest_to_a_limit_with_the_measure_that_says_so(
    of_a: dict[str, Any], of_b: dict[str, Any], slowest: str, why: str
) -> None:
    shares = {
        name: lab_state(cluster={**CLUSTER, "machine": name, **more})
        for name, more in (("a", of_a), ("b", of_b))
    }
    cluster = fold(shares, []).cluster
    assert cluster is not None
    assert cluster.slowest is not None
    assert cluster.slowest.machine == slowest
    assert why in cluster.slowest.why[0]


def test_status_names_the_slowest_machine_and_those_that_are_away() -> None:
    state = fold({"a": lab_state(cluster={**CLUSTER, "there": ["a"], "load": load(busy=0.5)})}, [])
    lines = [item for item in status_items(state) if isinstance(item, str)]
    assert "machines: a, b (away)" in lines
    assert any(line.startswith("slowest machine: a, at 50% of a limit: the lab uses") for line in lines)
