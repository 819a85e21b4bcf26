"""The matrix of `opavnic check` says what was asked, and names what was not."""

from __future__ import annotations

from ipaddress import IPv4Address

from opavnic.cli.base.output import Sheet
from opavnic.cli.labs.check import check_items
from opavnic.lab.run.reach_plan import EchoKind, ProbeOutcome, ReachReport, VnicPlace, plan


def place(host: str, index: int, *, has_address: bool = True) -> VnicPlace:
    return VnicPlace(
        host, "blue", "blue", index, 1500, IPv4Address(f"10.0.0.{index}") if has_address else None, None
    )


def text(report: ReachReport, not_asked: list[dict[str, str]]) -> list[str]:
    data = report.as_json("x") | {"down": [], "not_asked": not_asked}
    lines = []
    for item in check_items(report, data):
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
