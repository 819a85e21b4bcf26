"""The thread that carries the frames of a TAP, here a socket of this process: what it forwards, and what it leaves.

The threads of packet sockets, which need an interface, are in tests/e2e/test_ejfat_interface.py.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import pytest

from ejfat.live.carrier import NativeCarrier
from ejfat.live.ports import EthernetPort
from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import NativePipeline
from ejfat.tables.schema import Dialect, TableSet
from native_module import needs_native
from opavnic_bench.ejfat.frames import make_frames, make_tables

pytestmark = needs_native
ARP = b"\xff" * 6 + bytes(6) + b"\x08\x06" + bytes(28)
WORKER = ip_address("10.8.1.1")


class SocketPort(EthernetPort):
    """A port whose wire is the other socket of a pair."""

    medium = "tap"

    def __init__(self) -> None:
        self.inside, self.wire = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.inside.setblocking(False)
        self.wire.settimeout(30)
        self.lost = 0

    def filenos(self) -> list[int]:
        return [self.inside.fileno()]

    def put(self, frame: bytes) -> None:
        self.wire.send(frame)

    async def get(self) -> bytes:
        return await asyncio.wait_for(asyncio.to_thread(self.wire.recv, 70_000), 30)

    def close(self) -> None:
        self.inside.close()
        self.wire.close()


@pytest.fixture
def port() -> Iterator[SocketPort]:
    port = SocketPort()
    yield port
    port.close()


@contextmanager
def carried(
    port: SocketPort, tables: TableSet
) -> Iterator[tuple[NativePipeline, NativeCarrier, asyncio.Queue[bytes]]]:
    """Have a thread carry the frames of a port; give its pipeline, the carrier and what it leaves to Python."""
    pipeline, punts = NativePipeline(tables), asyncio.Queue[bytes]()
    carrier = NativeCarrier(pipeline, port, punts.put_nowait, pytest.fail)
    carrier.start()
    try:
        yield pipeline, carrier, punts
    finally:
        carrier.close()


async def test_frames_pass_without_python_and_arp_is_pythons(port: SocketPort) -> None:
    with carried(port, make_tables()) as (pipeline, carrier, punts):
        reference = Pipeline(make_tables())
        for version in (1, 2, 3):
            frame = make_frames(version, 100)[0]
            port.put(frame)
            assert await port.get() == reference.process(frame).frame
        pipeline.serve(range(19531, 19532), guard_v1=False)
        sync = bytearray(make_frames(2, 20)[0])
        sync[36:38], sync[42:44] = b"\x4c\x4b", b"LC"
        for mine in (ARP, bytes(sync)):
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
    carrier.close()  # once more


async def test_nothing_passes_while_it_is_still(port: SocketPort) -> None:
    with carried(port, make_tables()) as (pipeline, carrier, punts):
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


async def test_interface_that_goes_away_is_told_once() -> None:
    port = SocketPort()
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
