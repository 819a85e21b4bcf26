"""Faults of one's own begin, repeat and end as all others; what their functions do wrong is told with their name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.errors import FaultError
from hfi_sim.engine.link.rule import Match
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults import (
    KINDS,
    FaultSpec,
    FaultTarget,
    OwnKind,
    links_of,
    parse_fault,
    register,
    spec_text,
)
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology import clos


class Bed:
    """A Clos, its faults, and a kind that cuts the links to spines."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.fabric = clos(2, 2, hosts_per_leaf=2, hosts=1).build(Fabric(self.clock))
        self.faults = Faults(self.fabric)
        self.broken = False
        register(OwnKind("uplinks-down", self._cut))

    def _cut(self, fabric: Fabric, place: str, by: str) -> Callable[[], None]:
        if self.broken:
            raise ZeroDivisionError("no uplinks left")
        held = [link for link in links_of(fabric, place) if "spine" in link.name]
        fabric.set_links(held, False, by=by)
        return lambda: fabric.set_links(held, True, by=by)

    @property
    def down(self) -> int:
        return sum(not link.up for link in self.fabric.links)


@pytest.fixture
def bed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    monkeypatch.setattr(KINDS, "_rows", dict(KINDS))
    return Bed()


def test_it_begins_repeats_and_ends_when_a_line_says(bed: Bed) -> None:
    text = "uplinks-down on leaf0 after=1s for=2s every=5s count=2"
    assert spec_text(parse_fault(text)) == text
    bed.faults.add(text)
    seen = []
    for _ in range(12):
        bed.clock.advance(0.999)
        seen.append(bed.down)
    assert seen == [0, 2, 2, 0, 0, 0, 2, 2, 0, 0, 0, 0]
    (shown,) = bed.faults.show()
    assert (shown["kind"], shown["state"], shown["hits"]) == ("uplinks-down", "over", 2)


def test_two_of_them_hold_the_same_links_until_both_let_go(bed: Bed) -> None:
    first, second = (bed.faults.add("uplinks-down on leaf0").number for _ in range(2))
    bed.faults.remove(first)
    assert bed.down == 2
    bed.faults.remove(second)
    assert bed.down == 0


def test_a_cable_that_is_laid_meanwhile_is_included(bed: Bed) -> None:
    bed.faults.add("uplinks-down on leaf0")
    spine = bed.fabric.add_switch("spine9", ports=2)
    free = next(port for port in bed.fabric.switches["leaf0"].ports.values() if port.link is None)
    bed.fabric.connect(free, spine.ports[1])
    bed.faults.extend()
    assert bed.down == 3
    bed.faults.clear()
    assert bed.down == 0


def test_a_function_that_fails_at_once_refuses_the_fault(bed: Bed) -> None:
    bed.broken = True
    with pytest.raises(FaultError, match=r"^fault uplinks-down: ZeroDivisionError: no uplinks left$"):
        bed.faults.add("uplinks-down on leaf0")
    assert bed.faults.show() == []


def test_a_function_that_fails_later_is_over_and_logged(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    bed.faults.add("uplinks-down on leaf0 after=1s")
    bed.broken = True
    bed.clock.advance(2)
    assert bed.faults.show()[0]["state"] == "over"
    assert "fault 1 is over: fault uplinks-down: ZeroDivisionError: no uplinks left" in caplog.text


def test_a_function_that_returns_nothing_is_told_so(bed: Bed) -> None:
    register(OwnKind("silent", lambda _fabric, _place, _by: None))  # type: ignore[arg-type, return-value] # the mistake
    with pytest.raises(
        FaultError, match=r"^fault silent: begin returned NoneType, and no function that ends it$"
    ):
        bed.faults.add("silent on leaf0")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("uplinks-down on leaf9", 'unknown link, port or node "leaf9"'),
        ("uplinks-dwn on leaf0", r'unknown fault "uplinks-dwn" \(nearest: "uplinks-down"'),
        ("uplinks-down on leaf0 20%", "fault uplinks-down has no option probability"),
        ("uplinks-down on leaf0 rate=1G", "fault uplinks-down has no option rate; it is for rate"),
        (
            "uplinks-down on leaf0 l4=mad",
            "fault uplinks-down acts on links and nodes; it cannot choose packets",
        ),
        ("uplinks-down on leaf0 direction=tx", "fault uplinks-down acts on links and nodes"),
        ("uplinks-down on leaf0 every=1s", "every= repeats a fault that ends"),
    ],
)
def test_what_it_cannot_do_is_refused(bed: Bed, line: str, why: str) -> None:
    with pytest.raises(FaultError, match=why):
        bed.faults.add(line)


@pytest.mark.parametrize("name", ["", "two words", "loss", "tab\t"])
def test_a_name_that_cannot_stand_in_a_line_is_refused(name: str) -> None:
    with pytest.raises(FaultError, match="a kind of faults cannot be called"):
        OwnKind(name, lambda *_: lambda: None)


@pytest.mark.parametrize("target", [FaultTarget.PACKETS, FaultTarget.PROGRAM])
def test_packets_and_programs_are_left_to_the_simulators_own(target: FaultTarget) -> None:
    with pytest.raises(FaultError, match="one's own act on links, a switch, an HFI or nodes"):
        OwnKind("mine", lambda *_: lambda: None, target)


def test_a_spec_takes_the_kind_itself(bed: Bed) -> None:
    kind = OwnKind("switch-off", lambda *_: lambda: None, FaultTarget.SWITCH, lasts_s=1.0)
    bed.faults.add(FaultSpec(kind, "leaf0", match=Match()))
    bed.clock.advance(2)
    assert bed.faults.show()[0]["state"] == "over"
