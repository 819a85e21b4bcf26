"""A port that belongs to hfi1, with an HFI that is a list of frames and an SMA that keeps what it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.port_state import PortState
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.fabric.topology import single_switch
from hfi_sim.wire.l4 import L4, FmHeader
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet, parse_fm_payload
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader
from hfi_sim.wire.packet import build_packet, strip
from hfi_sim.wire.sma.port_info import PortInfo
from hfi_sim.wire.sma.tables import PartitionTable
from opavnic.kernel.hfi1_port import FIRST_LID, Hfi1Port, SmaMessage
from opavnic.kernel.wire import IDLE, LINK, PhysicalLink, WireKind, build_frame, parse_frame
from opavnic.world.world import World

DATA_AT = MadHeader.SIZE + DirectedHeader.SIZE
HOLDER = "the kernel of h1"


def of_hfi1(packet: bytes) -> bytes:
    """Return a 16B packet as hfi1 hands it to its hardware: without LT, ICRC and pad count."""
    body = bytearray(packet[: len(packet) - 5 - (packet[-1] & 7)])
    body[7] &= 0x7F
    return bytes(body) + bytes(-(len(body) + 5) % 8) + bytes(5)


class Given:
    """A host whose port belongs to hfi1."""

    def __init__(self) -> None:
        self.world = World(single_switch(1))
        (host,) = self.world.hosts.values()
        self.port, self.em = host.port, self.world.em_port
        self.port.first_lid = FIRST_LID
        self.frames: list[tuple[int, bytes]] = []
        self.attributes: dict[int, bytes] = {SubnetAttrId.PORT_INFO: PortInfo(state=PortState.INIT).build()}
        self.sets: list[tuple[str, int]] = []
        self.links: list[bool] = []
        self.status = 0
        self._set_link(False)
        self.kernel = Hfi1Port(
            self.port, self._take, on_link=self._on_link, holder=HOLDER, clock=self.world.clock
        )

    def _set_link(self, up: bool, by: str = HOLDER) -> None:
        assert self.port.link is not None
        self.world.fabric.set_links([self.port.link], up, by=by)
        self.world.subnet_manager.sweep()

    def _on_link(self, up: bool) -> None:
        self.links.append(up)
        self._set_link(up)

    def _take(self, frame: bytes) -> bool:
        found = parse_frame(frame)
        assert found is not None
        self.frames.append((found.kind, found.body))
        return True

    def say(self, state: int) -> None:
        self.kernel.take(build_frame(WireKind.LINK, LINK.build(guid=1, port=1, state=state)))

    def told(self) -> list[int]:
        """Return the states that the HFI was told of its neighbour."""
        return [LINK.parse(body).state for kind, body in self.frames if kind == WireKind.LINK]

    def answer(self) -> None:
        """Answer SMPs until there are no more."""
        while smps := [frame for frame in self.frames if frame[0] == WireKind.PACKET]:
            for frame in smps:
                self.frames.remove(frame)
                self.kernel.take(build_frame(WireKind.PACKET, self._response(frame[1])))

    def _response(self, packet: bytes) -> bytes:
        _, mad = parse_fm_payload(strip(packet))
        header, data = MadHeader.parse(mad), mad[DATA_AT:]
        if header.method == Method.SET and not self.status:
            self.attributes[header.attr_id] = data
            self.sets.append((SubnetAttrId(header.attr_id).text, PortInfo.parse(data[: PortInfo.SIZE]).state))
        head = replace(header, method=Method.GET_RESP, status=0x8000 | self.status)
        answer = (
            head.build() + mad[MadHeader.SIZE : DATA_AT] + self.attributes.get(header.attr_id, bytes(256))
        )
        lids = (LID_PERMISSIVE, LID_PERMISSIVE)
        return of_hfi1(
            build_fm_packet(*lids, 15, 0x7FFF, 0, 0, answer[: len(answer) & ~7], self.world.fabric.icrc)
        )


def test_the_manager_tells_hfi1_by_smps_what_it_has_set() -> None:
    given = Given()
    (link,) = [LINK.parse(body) for _, body in given.frames]
    (switch,) = given.world.fabric.switches.values()
    assert (link.guid, link.type, link.state) == (switch.node_guid, 1, PhysicalLink.LINK_UP)
    given.say(PhysicalLink.LINK_UP)
    given.answer()
    assert given.links[-1] is True
    assert given.port.state is PortState.ACTIVE
    told = [name for name, _ in given.sets]
    begin = ["PortInfo", "PartitionTable", "SLtoSC", "SCtoSL", "BufferControl", "PortInfo", "PortInfo"]
    assert told[-len(begin) :] == begin
    assert [state for name, state in given.sets if name == "PortInfo"][-2:] == [
        PortState.ARMED,
        PortState.ACTIVE,
    ]
    info = PortInfo.parse(given.attributes[SubnetAttrId.PORT_INFO][: PortInfo.SIZE])
    assert info.lid == given.port.lid >= FIRST_LID
    assert info.master_sm_lid == given.em.lid
    assert (WireKind.IDLE, IDLE.build(message=SmaMessage.ARM)) in given.frames


def test_p_keys_that_change_are_told_again_without_new_states() -> None:
    given = Given()
    given.say(PhysicalLink.LINK_UP)
    given.answer()
    given.sets.clear()
    given.world.set_pkeys(given.port, [0x8009])
    given.answer()
    table = PartitionTable.parse(given.attributes[SubnetAttrId.PARTITION_TABLE][: PartitionTable.SIZE])
    assert 0x8009 in table.pkeys
    assert "BufferControl" not in [name for name, _ in given.sets]


def test_what_a_link_that_is_just_up_has_lost_is_said_again() -> None:
    given = Given()
    clock = given.world.clock
    assert isinstance(clock, ManualClock)
    given.say(PhysicalLink.LINK_UP)
    for _ in range(3):
        given.frames.clear()
        clock.advance(0.1)
        assert [kind for kind, _ in given.frames] == [WireKind.PACKET]
    given.answer()
    assert given.sets[-1] == ("PortInfo", PortState.ACTIVE)
    clock.advance(10.0)
    assert [kind for kind, _ in given.frames if kind == WireKind.PACKET] == []


@pytest.mark.parametrize("status", [0, 7 << 2])
def test_a_port_that_its_driver_still_calls_down_or_that_refuses_is_told_again(status: int) -> None:
    given = Given()
    clock = given.world.clock
    assert isinstance(clock, ManualClock)
    down = PortInfo(state=PortState.INIT if status else PortState.DOWN).build()
    given.attributes[SubnetAttrId.PORT_INFO], given.status = down, status
    given.say(PhysicalLink.LINK_UP)
    given.answer()
    assert PortInfo.parse(given.attributes[SubnetAttrId.PORT_INFO]).state != PortState.ACTIVE
    given.status = 0
    given.attributes[SubnetAttrId.PORT_INFO] = PortInfo(state=PortState.INIT).build()
    clock.advance(1.0)
    given.answer()
    assert given.sets[-1] == ("PortInfo", PortState.ACTIVE)


def test_a_link_that_the_lab_takes_down_is_told_and_comes_back() -> None:
    given = Given()
    given.say(PhysicalLink.LINK_UP)
    given.answer()
    given._set_link(False, by="a fault")
    assert given.told() == [PhysicalLink.LINK_UP, PhysicalLink.OFFLINE]
    given.say(PhysicalLink.OFFLINE)
    assert given.links == [True], "the HFI does not hold down what the lab has taken down"
    given._set_link(True, by="a fault")
    assert given.told()[-1] == PhysicalLink.LINK_UP
    given.say(PhysicalLink.OFFLINE)
    assert given.links == [True, False], "here it has left by itself"


def test_packets_of_hfi1_leave_sealed_and_those_for_it_arrive_whole() -> None:
    given = Given()
    given.say(PhysicalLink.LINK_UP)
    given.answer()
    icrc, lids = given.world.fabric.icrc, (given.port.lid, given.em.lid)
    arrived: list[bytes] = []
    given.em.mad.give_gsi_to(arrived.append)
    mad = MadHeader(mgmt_class=MadClass.SUBN_ADM, method=Method.GET, tid=9, attr_id=1).build() + bytes(40)
    packet = build_fm_packet(*lids, 0, 0x7FFF, 1, 1, mad, icrc)
    given.kernel.take(build_frame(WireKind.PACKET, of_hfi1(packet)))
    assert arrived == [packet]
    assert given.em.rx.drops == {}
    assert given.kernel.counters.refused == 0

    pma = MadHeader(mgmt_class=MadClass.PERFORMANCE, method=Method.GET, tid=9, attr_id=1).build() + bytes(40)
    packets = [build_fm_packet(lids[1], lids[0], 0, 0xFFFF, 1, 1, pma, icrc)]
    header = Lrh16B(lids[1], lids[0], l4=L4.IB_LOCAL, pkey=0xFFFF)
    packets.append(build_packet(header, FmHeader(1, 1).build() + bytes(60), icrc))
    for packet in packets:
        given.em.send(packet)
    assert [body for kind, body in given.frames if kind == WireKind.PACKET] == packets


def test_what_is_no_16b_packet_is_counted() -> None:
    given = Given()
    for frame in (
        build_frame(WireKind.PACKET_9B, bytes(64)),
        build_frame(WireKind.PACKET, bytes(17)),
        b"",
        b"\x25abc",
    ):
        given.kernel.take(frame)
    assert (given.kernel.counters.malformed, given.kernel.counters.from_kernel) == (2, 2)


def test_the_port_is_given_back() -> None:
    given = Given()
    given.kernel.close()
    given.kernel.close()
    given.say(PhysicalLink.LINK_UP)
    assert given.links == []
    assert Drop.MAD_UNREAD not in given.port.rx.drops
    Hfi1Port(
        given.port, lambda _frame: True, on_link=lambda _up: None, holder=HOLDER, clock=given.world.clock
    )
