"""Whatever SMPs a host with every right sends: no exception, no packet lost uncounted, and the nodes still answer."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.mad.attributes import SubnetAttrId
from unit.hfi_sim.sma.managed_fabric import H2, SELF, SW0, SW1, Managed

ATTRIBUTES = st.one_of(st.sampled_from([*map(int, SubnetAttrId)]), st.integers(0, 0xFFFF))
MODIFIERS = st.one_of(
    st.integers(0, 0xFFFFFFFF),
    st.builds(lambda count, rest: count << 24 | rest, st.integers(0, 3), st.integers(0, 0x3FF)),
    st.builds(lambda count, rest: count << 24 | rest, st.integers(0, 3), st.integers(0, 0xFFFFFF)),
)
PATHS = st.sampled_from([SELF, SW0, SW1, H2, (1, 2, 3), (2, 2), (0, 0), (1, 255)])


@st.composite
def raw(draw: st.DrawFn) -> bytes:
    base = draw(st.sampled_from([0x80, 0x80, 1]))
    head = struct.pack(
        ">4BH2BQHHI",
        base,
        draw(st.sampled_from([0x81, 0x01])),
        draw(st.sampled_from([0x80, 1])),
        draw(st.sampled_from([1, 2, 3, 5, 6, 7, 0x81])),
        draw(st.integers(0, 0xFFFF)),
        draw(st.integers(0, 255)),
        draw(st.integers(0, 255)),
        draw(st.integers(0, 9)),
        draw(ATTRIBUTES),
        0,
        draw(MODIFIERS),
    )
    rest = draw(st.sampled_from([b"\0", b"\xff", b"\1"])) * 16 + draw(st.binary(max_size=300))
    return (head + rest)[: draw(st.sampled_from([2048, 2048, 100, 24]))].ljust(
        draw(st.sampled_from([2048, 256, 24])), b"\0"
    )


@given(st.lists(st.tuples(PATHS, ATTRIBUTES, MODIFIERS, st.binary(max_size=400)), max_size=8), st.data())
@settings(max_examples=60)
def test_hostile_smps_leave_a_fabric_that_counts_and_answers(
    asked: list[tuple[tuple[int, ...], int, int, bytes]], data: st.DataObject
) -> None:
    managed = Managed()
    for path, attr_id, attr_mod, content in asked:
        managed.ask(path, attr_id, attr_mod, content)
    for mad in data.draw(st.lists(raw(), max_size=6)):
        managed.h1.smi.send(mad, data.draw(st.sampled_from([0, 1, 2, 0xFFFFFF])), 0xFFFF)
        managed.clock.advance(0.001)
    managed.clock.advance(10)
    assert managed.fabric.balance() == {}
    fresh = Managed()
    assert fresh.ask(H2, SubnetAttrId.NODE_INFO) is not None
