"""The load balancer live: in a lab in memory, in a lab on TAPs, and as a program, on a TAP and on one end of a veth.

On TAPs and the veth the sender offers more than the load balancer can take; the kernel of the receiving host counts
what arrives. What it sent and did not arrive is lost, in the load balancer's queue as a rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

from ejfat.control.programming import Rewrite
from ejfat.live.node import LbNode
from ejfat.pipeline.native import Backend, make_pipeline
from ejfat.segmentation import Segmenter
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.precise_loop import timer_resolution_s
from opavnic.em_port import SmTopology, make_em
from opavnic.lab.lab import Lab
from opavnic.lab.model import LabModel
from opavnic_bench.bed import PKEY, make_world
from opavnic_bench.ejfat.figures import ALONE, FORWARDER, INTERFACE, MEMORY_LAB, TAP_LAB, Case, Sample
from opavnic_bench.ejfat.frames import LB, WORKER, make_frames, make_tables
from opavnic_bench.turns import BenchError
from vema.em.desired import parse_config

_BATCH = 64
_MTU = 9000
_WAIT_S = 60.0
_TAP, _WIRE, _VETH = "ejfat0", "wire0", "lb0"
_SETTLED_S = 0.05
"""Packets that come later than this after the last one count as lost."""
INTERFACE_SIZES = (116, 1436, 8900)
"""UDP payloads with the headers of version 2."""


@contextlib.asynccontextmanager
async def _vesw(*hosts: str) -> AsyncIterator[list[MemoryNetdev]]:
    """Yield the netdevs of these hosts once an Ethernet Manager has put them on a virtual switch."""
    loop = asyncio.get_running_loop()
    netdevs = {host: MemoryNetdev(host) for host in hosts}
    async with make_world(
        hosts, lambda host: lambda _: netdevs[host], clock=loop, timer_resolution_s=timer_resolution_s(loop)
    ) as world:
        topology = SmTopology(world.subnet_manager, world.em_port)
        em = make_em(topology, world.em_port, clock=loop, wall_clock=time.time)
        world.ends.add("Ethernet Manager", em.stop)
        vesw = {"id": 8, "name": "daq", "pkey": PKEY, "mtu": _MTU, "members": list(hosts)}
        em.start(parse_config({"vesws": [vesw]}))
        if not await em.wait_converged(_WAIT_S):
            raise BenchError(f"no virtual switch of {', '.join(hosts)} within {_WAIT_S:g} s")
        for netdev in netdevs.values():
            netdev.change_mtu(_MTU)
            netdev.open()
        yield [netdevs[host] for host in hosts]


async def memory_lab(by: Backend, payload: int, seconds: float) -> dict[Case, Sample]:
    """Measure source, load balancer and worker on a virtual switch: three VNICs and a fabric, ICRCs included."""
    async with _vesw("lb", "source", "worker") as (lb, source, sink):
        got = sent = 0

        def count(_frame: bytes) -> None:
            nonlocal got
            got += 1

        sink.on_receive = count
        mac = int.from_bytes(lb.address, "big")
        worker = Rewrite(0, int.from_bytes(sink.address, "big"), WORKER, 10000)
        node = LbNode(
            make_pipeline(by, make_tables(worker=worker, mac=mac)).pipeline,
            lb.transmit,
            mac=lambda: bytes(lb.address),
            addresses=[LB],
            on_sync=lambda *_: None,
        )
        lb.on_receive = node.receive
        frames = cycle(
            frame[:6] + bytes(source.address) + frame[12:] for frame in make_frames(2, payload, mac)
        )
        started = time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            for _ in range(_BATCH):
                source.transmit(next(frames))
            sent += _BATCH
            await asyncio.sleep(0)
        return {Case(MEMORY_LAB, by, 2, payload): Sample(got / elapsed, sent - got)}


async def tap_labs(
    by: Backend, payloads: tuple[int, ...], seconds: float, *, private: bool
) -> dict[Case, Sample]:
    """Measure the load balancer as an app of a lab on TAPs and as a program on a TAP, both only with `by`."""
    hosts = ["lb", "source", "worker", "alone"]
    model = LabModel.model_validate(
        {
            "name": f"ejfat-bench-{os.getpid()}",
            "datapath": by,
            "hosts": {host: {} for host in hosts},
            "vesws": [{"id": 8, "name": "daq", "mtu": _MTU, "subnet": "10.8.0.0/24", "members": hosts}],
            "apps": [
                {
                    "kind": "ejfat-lb",
                    "host": "lb",
                    "options": {"pipeline": by, "senders": ["source"], "period": 0.1},
                }
            ],
        }
    )
    samples = {}
    async with Lab(model, private=private) as lab:
        (app,) = lab.status()["apps"]
        inside = {"target": "10.8.0.1", "worker": "10.8.0.3", "uri": app["uri"], "control": app["control"]}
        for payload in payloads:
            async with _sender(lab, "source", inside | {"payload": payload}) as sender:
                samples[Case(TAP_LAB, by, 2, payload)] = await _sample(lab, "worker", "daq", sender, seconds)
        headers = Segmenter(version=2).headers
        for what, interface, sizes in (
            (ALONE, _TAP, payloads),
            (INTERFACE, _WIRE, tuple(size - headers for size in INTERFACE_SIZES)),
        ):
            async with _program(lab, by, interface) as alone:
                for payload in sizes:
                    async with _sender(lab, "alone", alone | {"payload": payload}) as sender:
                        sample = await _sample(lab, "alone", interface, sender, seconds)
                        samples[Case(what, by, 2, payload)] = sample
        if by == "python":
            async with _forwarder(lab) as config:
                for payload in (size - headers for size in INTERFACE_SIZES):
                    async with _sender(lab, "alone", config | {"payload": payload}) as sender:
                        sample = await _sample(lab, "alone", _WIRE, sender, seconds)
                        samples[Case(FORWARDER, "python", None, payload)] = sample
    return samples


@contextlib.asynccontextmanager
async def _program(lab: Lab, by: Backend, interface: str) -> AsyncIterator[dict[str, Any]]:
    """Run `opavnic ejfat lb` on a host; sender and worker are that host's own kernel, behind `interface`."""
    if interface == _WIRE:
        await _ip(lab, "alone", "link", "add", _VETH, "mtu", "9000", "type", "veth", "peer", "name", _WIRE)
        await _ip(lab, "alone", "link", "set", _VETH, "up")
    place = ["--tap", _TAP] if interface == _TAP else ["--interface", _VETH]
    with TemporaryDirectory(prefix="ejfat-") as directory:
        control = f"unix:{Path(directory)}/cp.sock"
        command = [sys.executable, "-m", "opavnic.cli.main", "ejfat", "lb", *place, "--pipeline", by]
        command += ["--ipv4", "10.9.8.1", "--listen", control, "--period", "0.1"]
        command += ["--reserve", "bench", "--senders", "10.9.8.2"]
        process = lab.popen("alone", command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
        try:
            uri = (await _line(process)).strip()
            for arguments in (
                ("address", "add", "10.9.8.2/24", "dev", interface),
                ("address", "add", "10.9.8.3/24", "dev", interface),
                ("link", "set", interface, "mtu", "9000", "up"),
            ):
                await _ip(lab, "alone", *arguments)
            yield {"target": "10.9.8.1", "worker": "10.9.8.3", "uri": uri, "control": control}
        finally:
            await _end(process)


@contextlib.asynccontextmanager
async def _forwarder(lab: Lab) -> AsyncIterator[dict[str, Any]]:
    """Run the plain forwarder where the load balancer was."""
    await _ip(lab, "alone", "neighbor", "replace", "10.9.8.1", "lladdr", "02:00:00:00:00:01", "dev", _WIRE)
    command = [sys.executable, "-m", "opavnic_bench.ejfat.reflect", _VETH]
    process = lab.popen("alone", command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    try:
        await _line(process)
        yield {"target": "10.9.8.1"}
    finally:
        await _end(process)


@contextlib.asynccontextmanager
async def _sender(lab: Lab, host: str, config: dict[str, Any]) -> AsyncIterator[Popen[str]]:
    command = [sys.executable, "-m", "opavnic_bench.ejfat.blast", json.dumps(config)]
    process = lab.popen(host, command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    try:
        await _line(process)
        yield process
    finally:
        await _end(process)


async def _end(process: Popen[str]) -> None:
    process.terminate()
    await asyncio.to_thread(process.communicate)


async def _sample(lab: Lab, host: str, interface: str, sender: Popen[str], seconds: float) -> Sample:
    """Start the sender; return the packets per second that the host received, and what it lost."""
    await _go(sender, min(seconds, 0.1))  # warm up: find neighbors, grow buffers
    before, started = await _settled(lab, host, interface), time.perf_counter()
    sent = await _go(sender, seconds)
    elapsed = time.perf_counter() - started
    meanwhile = await _received(lab, host, interface) - before
    arrived = await _settled(lab, host, interface) - before
    return Sample(meanwhile / elapsed, max(sent - arrived, 0))


async def _settled(lab: Lab, host: str, interface: str) -> int:
    """Return how many frames have been received once no more arrive."""
    count = -1
    while count != (now := await _received(lab, host, interface)):
        count = now
        await asyncio.sleep(_SETTLED_S)
    return count


async def _go(sender: Popen[str], seconds: float) -> int:
    """Have the sender send; return how many packets it sent."""
    assert sender.stdin is not None  # noqa: S101 - a pipe was asked for
    sender.stdin.write(f"{seconds}\n")
    sender.stdin.flush()
    return int(json.loads(await _line(sender, seconds + _WAIT_S))["packets"])


async def _line(process: Popen[str], timeout_s: float = _WAIT_S) -> str:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), timeout_s)
    if not line:
        raise BenchError(f"{process.args!r} ended before it began")
    return line


async def _received(lab: Lab, host: str, interface: str) -> int:
    """Return how many frames the host's kernel has received on an interface."""
    answer = await _ip(lab, host, "-s", "-j", "link", "show", interface)
    return int(json.loads(answer)[0]["stats64"]["rx"]["packets"])


async def _ip(lab: Lab, host: str, *arguments: str) -> str:
    done = await lab.run(host, ["ip", *arguments])
    if done.returncode:
        raise BenchError(f"ip {' '.join(arguments)} on {host}: {done.stderr.strip()}")
    return done.stdout
