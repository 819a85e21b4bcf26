"""Labs with real TAPs that are asked for what no fabric does: every frame is accounted for, and the others go on.

Engines alone are asked on virtual time, where times are exact: tests/unit/hfi_sim/engine/test_abuse.py.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from dataclasses import replace
from typing import Any

import pytest

from e2e.kernel import wait_until
from e2e.test_native import model, stream
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.engine.link.capture import CaptureConfig
from native_module import needs_native
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.lab import Lab

ENGINES = ["python", pytest.param("native", marks=needs_native)]
HOSTS = 64


def lab_of(hosts: int, datapath: str, *, neighbours: str = "kernel", **fabric: Any) -> LabModel:
    """Return hosts h0, h1, ... on one switch."""
    names = [f"h{number}" for number in range(hosts)]
    return LabModel.model_validate(
        {
            "name": f"breaker-{os.getpid()}",
            "datapath": datapath,
            "fabric": fabric,
            "hosts": {name: {} for name in names},
            "vesws": [
                {"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": names, "neighbours": neighbours}
            ],
        }
    )


async def pings(lab: Lab, host: str, target: str, *options: str) -> bool:
    done = await lab.run(host, ["ping", "-q", "-c", "1", *options, target], timeout_s=110)
    return done.returncode == 0


async def heals(lab: Lab, host: str, target: str) -> None:
    """Wait until the fabric carries frames between two hosts again."""
    async with asyncio.timeout(60):
        while not await pings(lab, host, target, "-w", "60"):
            pass  # ping gives up sooner, when its kernel has found nobody
    assert lab.world.fabric.balance() == {}


# --- links at their ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("datapath", ENGINES)
async def test_links_of_one_bit_a_second_and_of_an_hour_keep_their_frames_and_nobody_elses(
    datapath: str,
) -> None:
    async with Lab(lab_of(5, datapath)) as lab:
        for text in ("rate on h1 rate=1bit/s", "delay on h2 delay=1h", "rate on h4 rate=1T"):
            lab.world.faults.add(text)
        fabric = lab.world.fabric
        cables = {host: fabric.hfis[host].ports[1].link for host in lab.model.hosts}
        for link in cables.values():
            link.configure(
                replace(link.planned.up, queue=SizeOrTime(1))
            )  # a wire that is free takes any packet

        assert not await pings(lab, "h0", "10.9.2.2", "-W", "1")
        assert not await pings(lab, "h0", "10.9.2.3", "-W", "1")
        assert await pings(lab, "h0", "10.9.2.4", "-w", "30")
        assert await pings(lab, "h0", "10.9.2.5", "-w", "30")

        fabric.count()
        for host in ("h1", "h2"):
            link = cables[host]
            assert any(direction.counters.in_flight for direction in link.directions), host
        assert fabric.balance() == {}


@pytest.mark.slow
@pytest.mark.parametrize("datapath", ENGINES)
async def test_64_hosts_that_flood_one_are_all_accounted_for(datapath: str) -> None:
    async with Lab(lab_of(HOSTS + 1, datapath, link={"rate": "100M", "queue": "16KiB"})) as lab:
        flood = ["ping", "-q", "-f", "-c", "300", "-l", "30", "-s", "1400", "-W", "1", "10.9.2.1"]
        done = await asyncio.gather(
            *(lab.run(f"h{number}", flood, timeout_s=110) for number in range(1, HOSTS + 1))
        )
        assert all(ended.returncode in (0, 1) for ended in done)  # 1: some were never answered
        dropped = [reason for drops in lab.world.fabric.drops().values() for reason in drops]
        assert "link_overflow" in dropped
        await heals(lab, "h0", "10.9.2.2")


@pytest.mark.parametrize("datapath", ENGINES)
async def test_fault_of_any_kind_on_each_link_leaves_every_frame_accounted_for(datapath: str) -> None:
    # no look-up is lost, so each round carries frames
    async with Lab(lab_of(3, datapath, neighbours="static")) as lab:
        for text in ("loss", "corrupt", "duplicate", "reorder behind=2", "delay delay=1ms"):
            kind, _, options = text.partition(" ")
            faults = [lab.world.faults.add(f"{kind} on h{number} 30% {options}") for number in range(3)]
            async with asyncio.timeout(60):
                while not all(fault.hits for fault in faults):
                    for target in (2, 3):
                        flood = ["ping", "-q", "-f", "-c", "10", "-w", "2", f"10.9.2.{target}"]
                        await lab.run("h0", flood, timeout_s=60)
            assert lab.world.fabric.balance() == {}, kind
            for fault in faults:
                lab.world.faults.remove(fault.number)
        await heals(lab, "h0", "10.9.2.2")
        await heals(lab, "h0", "10.9.2.3")


@pytest.mark.parametrize("datapath", ENGINES)
async def test_link_that_flaps_1000_times_a_second_works_when_it_has_ended(datapath: str) -> None:
    async with Lab(lab_of(3, datapath)) as lab:
        flood = lab.popen("h0", ["ping", "-q", "-f", "-w", "20", "10.9.2.2"], stdin=-3, stdout=-3)
        fault = lab.world.faults.add("link-down on h1 for=500us every=1ms count=500")
        await wait_until(lambda: fault.hits == 500, "500 flaps", timeout_s=60)
        assert await pings(lab, "h0", "10.9.2.3", "-w", "30")  # the others never noticed
        flood.terminate()
        await asyncio.to_thread(flood.wait)
        await heals(lab, "h0", "10.9.2.2")


# --- who looks -------------------------------------------------------------------------------------------------


@needs_native
async def test_ring_that_nobody_empties_misses_and_counts_and_the_stream_arrives() -> None:
    async with Lab(model()) as lab:
        fabric = lab.world.fabric
        directions = [direction for link in fabric.links for direction in link.directions]
        ring, end = fabric.capture(directions, CaptureConfig(len(directions), snap=128, segments=2))
        fabric.count()
        before = sum(direction.counters.in_packets for direction in directions)
        await stream(lab, 40 << 20)
        fabric.count()  # within what the ring has seen: hosts send some packets of their own at any time
        passed = sum(direction.counters.in_packets for direction in directions) - before
        end()
        seen = sum(seen for seen, _ in ring.counts())
        missed = sum(missed for _, missed in ring.counts())
        assert seen >= passed > 2 * (40 << 20) / 1448
        kept = 0
        while taken := ring.take(rest=True):
            kept += sum(1 for _ in blocks(taken))
        assert missed > 0
        assert kept + missed == seen
        assert fabric.balance() == {}


def blocks(data: bytes) -> list[bytes]:
    """Split pcapng into its blocks."""
    found = []
    while data:
        (size,) = struct.unpack_from("<I", data, 4)
        found.append(data[:size])
        data = data[size:]
    return found


# --- devices and processes ---------------------------------------------------------------------------------------

ATTACH = """
import errno, fcntl, os, struct, sys
TAP, NO_PI, VNET_HDR, TUNSETIFF = 0x0002, 0x1000, 0x4000, 0x400454CA
tun = os.open("/dev/net/tun", os.O_RDWR)
try:
    flags = TAP | NO_PI | VNET_HDR | int(sys.argv[2])
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", sys.argv[1].encode(), flags))
except OSError as error:
    print(errno.errorcode[error.errno])
else:
    print("attached")
"""
_ONE_QUEUE, _MULTI_QUEUE = 0, 0x0100


@pytest.mark.parametrize("datapath", ENGINES)
@pytest.mark.parametrize("queues", [_ONE_QUEUE, _MULTI_QUEUE])
async def test_program_in_a_host_cannot_take_a_queue_of_the_tap_of_a_vnic(datapath: str, queues: int) -> None:
    """Frames that another program reads would be neither delivered nor counted."""
    async with Lab(lab_of(2, datapath)) as lab:
        done = await lab.run("h1", [sys.executable, "-c", ATTACH, "blue", str(queues)])
        assert done.stdout.strip() in ("EBUSY", "EINVAL"), done.stderr
        await heals(lab, "h0", "10.9.2.2")
