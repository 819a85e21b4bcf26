"""Whatever SMPs a host with every right sends: no exception, no packet lost uncounted, and the nodes still answer."""

from __future__ import annotations

import struct
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.types import LID_PERMISSIVE, PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader
from unit.hfi_sim.management.sma.managed_fabric import H2, SELF, SW0, SW1, Managed

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
        managed.h1.send_smp(mad, data.draw(st.sampled_from([0, 1, 2, 0xFFFFFF])), 0xFFFF)
        managed.clock.advance(0.001)
    managed.clock.advance(10)
    assert managed.fabric.balance() == {}
    for port in (managed.h1, managed.h2):
        assert answers_itself(managed, port), f"{port.name}, whose host may always ask"
    give_up_what_was_set(managed)
    for path in (SELF, SW0, SW1, H2):
        assert managed.ask(path, SubnetAttrId.NODE_INFO) is not None, f"{path}, to whom knows its key"


def answers_itself(managed: Managed, port: HfiPort) -> bool:
    """Return whether the agent of a port answers the port's own host: without keys, and whatever its link is."""
    heard: list[MadRequest] = []
    port.mad.give_rest_to(None)
    port.mad.give_rest_to(heard.append)
    header = MadHeader(
        mgmt_class=MadClass.SUBN_DIRECTED, method=Method.GET, tid=0x77, attr_id=SubnetAttrId.NODE_INFO
    )
    mad = (header.build() + DirectedHeader().build()).ljust(2048, b"\0")
    port.send_smp(mad, LID_PERMISSIVE, PKEY_LIMITED_MANAGEMENT)
    managed.clock.advance(1)
    port.mad.give_rest_to(None)
    port.mad.give_rest_to(managed.heard.append)
    return any(request.header.tid == 0x77 and request.header.method & 0x80 for request in heard)


def give_up_what_was_set(managed: Managed) -> None:
    """Undo what keeps the manager out by right: keys, its own partition, and links that it has disabled."""
    managed.h1.set_pkeys([PKEY_LIMITED_MANAGEMENT, PKEY_FULL_MANAGEMENT])
    for end in (managed.h1, managed.h2, managed.sw0.port0, managed.sw1.port0):
        end.settings.info = replace(end.settings.info, mkey=0)
    switch_ports = [port for switch in (managed.sw0, managed.sw1) for port in switch.ports.values()]
    for port in (managed.h1, managed.h2, *switch_ports):
        if port.link is not None:
            managed.fabric.set_links([port.link], True, f"subnet manager at {port.name}")
