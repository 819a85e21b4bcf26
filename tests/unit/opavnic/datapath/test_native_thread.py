"""The shell of native VNICs: a fabric that threads drive beside the event loop, without any TAP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.lrh16b import Lrh16B
from native_module import needs_native
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath.native_thread import NativeDatapath
from opavnic.datapath.selection import NOT_BUILT
from opavnic.engine import threaded
from opavnic.engine.threaded import ThreadedDriver, carrier_engine, native_carrier
from unit.hfi_sim.fabric_pair import TEST_L4, Pair, make_pair

if TYPE_CHECKING:
    from opavnic import _native

pytestmark = needs_native

PATIENCE_S = 60.0


@dataclass
class Bench:
    pair: Pair
    carrier: _native.Carrier
    datapath: NativeDatapath
    failures: list[str]
    arrived: asyncio.Queue[bytes]

    async def next(self) -> bytes:
        """Return the next packet that came to b."""
        return await asyncio.wait_for(self.arrived.get(), PATIENCE_S)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what only counters show."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nothing announces counters
            await asyncio.sleep(0)


@pytest.fixture(params=[1, 3], ids="{} workers".format)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    loop = asyncio.get_running_loop()
    carrier = native_carrier(workers=request.param)
    pair = make_pair(Fabric(loop, engine=carrier_engine(carrier), driver=ThreadedDriver))
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def take(_port: HfiPort, packet: bytes, _token: object) -> None:
        arrived.put_nowait(packet)

    pair.b.unregister_l4(TEST_L4)
    pair.b.register_l4(TEST_L4, take)
    failures: list[str] = []
    datapath = NativeDatapath(pair.fabric, {}, carrier, loop, on_failure=failures.append)
    datapath.refresh()
    yield Bench(pair, carrier, datapath, failures, arrived)
    datapath.close()


async def test_packets_of_python_cross_the_fabric_by_the_thread(bench: Bench) -> None:
    packets = [bench.pair.packet(bytes((number,)) * 40) for number in range(100)]
    for packet in packets:
        assert bench.pair.a.send(packet) is None
    assert [await bench.next() for _ in packets] == packets
    assert bench.pair.fabric.balance() == {}
    assert bench.pair.b.rx.out_packets == len(packets)


async def test_latency_is_kept_by_the_thread_and_not_by_the_loop(bench: Bench) -> None:
    link = bench.pair.fabric.links[1]
    bench.pair.fabric.set_link(link, False)
    bench.pair.fabric.set_link(link, True)
    loop = asyncio.get_running_loop()
    sent, packet = loop.time(), bench.pair.packet()
    link.configure(LinkConfig(8e5))  # 10 us for a byte
    assert bench.pair.a.send(packet) is None
    assert await bench.next() == packet
    assert loop.time() - sent >= len(packet) * 10e-6


async def test_answers_from_handlers_go_back_and_forth(bench: Bench) -> None:
    """Each packet that a receives is answered at once, as long as it likes."""
    pair, rounds = bench.pair, 200

    def answer(_port: HfiPort, _packet: bytes, _token: object) -> None:
        pair.a.send(pair.packet())

    pair.a.register_l4(TEST_L4, answer)
    pair.a.send(pair.packet())
    for _ in range(rounds):
        await bench.next()
        pair.b.send(pair.packet(slid=pair.b.lid, dlid=pair.a.lid, pkey=0x7FFF))
    await bench.next()
    assert pair.fabric.balance() == {}
    assert pair.a.rx.out_packets == rounds


async def test_new_tables_and_links_hold_at_once(bench: Bench) -> None:
    fabric, switch = bench.pair.fabric, bench.pair.switch
    switch.program({}, {})
    bench.pair.a.send(bench.pair.packet())
    await until(lambda: bool(switch.counters.drops))
    assert switch.counters.drops == {Drop.SW_NO_ROUTE: 1}
    fabric.set_link(fabric.links[0], False)
    assert bench.pair.a.send(bench.pair.packet()) is Drop.TX_PORT_DOWN


async def test_faults_count_by_the_thread(bench: Bench) -> None:
    faults = Faults(bench.pair.fabric)
    link = bench.pair.fabric.links[1]
    faults.add(f"loss on {link.name} count=3")
    for _ in range(5):
        bench.pair.a.send(bench.pair.packet())
    assert [await bench.next() for _ in range(2)] == [bench.pair.packet()] * 2
    (shown,) = faults.show()
    assert (shown["hits"], shown["state"]) == (3, "over")


async def test_observer_sees_what_passes(bench: Bench) -> None:
    seen: list[bytes] = []
    end = bench.pair.fabric.observe(lambda observed: seen.append(observed.packet))
    packet = bench.pair.packet()
    bench.pair.a.send(packet)
    await bench.next()
    assert seen == [packet, packet]
    end()
    bench.pair.a.send(packet)
    await bench.next()
    assert len(seen) == 2


async def test_congestion_is_answered(bench: Bench) -> None:
    pair = bench.pair
    pair.a.register_l4(TEST_L4, lambda _port, _packet, _token: None)
    pair.b.send(pair.packet(slid=pair.b.lid, dlid=pair.a.lid, pkey=0x7FFF, fecn=1))
    await until(lambda: bool(pair.a.congestion.fecn_received))
    for _ in range(2):
        pair.a.send(pair.packet())
    assert [Lrh16B.parse(await bench.next()).becn for _ in range(2)] == [True, False]
    assert pair.b.congestion.becn_received == pair.a.congestion.becn_sent == 1


async def test_nothing_passes_while_it_is_still(bench: Bench) -> None:
    with bench.datapath.still():
        bench.pair.a.send(bench.pair.packet())
        await asyncio.sleep(0)
        assert bench.arrived.empty()
        assert bench.pair.fabric.balance() == {}
    assert await bench.next() == bench.pair.packet()


async def test_closed_datapath_leaves_a_fabric_that_can_be_taken_down(bench: Bench) -> None:
    bench.datapath.close()
    bench.datapath.close()
    bench.pair.fabric.set_link(bench.pair.fabric.links[0], False)
    assert bench.pair.fabric.balance() == {}


async def test_native_datapath_that_is_not_built_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "load_native", lambda: None)
    monkeypatch.setattr(threaded, "why_not_native", lambda: NOT_BUILT)
    with pytest.raises(DatapathUnavailableError, match="make native"):
        native_carrier()
