"""Containers of podman and docker themselves as hosts of a lab, by the commands that the example gives.

`make test-guests` runs them too.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.container_engines import Containers, containers
from e2e.example_commands import commands
from program import ok, run_program, started

EXAMPLE = Path(__file__).parents[2] / "examples" / "guests.yaml"
Opavnic = Callable[..., "subprocess.CompletedProcess[str]"]
LAB = """name: {lab}
hosts: {{h1: {{}}, web: {{container: web{engine}}}}}
vesws: [{{id: 5, name: blue, pkey: 0x8005, subnet: 10.9.5.0/24, members: [h1, web]}}]
"""


pytestmark = pytest.mark.slow


@pytest.fixture(params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[Containers]:
    """An engine with the container `web`, made by the command of the example."""
    (command,) = commands(EXAMPLE, request.param)
    with containers(request.param, image=command[-1]) as its:
        its.run(*command[1:])
        yield its


@pytest.fixture
def opavnic(engine: Containers, tmp_path: Path, opavnic: Opavnic) -> Opavnic:
    """The program where this engine is the one that is found."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return run_program(words, _environment(engine, tmp_path))

    return run


def _environment(engine: Containers, tmp_path: Path) -> dict[str, str]:
    return engine.environment | {"OPAVNIC_RUNTIME_DIR": str(tmp_path / "run")}


def up(opavnic: Opavnic, engine: Containers, tmp_path: Path) -> None:
    told = f", engine: {engine.engine}"
    (tmp_path / "lab.yaml").write_text(LAB.format(lab=f"c{os.getpid()}", engine=told))
    ok(opavnic("up", str(tmp_path / "lab.yaml"), "-d"))


def test_container_is_a_host_and_stays_when_the_lab_goes(
    opavnic: Opavnic, engine: Containers, tmp_path: Path
) -> None:
    up(opavnic, engine, tmp_path)
    assert "1 packets received" in engine.run("exec", "web", "ping", "-c1", "-W10", "10.9.5.1")
    assert "1 received" in ok(opavnic("exec", "h1", "--", "ping", "-c1", "-W10", "web"))
    its_name = engine.run("exec", "web", "hostname")
    assert ok(opavnic("exec", "web", "--", "hostname")) == its_name != "web\n", (
        "not a program of the container"
    )
    assert opavnic("exec", "web", "--", "sh", "-c", "exit 3").returncode == 3
    checked = json.loads(ok(opavnic("check", "--json")))
    assert checked["ok"], checked
    assert f"interface blue in container web of {engine.engine}" in ok(opavnic("down"))
    assert engine.has("web"), "a lab ended a container"
    links = engine.run("exec", "web", "ip", "link")
    assert ("blue" in links, "lo:" in links) == (False, True)


def test_container_that_ends_is_lost_and_joins_again_with_the_next_lab(
    opavnic: Opavnic, engine: Containers, tmp_path: Path
) -> None:
    up(opavnic, engine, tmp_path)
    with started(["logs", "--follow"], stdout=-1, env=_environment(engine, tmp_path)) as logs:
        engine.run("kill", "web")
        assert logs.stdout is not None
        assert any("its VNICs are gone" in line for line in logs.stdout)
    hosts = {
        row["name"]: row["vnics"][0]["state"] for row in json.loads(ok(opavnic("status", "--json")))["hosts"]
    }
    assert hosts == {"h1": "up", "web": f"lost: container web of {engine.engine} has ended"}
    gone = opavnic("exec", "web", "--", "true")
    assert gone.returncode == 1
    assert gone.stderr.startswith("opavnic: host web is lost: container ")
    ok(opavnic("down"))
    stopped = opavnic("up", str(tmp_path / "lab.yaml"), "-d")
    assert (
        f'container "web" of {engine.engine} does not run; start it: {engine.engine} start web'
        in stopped.stderr
    )
    engine.run("start", "web")
    ok(opavnic("up", str(tmp_path / "lab.yaml"), "-d"))
    assert "1 received" in ok(opavnic("exec", "h1", "--", "ping", "-c1", "-W10", "web"))
    ok(opavnic("down"))
    image = engine.run("container", "inspect", "--format", "{{.Config.Image}}", "web").strip()
    engine.run("run", "-d", "--name", "near", "--network", "host", image)
    lab = (tmp_path / "lab.yaml").read_text()
    (tmp_path / "lab.yaml").write_text(lab.replace("container: web", "container: near"))
    near = opavnic("up", str(tmp_path / "lab.yaml"), "-d")
    assert (
        f"container near of {engine.engine} shares the network of the machine: write netns: host"
        in near.stderr
    )
