"""The load balancer live: in a lab in memory, in a lab on TAPs, and as a program on a TAP of its own.

On TAPs a sender gives more than can be taken; what counts is what the kernel of the receiving host gets.
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

from ejfat.bench.figures import ALONE, MEMORY_LAB, TAP_LAB, Figure, figure
from ejfat.bench.frames import LB, WORKER, make_frames, make_tables
from ejfat.control.programming import Rewrite
from ejfat.demo.lab import NodeLab
from ejfat.errors import EjfatError
from ejfat.live.node import LbNode
from ejfat.pipeline.native import Backend, make_pipeline
from opavnic.lab.lab import Lab
from opavnic.lab.model import LabModel

_BATCH = 64
_WAIT_S = 60.0
_TAP = "ejfat0"


async def memory_lab(by: Backend, payload: int, rounds: int, seconds: float) -> Figure:
    """Measure source, load balancer and worker on a virtual switch: three VNICs, a fabric, ICRCs and all."""
    hosts = ["lb", "source", "worker"]
    model = LabModel.model_validate(
        {
            "name": "ejfat-bench",
            "hosts": {host: {} for host in hosts},
            "vesws": [{"id": 8, "name": "daq", "mtu": 9000, "subnet": "10.8.0.0/24", "members": hosts}],
        }
    )
    async with NodeLab(model, nodes=frozenset(hosts), netdev="memory") as lab:
        lb, source, sink = map(lab.node_netdev, hosts)
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
        rates = []
        for _ in range(rounds):
            before, started = got, time.perf_counter()
            while (elapsed := time.perf_counter() - started) < seconds:
                for _ in range(_BATCH):
                    source.transmit(next(frames))
                sent += _BATCH
                await asyncio.sleep(0)
            rates.append((got - before) / elapsed)
        return figure(MEMORY_LAB, by, payload, rates, lost=sent - got)


async def tap_labs(
    by: Backend, payloads: tuple[int, ...], rounds: int, seconds: float, *, private: bool
) -> list[Figure]:
    """Measure the load balancer as an app of a lab on TAPs, and as a program on a TAP, both by `by` alone."""
    hosts = ["lb", "source", "worker", "alone"]
    model = LabModel.model_validate(
        {
            "name": f"ejfat-bench-{os.getpid()}",
            "datapath": by,
            "hosts": {host: {} for host in hosts},
            "vesws": [{"id": 8, "name": "daq", "mtu": 9000, "subnet": "10.8.0.0/24", "members": hosts}],
            "apps": [
                {
                    "kind": "ejfat-lb",
                    "host": "lb",
                    "options": {"pipeline": by, "senders": ["source"], "period": 0.1},
                }
            ],
        }
    )
    figures = []
    async with Lab(model, private=private) as lab:
        (app,) = lab.status()["apps"]
        inside = {"target": "10.8.0.1", "worker": "10.8.0.3", "uri": app["uri"], "control": app["control"]}
        for payload in payloads:
            async with _sender(lab, "source", inside | {"payload": payload}) as sender:
                rates = await _rates(lab, "worker", "daq", sender, rounds, seconds)
                figures.append(figure(TAP_LAB, by, payload, rates, lost=None))
        async with _program(lab, by) as alone:
            for payload in payloads:
                async with _sender(lab, "alone", alone | {"payload": payload}) as sender:
                    rates = await _rates(lab, "alone", _TAP, sender, rounds, seconds)
                    figures.append(figure(ALONE, by, payload, rates, lost=None))
    return figures


@contextlib.asynccontextmanager
async def _program(lab: Lab, by: Backend) -> AsyncIterator[dict[str, Any]]:
    """Run `opavnic ejfat lb --tap` on a host; sender and worker are that host's own kernel."""
    with TemporaryDirectory(prefix="ejfat-") as directory:
        control = f"unix:{Path(directory)}/cp.sock"
        command = [sys.executable, "-m", "opavnic.cli.main", "ejfat", "lb", "--tap", _TAP, "--pipeline", by]
        command += ["--ipv4", "10.9.8.1", "--listen", control, "--period", "0.1"]
        command += ["--reserve", "bench", "--senders", "10.9.8.2"]
        process = lab.popen("alone", command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
        try:
            uri = (await _line(process)).strip()
            for arguments in (
                ("address", "add", "10.9.8.2/24", "dev", _TAP),
                ("address", "add", "10.9.8.3/24", "dev", _TAP),
                ("link", "set", _TAP, "mtu", "9000", "up"),
            ):
                await _ip(lab, "alone", *arguments)
            yield {"target": "10.9.8.1", "worker": "10.9.8.3", "uri": uri, "control": control}
        finally:
            await _end(process)


@contextlib.asynccontextmanager
async def _sender(lab: Lab, host: str, config: dict[str, Any]) -> AsyncIterator[Popen[str]]:
    command = [sys.executable, "-m", "ejfat.bench.blast", json.dumps(config)]
    process = lab.popen(host, command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    try:
        await _line(process)
        yield process
    finally:
        await _end(process)


async def _end(process: Popen[str]) -> None:
    process.terminate()
    await asyncio.to_thread(process.communicate)


async def _rates(
    lab: Lab, host: str, interface: str, sender: Popen[str], rounds: int, seconds: float
) -> list[float]:
    """Let the sender go and return packets per second that the host got, one for each round."""
    await _go(sender, min(seconds, 0.1))  # neighbors are found, buffers have grown
    rates = []
    for _ in range(rounds):
        before, started = await _received(lab, host, interface), time.perf_counter()
        await _go(sender, seconds)
        elapsed = time.perf_counter() - started
        rates.append((await _received(lab, host, interface) - before) / elapsed)
    return rates


async def _go(sender: Popen[str], seconds: float) -> None:
    assert sender.stdin is not None  # noqa: S101 - a pipe was asked for
    sender.stdin.write(f"{seconds}\n")
    sender.stdin.flush()
    await _line(sender, seconds + _WAIT_S)


async def _line(process: Popen[str], timeout_s: float = _WAIT_S) -> str:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), timeout_s)
    if not line:
        raise EjfatError(f"{process.args!r} ended before it began")
    return line


async def _received(lab: Lab, host: str, interface: str) -> int:
    """Return how many frames the host's kernel has taken from an interface."""
    answer = await _ip(lab, host, "-s", "-j", "link", "show", interface)
    return int(json.loads(answer)[0]["stats64"]["rx"]["packets"])


async def _ip(lab: Lab, host: str, *arguments: str) -> str:
    done = await lab.run(host, ["ip", *arguments])
    if done.returncode:
        raise EjfatError(f"ip {' '.join(arguments)} on {host}: {done.stderr.strip()}")
    return done.stdout
