"""Real programs over the native datapath: bytes arrive as they were sent, whatever offload or damage."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Program
from e2e.kernel import wait_until
from hfi_sim.fabric.trace import Trace
from hfi_sim.netdev.ethtool import GRO
from native_module import needs_native
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.lab_sections import Vesw
from opavnic.lab.file.model import LabModel
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.run.lab import Lab
from permission import require
from processes import child

pytestmark = needs_native

STREAM = [sys.executable, str(Path(__file__).with_name("checked_stream.py"))]
DATAGRAMS = [sys.executable, str(Path(__file__).with_name("datagrams.py"))]


def model(mtu: int = 1500, **more: Any) -> LabModel:
    return LabModel.model_validate(
        {
            "name": f"native-{os.getpid()}",
            "datapath": "native",
            "hosts": {"h1": {}, "h2": {}},
            "vesws": [
                {"id": 2, "name": "blue", "pkey": 0x8002, "mtu": mtu, "subnet": "10.9.2.0/24"}
                | {"members": ["h1", "h2"]}
            ],
            **more,
        }
    )


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """Two hosts on a switch, whose packets are all accounted for at the end."""
    async with Lab(model()) as lab:
        yield lab
        assert lab.world.fabric.balance() == {}


async def stream(lab: Lab, size: int) -> None:
    """Send `size` bytes from h1 to h2 and assert that the same bytes arrive."""
    receiver = lab.popen("h2", [*STREAM, "receive", "10.9.2.2"], stdin=-3, stdout=-1)
    assert await asyncio.to_thread(receiver.stdout.readline) == "listening\n"
    sent = await lab.run("h1", [*STREAM, "send", "10.9.2.2", str(size)], timeout_s=110)
    out, _ = await asyncio.to_thread(receiver.communicate)
    assert sent.returncode == 0, sent.stderr
    assert json.loads(out) == json.loads(sent.stdout)
    assert json.loads(out)["bytes"] == size


def drops(lab: Lab, reason: str) -> int:
    return sum(drops.get(reason, 0) for drops in lab.world.fabric.drops().values())


@pytest.mark.parametrize(("mtu", "workers"), [(1500, 1), (10000, 1), (1500, 2), (10000, 4)])
async def test_stream_over_native_datapath_arrives_as_it_was_sent(mtu: int, workers: int) -> None:
    async with Lab(model(mtu, datapath={"engine": "native", "workers": workers})) as lab:
        loads = lab.status().engine.workers
        assert sorted(load.vnics for load in loads) == ([2] if workers == 1 else [0, 0, 1, 1][-workers:])
        assert sum(load.links for load in loads) == len(lab.world.fabric.links)
        await stream(lab, 100 << 20)
        assert lab.status().datapath == "native"
        assert lab.world.fabric.balance() == {}
        adapter = lab.adapter(lab.interface("h1", "blue"))
        # every segment was a packet of its own, although the host handed over fewer large ones: two segments at least,
        # where TCP is slow
        assert adapter.tx.out_packets > (100 << 20) / mtu
        assert adapter.counters.tx_cut > adapter.tx.out_packets // 4


async def test_first_frames_that_the_kernels_send_are_carried(lab: Lab) -> None:
    """IPv6 begins with the carrier: neighbour discovery and multicast reports leave at once."""
    adapters = [lab.adapter(lab.interface(host, "blue")) for host in ("h1", "h2")]

    def have_sent() -> bool:
        lab.world.fabric.drops()  # brings the counters up to date
        return all(adapter is not None and adapter.tx.in_packets > 2 for adapter in adapters)

    await wait_until(have_sent, "frames of the kernels", timeout_s=60)
    assert drops(lab, "vnic_tx_state") == 0


@pytest.mark.slow
@pytest.mark.parametrize("mtu", [1500, 10000])
async def test_gigabyte_over_native_datapath_arrives_as_it_was_sent(mtu: int) -> None:
    async with Lab(model(mtu)) as lab:
        await stream(lab, 1 << 30)
        assert lab.world.fabric.balance() == {}


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one processor has none beside it")
async def test_many_flows_are_taken_in_by_all_processors_as_long_as_they_last(lab: Lab) -> None:
    carrier = lab.world.carrier
    server = lab.popen("h2", ["iperf3", "-s", "-1", "--forceflush"], stdin=-3, stdout=-1)
    while "listening" not in await asyncio.to_thread(server.stdout.readline):
        assert server.poll() is None
    client = lab.popen("h1", ["iperf3", "-c", "10.9.2.2", "-P", "8", "-t", "90"], stdin=-3, stdout=-3)
    await wait_until(lambda: carrier.steered == 2, "both hosts receive on all processors")
    client.kill()
    await asyncio.to_thread(client.wait)
    await wait_until(lambda: carrier.steered == 0, "each host receives by itself again")
    server.kill()
    await asyncio.to_thread(server.communicate)


@pytest.mark.parametrize("icrc", ["always", "auto"])
async def test_damaged_packets_are_all_rejected_and_the_stream_arrives(icrc: str) -> None:
    async with Lab(model(icrc={"links": icrc})) as lab:
        lab.world.faults.add(f"corrupt on h2 {1 / 1000}")
        await stream(lab, 60 << 20)
        fault = lab.world.faults.show()[0]
        assert fault["hits"] > fault["seen"] / 2000 > 10
        # the frame of a damaged packet never comes to a host
        assert drops(lab, "rx_icrc") == fault["hits"]
        assert lab.world.fabric.balance() == {}
        errors = await lab.run("h2", ["nstat", "-asz", "TcpInCsumErrors"])
        assert re.search(r"TcpInCsumErrors +0 ", errors.stdout), errors.stdout


def test_damage_by_the_fault_command_stays_on_the_native_datapath(opavnic: Program) -> None:
    opavnic.up(model().model_dump_json(exclude_unset=True))
    opavnic.ok("fault", "add", "corrupt", "on", "h2", "0.1%")
    assert "native" in opavnic.ok("status")
    command = ("exec", "h2", "--", *STREAM, "receive", "10.9.2.2")
    with opavnic.started(*command, stdout=subprocess.PIPE) as receiver:
        assert receiver.stdout.readline() == "listening\n"
        sent = opavnic.on("h1", *STREAM, "send", "10.9.2.2", 60 << 20)
        assert receiver.stdout.read() == sent
    before = opavnic.data("fault", "show")["faults"][0]["hits"]
    status = opavnic.data("status", "--counters")
    after = opavnic.data("fault", "show")["faults"][0]["hits"]
    assert {link["datapath"] for link in status["links"] if "h2" in link["name"]} == {"native"}
    dropped = sum(counters.get("drop_rx_icrc", 0) for counters in status["counters"].values())
    assert 10 < before <= dropped <= after  # which are one unless a host says something of its own meanwhile
    assert status["balance"] == {}


async def test_faults_are_counted_and_end_and_the_stream_arrives(lab: Lab) -> None:
    fault = lab.world.faults.add("loss on h2 0.1%")
    await stream(lab, 20 << 20)
    assert lab.world.faults.show()[0]["hits"] == drops(lab, "link_fault") > 0
    lab.world.faults.remove(fault.number)
    before = drops(lab, "link_fault")
    lab.world.faults.add("corrupt on h2 5% bits=2 skip=10 count=20 vesw=2")  # ends by itself
    await stream(lab, 20 << 20)
    (shown,) = lab.world.faults.show()
    assert (shown["hits"], drops(lab, "rx_icrc"), drops(lab, "link_fault")) == (20, 20, before)


async def datagrams_merged(lab: Lab, count: int) -> int:
    """Send datagrams that wait together at the datapath; return how many writes to h2 they saved."""
    assert lab.world.carrier is not None
    adapter = lab.adapter(lab.interface("h2", "blue"))
    await lab.run("h1", ["ping", "-c", "1", "-w", "10", "10.9.2.2"])  # addresses are resolved from here on
    receiver = lab.popen("h2", [*DATAGRAMS, "receive", "10.9.2.2", str(count)], stdin=-3, stdout=-1)
    assert await asyncio.to_thread(receiver.stdout.readline) == "listening\n"
    lab.world.carrier.sync()
    before = adapter.counters.rx_merged
    with lab.world.carrier.still():
        sent = await lab.run("h1", [*DATAGRAMS, "send", "10.9.2.2", str(count)])
        assert sent.returncode == 0, sent.stderr
    out, _ = await asyncio.to_thread(receiver.communicate)
    assert out == "whole\n"
    lab.world.carrier.sync()
    assert lab.world.fabric.balance() == {}
    return adapter.counters.rx_merged - before


async def test_datagrams_are_merged_where_that_is_asked_for_and_arrive_one_by_one() -> None:
    async with Lab(model(datapath={"engine": "native", "merge_udp": True})) as lab:
        assert lab.status().engine.merging == {"tcp": 2, "udp": 2}
        assert await datagrams_merged(lab, 50) >= 45
        interface = lab.interface("h2", "blue")
        adapter = lab.adapter(interface)
        netdev = adapter.netdev
        await lab.run("h2", [*DATAGRAMS, GRO, "blue", "off"])
        await wait_until(lambda: not netdev.merges.tcp, "gro off", timeout_s=20)
        assert await datagrams_merged(lab, 50) == 0
        await lab.run("h2", [*DATAGRAMS, GRO, "blue", "on"])
        await wait_until(lambda: netdev.merges.tcp, "gro on", timeout_s=20)
        assert await datagrams_merged(lab, 50) >= 45


async def change_mtu(lab: Lab, turn: int) -> None:
    mtu = (700, 1500)[turn % 2]
    done = await lab.run("h1", ["ip", "link", "set", "dev", "blue", "mtu", str(mtu)])
    assert done.returncode == 0, done.stderr


async def configure_again(lab: Lab, turn: int) -> None:
    """Let the EM take the switch's MTU down and up, which reaches every VNIC as a new configuration."""
    config = em_config(lab.model.model_copy(update={"vesws": [with_mtu(lab, (1500, 1400)[turn % 2])]}))
    lab.manager.em.apply(config)
    await asyncio.sleep(0)


def with_mtu(lab: Lab, mtu: int) -> Vesw:
    return lab.model.vesws[0].model_copy(update={"mtu": mtu})


async def add_and_remove_faults(lab: Lab, turn: int) -> None:
    text = ("corrupt on h2 0.1%", "loss on h1 0.1%", "corrupt on h2 0.1% bits=3 skip=100")[turn % 3]
    fault = lab.world.faults.add(text)
    await lab.run("h1", ["true"])
    lab.world.faults.remove(fault.number)


async def capture_for_a_while(lab: Lab, turn: int) -> None:
    trace = Trace(lab.world.fabric, keep=2000)
    await lab.run("h1", ["true"])
    trace.stop()
    icrc = lab.world.fabric.icrc
    assert all(icrc.check(record.packet) for record in trace.records)


async def check_partitions_and_sizes(lab: Lab, turn: int) -> None:
    """Let the switch ask each packet for its partition, and for the MTU of its VL: all of them may pass."""
    ports = [port for port in lab.world.fabric.switches["sw0"].ports.values() if port.link is not None]
    for port in ports:
        port.enforce_pkeys([0x8002, 0xFFFF])
        port.set_vl_mtus([2048] * 16)
    await lab.run("h1", ["true"])
    for port in ports:
        port.enforce_pkeys([], inbound=False, outbound=False)
        port.set_vl_mtus([])


DISTURBANCES = [
    change_mtu,
    configure_again,
    add_and_remove_faults,
    capture_for_a_while,
    check_partitions_and_sizes,
]


@pytest.mark.parametrize("disturb", DISTURBANCES)
async def test_change_under_a_running_stream_loses_no_byte_of_it(
    lab: Lab, disturb: Callable[[Lab, int], Awaitable[None]]
) -> None:
    turn = 0
    while turn < 12:
        running = asyncio.create_task(stream(lab, 100 << 20))
        while not running.done():
            await disturb(lab, turn)
            turn += 1
            await lab.run("h1", ["true"])  # the stream goes on meanwhile
        await running


async def checksums_on_the_far_tap(lab: Lab) -> Counter[str]:
    """Send a stream, and return what tcpdump on the receiving TAP says of the checksums of 200 packets."""
    capture = lab.popen(
        "h2",
        ["tcpdump", "-i", "blue", "-nvv", "--immediate-mode", "-c", "200", "src", "host", "10.9.2.1"],
        stdin=-3,
        stdout=-1,
        stderr=-1,
    )
    await asyncio.to_thread(capture.stderr.readline)
    await stream(lab, 40 << 20)
    out, _ = await asyncio.to_thread(capture.communicate)
    return Counter(re.findall(r"Flags .*, cksum 0x[0-9a-f]+ \((\w+)", out))


async def test_capture_on_the_far_tap_shows_valid_checksums_but_of_what_is_merged(lab: Lab) -> None:
    said = await checksums_on_the_far_tap(lab)
    assert said["incorrect"] > 100, "these are to be filled in, as after the kernel's GRO"
    adapter = lab.adapter(lab.interface("h2", "blue"))
    await lab.run("h2", [*DATAGRAMS, GRO, "blue", "off"])
    await wait_until(lambda: not adapter.netdev.merges.tcp, "gro off", timeout_s=20)
    said = await checksums_on_the_far_tap(lab)
    assert said["correct"] > 100
    assert said["incorrect"] == 0


async def test_slow_link_keeps_its_latency() -> None:
    slow = {"fabric": {"link": {"rate": "1G", "latency": "2ms"}}}
    async with Lab(model(**slow)) as lab:
        pinged = await lab.run("h1", ["ping", "-c", "3", "-i", "0.2", "10.9.2.2"])
        assert pinged.returncode == 0, pinged.stdout
        times = [float(time) for time in re.findall(r"time=([\d.]+) ms", pinged.stdout)]
        assert (
            min(times) > 7.9
        )  # four links, two milliseconds each; no packet is early, whatever the machine does
        assert lab.world.fabric.balance() == {}


async def test_observer_sees_complete_packets_of_offloaded_sends(lab: Lab) -> None:
    seen: list[bytes] = []
    lab.world.fabric.observe(lambda observed: seen.append(observed.packet))
    await stream(lab, 1 << 20)
    icrc = lab.world.fabric.icrc
    frames = [packet for packet in seen if packet[8] == 0x78]
    assert len(frames) > (1 << 20) / 1448
    assert all(icrc.check(packet) for packet in frames)


async def test_interface_set_down_and_up_passes_frames_again(lab: Lab) -> None:
    await lab.run("h2", ["ip", "link", "set", "dev", "blue", "down"])
    lost = await lab.run("h1", ["ping", "-c", "1", "-W", "1", "10.9.2.2"])
    assert lost.returncode != 0
    await lab.run("h2", ["ip", "link", "set", "dev", "blue", "up"])
    again = await lab.run("h1", ["ping", "-c", "1", "-w", "10", "10.9.2.2"])
    assert again.returncode == 0, again.stdout


async def test_stopped_queue_is_left_unread_until_it_is_woken(lab: Lab) -> None:
    adapter = lab.adapter(lab.interface("h1", "blue"))
    await lab.run("h1", ["ping", "-c", "1", "-w", "10", "10.9.2.2"])
    adapter.netdev.stop_queue()
    with lab.world.carrier.still():  # whatever was sent before has been read by now
        before = adapter.tx.in_packets
    unheard = await lab.run("h1", ["ping", "-c", "1", "-W", "1", "10.9.2.2"])
    assert unheard.returncode != 0
    lab.world.carrier.sync()
    assert adapter.tx.in_packets == before
    adapter.netdev.wake_queue()
    heard = await lab.run("h1", ["ping", "-c", "1", "-w", "10", "10.9.2.2"])
    assert heard.returncode == 0, heard.stdout


@dataclass(frozen=True, slots=True)
class Breakage:
    """A way to break the native threads of a lab whose program runs for this."""

    program: list[str]
    variables: dict[str, str]
    trigger: Callable[[subprocess.Popen[str]], None]
    reason: str
    """How what the lab says of it begins."""


def replaced_descriptor(_: Path) -> Breakage:
    def trigger(lab: subprocess.Popen[str]) -> None:
        lab.stdin.write("now\n")
        lab.stdin.flush()
        assert any("replaced" in line for line in lab.stdout or ())

    program = [str(Path(__file__).with_name("broken_thread.py"))]
    return Breakage(program, {}, trigger, "it cannot wait for frames: Invalid argument (os error 22)")


def panic(directory: Path) -> Breakage:
    """A thread panics under its lock: what it has read is longer than its buffer."""
    require(["cc"])
    source, library, lie = Path(__file__).with_name("lying_read.c"), directory / "lying.so", directory / "lie"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    variables = {"LD_PRELOAD": str(library), "LYING_READ": str(lie)}
    return Breakage(["-m", "opavnic.cli.main"], variables, lambda _: lie.touch(), "range end index ")


@pytest.mark.parametrize(
    ("workers", "way_out", "breakage"),
    [
        (1, "down", replaced_descriptor),
        (2, "prune", panic),
        pytest.param(1, "down", panic, marks=pytest.mark.slow),
        pytest.param(2, "down", replaced_descriptor, marks=pytest.mark.slow),
        pytest.param(2, "down", panic, marks=pytest.mark.slow),
        pytest.param(2, "prune", replaced_descriptor, marks=pytest.mark.slow),
    ],
)
def test_dead_thread_ends_the_lab_and_hosts_stay_until_down(
    opavnic: Program, tmp_path: Path, workers: int, way_out: str, breakage: Callable[[Path], Breakage]
) -> None:
    broken = breakage(tmp_path)
    file = tmp_path / "lab.json"
    datapath = {"engine": "native", "workers": workers}
    file.write_text(model(datapath=datapath).model_dump_json(exclude_unset=True))
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(tmp_path / "run"), **broken.variables}
    command = [sys.executable, *broken.program, "up", str(file)]
    with child(command, stdin=-1, stdout=-1, stderr=subprocess.STDOUT, env=environment) as lab:
        assert any("ready" in line for line in lab.stdout)
        broken.trigger(lab)
        program = opavnic("exec", "h2", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
        # this wakes the thread; whether it still arrives does not matter
        opavnic("exec", "h1", "--", "ping", "-c", "1", "-W", "1", "10.9.2.2")
        name = f"native-{os.getpid()}"
        said = f"lab {name} has ended: "
        reason = next(line.removeprefix(said).rstrip() for line in lab.stdout if line.startswith(said))
        assert reason.startswith(f"the native datapath broke: {broken.reason}")

        assert len(list(NETNS_DIR.glob(f"opavnic-{name}-*"))) == 2
        assert "10.9.2.1" in opavnic("exec", "h1", "--", "ip", "addr", "show", "blue").stdout
        assert Path("/proc", program.stdout.strip(), "comm").read_text() == "sleep\n"
        status = opavnic.data("status")
        assert status["failure"] == reason
        assert {vnic["state"] for host in status["hosts"] for vnic in host["vnics"]} == {"ended"}
        assert f"it has ended: {reason}" in opavnic("status").stdout
        (listed,) = opavnic.data("ps")
        assert (listed["state"], listed["failure"]) == ("ended (opavnic down)", reason)
        again = opavnic("up", file)
        assert (again.returncode, again.stderr.count("opavnic down")) == (1, 1)

        assert f"opavnic-{name}-h1" in opavnic("prune", "--dry-run").stdout
        assert len(list(NETNS_DIR.glob(f"opavnic-{name}-*"))) == 2
        removed = opavnic(way_out)
        assert removed.returncode == 0, removed.stderr
        assert f"namespace opavnic-{name}-h1" in removed.stdout
        assert f"program sleep (pid {program.stdout.strip()})" in removed.stdout
        last = lab.stdout.readlines()[-1]
        assert lab.wait(timeout=60) == 1
    assert last == f"opavnic: {reason}\n"
    assert not list(NETNS_DIR.glob(f"opavnic-{name}-*"))


async def test_lab_in_python_beside_it_still_works() -> None:
    async with Lab(model(datapath="python")) as lab:
        await stream(lab, 4 << 20)
        assert lab.status().datapath == "python"
        assert lab.world.carrier is None
