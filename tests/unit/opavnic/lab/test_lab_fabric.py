"""Topologies and faults of labs: in the file, and through the control API."""

from __future__ import annotations

import asyncio
import re
from io import BytesIO
from pathlib import Path

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults import FaultKind
from lab_in_memory import lab_in_memory, pings, served
from opavnic.cli.main import main
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.fabric_model import Credits, LinkModel
from opavnic.lab.file.loader import losses, parse_lab
from opavnic.lab.file.topology import lab_topology
from opavnic.lab.run.daemon import lab_routes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub

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

LINK = """
name: lossless
fabric: {link: {rate: 10G, latency: 1us, jitter: 1us, queue: 1M, credits: {vls: 2, buffer: 32K, weights: [3, 1]}}}
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""


def wired(text: str) -> Fabric:
    """Return the fabric of a lab without anything on it."""
    model = parse_lab(text, "lab.yaml")
    topology = lab_topology(model.fabric, model.hosts, ["em"])
    return topology.build(Fabric())


@pytest.mark.looptime
async def test_lab_on_a_clos_with_a_fault_of_its_own_carries_pings() -> None:
    async with lab_in_memory(LAB) as lab:
        fabric = lab.world.fabric
        assert list(fabric.switches) == ["spine0", "spine1", "leaf0", "leaf1"]
        assert list(fabric.hfis) == ["em", "h1", "h2", "h3", "h3.2"]
        assert lab.world.em_port.lid == 1
        assert [await pings(lab, "h1", "h3") for _ in range(2)] == [0, 1]
        assert fabric.drops()["h1:1->leaf0:1"] == {Drop.LINK_FAULT: 1}
        assert fabric.balance() == {}


@pytest.mark.looptime
async def test_lab_with_an_explicit_topology_has_its_rates() -> None:
    async with lab_in_memory(EXPLICIT) as lab:
        rates = {link.name: (link.rate_bps, link.planned.up.latency_ns) for link in lab.world.fabric.links}
        assert rates["h2:1--right:1"] == (25e9, 1000)
        assert rates["h1:1--left:1"] == (100e9, 300)
        assert await pings(lab, "h1", "h2") == 1


@pytest.mark.looptime
async def test_links_of_a_lab_have_the_jitter_queue_and_credits_of_its_file() -> None:
    async with lab_in_memory(LINK) as lab:
        for link in lab.world.fabric.links:
            for direction in link.directions:
                config = direction.config
                assert (config.rate_bps, config.jitter_ns, config.queue_bytes) == (10e9, 1000, 1 << 20)
                assert direction.lanes is not None
                assert [direction.lanes.credits[vl] for vl in (0, 1)] == [32768, 32768]
        assert await pings(lab, "h1", "h2", 3) == 3
        assert lab.world.fabric.balance() == {}


def test_islands_that_share_no_virtual_switch_are_one_lab() -> None:
    text = EXPLICIT.replace('      - ["left:8", "right:8"]\n', "").replace("[h1, h2]}]", "[h1]}]")
    assert parse_lab(text, "lab.yaml").vesws[0].members == ["h1"]


def test_explicit_link_says_for_itself_what_differs() -> None:
    text = EXPLICIT.replace(
        "fabric:\n", "fabric:\n  link: {rate: 50G, jitter: 100ns, credits: on}\n"
    ).replace("rate: 25G", "credits: off, jitter: 5us, queue: 64KiB")
    fabric = wired(text)
    found = {
        link.name: (
            link.rate_bps,
            link.planned.up.latency_ns,
            link.planned.up.jitter_ns,
            link.planned.up.queue_bytes,
            link.directions[0].lanes is not None,
        )
        for link in fabric.links
    }
    ordinary = (50e9, 300, 100, 16 << 20, True)
    assert found["h1:1--left:1"] == found["left:8--right:8"] == ordinary
    assert found["h2:1--right:1"] == (50e9, 1000, 5000, 65536, False)
    assert found["em:1--left:2"] == ordinary  # the manager's own cable, which no file describes


TWO_WAY = """
name: two-way
fabric:
  link: {rate: 50G, latency: 1us, up: {rate: 10G, loss: 1%}, down: {jitter: 5us}}
  topology:
    kind: explicit
    switches: {sw0: {ports: 8}}
    links:
      - {ends: [h1, "sw0:1"], rate: 20M, up: {rate: 1M, queue: 64K, loss: 2%}, down: {latency: 30ms, credits: on}}
      - {ends: ["sw0:2", h2], up: {rate: 7M}}
      - [h3, "sw0:3"]
hosts: {h1: {}, h2: {}, h3: {}}
"""


def test_direction_of_a_link_says_for_itself_what_differs() -> None:
    fabric = wired(TWO_WAY)
    ways = {way.name: way for link in fabric.links for way in link.directions}
    found = {
        name: (way.planned.rate_bps, way.planned.latency_ns, way.planned.jitter_ns)
        for name, way in ways.items()
    }
    plain = (10e9, 1000, 0), (50e9, 1000, 5000)
    assert (found["h1:1->sw0:1"], found["sw0:1->h1:1"]) == ((1e6, 1000, 0), (20e6, 30_000_000, 5000))
    assert (found["sw0:2->h2:1"], found["h2:1->sw0:2"]) == ((7e6, 1000, 0), (50e9, 1000, 5000))
    assert (found["h3:1->sw0:3"], found["sw0:3->h3:1"]) == plain
    assert (found["em:1->sw0:4"], found["sw0:4->em:1"]) == plain
    assert [name for name, way in ways.items() if way.has_credits] == ["sw0:1->h1:1"]
    assert ways["h1:1->sw0:1"].planned.queue_bytes == 65536
    assert losses(parse_lab(TWO_WAY, "lab.yaml")) == [
        "loss on * probability=1% direction=tx",
        "loss on h1:1->sw0:1 probability=2%",
    ]


def test_shape_of_many_links_has_its_directions_from_the_hosts() -> None:
    text = "name: shape\nfabric: {topology: {kind: clos, leaves: 2, spines: 1}, link: {up: {rate: 1M}}}\nhosts: 4\n"
    rates = {way.name: way.rate_bps for link in wired(text).links for way in link.directions}
    ups = {name.partition("->")[0].partition(":")[0] for name, rate in rates.items() if rate == 1e6}
    assert {"h1", "h2", "h3", "h4", "em"} <= ups
    assert all(rate == 100e9 for name, rate in rates.items() if "->h" in name or "->em" in name)


def test_queue_of_a_link_is_a_size_or_a_time_whatever_the_other_links_have() -> None:
    common = EXPLICIT.replace("fabric:\n", "fabric:\n  link: {rate: 1G, queue: 20ms}\n")
    for own, bytes_ in (("rate: 2G", 5_000_000), ("queue: 1M", 1 << 20), ("queue: null", 6_250_000)):
        queues = {
            link.name: link.planned.up.queue_bytes for link in wired(common.replace("rate: 25G", own)).links
        }
        assert queues == dict.fromkeys(queues, 2_500_000) | {"h2:1--right:1": bytes_}


def test_quantities_of_a_lab_file_mean_what_they_mean_elsewhere() -> None:
    """A time in minutes, and a fault's share and time, as on a command line."""
    text = LINK.replace("latency: 1us", "latency: 5m") + "faults: [loss on h1 20% for=1.5m]\n"
    model = parse_lab(text, "lab.yaml")
    assert model.fabric.link.latency == 300
    assert model.faults == ["loss on h1 probability=20% for=90s"]


async def test_control_api_sets_lists_and_removes_faults_and_shows_routes(tmp_path: Path) -> None:
    async with lab_in_memory(LAB) as lab, served(lab.routes(), tmp_path) as http:

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
        assert status == 400
        assert str(data["error"]).startswith('unknown link, port or node "h77" (nearest: "h')
        assert (await post("/faults/remove", number=9))[1]["error"] == "no fault has the number 9 (set: 1, 2)"
        status, data = await post("/faults/remove", number=2)
        assert len(data["faults"]) == 1  # type: ignore[arg-type]
        await post("/faults/remove", number=None)
        assert await get("/faults") == {"seed": 1, "faults": []}


BODIES = (b"", b"zz", b"[]", b"5", b"null", b'"x"', b"\xff", b"[" * 50_000, b"{}" + b" " * (2 << 20))


async def test_control_api_takes_no_body_for_what_it_is_not(tmp_path: Path) -> None:
    async with lab_in_memory(LAB) as lab:
        hub = LogHub(tmp_path / "log")
        async with served(lab_routes(lab, hub, lab.stop), tmp_path) as http:
            answers = []
            for path in ("/em/apply", "/faults", "/faults/remove", "/lnet/h1/export_yaml"):
                for body in BODIES:
                    async with http.post(path, data=BytesIO(body)) as answer:
                        answers.append((answer.status, path, body[:10], await answer.text()))
            async with http.get("/status") as answer:
                name = (await answer.json())["lab"]
        hub.close()
    assert [answer for answer in answers if answer[0] not in (200, 400, 409, 422)] == []
    assert name == "fabric-lab"


def test_fault_that_makes_no_sense_is_refused_before_any_lab_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fault", "add", "los", "on", "h1"]) == 2
    assert 'opavnic: unknown fault "los" (nearest: "loss"' in capsys.readouterr().err


CRASH = """
name: crash
hosts: {h1: {}, h2: {}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}
  - {id: 3, name: red, mtu: 4000, subnet: 10.9.3.0/24, members: [h1, h2]}
faults: [crash on h2 after=1s for=500ms every=10s]
"""


@pytest.mark.looptime
async def test_host_whose_driver_crashes_is_configured_again_when_it_is_back() -> None:
    async with lab_in_memory(CRASH) as lab:
        assert lab.manager is not None

        async def answered() -> list[int]:
            return [await pings(lab, "h1", "h2", vesw=vesw, timeout_s=0.05) for vesw in ("blue", "red")]

        def states() -> list[str]:
            return [vnic.state for vnic in lab.status().hosts[1].vnics]

        assert await answered() == [1, 1]
        agent = lab.world.vnic_ports["h2:1"].agent
        for _ in range(2):
            await asyncio.sleep(1)
            assert states() == ["not created by the EM"] * 2
            assert await answered() == [0, 0]
            assert lab.world.vnic_ports["h2:1"].adapters == {}
            await asyncio.sleep(1)
            assert await lab.manager.em.wait_converged(60)
            assert states() == ["up", "up"]
            assert await answered() == [1, 1]
            assert lab.world.vnic_ports["h2:1"].agent is not agent
            assert await lab.manager.em.verify() == []
            await asyncio.sleep(10 - 2 - 2 * 0.05)
        assert lab.world.fabric.balance() == {}
    assert not lab.status().hosts[1].vnics[0].is_up


@pytest.mark.looptime
async def test_lab_ends_cleanly_while_a_driver_is_down() -> None:
    async with lab_in_memory(CRASH) as lab:
        lab.world.faults.add("crash on h1")
        assert lab.world.vnic_ports["h1:1"].adapters == {}
    assert [row["state"] for row in lab.world.faults.show()] == []
    assert lab.world.fabric.balance() == {}


def test_lab_that_was_not_started_has_no_faults_and_says_so() -> None:
    lab = Lab(parse_lab(CRASH, "lab.yaml"), netdev="memory")
    with pytest.raises(LabError, match="lab crash has no fabric yet: start it first"):
        _ = lab.world.faults


def test_every_lab_of_the_pages_about_fabrics_is_right_and_names_every_key_and_fault() -> None:
    docs = Path(__file__).parents[4] / "docs"
    pages = [docs / name for name in ("how-to/fabric.md", "reference/links.md", "reference/faults.md")]
    page = "".join(page.read_text(encoding="utf-8") for page in pages)
    labs = re.findall(r"^```yaml\n(.*?)^```", page, flags=re.M | re.S)
    assert [parse_lab(text, "fabric.md").name for text in labs] == [
        "shaped",
        "placed",
        "torus",
        "racks",
        "numbered",
        "groups",
        "rails",
        "managed",
        "links",
        "directions",
        "lossless",
        "faults",
    ]
    said = set(re.findall(r"^\| `([a-z_-]+)`", page, flags=re.M))
    assert {*LinkModel.model_fields, *Credits.model_fields} <= said
    assert {kind.value for kind in FaultKind} <= said


REACHABLE = {
    "loss": "loss on h2 30%",
    "duplicate": "duplicate on h2 copies=2",
    "reorder": "reorder on h2 50% behind=2",
    "corrupt": "corrupt on h2 20% bits=3",
    "delay": "delay on h2 delay=1ms",
    "rate": "rate on h2 rate=1M",
    "link-down": "link-down on h2",
    "port-error": "port-error on h2:1",
    "switch-reboot": "switch-reboot on leaf1 for=5s",
    "hfi-removal": "hfi-removal on h2",
    "partition": "partition on leaf1",
    "crash": "crash on h2",
}
"""But for those of hardware, which only a kernel's HFI has."""


@pytest.mark.looptime
@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind is not FaultKind.REGISTER_ERROR])
async def test_each_fault_is_set_by_file_command_and_python_and_leaves_the_lab_as_it_was(
    kind: FaultKind, tmp_path: Path
) -> None:
    text = REACHABLE[kind]
    file = LAB.replace("{kind: loss, on: h1, l4: ethernet, count: 1}", f'"{text}"').replace(
        "members: [h1, h3]", "members: [h1, h2, h3]"
    )
    async with lab_in_memory(file) as lab:
        assert lab.manager is not None
        lab.world.faults.add(text)
        async with served(lab.routes(), tmp_path) as http:
            async with http.post("/faults", json={"fault": text}) as answer:
                assert answer.status == 200
                assert [row["kind"] for row in (await answer.json())["faults"]] == [kind] * 3
            await asyncio.sleep(1)
            async with http.post("/faults/remove", json={"number": None}) as answer:
                assert (await answer.json())["faults"] == []
        assert await lab.manager.em.wait_converged(60)
        assert await pings(lab, "h1", "h2", 3) == 3
        assert all(link.up and link.rate_bps == 100e9 for link in lab.world.fabric.links)
        assert lab.world.fabric.balance() == {}
