"""The thread that carries frames, on sockets of this process: what it forwards, and what it leaves to Python."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from ejfat.bench.frames import make_frames, make_tables
from ejfat.live.carrier import NativeCarrier
from ejfat.live.ports import FramePort
from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import NativePipeline
from ejfat.schema import Dialect
from unit.ejfat.pipelines import needs_native

pytestmark = needs_native
VNET = bytes(10)
ARP = b"\xff" * 6 + bytes(6) + b"\x08\x06" + bytes(28)
WORKER = ip_address("10.8.1.1")


class SocketPort(FramePort):
    """A port whose wire is the other socket of a pair."""

    def __init__(self, medium: str) -> None:
        self.medium = medium
        kind = socket.SOCK_DGRAM if medium == "packet" else socket.SOCK_SEQPACKET
        self.inside, self.wire = socket.socketpair(socket.AF_UNIX, kind)
        self.inside.setblocking(False)
        self.wire.settimeout(30)
        self.lost = 0

    def fileno(self) -> int:
        return self.inside.fileno()

    @property
    def front(self) -> bytes:
        return VNET if self.medium == "packet" else b""

    def put(self, frame: bytes) -> None:
        self.wire.send(self.front + frame)

    async def get(self) -> bytes:
        data = await asyncio.wait_for(asyncio.to_thread(self.wire.recv, 70_000), 30)
        assert data.startswith(self.front)
        return data[len(self.front) :]

    def close(self) -> None:
        self.inside.close()
        self.wire.close()


@pytest.fixture(params=["packet", "tap"])
def port(request: pytest.FixtureRequest) -> Iterator[SocketPort]:
    port = SocketPort(request.param)
    yield port
    port.close()


async def test_frames_pass_without_python_and_arp_is_pythons(port: SocketPort) -> None:
    pipeline = NativePipeline(make_tables())
    punts: asyncio.Queue[bytes] = asyncio.Queue()
    carrier = NativeCarrier(pipeline, port, punts.put_nowait, pytest.fail)
    carrier.start()
    try:
        reference = Pipeline(make_tables())
        for version in (1, 2, 3):
            frame = make_frames(version, 100)[0]
            port.put(frame)
            assert await port.get() == reference.process(frame).frame
        for mine in (ARP, b"\0" * 42 + b"LC" + bytes(26)):
            port.put(mine)
            assert await asyncio.wait_for(punts.get(), 30) == mine
        port.put(make_frames(2, 100)[0][:40])
        port.put(make_frames(2, 5000)[1])
        assert len(await port.get()) > 5000
        assert pipeline.counters.rx_packets == 5
        assert {str(reason): count for reason, count in pipeline.counters.drops.items()} == {
            "parser:too_short_udp": 1
        }
        assert (pipeline.counters.balance, carrier.lost) == (0, 0)
    finally:
        carrier.close()
    carrier.close()


async def test_nothing_passes_while_it_is_still(port: SocketPort) -> None:
    pipeline = NativePipeline(make_tables())
    punts: asyncio.Queue[bytes] = asyncio.Queue()
    carrier = NativeCarrier(pipeline, port, punts.put_nowait, pytest.fail)
    carrier.start()
    try:
        frame = make_frames(2, 100)[0]
        with carrier.still():
            port.put(frame)
            assert pipeline.counters.rx_packets == 0
            # the tables of the frame are those of the time when it passes
            pipeline.tables.clear(Dialect.V23, ["member_info_lookup_table"])
        port.put(ARP)
        await asyncio.wait_for(punts.get(), 30)
        assert pipeline.counters.rx_packets == 1
        assert [str(reason) for reason in pipeline.counters.drops] == ["member_info:miss"]
    finally:
        carrier.close()


async def test_interface_that_goes_away_is_told_once() -> None:
    port = SocketPort("tap")
    told: asyncio.Queue[str] = asyncio.Queue()
    carrier = NativeCarrier(NativePipeline(), port, lambda frame: None, told.put_nowait)
    carrier.start()
    try:
        port.wire.close()
        assert await asyncio.wait_for(told.get(), 30) == "it is gone"
    finally:
        carrier.close()
        port.close()
    assert told.empty()
