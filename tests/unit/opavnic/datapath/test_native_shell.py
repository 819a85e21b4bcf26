"""The shell of the native datapath, with an engine that only remembers what it was told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from hfi_sim.errors import FabricError
from hfi_sim.fabric import Fabric
from opavnic.datapath import native
from opavnic.datapath.native import NativeDatapath
from opavnic.datapath.snapshot import LinkFault
from opavnic.errors import DatapathUnavailableError
from unit.hfi_sim.fabric_pair import Pair, make_pair


class FakeEngine:
    """What the shell sees of an engine; `ring` makes its notice descriptor readable."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.failure: str | None = None
        self.packets: list[tuple[int, int, bytes]] = []
        self.fabrics: list[Any] = []
        self.running = False
        self.notice_fd, self._bell = os.pipe()

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def ring(self) -> None:
        os.write(self._bell, b"x")

    def close(self) -> None:
        os.close(self.notice_fd)
        os.close(self._bell)

    def collect(self) -> dict[str, Any]:
        """Nothing was counted, on as many elements as there are."""
        ports, switches, links = self.fabrics[-1] if self.fabrics else ([], [], [])
        nothing = {"in_packets": 0, "drops": {}}
        return {
            "port_tx": [nothing] * len(ports),
            "port_rx": [nothing] * len(ports),
            "switches": [nothing] * len(switches),
            "lanes": [[nothing, nothing]] * len(links),
            "vports": {},
        }

    def set_fabric(self, *fabric: Any) -> dict[str, Any]:
        counts = self.collect()
        self.fabrics.append(fabric)
        return counts

    def take_packets(self) -> list[tuple[int, int, bytes]]:
        os.read(self.notice_fd, 1)
        taken, self.packets = self.packets, []
        return taken

    def take_lost(self) -> list[tuple[int, int]]:
        return []


class Bench:
    def __init__(self, pair: Pair, engine: FakeEngine, datapath: NativeDatapath, failures: list[str]) -> None:
        self.pair = pair
        self.engine = engine
        self.datapath = datapath
        self.failures = failures

    async def ring(self) -> None:
        """Let the event loop see the notice."""
        self.engine.ring()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    engines: list[FakeEngine] = []

    def make(**options: Any) -> FakeEngine:
        engines.append(FakeEngine(**options))
        return engines[-1]

    monkeypatch.setattr(native, "load_native", lambda: SimpleNamespace(Engine=make))
    loop = asyncio.get_running_loop()
    pair = make_pair(Fabric(loop, timer_resolution_s=1e-3))
    failures: list[str] = []
    datapath = NativeDatapath(pair.fabric, {}, loop, on_failure=failures.append, icrc=False, seed=7)
    datapath.refresh()
    yield Bench(pair, engines[0], datapath, failures)
    datapath.close()
    engines[0].close()


async def test_engine_gets_the_fabric_and_runs(bench: Bench) -> None:
    assert bench.engine.running
    assert bench.engine.options == {"icrc": False, "seed": 7}
    ports, switches, links = bench.engine.fabrics[0]
    assert [port["lid"] for port in ports] == [1, 2]
    assert switches[0]["lft"] == {1: 0, 2: 1}
    assert [link["slow"] for link in links] == [True, True]  # nobody there has VNICs


async def test_refresh_without_a_change_gives_nothing_new(bench: Bench) -> None:
    bench.datapath.refresh()
    assert len(bench.engine.fabrics) == 1
    bench.pair.fabric.set_link(bench.pair.fabric.links[0], False)
    bench.datapath.refresh()
    assert len(bench.engine.fabrics) == 2
    assert not bench.engine.fabrics[1][2][0]["up"]


async def test_packet_from_the_engine_goes_on_through_python(bench: Bench) -> None:
    packet = bench.pair.packet()
    bench.engine.packets.append((0, 0, packet))
    await bench.ring()
    assert bench.pair.received == [packet]


async def test_dead_thread_is_reported_once_with_its_reason(bench: Bench) -> None:
    bench.engine.failure = "the native datapath broke: index out of bounds"
    await bench.ring()
    await bench.ring()
    assert bench.failures == ["the native datapath broke: index out of bounds"]


async def test_fault_on_a_link_reaches_the_engine(bench: Bench) -> None:
    name = bench.pair.fabric.links[1].name
    bench.datapath.set_fault(name, LinkFault(loss=0.5, corrupt=0.25))
    links = bench.engine.fabrics[-1][2]
    assert (links[1]["loss"], links[1]["corrupt"]) == (0.5, 0.25)
    assert (links[0]["loss"], links[0]["corrupt"]) == (0.0, 0.0)


async def test_fault_that_makes_no_sense_is_refused(bench: Bench) -> None:
    with pytest.raises(FabricError, match="no link"):
        bench.datapath.set_fault("nowhere", LinkFault())
    with pytest.raises(FabricError, match="no probability"):
        bench.datapath.set_fault(bench.pair.fabric.links[0].name, LinkFault(loss=1.5))


async def test_native_datapath_that_is_not_built_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_native", lambda: None)
    loop = asyncio.get_running_loop()
    with pytest.raises(DatapathUnavailableError, match="make native"):
        NativeDatapath(Fabric(loop), {}, loop, on_failure=lambda _: None)
