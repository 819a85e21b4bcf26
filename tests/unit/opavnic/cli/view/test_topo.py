"""`opavnic topo`: shapes and files, routes, drawings; mistakes in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.table_paths import paths
from hfi_sim.fabric.topology import Topology, generate
from hfi_sim.fabric.topology.ibnet import dumps
from hfi_sim.subnet_manager import SubnetManager
from opavnic.cli.base.output import Form, printing
from opavnic.cli.view.topo import topo
from opavnic.state.fabric import FaultsSet, FaultStatus, RoutesState, TopologyState

app = typer.Typer()
app.command()(topo)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def test_shape_is_printed_with_its_cables_and_the_deadlock_check() -> None:
    code, out, _ = run("clos", "leaves=2", "spines=1", "hosts=3")
    assert code == 0
    assert out.startswith("clos 2x1: 3 hosts, 3 switches, 5 cables\n")
    assert "    3  spine0:1  100G" in out
    assert out.endswith("routing min-hop: free of deadlock\n")


def test_torus_with_min_hop_could_deadlock_and_says_where() -> None:
    assert "routing min-hop: could deadlock: sw" in run("torus", "dims=4x4")[1]
    assert "routing up-down: free of deadlock" in run("torus", "dims=4x4", "--engine", "up-down")[1]


def test_routes_show_every_choice_on_the_way() -> None:
    code, out, _ = run("fat-tree", "k=4", "--routes", "h1", "h16", "--engine", "fat-tree")
    assert code == 0
    assert out == "h1:1 -> edge0-0:4|3 -> agg0-1:4|3 -> core3:4 -> agg3-1:2 -> edge3-1:2 -> h16:1\n"


def test_export_is_read_again_and_drawn(tmp_path: Path) -> None:
    exported, drawing = tmp_path / "fabric.topo", tmp_path / "fabric.svg"
    assert run("dragonfly", "routers=3", "--export", str(exported))[0] == 0
    code, out, _ = run(str(exported), "--svg", str(drawing), "--json")
    assert code == 0
    data = json.loads(out)
    assert len(data["nodes"]) == 24 + 12
    assert len(data["cables"]) == 24 + 12 + 6
    assert drawing.read_text().startswith("<svg ")


@pytest.fixture
def broken_lab(monkeypatch: pytest.MonkeyPatch) -> str:
    """A lab on two switches whose only cable between them is down; returns that cable's name."""
    topology = generate("clos", leaves=2, spines=1)
    fabric = topology.build(Fabric())
    manager = SubnetManager(fabric)
    manager.sweep()
    cable = next(link for link in fabric.links if link.name == "leaf1:3--spine0:2")
    fabric.set_link(cable, False)

    class Client:
        def __init__(self, *_: object) -> None:
            pass

        def read(self, _: object, path: str) -> TopologyState | RoutesState | FaultsSet:
            if path == "/faults":
                text = "loss on h1->leaf0"
                fault = FaultStatus(
                    number=3, fault=text, kind="loss", on="h1->leaf0", state="active", seen=0, hits=0
                )
                return FaultsSet(seed=1, faults=[fault])
            if path == "/topology":
                down = [link.name for link in fabric.links if not link.up]
                text = dumps(Topology.of_fabric(fabric))
                return TopologyState(
                    lab="x", ibnetdiscover=text, down=down, engine="min-hop", cycle=[], lids={}
                )
            assert path == "/routes?from=h1&to=h4"
            a, b = (fabric.hfis[name].ports[1] for name in ("h1", "h4"))
            ways = paths(fabric, a, b)
            return RoutesState(source=a.name, to=b.name, lid=b.lid, paths=ways, hops=[])

    monkeypatch.setattr("opavnic.lab.ownership.client.LabClient", Client)
    monkeypatch.setattr(
        "opavnic.lab.ownership.runtime.running_lab", lambda lab: (SimpleNamespace(control_socket=None), None)
    )
    return cable.name


def test_cable_that_is_down_is_marked_at_both_ends(broken_lab: str) -> None:
    code, out, _ = run()
    assert code == 0
    assert out.startswith("x: 4 hosts, 3 switches, 6 cables; ✕ 1 cable down, ⚠ 1 fault set\n")
    marked = [line for line in out.splitlines() if line.endswith("✕ down")]
    assert marked == ["    2  leaf1:3  100G  ✕ down", "    3  spine0:2  100G  ✕ down"]
    assert f"down: {broken_lab}" in out
    data = json.loads(run("--json")[1])
    (name,) = (cable["name"] for cable in data["cables"] if not cable["up"])
    assert sorted(name.split("--")) == sorted(broken_lab.split("--"))


def test_link_with_a_fault_is_marked_and_the_fault_is_said(broken_lab: str, tmp_path: Path) -> None:
    drawn = tmp_path / "lab.svg"
    out = run("--svg", str(drawn))[1]
    assert "    1  h1:1  100G  ⚠ 3\n" in out
    assert "\nfault 3: loss on h1->leaf0, active\n" in out
    data = json.loads(run("--json")[1])
    assert [cable["name"] for cable in data["cables"] if cable["faults"] == [3]] == ["h1:1--leaf0:1"]
    assert [fault["fault"] for fault in data["faults"]] == ["loss on h1->leaf0"]
    with printing(Form.CSV):
        assert re.search(r"^h1:1--leaf0:1,.*,True,up,3$", run()[1], re.M)
    for said in (drawn.read_text(), run("--format", "dot")[1], run("--format", "mermaid")[1]):
        assert "✕ down" in said
        assert "⚠ 3" in said


def test_route_over_a_link_that_is_down_fails(broken_lab: str) -> None:
    code, out, _ = run("--routes", "h1", "h4")
    assert code == 1
    assert "h4:1" not in out
    assert out.startswith("h1:1 -> leaf0:")
