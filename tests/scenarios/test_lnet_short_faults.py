"""A fault shorter than the timeout: no message fails, no route stays unusable, credits come back.

And a route that is dead for good: it delays nobody after its first failure.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnet.objects.stats import TxKind
from scenarios.lnet_short_faults import (
    DURATIONS_S,
    KINDS,
    PLACES,
    PORTS,
    PROMPT_S,
    ShortFault,
    Traffic,
    TwoByTwo,
    hold_the_law,
    sample,
)

SMALL = [traffic for traffic in KINDS if traffic.size < 1 << 20]


@pytest.mark.parametrize("traffic", KINDS, ids=str)
def test_fault_shorter_than_the_timeout_fails_no_message_and_leaves_no_route_unusable(
    traffic: Traffic,
) -> None:
    for fault in sample(traffic, 1 if traffic.count * traffic.size > 1 << 23 else 3):
        hold_the_law(traffic, [fault])


@pytest.mark.parametrize("traffic", SMALL, ids=str)
def test_fault_of_half_a_short_timeout_fails_no_message(traffic: Traffic) -> None:
    for fault in sample(traffic, 2):
        hold_the_law(traffic, [replace(fault, for_s=min(fault.for_s, 1.0))], timeout_s=2.0)


@given(
    st.sampled_from(SMALL),
    st.lists(
        st.builds(ShortFault, st.sampled_from(PLACES), st.floats(0, 5e-4), st.sampled_from(DURATIONS_S[:3])),
        min_size=1,
        max_size=4,
    ),
)
def test_faults_at_once_shorter_than_the_timeout_fail_no_message(
    traffic: Traffic, faults: list[ShortFault]
) -> None:
    hold_the_law(traffic, faults)


def test_flap_of_a_far_hfi_under_gets_fails_none_of_the_puts_that_follow() -> None:
    scene = TwoByTwo()
    scene.faults.add("link-down on b-ib0 after=450us for=200ms")
    scene.send(Traffic(TxKind.GET, 16, 1 << 20))
    for number in range(1500):
        scene.clock.advance(0.2)
        scene.start(TxKind.PUT, number, 100)
    scene.clock.advance(60)
    assert scene.a.failed == []
    assert len(scene.a.done) == 1516
    scene.check_routes_and_credits()


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("fault", ["link-down on {}", "loss on {}", "loss on {} direction=tx"])
def test_route_that_is_dead_for_good_delays_no_message_after_its_first_failure(fault: str, port: str) -> None:
    scene = TwoByTwo()
    scene.send(Traffic(TxKind.PUT, 4, 100))
    scene.clock.advance(1)
    scene.faults.add(fault.format(port))
    late = []
    for number in range(400):
        scene.clock.advance(0.02)
        msg_id = scene.start(TxKind.PUT, number, 100)
        if number >= 200:  # its transport has given up by then
            late.append(msg_id)
    scene.clock.advance(1)
    assert [scene.took[msg_id] for msg_id in late if scene.took[msg_id] > PROMPT_S] == []
    assert scene.a.failed == []
