"""The gates of native threads and of Python: both speak the same frames, and packets cross between any two of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.engine.config import BoundaryEnd, HfiEnd
from hfi_sim.engine.events.outputs import Departed, DirectionId, PortId
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.python import PythonEngine
from native_module import needs_native
from opavnic.cluster.errors import MessageError
from opavnic.cluster.machines.gate import Crossed, NativeGate
from opavnic.cluster.machines.python_gate import FULL_BYTES, PythonGate
from opavnic.cluster.protocol.frames import (
    MANAGEMENT_SC,
    FrameType,
    Head,
    build_packets,
    build_received,
    records_of,
)
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.zenoh_config import Credentials
from opavnic.cluster.zenoh.credentials import load_credentials, make_authority
from opavnic.cluster.zenoh.sockets import PeerSocket
from opavnic.datapath.selection import load_native
from opavnic.engine.native import NativeEngine
from opavnic.engine.threaded import carrier_engine, native_carrier
from unit.hfi_sim.engine.hand_made import HandMade, link, packet

pytestmark = needs_native

A = PortId(0)
LEAVES, ARRIVES = DirectionId(0), DirectionId(1)
PEER = NodeName("peer")
KINDS = pytest.mark.parametrize(
    ("near_is_native", "far_is_native"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["native", "native-python", "python-native", "python"],
)


class End(HandMade):
    """A port with a LID on a link to another machine, and the gate of its engine."""

    def __init__(self, is_native: bool, lid: int, config: LinkConfig) -> None:
        super().__init__(carrier_engine(native_carrier()) if is_native else PythonEngine)
        self.ended = 0
        self.lid = lid
        self.cable(HfiEnd(self.port(lid)), BoundaryEnd(), config)
        driver: Any = SimpleNamespace(engine=self.engine, run=self.pump, run_soon=self.pump)
        self.fabric: Any = SimpleNamespace(driver=driver, on_departed=None)
        driver.now = time.monotonic_ns()
        loop = asyncio.get_running_loop()
        self.gate: NativeGate | PythonGate
        if isinstance(self.engine, NativeEngine):
            native = self.engine.open_gate([[(LEAVES, ARRIVES)]])
            assert native is not None
            self.gate = NativeGate(self.fabric, [PEER], native, loop)
        else:
            self.gate = PythonGate(self.fabric, {PEER: [(LEAVES, ARRIVES)]}, loop)
        self.gate.on_ended = self._has_ended

    def _has_ended(self, _peer: NodeName) -> None:
        self.ended += 1

    def pump(self) -> None:
        self.fabric.driver.now = time.monotonic_ns()
        for output in self.run():
            if isinstance(output, Departed):
                self.fabric.on_departed(output)

    def sends(self, packets: Sequence[bytes]) -> None:
        for one in packets:
            self.send(time.monotonic_ns(), A, one)
        self.pump()

    @property
    def crossed(self) -> Crossed:
        return self.gate.crossed(PEER)[0]

    @property
    def got(self) -> list[bytes]:
        return [one.packet for one in self.delivered(A)]


async def sockets(
    credentials: tuple[Credentials | None, Credentials | None],
) -> tuple[PeerSocket, PeerSocket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    for one in (near, far):
        one.setblocking(False)
    names = NodeName("far"), NodeName("near")
    return (
        PeerSocket(near, names[0], credentials[0], False),
        PeerSocket(far, names[1], credentials[1], True),
    )


async def connect(
    near: End, far: End, credentials: tuple[Credentials | None, Credentials | None] = (None, None)
) -> None:
    ends, calls = (near, far), await sockets(credentials)
    streams = await asyncio.gather(*(end.gate.open(call) for end, call in zip(ends, calls, strict=True)))
    for end, stream, other in zip(ends, streams, (far, near), strict=True):
        end.gate.connect(PEER, stream, [other.crossed.received])


@asynccontextmanager
async def both(
    near_is_native: bool, far_is_native: bool, *, far_config: LinkConfig | None = None
) -> AsyncIterator[tuple[End, End]]:
    near, far = End(near_is_native, 1, link()), End(far_is_native, 2, far_config or link())
    try:
        yield near, far
    finally:
        for end in (near, far):
            end.gate.disconnect(PEER)


async def until(condition: Callable[[], bool], *ends: End) -> None:
    async with asyncio.timeout(60):
        while not condition():
            for end in ends:
                end.pump()
            await asyncio.sleep(0)


SIZES = [64, 72, 1000, 1000, 1000, 9000, 9000, 64] * 5


@KINDS
@pytest.mark.parametrize("is_secure", [False, True], ids=["tcp", "tls"])
async def test_packets_cross_both_ways_in_order_and_both_ends_count_the_same(
    near_is_native: bool, far_is_native: bool, is_secure: bool, tmp_path: Path
) -> None:
    known: tuple[Credentials | None, Credentials | None] = (None, None)
    if is_secure:
        make_authority(tmp_path, ["near", "far"])
        known = load_credentials(tmp_path / "near"), load_credentials(tmp_path / "far")
    async with both(near_is_native, far_is_native) as (near, far):
        await connect(near, far, known)
        packets = [packet(1, 2, number, size=size) for number, size in enumerate(SIZES)]
        back = [packet(2, 1, number, size=size) for number, size in enumerate(SIZES)]
        near.sends(packets)
        far.sends(back)
        await until(lambda: len(near.got) == len(far.got) == len(packets), near, far)
        assert (near.got, far.got) == (back, packets)
        await until(lambda: near.crossed.reported == far.crossed.reported == len(packets), near, far)
        size = sum(map(len, packets))
        assert near.crossed == far.crossed == Crossed(len(packets), len(packets), len(packets), size)
        counts = near.gate.counts(LEAVES)
        assert (counts.packets, counts.bytes, counts.waiting) == (len(packets), size, 0)


@KINDS
async def test_what_waits_goes_by_the_next_connection_and_what_was_in_transit_is_known(
    near_is_native: bool, far_is_native: bool
) -> None:
    async with both(near_is_native, far_is_native) as (near, far):
        first, second, third = ([packet(1, 2, 10 * n + i) for i in range(9)] for n in range(3))
        near.sends(first)
        assert near.gate.counts(LEAVES).waiting == 9
        await connect(near, far)
        await until(lambda: len(far.got) == 9, near, far)
        far.gate.disconnect(PEER)
        await until(lambda: near.ended == 1, near, far)
        assert near.crossed.sent == 9
        near.sends(second)
        await connect(near, far)
        assert near.crossed.reported >= 9, "it has said so"
        await until(lambda: len(far.got) == 18, near, far)
        assert far.got == first + second
        near.gate.disconnect(PEER)
        near.sends(third)
        near.gate.forget(LEAVES)
        assert near.gate.counts(LEAVES)[3:] == (9, 0)
        near.gate.begin(PEER)
        assert near.crossed == Crossed()


@KINDS
async def test_full_receiver_pauses_one_vl_and_management_goes_ahead(
    near_is_native: bool, far_is_native: bool
) -> None:
    config = link(flow=FlowControl(vls=2))
    async with both(near_is_native, far_is_native, far_config=config) as (near, far):
        far.takes = False
        await connect(near, far)
        count = 0
        # sockets take megabytes before a receiver that is late looks at them
        while count < 3 * FULL_BYTES // 9000 or not is_paused(near, far):
            near.sends([packet(1, 2, count, size=9000)])
            count += 1
            await asyncio.sleep(0)
        await until(lambda: near.crossed.sent == near.crossed.reported and is_paused(near, far), near, far)
        assert far.engine.waiting_on(ARRIVES, MANAGEMENT_SC) == 0
        waiting = near.gate.counts(LEAVES).waiting
        assert 0 < waiting < count
        smp = packet(1, 2, 999, sc=MANAGEMENT_SC)
        near.sends([smp])
        await until(lambda: smp in far.got, near, far)
        assert near.gate.counts(LEAVES).waiting == waiting, "the other VL is paused"
        far.takes = True
        for output in far.delivered(A):
            far.take(output)
        await until(lambda: len(far.got) == count + 1, near, far)


def has_ended(end: End) -> bool:
    return end.ended == 1


def is_paused(near: End, far: End) -> bool:
    return near.gate.counts(LEAVES).waiting > 0 and far.engine.waiting_on(ARRIVES, 0) > FULL_BYTES


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "python"])
async def test_other_words_than_frames_end_the_connection(is_native: bool) -> None:
    for words in (b"\xff" * 12, Head(FrameType.PAUSE, 0, 0, 9).build(), build_received(0, 7)):
        async with both(is_native, is_native) as (near, _):
            calls = await sockets((None, None))
            connection, (reader, writer) = await asyncio.gather(near.gate.open(calls[0]), calls[1].streams())
            near.gate.connect(PEER, connection, [0])
            writer.write(words)
            await until(partial(has_ended, near), near)
            with contextlib.suppress(OSError):
                assert await reader.read(1) == b""
            writer.close()


@given(st.binary(max_size=24) | st.builds(lambda *head: Head(*head).build(), *[st.integers(0, 5)] * 6))
def test_both_read_the_same_bytes_as_a_frame(data: bytes) -> None:
    native = load_native()
    assert native is not None
    head: Head | str | None = None
    try:
        if len(data) >= 12:
            head = Head.parse(data)
    except MessageError:
        head = "malformed"
    try:
        found = native.first_frame(data)
    except ValueError:
        assert head == "malformed"
        return
    assert head != "malformed"
    is_whole = isinstance(head, Head) and len(data) >= 12 + head.body
    assert found == (tuple(head) if is_whole and isinstance(head, Head) else None)


@given(st.lists(st.sampled_from([64, 72, 1000, 1000, 9000]), min_size=1, max_size=60), st.data())
def test_packets_are_those_that_were_put_into_frames(sizes: list[int], data: st.DataObject) -> None:
    records = [
        packet(2, 1, number, size=size) + data.draw(st.sampled_from([b"\0\1", b"\0\2"]))
        for number, size in enumerate(sizes)
    ]
    rest, found, heads = b"".join(build_packets(3, records)), list[bytes](), 0
    while rest:
        head = Head.parse(rest)
        assert head.link == 3
        found += records_of(head, rest[12 : 12 + head.body])
        rest, heads = rest[12 + head.body :], heads + 1
    assert found == records
    alike = [(len(record), record[-2:]) for record in records]
    assert heads >= 1 + sum(one != other for one, other in itertools.pairwise(alike))
    assert heads <= len(records)
