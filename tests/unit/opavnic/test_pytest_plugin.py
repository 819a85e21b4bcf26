"""The plugin as its users meet it: small test files, run by a pytest of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hfi_sim.fabric.notices import TracedPacket
from opavnic.observe.trace_file import write_trace
from program import run_pytest


def run(directory: Path, source: str, *options: str) -> pytest.RunResult:
    (directory / "test_it.py").write_text(
        "from opavnic.scenario import *\nfrom scapy.layers.l2 import ARP\nimport asyncio, pytest\n" + source
    )
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return run_pytest(directory, "-p", "no:cacheprovider", "-q", *options)


def test_failed_expectation_reports_what_came_seed_timeline_and_packets(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
@pytest.mark.fabric_seed(77)
@pytest.mark.topology("single-switch", hosts=2)
async def test_silence(lab, hosts, em):
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    lab.faults.add("loss on h1 10% l4=mad")
    h1.send(ARP(pdst=h2.ip))
    await h2.expect(ARP(op=2), within=ms(5))
""",
    )
    out = result.stdout.str()
    assert result.ret == 1
    assert re.search(r"AssertionError: h2/blue: no ARP\(op=is.at\) within 5 ms; 1 other frames came", out), (
        out
    )
    assert "Ether / ARP who has" in out
    assert "seed 77; to repeat: pytest 'test_it.py::test_silence' --fabric-seed=77" in out
    assert "faults: loss on h1 probability=10% l4=0x8 (active, 0 hits)" in out
    assert re.search(r"ms  vema\.agent\.agent: \[h1:1 vport 1\] created", out)
    packets = next(tmp_path.glob(".fabric/*.pcapng"))
    assert str(packets) in out
    assert packets.read_bytes()[:4] == bytes.fromhex("0a0d0d0a")


def test_checks_after_each_test_find_lost_packets_and_left_tasks(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
async def test_law(fabric, hosts):
    hosts["h1"].port.tx.in_packets += 1

def test_law_without_a_loop(fabric, hosts):
    hosts["h1"].port.tx.in_packets += 1

async def test_tasks(fabric):
    global task
    task = asyncio.create_task(asyncio.sleep(100), name="forgotten")

async def test_fine(fabric):
    await asyncio.sleep(3600)
""",
    )
    assert "conservation is violated (packets too many or too few): {'h1:1 tx': 1}" in result.stdout.str()
    assert "tasks are left running: forgotten" in result.stdout.str()
    assert "2 failed, 2 passed, 1 error" in result.stdout.str(), result.stdout.str()[-800:]


def test_markers_options_and_workers(tmp_path: Path) -> None:
    source = """
@pytest.mark.topology(kind="clos", leaves=2, spines=2)
@pytest.mark.fabric_options(routing="up-down")
def test_topology(hosts, lab):
    assert lab.subnet_manager.routing.engine == "up-down"
    assert hosts.names == ["h1", "h2", "h3", "h4"]
    assert lab.seed == 5
    lab.advance(ms(5))
    assert lab.clock.time() == 0.005

async def test_unknown_host(hosts):
    hosts["h7"]
"""
    result = run(
        tmp_path, source, "--fabric-seed=5", "--fabric-pcap=never", "--fabric-report=never", "-n", "1"
    )
    assert re.search(r'unknown host "h7" \(nearest: "h\d"; known: h1, h2\)', result.stdout.str())
    assert "1 failed, 1 passed" in result.stdout.str()
    assert not list(tmp_path.glob(".fabric/*"))


def test_callback_that_raises_is_what_the_test_fails_for(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
async def test_device(hosts, em):
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    def look(frame):
        raise KeyError("a slip in the test")
    h2.vnic().on_frame = look
    h1.send(ARP(pdst=h2.ip))
    await asyncio.sleep(ms(1))
""",
    )
    assert (
        "AssertionError: a callback of the event loop raised KeyError('a slip in the test')"
        in result.stdout.str()
    )
    assert "in look" in result.stdout.str()
    assert "1 failed" in result.stdout.str()


def test_checks_hold_without_assertions(tmp_path: Path) -> None:
    script = """
import asyncio
from hfi_sim.fabric.topology import clos
from opavnic.scenario import Scenario, run_virtual

async def lose():
    async with Scenario(clos(2, 2)) as lab:
        lab.hosts["h1"].port.tx.in_packets += 1

run_virtual(lose())
"""
    result = subprocess.run(
        [sys.executable, "-O", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "AssertionError: conservation is violated" in result.stderr


def test_mad_simulator_and_manager_on_one_fabric_are_refused(tmp_path: Path) -> None:
    source = """
async def test_two_managers(em, mad_simulator):
    pass

async def test_by_hand(mad_simulator, hosts):
    await mad_simulator.expect_trap(lid=hosts["h1"])

def test_without_time(mad_simulator):
    mad_simulator.expect_no_trap()
"""
    result = run(tmp_path, source)
    assert "em and mad_simulator: a fabric has one manager" in result.stdout.str()
    assert "AssertionError: no trap of LID 0x1 within 5 s" in result.stdout.str()
    assert "1 failed, 1 passed, 1 error" in result.stdout.str()


def test_fixtures_of_ones_own_with_the_same_names_stay_what_they_are(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
class TestOwn:
    @pytest.fixture
    def lab(self):
        return "mine"

    async def test_own(self, lab):
        assert lab == "mine"
        assert not getattr(asyncio.get_running_loop(), "looptime_on", False)

@pytest.fixture
def hosts(hosts):
    return list(hosts)

async def test_one_over_the_plugins(hosts):
    assert [host.name for host in hosts] == ["h1", "h2"]
    assert asyncio.get_running_loop().looptime_on
""",
        "-o",
        "asyncio_mode=auto",
    )
    assert result.ret == 0, result.stdout.str()


def test_write_trace_is_read_by_scapy(tmp_path: Path) -> None:
    from scapy.utils import RawPcapNgReader

    from hfi_sim.base.counters import Drop

    path = tmp_path / "trace.pcapng"
    records = [
        TracedPacket(1.5, "a:1->b:1", bytes(24), None),
        TracedPacket(2.000000001, "b:1->a:1", bytes(33), Drop.LINK_FAULT),
    ]
    assert write_trace(path, records) == 2
    with RawPcapNgReader(str(path)) as reader:
        found = list(reader)
    assert [
        (data, (meta.tshigh << 32 | meta.tslow) / meta.tsresol, meta.linktype) for data, meta in found
    ] == [
        (bytes(24), 1.5, 147),
        (bytes(33), pytest.approx(2.000000001), 147),
    ]
    assert [meta.ifname for _, meta in found] == [b"a:1->b:1", b"b:1->a:1"]


def test_engine_that_is_not_built_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['opavnic._native'] = None\n")
    result = run(tmp_path, "def test_nothing(lab):\n    pass\n", "--fabric-engine=native")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.stderr.str().splitlines() if line]
    assert line.startswith("ERROR: --fabric-engine=native: the native datapath is not built here; ")


def test_header_says_which_engine_carries_and_lab_uses_that_of_the_fixture(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
from hfi_sim.engine.python import PythonEngine

class MyEngine(PythonEngine):
    pass

class TestDefault:
    def test_engine(self, lab, fabric_engine):
        assert fabric_engine is PythonEngine
        assert type(lab.fabric.engine) is PythonEngine

class TestOwn:
    @pytest.fixture
    def fabric_engine(self):
        return MyEngine

    def test_engine(self, lab):
        assert type(lab.fabric.engine) is MyEngine
""",
        "-v",
    )
    assert result.ret == 0, result.stdout.str()
    assert "\nfabric engine: python\n" in result.stdout.str()
