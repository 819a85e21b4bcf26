"""The load balancer as a program, on a TAP and on one end of a veth, and beside it a plain forwarder.

The sender offers more than can be taken; the kernel of the receiving host counts what arrives. What it sent and did not
arrive is lost, in the program's queue as a rule. On the veth a second measurement asks what can be taken without loss:
it looks for the highest rate at which the forwarder loses nothing (`calm`), and offers 0.8 times that to both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

from ejfat.events.event import Segmenter
from ejfat.pipeline.native import Backend
from opavnic.lab.run.lab import Lab
from opavnic_bench.base.turns import BenchError
from opavnic_bench.ejfat.calm import highest_calm_rate
from opavnic_bench.ejfat.figures import (
    ALONE,
    FORWARDER,
    FORWARDER_CALM,
    INTERFACE,
    INTERFACE_CALM,
    LbCase,
    LbSample,
)

_WAIT_S = 60.0
_TAP, _WIRE, _VETH = "ejfat0", "wire0", "lb0"
_SETTLED_S = 0.05
"""Packets that come later than this after the last one count as lost."""
INTERFACE_SIZES = (116, 1436, 8900)
"""UDP payloads with the headers of version 2."""
CALM = 0.8
"""Part of the forwarder's rate without loss that is offered."""
_CALM_TRIALS = 3
"""How often that part may turn out to be too much for the forwarder itself."""


@dataclass(frozen=True, slots=True)
class Running:
    """A program that is measured."""

    config: dict[str, Any]
    """For the sender."""
    process: Popen[str]


async def measure_programs(
    lab: Lab, host: str, by: Backend, payloads: tuple[int, ...], seconds: float
) -> dict[LbCase, LbSample]:
    """Measure the load balancer on a TAP and on a veth, and the forwarder, on a host of a lab."""
    samples: dict[LbCase, LbSample] = {}
    async with _program(lab, host, by, _TAP) as running:
        for payload in payloads:
            async with sender_on(lab, host, running.config | {"payload": payload}) as sender:
                sample = await sample_of(lab, host, _TAP, sender, seconds, pid=running.process.pid)
                samples[LbCase(ALONE, by, 2, payload)] = sample
    headers = Segmenter(version=2).headers
    sizes = tuple(size - headers for size in INTERFACE_SIZES)
    rates: dict[int, float] = {}
    async with _program(lab, host, by, _VETH) as running:
        for payload in sizes:
            async with sender_on(lab, host, running.config | {"payload": payload}) as sender:
                sample = await sample_of(lab, host, _WIRE, sender, seconds, pid=running.process.pid)
                samples[LbCase(INTERFACE, by, 2, payload)] = sample
    async with _forwarder(lab, host, by) as running:
        pid = running.process.pid
        for payload in sizes:
            async with sender_on(lab, host, running.config | {"payload": payload}) as sender:
                sample = await sample_of(lab, host, _WIRE, sender, seconds, pid=pid)
                samples[LbCase(FORWARDER, by, None, payload)] = sample

                async def trial(rate: float, sender: Popen[str] = sender) -> float | None:
                    tried = await sample_of(lab, host, _WIRE, sender, seconds, rate)
                    return None if tried.lost else min(rate, (tried.sent or 0) / seconds)

                offered = (sample.sent or 0) / seconds
                rate = await highest_calm_rate(trial, sample.packets_per_second, offered)
                if not rate:
                    continue  # nothing to compare with: the machine has no time for it
                for _ in range(_CALM_TRIALS):
                    rates[payload] = rate * CALM
                    calm = await sample_of(lab, host, _WIRE, sender, seconds, rates[payload], pid)
                    if not calm.lost:
                        break
                    rate *= CALM  # nothing was lost by luck
                samples[LbCase(FORWARDER_CALM, by, None, payload)] = calm
    async with _program(lab, host, by, _VETH) as running:
        for payload in rates:
            async with sender_on(lab, host, running.config | {"payload": payload}) as sender:
                await _go(sender, 0.1)
                pid = running.process.pid
                sample = await sample_of(lab, host, _WIRE, sender, seconds, rates[payload], pid)
                samples[LbCase(INTERFACE_CALM, by, 2, payload)] = sample
    return samples


@contextlib.asynccontextmanager
async def _program(lab: Lab, host: str, by: Backend, interface: str) -> AsyncIterator[Running]:
    """Run `opavnic ejfat lb` on a host; sender and worker are that host's own kernel, behind `interface`."""
    if interface == _VETH:
        interface = _WIRE
        if not await _has(lab, host, _WIRE):
            await _ip(lab, host, "link", "add", _VETH, "mtu", "9000", "type", "veth", "peer", "name", _WIRE)
        await _ip(lab, host, "link", "set", _VETH, "up")
        # one frame for each packet, as from a wire; without this, a veth hands over 64 in one
        await _ip(lab, host, "link", "set", _WIRE, "gso_max_segs", "1")
    place = ["--tap", _TAP] if interface == _TAP else ["--interface", _VETH]
    with TemporaryDirectory(prefix="ejfat-") as directory:
        control = f"unix:{Path(directory)}/cp.sock"
        command = [sys.executable, "-m", "opavnic.cli.main", "ejfat", "lb", *place, "--pipeline", by]
        # with the period that users have: at 0.1 s, the control plane took as long as a few hundred packets a second
        command += ["--ipv4", "10.9.8.1", "--listen", control]
        command += ["--reserve", "bench", "--senders", "10.9.8.2"]
        process = lab.popen(host, command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
        try:
            uri = (await _line(process)).strip()
            for arguments in (
                ("address", "replace", "10.9.8.2/24", "dev", interface),
                ("address", "replace", "10.9.8.3/24", "dev", interface),
                ("link", "set", interface, "mtu", "9000", "up"),
            ):
                await _ip(lab, host, *arguments)
            yield Running(
                {"target": "10.9.8.1", "worker": "10.9.8.3", "uri": uri, "control": control}, process
            )
        finally:
            await _end(process)


@contextlib.asynccontextmanager
async def _forwarder(lab: Lab, host: str, by: Backend) -> AsyncIterator[Running]:
    """Run the plain forwarder where the load balancer was."""
    await _ip(lab, host, "neighbor", "replace", "10.9.8.1", "lladdr", "02:00:00:00:00:01", "dev", _WIRE)
    command = [sys.executable, "-m", "opavnic_bench.ejfat.reflect", _VETH, by]
    process = lab.popen(host, command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    try:
        await _line(process)
        yield Running({"target": "10.9.8.1"}, process)
    finally:
        await _end(process)
        await _ip(lab, host, "neighbor", "delete", "10.9.8.1", "dev", _WIRE)


@contextlib.asynccontextmanager
async def sender_on(lab: Lab, host: str, config: dict[str, Any]) -> AsyncIterator[Popen[str]]:
    """Run a sender on a host; it has registered its worker and begins when it is told to."""
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


async def sample_of(
    lab: Lab,
    host: str,
    interface: str,
    sender: Popen[str],
    seconds: float,
    rate: float = 0,
    pid: int | None = None,
) -> LbSample:
    """Have the sender send; return the packets per second that the host received, and what was lost.

    Args:    rate: packets per second; 0: as many as it can. pid: of the program between, whose processor time counts.
    """
    if not rate:
        await _go(sender, min(seconds, 0.1))  # warm up: find neighbors, grow buffers
    before, started, used = await _settled(lab, host, interface), time.perf_counter(), _processor_ns(pid)
    sent = await _go(sender, seconds, rate)
    elapsed = time.perf_counter() - started
    meanwhile = await _received(lab, host, interface) - before
    arrived = await _settled(lab, host, interface) - before
    per_packet = (_processor_ns(pid) - used) / arrived if pid is not None and arrived else None
    return LbSample(meanwhile / elapsed, max(sent - arrived, 0), sent=sent, processor_ns=per_packet)


def _processor_ns(pid: int | None) -> int:
    """Return the processor time of all threads of a process."""
    if pid is None:
        return 0
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


async def _settled(lab: Lab, host: str, interface: str) -> int:
    """Return how many frames have been received once no more arrive."""
    count = -1
    while count != (now := await _received(lab, host, interface)):
        count = now
        await asyncio.sleep(_SETTLED_S)
    return count


async def _go(sender: Popen[str], seconds: float, rate: float = 0) -> int:
    """Have the sender send; return how many packets it sent."""
    assert sender.stdin is not None  # noqa: S101 - a pipe was asked for
    sender.stdin.write(f"{seconds} {rate}\n")
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


async def _has(lab: Lab, host: str, interface: str) -> bool:
    return not (await lab.run(host, ["ip", "link", "show", interface])).returncode


async def _ip(lab: Lab, host: str, *arguments: str) -> str:
    done = await lab.run(host, ["ip", *arguments])
    if done.returncode:
        raise BenchError(f"ip {' '.join(arguments)} on {host}: {done.stderr.strip()}")
    return done.stdout
