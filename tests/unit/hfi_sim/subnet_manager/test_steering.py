"""Ways that a program gives switches: they hold at once and over sweeps, and what cannot be is refused."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.errors import FabricError
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.table_paths import paths
from hfi_sim.fabric.topology import clos, torus
from hfi_sim.routing import ENGINES, Routes, SwitchGraph, min_hop
from hfi_sim.subnet_manager import Routing, SubnetManager

EXAMPLE = Path(__file__).parents[4] / "examples/own-fabric/steer.py"


class Steered:
    """Two leaves, two spines."""

    def __init__(self) -> None:
        self.fabric = clos(2, 2).build(Fabric(ManualClock()))
        self.sm = SubnetManager(self.fabric)
        self.sm.sweep()
        self.source, self.target = (self.fabric.hfis[name].ports[1] for name in ("h1", "h3"))

    @property
    def step(self) -> str:
        return paths(self.fabric, self.source, self.target)[0][1]


def test_a_way_holds_over_sweeps_until_it_is_taken_back_or_its_link_is_cut() -> None:
    bed = Steered()
    before = bed.step
    for port in (3, 4):
        bed.sm.steer({"leaf0": {bed.target.lid: port}})
        assert bed.step == f"leaf0:{port}"
        bed.sm.sweep()
        assert bed.step == f"leaf0:{port}"
    link = bed.fabric.switches["leaf0"].ports[4].link
    assert link is not None
    bed.fabric.set_link(link, False)
    assert bed.step == "leaf0:3"
    bed.fabric.set_link(link, True)
    assert bed.step == "leaf0:4"
    bed.sm.steer({})
    assert bed.step == before


@pytest.mark.parametrize(
    ("steering", "why"),
    [
        ({"leaf9": {1: 3}}, 'unknown switch "leaf9"'),
        ({"leaf0": {1: 40}}, "switch leaf0 has no port 40"),
        ({"leaf0": {0x999: 3}}, "no port of the fabric has the LID 0x999"),
        ({"spine0": {3: 1}}, "packets to LID 0x3 would go round in a circle by "),
        ({"leaf0": {3: 1}}, "LID 0x3 is not behind port 1"),
        ({"leaf1": {3: 3}}, "LID 0x3 is at its port 1"),
    ],
)
def test_a_way_that_leads_nowhere_is_refused_and_changes_nothing(
    steering: dict[str, dict[int, int]], why: str
) -> None:
    bed = Steered()
    before = bed.step
    with pytest.raises(FabricError, match=why):
        bed.sm.steer(steering)
    bed.sm.sweep()
    assert bed.step == before


def test_ways_that_could_deadlock_are_refused_where_links_have_credits() -> None:
    fabric = torus((6,)).build(Fabric(ManualClock()), link=LinkConfig(flow=FlowControl()))
    sm = SubnetManager(fabric, routing=Routing(engine="up-down"))
    sm.sweep()
    ahead = {}
    for number in range(6):
        switch, beside = fabric.switches[f"sw{number}"], f"sw{(number + 1) % 6}:"
        (port,) = (own.port_num for own, far in fabric.neighbours(switch) if far.name.startswith(beside))
        hosts = [fabric.hfis[f"h{(number + step) % 6 + 1}"] for step in range(1, 6)]
        ahead[switch.name] = {host.ports[1].lid: port for host in hosts}
    with pytest.raises(FabricError, match="can deadlock on links with credits"):
        sm.steer(ahead)


def test_an_engine_of_ones_own_is_an_engine_like_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(graph: SwitchGraph) -> Routes:
        return Routes([[ports[:1] for ports in row] for row in min_hop(graph).hops])

    monkeypatch.setitem(ENGINES, "first", first)
    fabric = clos(2, 2).build(Fabric(ManualClock()))
    SubnetManager(fabric, routing=Routing(engine="first")).sweep()
    assert all(
        len(switch.lft.next_hops(lid)) == 1 for switch in fabric.switches.values() for lid in switch.lft
    )


def test_the_example_moves_a_way_from_spine_to_spine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "lowest-port", min_hop)  # the example sets its own, and it is taken back
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" -> ")[2].split(":")[0] for line in lines] == ["spine0", "spine1", "spine2", "spine0"]
