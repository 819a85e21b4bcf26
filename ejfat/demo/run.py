"""Run the demonstration, show its progress and check its result."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, ip_address
from pathlib import Path

from ejfat.control.balancer import Policy
from ejfat.control.members import STALE_S
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.demo.nodes import EventSource, Ledger, SocketUdpHost, Stream, UdpHost, WorkerNode
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.machine import NetdevKind
from opavnic.lab.run.lab import Lab

SOURCES = ("s1", "s2", "s3")
LB = "lb"
WORKERS = {"w1": 1.0, "w2": 2.0, "w3": 1.0, "w4": 1.0}
SLOW, KILLED = "w3", "w4"
_PORT = 10000
_TOLERANCE = 0.05
_ARRIVE_S = 20.0
"""Seconds for which what has been sent may still be on its way at the end."""


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Durations and rates of the demonstration."""

    rate_hz: float = 60.0
    """Ticks per second: few enough that a machine which is busy with something else keeps up."""
    size: int = 2000
    start_s: float = 4.0
    slow_s: float = 7.0
    killed_s: float = 7.0
    window_s: float = 2.5
    """Seconds at the end of each phase over which shares are measured."""
    period_s: float = 0.2
    queue: int = 400
    """Parts: a slow worker's would overflow before the end if its share stayed, but not while a busy machine reacts."""
    policy: Policy = field(default_factory=lambda: Policy(lead_s=0.15, quiescence_s=0.6, fill_gain=3000.0))


@dataclass(slots=True)
class DemoState:
    """The state shown while the demonstration runs."""

    phase: str = "starting"
    tick: int = 0
    events: int = 0
    split: int = 0
    epochs: int = 0
    rows: list[tuple[str, float, int, float, int, bool]] = field(default_factory=list)
    """Worker, weight, slots, fill, parts delivered, alive."""


@dataclass(slots=True)
class EjfatDemoResult:
    """The result of the demonstration."""

    ok: bool
    events: int
    split_events: int
    lost_events: int
    """Events lost, except at the killed worker."""
    lost_at_killed: int
    shares: dict[str, dict[str, float]]
    """By phase, the share of each worker in the events at the end of the phase."""
    epochs: int
    packets: int
    problems: list[str]
    netdev: str


def demo_model() -> LabModel:
    """Return the lab: eight hosts on a virtual switch."""
    hosts = [LB, *SOURCES, *WORKERS]
    return LabModel.model_validate(
        {
            "name": f"ejfat-demo-{os.getpid()}",  # so that two demonstrations can run at once
            "hosts": {host: {} for host in hosts},
            "vesws": [{"id": 7, "name": "daq", "mtu": 1500, "subnet": "10.7.0.0/24", "members": hosts}],
        }
    )


async def run_demo(
    plan: DemoPlan | None = None,
    show: Callable[[DemoState], None] = lambda state: None,
    *,
    netdev: NetdevKind = "memory",
    private: bool = False,
) -> EjfatDemoResult:
    """Run the demonstration.

    Args:    netdev: with tap, sources and workers use the kernels of their hosts; with memory, the lab's own stack.
        private: see `Lab`.
    Raises:  LabError: the lab cannot be started. TimeoutError: a source or worker does not start.
    """
    plan = plan or DemoPlan()
    async with Lab(demo_model(), app_hosts=frozenset({LB}), netdev=netdev, private=private) as lab:
        with tempfile.TemporaryDirectory(prefix="ejfat-") as directory:
            demo = _Demo(plan, lab, show)
            try:
                await demo.start(Path(directory))
                return await demo.phases()
            finally:
                await demo.stop()


class _Demo:
    def __init__(self, plan: DemoPlan, lab: Lab, show: Callable[[DemoState], None]) -> None:
        self.plan = plan
        self.lab = lab
        self.ledger = Ledger()
        self.state = DemoState()
        self.sources: list[EventSource] = []
        self.workers: dict[str, WorkerNode] = {}
        self._show = show
        self._ends = contextlib.AsyncExitStack()
        self.lb_ip = self._address(LB)
        self._names = {str(self._address(name)): name for name in WORKERS}

    def _address(self, host: str) -> IPv4Address:
        address = self.lab.host(host).interfaces[0].address
        return IPv4Address(str(address).partition("/")[0])

    def _udp_host(self, name: str, port: int = 0) -> UdpHost:
        """Return a host's address: that of the lab in memory, or that of its kernel."""
        host = self.lab.host(name)
        if self.lab.netdev == "memory":
            memory = host.interfaces[0].memory_host
            assert memory is not None  # noqa: S101 - every interface with an address has one in a lab in memory
            return memory
        assert host.namespace is not None  # noqa: S101 - every host with a TAP has one
        udp = SocketUdpHost(self._address(name), host.namespace, port)
        self._ends.callback(udp.close)
        return udp

    async def start(self, directory: Path) -> None:
        netdev = self.lab.host(LB).interfaces[0].app_netdev
        assert netdev is not None  # noqa: S101 - every interface of an app's host has one
        plane = PlaneConfig(
            mac=int.from_bytes(netdev.address, "big"),
            instances=(InstanceAddresses(ip_address(str(self.lb_ip))),),
            policy=self.plan.policy,
        )
        config = AppConfig(
            plane,
            listen=f"unix:{directory}/ejfat.sock",
            state=directory / "state.db",
            period_s=self.plan.period_s,
        )
        self.app = LbApp(config, netdev.transmit)
        self._ends.push_async_callback(self.app.stop)
        netdev.on_receive = self.app.receive
        self.app.node.on_forward = self._forwarded
        await self.app.start()
        uri = self.app.reserve("demo", [self._address(name) for name in SOURCES])
        self.lb_id = uri.lb_id
        self.workers = {
            name: WorkerNode(
                name,
                self._udp_host(name, _PORT),
                weight=weight,
                port=_PORT,
                capacity_hz=3 * self.plan.rate_hz * len(SOURCES),
                queue=self.plan.queue,
                on_event=partial(self.ledger.arrived, size=self.plan.size),
            )
            for name, weight in WORKERS.items()
        }
        for worker in self.workers.values():
            self._ends.push_async_callback(worker.stop)
        await asyncio.gather(*(worker.start(uri, config.listen) for worker in self.workers.values()))
        self.app.advance()
        for data_id, name in enumerate(SOURCES, 1):
            source = EventSource(self._udp_host(name), data_id, self.lb_ip, uri.sync[0].port, self.ledger)
            self.sources.append(source)
            self._ends.push_async_callback(source.stop)

    async def stop(self) -> None:
        """Stop everything that was started, even if one part fails."""
        await self._ends.aclose()

    async def phases(self) -> EjfatDemoResult:
        loop = asyncio.get_running_loop()
        stream = Stream(self.plan.rate_hz, self.plan.size, 1_000_000, loop.time() + 0.05)
        for source in self.sources:
            await source.start(stream)
        await self._until(stream.started_at)
        shares = {"start": await self._phase("start", self.plan.start_s)}
        self.workers[SLOW].capacity_hz = self.plan.rate_hz * len(SOURCES) * 0.05
        shares["slow"] = await self._phase("slow", self.plan.slow_s)
        self.workers[KILLED].kill()
        shares["killed"] = await self._phase("killed", self.plan.killed_s + STALE_S)
        for source in self.sources:
            await source.stop()
        await self._until(loop.time() + 1.0)
        late = loop.time() + _ARRIVE_S
        while self.ledger.lost(KILLED) and loop.time() < late:
            await self._until(loop.time() + 0.25)
        return self._judge(shares)

    async def _phase(self, name: str, seconds: float) -> dict[str, float]:
        self.state.phase = name
        end = asyncio.get_running_loop().time() + seconds
        await self._until(end - self.plan.window_s)
        first = self.sources[0].next_tick
        await self._until(end)
        return self.ledger.shares(first, self.sources[0].next_tick - 1, list(WORKERS))

    async def _until(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        while (left := end - loop.time()) > 0:
            await asyncio.sleep(min(left, 0.25))
            self._update()
            self._show(self.state)

    def _update(self) -> None:
        state = self.state
        reservation = self.app.plane.get(self.lb_id)
        slots = reservation.balancer.slots()
        by_name = {
            session.worker.name: (slots.get(number, 0), session.weight)
            for number, session in reservation.balancer.sessions.items()
        }
        delivered = dict.fromkeys(WORKERS, 0)
        for worker in self.ledger.delivered.values():
            delivered[worker] += 1
        state.tick = self.sources[0].next_tick - 1
        state.events, state.split = self.ledger.events, len(self.ledger.split)
        state.epochs = reservation.balancer.epochs.next_number
        state.rows = [
            (
                name,
                by_name.get(name, (0, 0.0))[1],
                by_name.get(name, (0, 0.0))[0],
                w.fill,
                delivered[name],
                w.alive,
            )
            for name, w in self.workers.items()
        ]

    def _forwarded(self, came: bytes, leaves: bytes) -> None:
        tick = int.from_bytes(came[50:58], "big")
        worker = self._names.get(str(IPv4Address(leaves[30:34])))
        if worker is not None:
            self.ledger.forwarded(tick, worker)

    def _judge(self, shares: dict[str, dict[str, float]]) -> EjfatDemoResult:
        ledger, counters = self.ledger, self.app.pipeline.counters
        lost = ledger.lost(KILLED)
        problems = []
        total = sum(WORKERS.values())
        for name, weight in WORKERS.items():
            if abs(shares["start"][name] - weight / total) > _TOLERANCE:
                problems.append(
                    f"{name} got {shares['start'][name]:.2f} of the events; its weight gives {weight / total:.2f}"
                )
        if shares["slow"][SLOW] > 0.6 * shares["start"][SLOW]:
            problems.append(f"the share of the slow {SLOW} did not shrink: {shares['slow'][SLOW]:.2f}")
        if shares["killed"][KILLED] > 0:
            problems.append(f"the killed {KILLED} still gets {shares['killed'][KILLED]:.2f}")
        for what, count in (
            ("split", len(ledger.split)),
            ("lost", len(lost)),
            ("damaged", ledger.damaged),
            ("delivered twice", ledger.twice),
        ):
            if count:
                problems.append(f"{count} events {what}")
        if counters.balance:
            problems.append(f"{counters.balance} frames are neither forwarded nor counted as dropped")
        if self.lab.world.fabric.balance():
            problems.append(f"the fabric misses packets: {self.lab.world.fabric.balance()}")
        return EjfatDemoResult(
            ok=not problems,
            events=ledger.events,
            split_events=len(ledger.split),
            lost_events=len(lost),
            lost_at_killed=len(ledger.lost()) - len(lost),
            shares=shares,
            epochs=self.app.plane.get(self.lb_id).balancer.epochs.next_number,
            packets=counters.rx_packets,
            problems=problems,
            netdev=self.lab.netdev,
        )
