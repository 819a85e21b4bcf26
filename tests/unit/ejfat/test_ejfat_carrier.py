"""The thread that carries frames, on sockets of this process: what it forwards, and what it leaves to Python."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from ejfat.live.carrier import NativeCarrier
from ejfat.live.offload import NO_OFFLOAD, VNET, frames_of
from ejfat.live.ports import FramePort
from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import NativePipeline
from ejfat.schema import Dialect, TableSet
from native_module import needs_native
from opavnic_bench.ejfat.frames import make_frames, make_tables

pytestmark = needs_native
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
        return NO_OFFLOAD if self.medium == "packet" else b""

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


@pytest.mark.parametrize("version", [4, 6])
async def test_datagrams_sent_in_one_call_pass_one_by_one(version: int) -> None:
    port = SocketPort("packet")
    reference = Pipeline(make_tables())
    with closing(port), carried(port, reference.tables) as (pipeline, _, punts):
        whole, start, size = merged(version)
        header = VNET.pack(1, 5, start + 8, size, start, 6)
        single = frames_of(header + whole)
        assert len(single) == 3
        leaving = [verdict.frame for frame in single if (verdict := reference.process(frame)).frame]
        assert len(leaving) == (3 if version == 4 else 0), "the tables know no IPv6"
        for packet in map(Ether, [*single, *leaving]):
            again = packet.copy()
            for layer in again.layers():
                if layer in (IP, UDP):
                    del again[layer].chksum
            assert bytes(again) == bytes(packet), "checksums are right"
        port.wire.send(header + whole)
        port.put(ARP)
        assert [await port.get() for _ in leaving] == leaving
        await asyncio.wait_for(punts.get(), 30)
        assert pipeline.counters.rx_packets == 3
        assert pipeline.counters == reference.counters


def merged(version: int) -> tuple[bytes, int, int]:
    """Return a frame that holds three datagrams, where UDP begins, and the size of a datagram's payload."""
    payloads = [frame[42:] for frame in make_frames(2, 50)[:3]]
    payloads[2] = payloads[2][:-7]
    first = make_frames(2, 50)[0]
    if version == 4:
        return first[:42] + b"".join(payloads), 34, len(payloads[0])
    ip = b"\x60\0\0\0" + bytes(2) + b"\x11\x40" + bytes(range(32))
    return first[:12] + b"\x86\xdd" + ip + first[34:42] + b"".join(payloads), 54, len(payloads[0])


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
