"""What an HFI port lets out and lets in."""

from __future__ import annotations

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError, NetdevError
from hfi_sim.base.types import Lid, PortEvent, PortState, is_multicast_lid
from hfi_sim.wire.lrh16b import dlid_of
from unit.hfi_sim.fabric_pair import TEST_L4, Pair, make_pair


def arrive(pair: Pair, packet: bytes) -> None:
    """Let a packet arrive at b that is not for it, or damaged: the switch is set up to send it there."""
    lid = dlid_of(packet)
    if is_multicast_lid(lid):
        pair.switch.program(pair.switch.lft, {lid: frozenset((1, 2))})
    else:
        pair.switch.program(dict(pair.switch.lft) | {lid: 2}, {})
    assert pair.fabric.driver.inject(pair.a.number, packet, pair.a.lid, lid, 0xFFFF) is None


def test_send_between_two_ports_is_delivered_unchanged() -> None:
    pair = make_pair()
    packet = pair.packet()
    assert pair.a.send(packet) is None
    assert pair.received == [packet]
    assert pair.fabric.balance() == {}


@pytest.mark.parametrize(
    ("fields", "drop"),
    [
        ({"slid": 77}, Drop.TX_SLID),
        ({"dlid": 0}, Drop.TX_DLID),
        ({"pkey": 0x8002}, Drop.TX_PKEY),
        ({"l2": 1}, Drop.TX_MALFORMED),
    ],
)
def test_send_forbidden_packet_is_counted_once(fields: dict[str, int], drop: Drop) -> None:
    pair = make_pair()
    assert pair.a.send(pair.packet(**fields)) is drop
    assert pair.a.tx.drops == {drop: 1}
    assert pair.received == []
    assert pair.fabric.balance() == {}


@pytest.mark.parametrize("size", [0, 1, 15, 23, 25])
def test_send_fragment_of_any_length_is_malformed(size: int) -> None:
    pair = make_pair()
    assert pair.a.send(pair.packet()[:size]) is Drop.TX_MALFORMED
    assert pair.fabric.balance() == {}


def test_receive_partition_of_others_is_dropped() -> None:
    pair = make_pair()
    pair.sm.set_pkeys(pair.a, [0x8002])
    assert pair.a.send(pair.packet(pkey=0x8002)) is None
    assert pair.b.rx.drops == {Drop.RX_PKEY: 1}
    pair.sm.set_pkeys(pair.b, [0x8002])
    pair.a.send(pair.packet(pkey=0x8002))
    assert len(pair.received) == 1


def test_receive_two_limited_members_do_not_talk() -> None:
    pair = make_pair()
    for port in (pair.a, pair.b):
        pair.sm.set_pkeys(port, [0x0002])
    pair.a.send(pair.packet(pkey=0x0002))
    assert pair.b.rx.drops == {Drop.RX_PKEY: 1}


def test_receive_damaged_packet_is_rejected_by_icrc() -> None:
    pair = make_pair()
    packet = bytearray(pair.packet())
    packet[30] ^= 4
    arrive(pair, bytes(packet))
    assert pair.b.rx.drops == {Drop.RX_ICRC: 1}


def test_receive_other_dlid_is_dropped() -> None:
    pair = make_pair()
    arrive(pair, pair.packet(dlid=99))
    arrive(pair, pair.packet(dlid=0xF00007))
    assert pair.b.rx.drops == {Drop.RX_DLID: 2}


def test_receive_unknown_l4_is_counted() -> None:
    pair = make_pair()
    pair.a.send(pair.packet(l4=0x33))
    assert pair.b.rx.drops == {Drop.RX_L4: 1}
    assert pair.fabric.balance() == {}


def test_register_l4_twice_raises() -> None:
    pair = make_pair()
    with pytest.raises(FabricError, match=r"b:1: L4 type 0x55 already has a handler"):
        pair.b.register_l4(TEST_L4, lambda port, packet, token: None)


def _events(pair: Pair) -> list[PortEvent]:
    seen: list[PortEvent] = []
    pair.b.subscribe(seen.append)
    return seen


def test_link_down_and_up_reports_err_then_active() -> None:
    pair = make_pair()
    seen = _events(pair)
    link = pair.b.link
    assert link is not None
    pair.fabric.set_link(link, False)
    assert pair.b.state is PortState.DOWN
    assert pair.b.send(pair.packet()) is Drop.TX_PORT_DOWN
    pair.fabric.set_link(link, True)
    assert pair.b.state is PortState.ACTIVE
    assert seen == [PortEvent.PORT_ERR, PortEvent.PORT_ACTIVE]


def test_set_lid_of_active_port_reports_lid_change() -> None:
    pair = make_pair()
    seen = _events(pair)
    pair.b.set_lid(Lid(40))
    pair.b.set_lid(Lid(40))
    assert seen == [PortEvent.LID_CHANGE]


def test_alloc_rdma_netdev_without_host_raises() -> None:
    pair = make_pair()
    with pytest.raises(NetdevError, match="a:1 has no host"):
        pair.a.alloc_rdma_netdev(1)


@pytest.mark.parametrize(
    ("fields", "drop"),
    [({"slid": 77}, Drop.TX_SLID), ({"dlid": 0}, Drop.TX_DLID), ({"pkey": 0x8002}, Drop.TX_PKEY), ({}, None)],
)
def test_built_packet_ends_where_the_same_bytes_of_others_end(
    fields: dict[str, int], drop: Drop | None
) -> None:
    raw, built = make_pair(), make_pair()
    packet = raw.packet(**fields)
    known = {"slid": raw.a.lid, "dlid": raw.b.lid, "pkey": 0xFFFF, **fields}
    assert raw.a.send(packet) is drop
    assert built.a.send_built(packet, **known) is drop
    assert raw.a.tx == built.a.tx
    assert raw.received == built.received


def test_built_packet_at_a_port_that_is_down_is_counted() -> None:
    pair = make_pair()
    assert pair.b.link is not None
    pair.fabric.set_link(pair.b.link, False)
    assert pair.b.send_built(pair.packet(), pair.b.lid, pair.a.lid, 0xFFFF) is Drop.TX_PORT_DOWN
    assert pair.b.tx.drops == {Drop.TX_PORT_DOWN: 1}
