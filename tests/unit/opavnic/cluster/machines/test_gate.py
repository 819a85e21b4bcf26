"""The gate of native threads and the Python reference: the same packets leave, the same bodies are read."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.engine.config import BoundaryEnd, HfiEnd
from hfi_sim.engine.events.outputs import Departed, DirectionId, PortId
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.fabric import Fabric
from native_module import needs_native
from opavnic.cluster.errors import MessageError
from opavnic.cluster.machines.gate import NativeGate
from opavnic.cluster.protocol.messages import MAX_PACKET, MAX_PACKETS, Packets, body_size, build_body
from opavnic.cluster.protocol.transport import NodeName
from opavnic.datapath.selection import load_native
from opavnic.engine.native import NativeEngine
from opavnic.engine.threaded import carrier_engine, native_carrier
from unit.hfi_sim.engine.hand_made import HandMade, packet

pytestmark = needs_native

A = PortId(0)
LEAVES, ARRIVES = DirectionId(0), DirectionId(1)
SIZES = st.lists(st.sampled_from([64, 72, 1000, 1000, 9000]), min_size=1, max_size=20)


class Bed(HandMade):
    """A port with LID 1 on a link to another machine, and the gate of native threads, which are not started."""

    def __init__(self) -> None:
        super().__init__(carrier_engine(native_carrier()))
        assert isinstance(self.engine, NativeEngine)
        gate = self.engine.open_gate([[LEAVES]])
        assert gate is not None
        self.gate = gate
        self.cable(HfiEnd(self.port(1)), BoundaryEnd())


def reference() -> HandMade:
    bed = HandMade(PythonEngine)
    bed.cable(HfiEnd(bed.port(1)), BoundaryEnd())
    return bed


@given(SIZES, st.integers(1, 30), st.integers(0, 40_000))
def test_gate_takes_what_the_reference_takes(sizes: list[int], most: int, size: int) -> None:
    bed, other = Bed(), reference()
    for number, length in enumerate(sizes):
        for one in (bed, other):
            one.send(0, A, packet(1, 2, number, size=length))
    bed.run()
    waiting = Packets(output.record for output in other.run() if isinstance(output, Departed))
    assert bed.gate.waiting(0) == [(LEAVES, 0)]
    while True:
        taken = bed.gate.take(bed.now, (LEAVES, 0), b"head", most, size)
        assert taken == waiting.take(b"head", most, size)
        if taken is None or taken[1] == 0:
            break
    assert (taken is None) == (bed.gate.waiting(0) == [])
    packets, count, overflows, forgotten, left = bed.gate.counts(LEAVES)
    assert (packets, count, overflows, forgotten, left) == (len(sizes), sum(sizes), 0, 0, len(waiting))
    bed.gate.forget(bed.now, LEAVES)
    assert bed.gate.counts(LEAVES)[3:] == (len(waiting), 0)


async def test_machine_that_takes_nothing_keeps_neither_another_one_nor_the_loop_waiting() -> None:
    bed = HandMade(carrier_engine(native_carrier()))
    assert isinstance(bed.engine, NativeEngine)
    opened = bed.engine.open_gate([[LEAVES], [DirectionId(2)]])
    assert opened is not None
    stuck, other = NodeName("stuck"), NodeName("other")
    gate = NativeGate(Fabric(), [stuck, other], opened)
    waits, goes_on, took = threading.Event(), threading.Event(), threading.Event()

    def offer(peer: NodeName) -> None:
        if peer == other:
            took.set()
        else:
            waits.set()
            goes_on.wait(60)

    gate.start(offer)
    try:
        gate.wake(stuck)
        assert waits.wait(60)
        gate.wake(other)
        assert took.wait(60)
        stopping = asyncio.create_task(gate.stop())
        await asyncio.sleep(0)  # the loop goes on: it is what lets the other one go
        assert not stopping.done()
    finally:
        goes_on.set()
    await stopping


@given(SIZES, st.data())
def test_what_arrives_by_the_gate_is_delivered_as_by_the_reference(
    sizes: list[int], data: st.DataObject
) -> None:
    bed, other = Bed(), reference()
    records = [
        packet(2, 1, number, size=size) + data.draw(st.sampled_from([b"\0\1", b"\0\2"]))
        for number, size in enumerate(sizes)
    ]
    assert bed.gate.arrive(500, ARRIVES, b"head" + build_body(records), 4) == len(records)
    other.engine.arrive(500, ARRIVES, records)
    for one in (bed, other):
        one.run()
    assert [one.packet for one in bed.delivered(A)] == [one.packet for one in other.delivered(A)]


@given(st.binary(max_size=40) | st.builds(build_body, st.lists(st.binary(max_size=30), max_size=5)))
def test_both_read_the_same_bytes_as_a_body(message: bytes) -> None:
    bed, size = Bed(), None
    with contextlib.suppress(MessageError):
        size = body_size(message, 0)
    native = load_native()
    assert native is not None
    assert native.body_size(message, 0) == size
    assert bed.gate.arrive(0, ARRIVES, message, 0) == (None if size is None else size[0])


@pytest.mark.parametrize(
    ("records", "good"),
    [
        ([bytes(MAX_PACKET)], True),
        ([bytes(MAX_PACKET + 1)], False),
        ([b"x"] * MAX_PACKETS, True),
        ([b"x"] * (MAX_PACKETS + 1), False),
        ([], False),
    ],
)
def test_limits_of_a_body_are_the_same(records: list[bytes], good: bool) -> None:
    message = build_body(records)
    assert (Bed().gate.arrive(0, ARRIVES, message, 0) is not None) == good
    with contextlib.nullcontext() if good else pytest.raises(MessageError):
        body_size(message, 0)


def test_direction_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 2 directions, none with number 9"):
        Bed().gate.arrive(0, DirectionId(9), build_body([b"x"]), 0)
