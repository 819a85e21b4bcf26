"""The matrix of `opavnic check` says what was asked, and names what was not."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Address, IPv6Address

from opavnic.cli.base.output import Sheet
from opavnic.cli.labs.check import check_items
from opavnic.lab.run.reach.plan import EchoKind, PairSample, ProbeOutcome, ReachReport, VnicPlace, plan


def place(host: str, index: int, *, has_address: bool = True) -> VnicPlace:
    return VnicPlace(
        host, "blue", "blue", index, 1500, IPv4Address("10.0.0.0") + index if has_address else None, None
    )


def text(report: ReachReport, not_asked: list[dict[str, str]]) -> list[str]:
    data = report.as_json("x") | {"down": [], "not_asked": not_asked}
    lines = []
    for item in check_items(data):
        if isinstance(item, Sheet):
            lines += [" ".join(map(str, row)) for row in item.rows]
        else:
            lines.append(item)
    return lines


def test_vnic_without_an_address_is_not_said_to_be_reached() -> None:
    places = (place("h1", 1), place("h2", 2), place("bridged", 3, has_address=False))
    outcomes = tuple(ProbeOutcome(probe, 0.001, probe.kind is EchoKind.OVERSIZE) for probe in plan(places))
    lines = text(ReachReport(places, outcomes, 1.0), [{"vesw": "blue", "host": "bridged"}])
    assert lines[:3] == ["h1 -. 1", "h2 .- 1", "not asked, without an address or alone: bridged.blue"]
    assert lines[3].startswith("lab x: every host reaches all members")


def test_pair_that_fails_is_marked_where_it_stands() -> None:
    places = (place("h1", 1), place("h2", 2), place("h3", 3))
    outcomes = tuple(
        ProbeOutcome(
            probe,
            None if str(probe.source) == "h3.blue" and str(probe.target) == "h1.blue" else 0.001,
            probe.kind is EchoKind.OVERSIZE,
        )
        for probe in plan(places)
    )
    lines = text(ReachReport(places, outcomes, 1.0), [])
    assert lines[:3] == ["h1 -.. 2", "h2 .-. 2", "h3 X.- 1"]
    assert "lab x: 2 failures (15 probes, 1 s)" in lines


def asked(places: tuple[VnicPlace, ...], sample: PairSample) -> list[tuple[str, str]]:
    probes = plan(places, sample)
    return [(str(it.source), str(it.target)) for it in probes if it.kind is EchoKind.IPV4]


def test_large_virtual_switch_is_asked_by_a_sample_in_which_each_vnic_asks_and_is_asked_equally_often() -> (
    None
):
    places = tuple(place(f"h{number}", number) for number in range(1, 1001))
    pairs = asked(places, PairSample(seed=3))
    assert len(set(pairs)) == len(pairs)
    assert set(Counter(source for source, _ in pairs).values()) == {4}
    assert set(Counter(target for _, target in pairs).values()) == {4}
    assert asked(places, PairSample(seed=3)) == pairs
    assert asked(places, PairSample(seed=4)) != pairs


def test_all_pairs_of_a_small_virtual_switch_are_asked_and_of_a_large_one_where_that_is_wanted() -> None:
    places = tuple(place(f"h{number}", number) for number in range(1, 151))
    for count, sample in ((141, PairSample()), (150, PairSample(everything=True))):
        assert len(asked(places[:count], sample)) == count * (count - 1)
    assert len(asked(places, PairSample())) < 150 * 149


def test_large_virtual_switch_has_a_line_that_says_of_how_many_the_sample_is() -> None:
    places = tuple(place(f"h{number}", number) for number in range(1, 1001))
    sample = PairSample(seed=3)
    lost = ("h1.blue", asked(places, sample)[0][1])
    outcomes = tuple(
        ProbeOutcome(
            probe,
            None if (str(probe.source), str(probe.target)) == lost else 0.001,
            probe.kind is EchoKind.OVERSIZE,
        )
        for probe in plan(places, sample)
    )
    report = ReachReport(places, outcomes, 1.0, sample)
    lines = text(report, [])
    assert lines[0] == (
        "blue: 3999 of 4000 pairs reached, a sample of 999000 with seed 3; all with: opavnic check --all"
    )
    assert len(lines) < 10
    assert report.as_json("x")["sampled"] == [{"vesw": "blue", "vnics": 1000, "asked_by_each": 4}]


def test_vnic_that_is_alone_on_its_host_is_asked_about_its_mtu_beyond_the_host() -> None:
    """A packet for an address of the host itself passes through its loopback interface, whose MTU is another."""
    places = [
        VnicPlace("h1", "solo", "solo", 3, 1500, None, IPv6Address("fe80::1")),
        VnicPlace("h1", "two", "two", 4, 1500, IPv4Address("10.9.4.1"), None),
        VnicPlace("h1", "two", "two-2", 5, 1500, IPv4Address("10.9.4.2"), None),
        VnicPlace("h1", "blue", "blue", 6, 1500, IPv4Address("10.9.2.1"), None),
        VnicPlace("h2", "blue", "blue", 2, 1500, IPv4Address("10.9.2.2"), None),
    ]
    asked = [
        (probe.source.interface, str(probe.address))
        for probe in plan(places)
        if probe.kind is EchoKind.OVERSIZE and probe.source.host == "h1"
    ]
    assert asked == [
        ("solo", "ff02::1"),
        ("two", "224.0.0.1"),
        ("two-2", "224.0.0.1"),
        ("blue", "10.9.2.2"),
    ]
