"""A port that belongs to a kernel, with a kernel that is a list of frames."""

from __future__ import annotations

import struct

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import CapabilityMask3
from hfi_sim.engine.link.config import PLAIN_LINK, FlowControl, LinkConfig
from hfi_sim.fabric.topology import single_switch
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import Mad, MadHeader, Method
from hfi_sim.wire.packet import build_packet
from opavnic.kernel.port import BACKLOG, KernelPort
from opavnic.kernel.wire import REASONS, WireFrame, WireKind, build_frame, parse_frame
from opavnic.world.world import World
from vema.attributes.attr_id import AttrId
from vema.em.core.messages import build_request

ETH = CapabilityMask3.ETH_ON_FABRIC_SUPPORTED


class Given:
    """A host whose port is given to a kernel, which only listens."""

    def __init__(self, link: LinkConfig = PLAIN_LINK) -> None:
        self.world = World(single_switch(1), link=link)
        self.room = True
        self.vnics: list[tuple[int, int]] = []
        (host,) = self.world.hosts.values()
        self.world.subnet_manager.sweep()
        self.port, self.em = host.port, self.world.em_port
        self.frames: list[WireFrame] = []
        self.kernel = KernelPort(
            self.port,
            self._take,
            attached=self.world.fabric.attached,
            on_vnic=lambda *vnic: self.vnics.append(vnic),
        )

    def _take(self, frame: bytes) -> bool:
        found = parse_frame(frame)
        assert found is not None
        if self.room:
            self.frames.append(found)
        return self.room

    def frame(self, number: int) -> bytes:
        """Return a packet of virtual switch 2 from the EM's port."""
        header = Lrh16B(self.em.lid, self.port.lid, l4=L4.ETHERNET, pkey=0xFFFF)
        body = EthernetL4(2).build() + number.to_bytes(60)
        return build_packet(header, body, self.world.fabric.icrc)

    def packets(self) -> list[bytes]:
        return [frame.body for frame in self.frames if frame.kind == WireKind.PACKET]


def test_the_kernel_is_told_of_its_port_and_of_each_change() -> None:
    given = Given()
    assert [frame.kind for frame in given.frames] == [WireKind.STATE, WireKind.HELLO]
    given.world.set_pkeys(given.port, [0x8002])
    given.world.subnet_manager.sweep()
    lid, _sm, guid, state, _lmc, _sl, count = struct.unpack_from("!IIQBBBB", given.frames[-1].body)
    assert (lid, guid, state) == (given.port.lid, given.port.guid, 4)
    assert struct.unpack_from("!16H", given.frames[-1].body, 20)[:count] == given.port.pkeys.entries


def test_mads_of_queue_pair_1_and_frames_go_to_the_kernel_whole() -> None:
    given = Given()
    icrc, lids = given.world.fabric.icrc, (given.em.lid, given.port.lid)
    mad = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=7).build()[:40]
    mads = build_fm_packet(*lids, 0, 0xFFFF, 1, 1, mad, icrc)
    frame = given.frame(0)
    given.em.send(mads)
    given.em.send(frame)
    assert given.packets() == [mads, frame]
    assert given.world.fabric.balance() == {}


def test_performance_management_is_answered_by_the_port() -> None:
    given = Given()
    header = MadHeader(mgmt_class=4, method=1, tid=5, attr_id=1)
    answers: list[Mad | None] = []
    given.em.mad.submit(given.port.lid, Mad(header, bytes(100)), answers.append)
    assert [answer and answer.header.status for answer in answers] == [0]
    assert given.packets() == []


def test_a_packet_of_the_kernel_gets_its_icrc_and_arrives() -> None:
    given = Given()
    heard: list[MadRequest] = []
    given.em.mad.give_rest_to(heard.append)
    mad = build_request(Method.TRAP, AttrId.NOTICE, tid=9).build()[:272]
    packet = build_fm_packet(given.port.lid, given.em.lid, 0, 0x7FFF, 1, 1, mad, given.world.fabric.icrc)
    unsealed = packet[:-5] + bytes(4) + bytes([packet[-1] & 7])
    given.kernel.take(build_frame(WireKind.PACKET, unsealed))
    assert [request.mad for request in heard] == [mad]


@pytest.mark.parametrize("body", [b"", bytes(8), bytes(33), b"\xff" * 24])
def test_what_is_no_packet_is_counted(body: bytes) -> None:
    given = Given()
    given.kernel.take(build_frame(WireKind.PACKET, body))
    given.kernel.take(b"\x33" * 60)
    assert given.kernel.counters.malformed == 1
    assert given.world.fabric.balance() == {}


def test_packets_wait_in_order_for_a_kernel_that_has_no_room_and_those_too_many_are_counted() -> None:
    given = Given()
    given.room = False
    frames = [given.frame(number) for number in range(BACKLOG + 2)]
    for frame in frames:
        given.em.send(frame)
    assert given.world.fabric.balance() == {}
    given.room = True
    given.kernel.go_on()
    assert given.packets() == frames[:BACKLOG]
    _, rx = given.kernel.traffic(2)
    assert (rx.out_packets, rx.drops) == (BACKLOG, {Drop.VNIC_RX_HOST: 2})
    assert given.world.fabric.balance() == {}


def test_a_kernel_without_room_stops_the_sender_where_the_link_has_credits() -> None:
    given = Given(LinkConfig(flow=FlowControl()))
    given.room = False
    frames = [given.frame(number) for number in range(BACKLOG + 100)]
    for frame in frames:
        given.em.send(frame)
    given.room = True
    given.kernel.go_on()
    assert given.packets() == frames
    assert given.world.fabric.balance() == {}


def test_what_waits_for_a_kernel_that_ends_is_counted() -> None:
    given = Given()
    given.room = False
    given.em.send(given.frame(0))
    given.kernel.close()
    _, rx = given.kernel.traffic(2)
    assert rx.drops == {Drop.VNIC_RX_HOST: 1}
    assert given.world.fabric.balance() == {}


def test_what_ends_in_the_kernels_driver_is_counted_with_its_virtual_switch() -> None:
    given = Given()
    given.em.send(given.frame(0))

    def say(vesw: int, reason: Drop, frames: int) -> None:
        said = struct.pack("!HHII", vesw, REASONS.index(reason), frames, 60 * frames)
        given.kernel.take(build_frame(WireKind.DROPS, said))

    say(2, Drop.VNIC_RX_STATE, 1)
    say(2, Drop.VNIC_TX_DLID, 3)
    tx, rx = given.kernel.traffic(2)
    assert (rx.in_packets, rx.out_packets, rx.out_bytes, rx.drops) == (1, 0, 0, {Drop.VNIC_RX_STATE: 1})
    assert (tx.in_packets, tx.out_packets, tx.drops) == (3, 0, {Drop.VNIC_TX_DLID: 3})
    given.kernel.take(build_frame(WireKind.DROPS, struct.pack("!HHII", 2, len(REASONS), 1, 60)))
    given.kernel.take(build_frame(WireKind.DROPS, bytes(11)))
    assert given.world.fabric.balance() == {}


def test_the_kernel_says_which_interface_is_on_which_virtual_switch() -> None:
    given = Given()
    given.kernel.take(build_frame(WireKind.VNIC, struct.pack("!II", 3, 0xABC)))
    given.kernel.take(build_frame(WireKind.VNIC, bytes(7)))
    assert given.vnics == [(3, 0xABC)]


def test_a_packet_with_a_foreign_slid_is_refused_by_the_port() -> None:
    given = Given()
    packet = build_fm_packet(99, given.em.lid, 0, 0x7FFF, 1, 1, bytes(24), given.world.fabric.icrc)
    given.kernel.take(build_frame(WireKind.PACKET, packet))
    assert given.kernel.counters.refused == 1
    assert given.port.tx.drops == {Drop.TX_SLID: 1}


def test_ethernet_is_announced_while_the_kernels_driver_does() -> None:
    given = Given()
    said = build_frame(WireKind.CAPS, int(ETH).to_bytes(4))
    given.kernel.take(said)
    assert given.kernel.ready
    assert ETH in given.port.capability_mask3
    given.kernel.take(build_frame(WireKind.HELLO, bytes(4)))
    assert ETH not in given.port.capability_mask3, "a kernel that boots has no configured VNICs"
    given.kernel.take(said)
    given.kernel.close()
    given.kernel.close()
    assert ETH not in given.port.capability_mask3
    answers: list[Mad | None] = []
    given.em.mad.submit(given.port.lid, build_request(Method.GET, AttrId.CLASS_PORT_INFO), answers.append)
    assert [answer and answer.header.status for answer in answers] == [0x000C]
