"""Directed routes: every SMP that finds its way comes back the same way, and any other is discarded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.management.smp.rules import Next, Out, Routed, SmpEnd, answered, arrived, sent
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader, IbDirectedHeader, Smp, peer_of

SM_LID = 7
SWITCH_LID = 9
PORTS = st.integers(1, 255)


def directed(
    path: list[int], *, ib: bool = False, dr_slid: int | None = None, dr_dlid: int | None = None
) -> Smp:
    header = MadHeader(
        base_version=1 if ib else 0x80,
        mgmt_class=MadClass.SUBN_DIRECTED,
        method=Method.GET,
        tid=1,
        attr_id=0x11,
        class_specific=len(path),
    )
    route = {"initial_path": bytes([0, *path]).ljust(64, b"\0")}
    lids = {"dr_slid": dr_slid, "dr_dlid": dr_dlid}
    known = {name: lid for name, lid in lids.items() if lid is not None}
    head = IbDirectedHeader(**route, **known) if ib else DirectedHeader(**route, **known)  # type: ignore[arg-type]
    return Smp((header.build() + head.build()).ljust(256 if ib else 2048, b"\0"))


def out_of(way: Next) -> int:
    assert isinstance(way, Out)
    return way.port_num


@given(st.lists(st.tuples(PORTS, PORTS), max_size=63), st.booleans())
@settings(max_examples=60)
def test_a_request_follows_its_path_and_its_response_the_one_recorded(
    links: list[tuple[int, int]], ib: bool
) -> None:
    """Args: links: for each hop the port that it leaves by and the port that it arrives at."""
    smp = directed([leaves for leaves, _ in links], ib=ib)
    way = sent(smp, dlid=0)
    for number, (leaves, arrives) in enumerate(links, 1):
        assert out_of(way) == leaves
        way = arrived(smp, arrives, is_switch=number < len(links))
    assert way is SmpEnd.HERE
    smp.turn_round(Method.GET_RESP, 0)
    assert smp.returning
    way = answered(smp, slid=LID_PERMISSIVE)
    for number, (leaves, arrives) in enumerate(reversed(links), 1):
        assert out_of(way) == arrives
        way = arrived(smp, leaves, is_switch=number < len(links))
    assert way is SmpEnd.HERE
    assert smp.hop_pointer == 0
    assert list(smp.return_path[1 : len(links) + 1]) == [arrives for _, arrives in links]


@given(st.lists(st.tuples(PORTS, PORTS), min_size=1, max_size=63))
@settings(max_examples=30)
def test_a_mixed_route_begins_at_the_switch_that_it_is_addressed_to_and_ends_there(
    links: list[tuple[int, int]],
) -> None:
    smp = directed([leaves for leaves, _ in links], dr_slid=SM_LID)
    assert sent(smp, SWITCH_LID) == Routed(SWITCH_LID)
    assert peer_of(bytes(smp), SWITCH_LID) == SWITCH_LID
    way = arrived(smp, 1, is_switch=True)
    for number, (leaves, arrives) in enumerate(links, 1):
        assert out_of(way) == leaves
        way = arrived(smp, arrives, is_switch=number < len(links))
    assert way is SmpEnd.HERE
    smp.turn_round(Method.GET_RESP, 0)
    way = answered(smp, slid=LID_PERMISSIVE)
    for leaves, arrives in reversed(links):
        assert out_of(way) == arrives
        way = arrived(smp, leaves, is_switch=True)
    assert way == Routed(SM_LID)


def test_a_route_may_end_with_a_part_by_lid_and_its_response_takes_that_first() -> None:
    smp = directed([1], dr_dlid=0x33)
    assert sent(smp, 0) == Out(1)
    assert arrived(smp, 4, is_switch=True) == Routed(0x33)
    assert arrived(smp, 2, is_switch=False) is SmpEnd.HERE
    smp.turn_round(Method.GET_RESP, 0)
    assert answered(smp, slid=SWITCH_LID) == Routed(SWITCH_LID)
    assert arrived(smp, 2, is_switch=True) == Out(4)
    assert arrived(smp, 1, is_switch=False) is SmpEnd.HERE


@given(st.binary(min_size=2, max_size=2), st.booleans(), st.booleans(), st.integers(0, 400), st.data())
@settings(max_examples=200)
def test_no_hop_pointer_and_no_count_lead_anywhere_but_along_the_path(
    hops: bytes, returning: bool, is_switch: bool, in_port: int, data: st.DataObject
) -> None:
    smp = directed(data.draw(st.lists(st.integers(0, 255), max_size=63)))
    smp.mad[6:8] = hops
    smp.mad[4] = 0x80 if returning else 0
    way = arrived(smp, in_port, is_switch=is_switch)
    if not is_switch:
        assert isinstance(way, SmpEnd)
    if isinstance(way, Out):
        assert way.port_num in smp.mad[40:168]
        assert 1 <= smp.hop_pointer <= smp.hop_count <= 63
