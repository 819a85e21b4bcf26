"""Rates from two looks at a lab: never negative, and nothing is lost between one look and the next."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_states import host_state, lab_state, link_state, vnic_state

from opavnic.base.state import counters_of
from opavnic.observe.rates import Order, Paces, Rates, as_json, in_order, is_on, rates
from opavnic.state.lab import HostStatus, LabState, LinkStatus, VnicStatus

VNIC, LINK = list(counters_of(VnicStatus)), list(counters_of(LinkStatus))
NAMES = ("h1", "h2", "h10")
REASONS = ("link_fault", "link_down")
EMPTY = lab_state()


def host(name: str, **counts: int) -> HostStatus:
    return host_state(name, vnic_state(**counts))


def link(host: str, **counts: int) -> LinkStatus:
    return link_state(f"{host}:1->sw0:1", **counts)


counts = st.integers(0, 1 << 64)
hosts = st.lists(st.sampled_from(NAMES), unique=True)


@st.composite
def samples(draw: st.DrawFn) -> LabState:
    """One look at a lab whose elements come and go and whose counters do what they like."""
    drops = {name: draw(st.dictionaries(st.sampled_from(REASONS), counts)) for name in draw(hosts)}
    vnics = [host(name, **{counter: draw(counts) for counter in VNIC}) for name in draw(hosts)]
    links = [link(name, **{counter: draw(counts) for counter in LINK}) for name in draw(hosts)]
    return lab_state(mads=draw(counts), hosts=vnics, links=links, drops=drops)


seconds = st.floats(0.001, 1e5)


@given(samples(), samples(), seconds)
def test_rates_are_never_negative_whatever_came_went_or_was_made_anew(
    before: LabState, after: LabState, seconds: float
) -> None:
    found = rates(before, after, seconds)
    shown = [number for row in (*found.vnics, *found.links) for number in row[-1].values()]
    assert all(number >= 0 for number in (*shown, found.mads))
    assert all(drop.per_second > 0 for drop in found.drops)
    assert [(one, vnic) for one, vnic, _ in found.vnics] == list(after.vnics())
    assert [one for one, _ in found.links] == list(after.links)
    json.dumps(as_json(found, 0.0), allow_nan=False)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 100)), min_size=1), st.integers(0, 1 << 48))
def test_rates_of_all_intervals_add_up_to_what_was_counted(steps: list[tuple[int, int]], first: int) -> None:
    looks = []
    for total in itertools.accumulate((growth for growth, _ in steps), initial=first):
        traffic = {counter: times * total for times, counter in enumerate(VNIC, 1)}
        looks.append(
            lab_state(mads=total, hosts=[host("h1", **traffic)], drops={"h1": {"link_fault": total}})
        )
    sums = dict.fromkeys(VNIC, 0.0)
    mads = drops = 0.0
    for (before, after), (_, seconds) in zip(itertools.pairwise(looks), steps, strict=True):
        found = rates(before, after, seconds)
        for counter, pace in found.vnics[0][-1].items():
            sums[counter] += pace * seconds
        mads += found.mads * seconds
        drops += sum(drop.per_second * seconds for drop in found.drops)
    counted = sum(growth for growth, _ in steps)
    expected = {
        counter: times * counted * (8 if "bytes" in counter else 1) for times, counter in enumerate(VNIC, 1)
    }
    assert sums == pytest.approx(expected)
    assert (mads, drops) == pytest.approx((counted, counted))


def test_counter_that_went_back_counts_as_from_zero() -> None:
    first = host("h1", tx_packets=100, tx_bytes=6000, rx_packets=7, rx_bytes=70, drops=3)
    then = host("h1", tx_packets=4, tx_bytes=240, rx_packets=9, rx_bytes=90, drops=0)
    before = lab_state(hosts=[first], drops={"h1": {"link_fault": 9}})
    after = lab_state(hosts=[then], drops={"h1": {"link_fault": 2}})
    found = rates(before, after, 2.0)
    paces: Paces = {"tx_packets": 2.0, "tx_bytes": 960.0, "rx_packets": 1.0, "rx_bytes": 80.0, "drops": 0.0}
    assert found.vnics[0][-1].items() >= paces.items()
    assert [(drop.per_second, drop.total) for drop in found.drops] == [(1.0, 2)]


def test_element_that_appeared_counts_as_from_zero_and_one_that_vanished_is_not_shown() -> None:
    before = lab_state(hosts=[host("h1", tx_packets=100)], links=[link("h1", packets_forth=100)])
    after = lab_state(hosts=[host("h2", tx_packets=10)], links=[link("h2", packets_forth=10)])
    found = rates(before, after, 5.0)
    assert [(one.name, paces["tx_packets"]) for one, _, paces in found.vnics] == [("h2", 2.0)]
    assert [(one.name, paces["packets_forth"]) for one, paces in found.links] == [("h2:1->sw0:1", 2.0)]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_rate_over_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="a rate needs more than 0"):
        rates(EMPTY, EMPTY, seconds)


def busy(**packets: int) -> Rates:
    hosts = [host(name, tx_packets=n, tx_bytes=n) for name, n in packets.items()]
    return rates(EMPTY, lab_state(hosts=hosts), 1)


def test_order_by_name_counts_as_people_do_and_order_by_load_begins_with_the_busiest() -> None:
    found = busy(h10=5, h2=7, h1=5)
    assert [one.name for one, *_ in in_order(found, Order.NAME).vnics] == ["h1", "h2", "h10"]
    assert [one.name for one, *_ in in_order(found, Order.LOAD).vnics] == ["h2", "h1", "h10"]


def test_drop_counters_that_grew_are_named_the_fastest_first_and_others_are_left_out() -> None:
    before = lab_state(drops={"h1": {"link_fault": 5, "link_down": 1}})
    after = lab_state(drops={"h1": {"link_fault": 5, "link_down": 2}, "h2": {"link_fault": 10}})
    found = rates(before, after, 2.0)
    assert [(drop.element, drop.reason, drop.per_second, drop.total) for drop in found.drops] == [
        ("h2", "link_fault", 5.0, 10),
        ("h1", "link_down", 0.5, 2),
    ]
    assert as_json(found, 0.0)["drops"] == {"h2": {"link_fault": 5.0}, "h1": {"link_down": 0.5}}


def test_state_of_another_version_is_refused_with_what_it_lacks() -> None:
    said = lab_state(links=[link("h1")]).as_json()
    assert LabState.of_json(said).as_json() == said
    del said["links"][0]["bytes_forth"]
    with pytest.raises(ValueError, match=r"^links\.0\.bytes_forth: Field required$"):
        LabState.of_json(said)


@pytest.mark.parametrize(
    ("fault", "place", "found"),
    [
        ("h1", "h1", True),
        ("h1:1", "h1", True),
        ("h11", "h1", False),
        ("h1--sw0", "h1:1--sw0:2", True),
        ("sw0:2->h1:1", "h1:1--sw0:2", True),
        ("h1:1--sw0:3", "h1:1--sw0:2", False),
        ("*", "h1:1--sw0:2", False),
    ],
)
def test_fault_is_on_a_place_however_it_was_written(fault: str, place: str, found: bool) -> None:
    assert is_on(fault, place) is found
