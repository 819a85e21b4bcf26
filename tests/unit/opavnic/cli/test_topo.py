"""`opavnic topo`: shapes and files, routes, drawings; mistakes in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from opavnic.cli.topo import topo

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
    assert "  └─ 3   spine0:1  100G" in out
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
    assert drawing.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["clsos"], 2, 'opavnic: unknown topology "clsos" (nearest: "clos"; known:'),
        (["clos", "leafs=2"], 2, 'opavnic: topology clos: unknown option "leafs" (nearest: "leaves"'),
        (["clos", "leaves"], 2, 'opavnic: "leaves" is not NAME=NUMBER such as k=4'),
        (["clos", "--routes", "h1", "h9"], 2, 'opavnic: unknown host "h9" (nearest: "h4"'),
        (["clos", "--engine", "minhop"], 2, 'opavnic: unknown routing engine "minhop" (nearest: "min-hop"'),
        (["nowhere.topo"], 2, "opavnic: nowhere.topo: No such file or directory"),
        (
            ["."],
            2,
            "opavnic: . is a directory; give a file of ibnetdiscover, or a shape (single-switch, fat-",
        ),
        ([sys.executable], 2, "not UTF-8 text (byte"),
        (["mesh", "dims=99999x99999"], 2, "nodes and cables; the most is 262144"),
        (["fat-tree", "k=" + "9" * 5000], 2, "is not NAME=NUMBER such as k=4"),
        (
            ["clos", "--svg", "/nonexistent/x.svg"],
            1,
            "opavnic: /nonexistent/x.svg cannot be written: No such file",
        ),
    ],
)
def test_mistakes_are_one_line_with_the_nearest_name(arguments: list[str], code: int, message: str) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert len(err.splitlines()) == 1
