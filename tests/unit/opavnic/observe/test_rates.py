"""Rates from two looks at a lab: never negative, and nothing is lost between one look and the next."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.observe.rates import (
    Link,
    Order,
    Pace,
    Rates,
    Sample,
    Traffic,
    Vnic,
    as_json,
    in_order,
    rates,
)

NAMES = ("h1", "h2", "h10")
REASONS = ("link_fault", "link_down")
EMPTY = Sample("x", 1, 0.0, "python", "builtin", 0, (), (), {})


def vnic(host: str, traffic: Traffic) -> Vnic:
    return Vnic(host, "blue", "blue", "up", traffic)


def link(host: str, traffic: Traffic) -> Link:
    return Link(f"{host}:1->sw0:1", "up", "python", traffic)


counts = st.integers(0, 1 << 64)
traffics = st.builds(Traffic, counts, counts, counts, counts, counts)
hosts = st.lists(st.sampled_from(NAMES), unique=True)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """One look at a lab whose elements come and go and whose counters do what they like."""
    drops = {name: draw(st.dictionaries(st.sampled_from(REASONS), counts)) for name in draw(hosts)}
    vnics = tuple(vnic(name, draw(traffics)) for name in draw(hosts))
    links = tuple(link(name, draw(traffics)) for name in draw(hosts))
    return replace(EMPTY, mads=draw(counts), vnics=vnics, links=links, drops=drops)


seconds = st.floats(0.001, 1e5)


def numbers(pace: Pace) -> list[float]:
    return [pace.tx_packets, pace.tx_bits, pace.rx_packets, pace.rx_bits, pace.drops]


@given(samples(), samples(), seconds)
def test_rates_are_never_negative_whatever_came_went_or_was_made_anew(
    before: Sample, after: Sample, seconds: float
) -> None:
    found = rates(before, after, seconds)
    shown = [number for _, pace in (*found.vnics, *found.links) for number in numbers(pace)]
    assert all(number >= 0 for number in (*shown, found.mads))
    assert all(drop.per_second > 0 for drop in found.drops)
    assert [one for one, _ in found.vnics] == list(after.vnics)
    assert [one for one, _ in found.links] == list(after.links)
    json.dumps(as_json(found, 0.0), allow_nan=False)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 100)), min_size=1), st.integers(0, 1 << 48))
def test_rates_of_all_intervals_add_up_to_what_was_counted(steps: list[tuple[int, int]], first: int) -> None:
    looks = []
    for total in itertools.accumulate((growth for growth, _ in steps), initial=first):
        traffic = Traffic(total, 2 * total, 3 * total, 4 * total, 5 * total)
        looks.append(
            replace(EMPTY, mads=total, vnics=(vnic("h1", traffic),), drops={"h1": {"link_fault": total}})
        )
    sums = [0.0] * 5
    mads = drops = 0.0
    for (before, after), (_, seconds) in zip(itertools.pairwise(looks), steps, strict=True):
        found = rates(before, after, seconds)
        for index, number in enumerate(numbers(found.vnics[0][1])):
            sums[index] += number * seconds
        mads += found.mads * seconds
        drops += sum(drop.per_second * seconds for drop in found.drops)
    counted = sum(growth for growth, _ in steps)
    expected = [counted, 8 * 2 * counted, 3 * counted, 8 * 4 * counted, 5 * counted]
    assert sums == pytest.approx(expected)
    assert (mads, drops) == pytest.approx((counted, counted))


def test_counter_that_went_back_counts_as_from_zero() -> None:
    before = replace(
        EMPTY, vnics=(vnic("h1", Traffic(100, 6000, 7, 70, 3)),), drops={"h1": {"link_fault": 9}}
    )
    after = replace(EMPTY, vnics=(vnic("h1", Traffic(4, 240, 9, 90, 0)),), drops={"h1": {"link_fault": 2}})
    found = rates(before, after, 2.0)
    assert found.vnics[0][1] == Pace(2.0, 960.0, 1.0, 80.0, 0.0)
    assert [(drop.per_second, drop.total) for drop in found.drops] == [(1.0, 2)]


def test_element_that_appeared_counts_as_from_zero_and_one_that_vanished_is_not_shown() -> None:
    before = replace(EMPTY, vnics=(vnic("h1", Traffic(100)),), links=(link("h1", Traffic(100)),))
    after = replace(EMPTY, vnics=(vnic("h2", Traffic(10)),), links=(link("h2", Traffic(10)),))
    found = rates(before, after, 5.0)
    assert [(one.host, pace.tx_packets) for one, pace in found.vnics] == [("h2", 2.0)]
    assert [(one.name, pace.tx_packets) for one, pace in found.links] == [("h2:1->sw0:1", 2.0)]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_rate_over_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="a rate needs more than 0"):
        rates(EMPTY, EMPTY, seconds)


def busy(**packets: int) -> Rates:
    return rates(
        EMPTY, replace(EMPTY, vnics=tuple(vnic(host, Traffic(n, n)) for host, n in packets.items())), 1
    )


def test_order_by_name_counts_as_people_do_and_order_by_load_begins_with_the_busiest() -> None:
    found = busy(h10=5, h2=7, h1=5)
    assert [one.host for one, _ in in_order(found, Order.NAME).vnics] == ["h1", "h2", "h10"]
    assert [one.host for one, _ in in_order(found, Order.LOAD).vnics] == ["h2", "h1", "h10"]


def test_drop_counters_that_grew_are_named_the_fastest_first_and_others_are_left_out() -> None:
    before = replace(EMPTY, drops={"h1": {"link_fault": 5, "link_down": 1}})
    after = replace(EMPTY, drops={"h1": {"link_fault": 5, "link_down": 2}, "h2": {"link_fault": 10}})
    found = rates(before, after, 2.0)
    assert [(drop.element, drop.reason, drop.per_second, drop.total) for drop in found.drops] == [
        ("h2", "link_fault", 5.0, 10),
        ("h1", "link_down", 0.5, 2),
    ]
    assert as_json(found, 0.0)["drops"] == {"h2": {"link_fault": 5.0}, "h1": {"link_down": 0.5}}


def test_status_without_what_is_needed_is_refused_with_its_name() -> None:
    status: dict[str, Any] = {
        "lab": "x",
        "pid": 1,
        "uptime_s": 1.0,
        "datapath": "python",
        "em": "off",
        "mads": 0,
    }
    bare = {"name": "h1:1->sw0:1", "state": "up", "datapath": "python", "packets_forth": 1, "packets_back": 1}
    with pytest.raises(ValueError, match="the status of the lab has no 'bytes_forth'"):
        Sample.from_status({**status, "hosts": [], "links": [bare], "drops": {}})
