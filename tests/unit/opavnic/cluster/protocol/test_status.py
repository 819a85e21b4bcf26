"""The state of a lab on several machines, joined of those of its machines."""

from __future__ import annotations

from typing import Any

from lab_states import lab_state

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
