"""The example of a package with a routing engine, a shape and a fault works as its README says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from program import ok

PROJECT = Path(__file__).parents[4] / "examples" / "own-fabric"


class Installed:
    """A directory of packages with what pip writes of one, and Python with it on its path."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def add(self, name: str, points: dict[str, dict[str, str]]) -> None:
        info = self.site / f"{name.replace('-', '_')}-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        text = (
            f"[{group}]\n" + "".join(f"{key} = {of}\n" for key, of in of.items())
            for group, of in points.items()
        )
        (info / "entry_points.txt").write_text("".join(text))

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.site), str(PROJECT)])
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": path},
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def opavnic(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "opavnic.cli.main", *words)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """The example, as pip installs it, without a build."""
    found = Installed(tmp_path / "site")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    found.add(project["name"], project["entry-points"])
    return found


def test_its_shape_and_its_engine_are_there_for_commands_and_lab_files(installed: Installed) -> None:
    shown = installed.opavnic("topo", "ring", "size=5", "--engine", "lowest-port")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("\nsw") == 5
    assert "routing lowest-port: could deadlock" in shown.stdout
    checked = installed.opavnic("validate", "lab.yaml")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "is valid: 5 hosts" in checked.stdout


def test_its_fault_runs_in_a_lab_in_memory_as_any_other_does(installed: Installed) -> None:
    run = installed.python("-c", RUN)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.split("\n") == [
        "1e+09 waiting",
        "1e+08 active",
        "1e+09 waiting",
        "1e+08 active",
        "brown-out on sw0 after=10s every=60s",
        "",
    ]


RUN = """
from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology import generate
from hfi_sim.engine.link.config import LinkConfig
clock = ManualClock()
fabric = generate("ring", hosts=5, size=5).build(Fabric(clock), link=LinkConfig(rate_bps=1e9))
faults = Faults(fabric)
faults.add("brown-out on sw0 after=10s every=60s")
link = fabric.switches["sw0"].ports[1].link
for pause_s in (5, 6, 5, 55):
    clock.advance(pause_s)
    print(f"{link.directions[0].rate_bps:g}", faults.show()[0]["state"])
print(faults.show()[0]["fault"])
"""


def test_a_package_that_cannot_be_loaded_is_named_where_it_is_used_and_nowhere_else(tmp_path: Path) -> None:
    broken = Installed(tmp_path / "site")
    broken.add(
        "half-fabric",
        {
            "opavnic.routing": {"odd": "nowhere:odd"},
            "opavnic.topologies": {"odd": "nowhere:ODD", "wrong": "json:dumps"},
            "opavnic.faults": {"odd": "nowhere:ODD", "wrong": "json:dumps"},
        },
    )
    ok(broken.opavnic("topo", "clos", "leaves=2"))
    for words, why in {
        (
            "topo",
            "odd",
        ): "topology odd of half-fabric: cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
        ("topo", "wrong"): "topology wrong of half-fabric: json:dumps is not a Shape",
        ("topo", "clos", "--engine", "odd"): "routing engine odd of half-fabric: ModuleNotFoundError",
        ("fault", "add", "odd", "on", "h1"): "fault odd of half-fabric cannot be loaded: ModuleNotFoundError",
        (
            "fault",
            "add",
            "wrong",
            "on",
            "h1",
        ): 'fault wrong of half-fabric: json:dumps is not an OwnKind named "wrong"',
    }.items():
        refused = broken.opavnic(*words)
        assert refused.returncode in (1, 2), words
        assert why in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr
