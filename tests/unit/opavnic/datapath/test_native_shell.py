"""The shell of the native datapath, with an engine that only remembers what it was told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from hfi_sim.fabric import Fabric
from hfi_sim.faults import Faults
from hfi_sim.wire.lrh16b import becn_of
from opavnic.datapath import native
from opavnic.datapath.native import NativeDatapath
from opavnic.errors import DatapathUnavailableError
from unit.hfi_sim.fabric_pair import TEST_L4, Pair, make_pair


class FakeEngine:
    """What the shell sees of an engine; `ring` makes its notice descriptor readable."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.failure: str | None = None
        self.packets: list[tuple[int, int, int, bytes]] = []
        self.fabrics: list[Any] = []
        self.running = False
        self.tallies: dict[int, list[list[tuple[int, int]]]] = {}
        """What the faults of a link have done since the last time, by index of the link."""
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
            "directions": [[nothing, nothing]] * len(links),
            "faults": [
                self.tallies.get(index) or [[(0, 0)] * len(faults) for faults in link["faults"]]
                for index, link in enumerate(links)
            ],
            "drawn": [[0, 0]] * len(links),
            "vports": {},
        }

    def set_fabric(self, *fabric: Any) -> dict[str, Any]:
        counts = self.collect()
        self.fabrics.append(fabric)
        return counts

    def take_packets(self) -> list[tuple[int, int, int, bytes]]:
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
    datapath = NativeDatapath(pair.fabric, {}, loop, on_failure=failures.append, icrc=False)
    datapath.refresh()
    yield Bench(pair, engines[0], datapath, failures)
    datapath.close()
    engines[0].close()


async def test_engine_gets_the_fabric_and_runs(bench: Bench) -> None:
    assert bench.engine.running
    assert bench.engine.options == {"icrc": False}
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


async def test_new_tables_and_links_reach_the_engine_without_waiting_for_a_comparison(bench: Bench) -> None:
    fabric, switch = bench.pair.fabric, bench.pair.switch
    switch.program({7: 2}, {})
    await asyncio.sleep(0)
    assert bench.engine.fabrics[-1][1][0]["lft"] == {7: 1}
    fabric.set_link(fabric.links[1], False)
    await asyncio.sleep(0)
    assert not bench.engine.fabrics[-1][2][1]["up"]
    bench.pair.sm.sweep()
    await asyncio.sleep(0)
    assert bench.engine.fabrics[-1][1][0]["lft"] == {1: 0}


async def test_closed_datapath_follows_the_fabric_no_more(bench: Bench) -> None:
    bench.datapath.close()
    bench.pair.switch.program({7: 2}, {})
    await asyncio.sleep(0)
    assert len(bench.engine.fabrics) == 1


async def test_packet_from_the_engine_goes_on_through_python(bench: Bench) -> None:
    packet = bench.pair.packet()
    bench.engine.packets.append((0, 0, 0, packet))
    await bench.ring()
    assert bench.pair.received == [packet]


@pytest.mark.parametrize("start", [(0, 0), (1, 1)], ids=["at the port", "behind a switch"])
async def test_packet_from_the_engine_answers_a_congestion_mark(bench: Bench, start: tuple[int, int]) -> None:
    pair = bench.pair
    pair.a.register_l4(TEST_L4, lambda _port, _packet, _token: None)
    pair.fabric.links[1].directions[0].enter(pair.packet(slid=pair.b.lid, dlid=pair.a.lid, fecn=1))
    bench.engine.packets += [(*start, 0, pair.packet()), (*start, 0, pair.packet())]
    await bench.ring()
    assert [becn_of(packet) for packet in pair.received] == [True, False]
    assert pair.b.congestion.becn_received == pair.a.congestion.becn_sent == 1


async def test_dead_thread_is_reported_once_with_its_reason(bench: Bench) -> None:
    bench.engine.failure = "the native datapath broke: index out of bounds"
    await bench.ring()
    await bench.ring()
    assert bench.failures == ["the native datapath broke: index out of bounds"]


async def test_plain_faults_reach_the_engine_at_once_and_what_they_did_comes_back(bench: Bench) -> None:
    first, second = bench.pair.fabric.links
    faults = Faults(bench.pair.fabric)
    faults.on_change = bench.datapath.changed
    way = second.directions[0].name
    loss = faults.add(f"loss on {way} 50%")
    corrupt = faults.add(f"corrupt on {second.name} 25% bits=3")
    await asyncio.sleep(0)
    links = bench.engine.fabrics[-1][2]
    assert links[0]["faults"] == [[], []]
    assert links[1]["faults"] == [[(1 << 52, 0), (1 << 51, 3)], [(1 << 51, 3)]]
    assert "faults" not in bench.datapath.slow_links().values()
    bench.engine.tallies = {1: [[(10, 4), (6, 2)], [(8, 1)]]}
    assert [(fault["seen"], fault["hits"]) for fault in faults.show()] == [(10, 4), (14, 3)]
    bench.engine.tallies = {}
    faults.remove(loss.number)
    faults.remove(corrupt.number)
    await asyncio.sleep(0)
    assert [link["faults"] for link in bench.engine.fabrics[-1][2]] == [[[], []], [[], []]]
    assert first.name != second.name


@pytest.mark.parametrize("options", ["l4=mad", "dlid=2", "count=3", "skip=2", "for=1s", "for=1ms every=10ms"])
async def test_fault_that_is_more_than_a_chance_is_left_to_python(bench: Bench, options: str) -> None:
    link = bench.pair.fabric.links[1]
    faults = Faults(bench.pair.fabric)
    faults.add(f"loss on {link.name} 1%")
    faults.add(f"corrupt on {link.name} {options}")
    bench.datapath.refresh()
    assert bench.engine.fabrics[-1][2][1]["slow"]
    assert bench.engine.fabrics[-1][2][1]["faults"] == [[], []]
    assert bench.datapath.slow_links()[link.name] == "faults"
    faults.clear()


async def test_native_datapath_that_is_not_built_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_native", lambda: None)
    loop = asyncio.get_running_loop()
    with pytest.raises(DatapathUnavailableError, match="make native"):
        NativeDatapath(Fabric(loop), {}, loop, on_failure=lambda _: None)
