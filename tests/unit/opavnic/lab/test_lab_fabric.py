"""Topologies and faults of labs: in the file, and through the control API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.testing
from aiohttp import ClientSession, UnixConnector

from hfi_sim.counters import Drop
from opavnic.cli.fault import app
from opavnic.lab.control import ControlServer
from opavnic.lab.errors import ConfigError
from opavnic.lab.fabric_routes import routes
from opavnic.lab.lab import Lab
from opavnic.lab.loader import parse_lab

LAB = """
name: fabric-lab
fabric:
  topology: {kind: clos, leaves: 2, spines: 2}
  routing: up-down
hosts: {h1: {}, h2: {}, h3: {hfis: 2}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h3]}
faults:
  - {kind: loss, on: h1, l4: ethernet, count: 1}
"""
EXPLICIT = """
name: explicit
fabric:
  topology:
    kind: explicit
    switches: {left: {ports: 8}, right: {}}
    links:
      - [h1, "left:1"]
      - {ends: [h2, "right:1"], rate: 25G, latency: 1us}
      - ["left:8", "right:8"]
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""


async def start(text: str) -> Lab:
    return Lab(parse_lab(text, "lab.yaml"), netdev="memory", timer_resolution_s=0.0)


@pytest.mark.looptime
async def test_lab_on_a_clos_with_a_fault_of_its_own_carries_pings() -> None:
    async with await start(LAB) as lab:
        fabric = lab.wiring.fabric
        assert list(fabric.switches) == ["spine0", "spine1", "leaf0", "leaf1"]
        assert list(fabric.hfis) == ["em", "h1", "h2", "h3", "h3.2"]
        assert lab.wiring.em_port.lid == 1
        h1, h3 = lab.interface("h1", "blue"), lab.interface("h3", "blue")
        assert h1.memory_host is not None
        assert h3.address is not None
        answered = [await h1.memory_host.ping(h3.address.ip, 1) for _ in range(2)]  # type: ignore[arg-type]
        assert answered == [0, 1]
        assert fabric.drops()["h1:1->leaf0:1"] == {Drop.LINK_FAULT: 1}
        assert fabric.balance() == {}


@pytest.mark.looptime
async def test_lab_with_an_explicit_topology_has_its_rates() -> None:
    async with await start(EXPLICIT) as lab:
        rates = {link.name: (link.rate_bps, link.latency_s) for link in lab.wiring.fabric.links}
        assert rates["h2:1--right:1"] == (25e9, 1e-6)
        assert rates["h1:1--left:1"] == (100e9, 300e-9)
        h1, h2 = lab.interface("h1", "blue"), lab.interface("h2", "blue")
        assert h1.memory_host is not None
        assert await h1.memory_host.ping(h2.address.ip, 1) == 1  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize(
    ("text", "change", "message"),
    [
        (LAB, ("spines: 2", "spins: 2"), r"lab.yaml:4: fabric.topology.spins: unknown key .*nearest: spines"),
        (LAB, ("leaves: 2", "leaves: 1"), "lab.yaml:4: fabric.topology: clos 1x2 has room for 2 HFI ports"),
        (
            LAB,
            ("on: h1", "on: h9"),
            r'lab.yaml:10: faults\[0\]: unknown link, port or node "h9" \(nearest: "h',
        ),
        (LAB, ("kind: loss", "kind: los"), r'lab.yaml:10: faults\[0\]: unknown fault "los"'),
        (EXPLICIT, ("left:1", "lef:1"), r'lab.yaml:4: fabric.topology: links\[0\]: .*unknown node "lef"'),
        (EXPLICIT, ('      - [h1, "left:1"]\n', ""), "hosts.h1: host 'h1' is linked to nothing"),
        (EXPLICIT, ("rate: 25G", "rate: 0"), r"links\[1\]: 0: a rate is above 0"),
    ],
)
def test_fabric_that_cannot_be_is_refused_with_its_line(
    text: str, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text.replace(*change), "lab.yaml")
    assert re.search(message, str(caught.value)), str(caught.value)


async def test_control_api_sets_lists_and_removes_faults_and_shows_routes(tmp_path: Path) -> None:
    async with await start(LAB) as lab:
        server = ControlServer(tmp_path / "sock", routes(lab))
        await server.start()
        async with ClientSession("http://lab", connector=UnixConnector(str(tmp_path / "sock"))) as http:

            async def post(path: str, **body: object) -> tuple[int, dict[str, object]]:
                async with http.post(path, json=body) as answer:
                    return answer.status, await answer.json()

            async def get(path: str) -> dict[str, object]:
                async with http.get(path) as answer:
                    return dict(await answer.json())

            status, data = await post("/faults", fault="link-down on leaf0--spine0")
            assert (status, data["number"]) == (200, 2)
            topology = await get("/topology")
            assert topology["engine"] == "up-down"
            assert [str(name).split(":")[0] for name in topology["down"]] == ["leaf0"]  # type: ignore[attr-defined]
            paths = (await get("/routes?from=h1&to=h3"))["paths"]
            assert paths == [["h1:1", "leaf0:4", "spine1:2", "leaf1:1", "h3:1"]]
            status, data = await post("/faults", fault="loss on h77")
            assert status == 409
            assert str(data["error"]).startswith('unknown link, port or node "h77" (nearest: "h')
            assert (await post("/faults/remove", number=9))[1][
                "error"
            ] == "no fault has the number 9 (set: 1, 2)"
            status, data = await post("/faults/remove", number=2)
            assert len(data["faults"]) == 1  # type: ignore[arg-type]
            await post("/faults/remove", number=None)
            assert await get("/faults") == {"seed": 1, "faults": []}
        await server.close()


def test_fault_that_makes_no_sense_is_refused_before_any_lab_is_asked() -> None:
    result = typer.testing.CliRunner().invoke(app, ["add", "los", "on", "h1"])
    assert result.exit_code == 2
    assert 'opavnic: unknown fault "los" (nearest: "loss"' in result.stderr
