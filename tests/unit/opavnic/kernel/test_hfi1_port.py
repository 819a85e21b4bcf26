"""A port that belongs to hfi1, with an HFI that is a list of frames and an SMA that keeps what it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.types import LID_PERMISSIVE, PortState
from hfi_sim.fabric.topology import single_switch
from hfi_sim.wire.lrh16b import L4, FmHeader, Lrh16B
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet, parse_fm_payload
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader
from hfi_sim.wire.packet import build_packet, strip
from hfi_sim.wire.packet_9b import bare_9b, build_mad_9b, carry_9b
from hfi_sim.wire.sma.port_info import PortInfo
from hfi_sim.wire.sma.tables import PARTITION_TABLE
from opavnic.kernel.hfi1_port import ARM, OPEN_MAX, Hfi1Port
from opavnic.kernel.wire import ERROR, IDLE, LINK, PhysicalLink, WireKind, build_frame, parse_frame
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

    def __init__(self, *, is_set_up: bool = True) -> None:
        self.world = World(single_switch(1), subnet_manager="builtin")
        (host,) = self.world.hosts.values()
        self.port, self.em = host.port, self.world.em_port
        self.frames: list[tuple[int, bytes]] = []
        self.attributes: dict[int, bytes] = {SubnetAttrId.PORT_INFO: PortInfo(state=PortState.INIT).build()}
        self.sets: list[tuple[str, int]] = []
        self.links: list[bool] = []
        self.status = 0
        self._set_link(False)
        self.kernel = Hfi1Port(
            self.port,
            self._take,
            on_link=self._on_link,
            holder=HOLDER,
            clock=self.world.clock,
            is_set_up=is_set_up,
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


def running() -> Given:
    """Return a host whose link is up, and whose SMA has answered what it was asked."""
    given = Given()
    given.say(PhysicalLink.LINK_UP)
    given.answer()
    return given


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
    assert info.lid == given.port.lid > 0
    table = PARTITION_TABLE.parse(given.attributes[SubnetAttrId.PARTITION_TABLE][: PARTITION_TABLE.size])
    assert table.pkeys[:3] == (0, 0x7FFF, 0), "hfi1 finds the P_Key of its SMPs in the second place"
    assert info.master_sm_lid == given.em.lid
    assert (WireKind.IDLE, IDLE.build(message=ARM)) in given.frames


def test_p_keys_that_change_are_told_again_without_new_states() -> None:
    given = running()
    given.sets.clear()
    given.world.set_pkeys(given.port, [0x8009])
    given.answer()
    table = PARTITION_TABLE.parse(given.attributes[SubnetAttrId.PARTITION_TABLE][: PARTITION_TABLE.size])
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
    given = running()
    given._set_link(False, by="a fault")
    assert given.told() == [PhysicalLink.LINK_UP, PhysicalLink.OFFLINE]
    given.say(PhysicalLink.OFFLINE)
    assert given.links == [True], "the HFI does not hold down what the lab has taken down"
    given._set_link(True, by="a fault")
    assert given.told()[-1] == PhysicalLink.LINK_UP
    given.say(PhysicalLink.OFFLINE)
    assert given.links == [True, False], "here it has left by itself"


def test_packets_of_hfi1_leave_sealed_and_those_for_it_arrive_whole() -> None:
    given = running()
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


def of_9b(given: Given, mad: bytes, dlid: int, *, qp: int = 1, sc: int = 0, pkey: int = 0x7FFF) -> bytes:
    """Return a 9B packet of hfi1 with a MAD, and room for an ICRC."""
    lids = (0xFFFF, 0xFFFF) if dlid == LID_PERMISSIVE else (given.port.lid, dlid)
    icrc = given.world.fabric.icrc
    return bare_9b(build_mad_9b(lids, sc, 0, pkey, (qp, qp), mad, icrc))[:-4] + bytes(4)


def test_9b_packets_pass_both_ways_and_mads_are_answered_as_they_came() -> None:
    given = running()
    given.frames.clear()
    mad = MadHeader(
        base_version=1, mgmt_class=MadClass.SUBN_ADM, class_version=2, method=Method.GET, tid=9, attr_id=1
    )
    given.kernel.take(build_frame(WireKind.PACKET_9B, of_9b(given, mad.build() + bytes(232), given.em.lid)))
    ((kind, answer),) = given.frames
    assert kind == WireKind.PACKET_9B
    assert (int.from_bytes(answer[2:4]), int.from_bytes(answer[6:8])) == (given.port.lid, given.em.lid)
    header = MadHeader.parse(answer[28:])
    assert (header.method, header.tid, header.status) == (Method.GET_RESP, 9, 0)
    assert len(answer) == 288
    assert given.em.mad.counters.drops == {}

    lids = given.em.lid.to_bytes(2), given.port.lid.to_bytes(2)
    acknowledgement = bytes.fromhex("0002") + lids[1] + b"\0\x07" + lids[0]
    acknowledgement += bytes.fromhex("1140ffff00000006002f5dcf") + bytes(8)
    given.em.send(carry_9b(acknowledgement, given.world.fabric.icrc))
    assert given.frames[-1][0] == WireKind.PACKET_9B
    assert given.frames[-1][1][:-4] == acknowledgement[:-4]
    assert given.world.fabric.balance() == {}


def test_a_switch_answers_a_directed_smp_of_9b_hop_by_hop() -> None:
    given = running()
    given.frames.clear()
    head = MadHeader(
        mgmt_class=MadClass.SUBN_DIRECTED,
        class_version=0x80,
        method=Method.GET,
        class_specific=1 << 8 | 1,
        tid=5,
        attr_id=SubnetAttrId.NODE_INFO,
    )
    mad = head.build() + DirectedHeader(initial_path=bytes([0, 1]).ljust(64, b"\0")).build() + bytes(8)
    given.port.set_pkeys([0xFFFF, 0x7FFF])
    packet = of_9b(given, mad, LID_PERMISSIVE, qp=0, sc=15, pkey=0xFFFF)
    given.kernel.take(build_frame(WireKind.PACKET_9B, packet))
    answers = [body for kind, body in given.frames if kind == WireKind.PACKET_9B]
    assert [body[:8].hex() for body in answers] == [f"f002ffff{len(answers[0]) // 4:04x}ffff"]
    assert MadHeader.parse(answers[0][28:]).method == Method.GET_RESP


def smp(given: Given, method: Method, info: PortInfo, *, tid: int, begins: bool = False) -> bytes:
    """Return an SMP of PortInfo that a fabric manager sends to hfi1, by LID."""
    head = MadHeader(
        mgmt_class=MadClass.SUBN_LID,
        class_version=0x80,
        method=method,
        tid=tid,
        attr_id=SubnetAttrId.PORT_INFO,
        attr_mod=1 << 24 | begins << 9 | 1,
    )
    return head.build() + bytes(8) + info.build()


def test_the_port_follows_what_hfi1_has_taken_of_a_fabric_manager() -> None:
    given = Given(is_set_up=False)
    given.say(PhysicalLink.LINK_UP)
    assert [kind for kind, _ in given.frames if kind == WireKind.PACKET] == [], "nothing is told by itself"
    icrc, em, port = given.world.fabric.icrc, given.em, given.port
    before = port.lid

    def asks_and_gets(tid: int, status: int, *, is_answered: bool = True) -> None:
        asked = smp(given, Method.SET, PortInfo(lid=8, lmc=1, master_sm_lid=em.lid, state=0), tid=tid)
        em.send(build_fm_packet(em.lid, port.lid, 15, 0xFFFF, 0, 0, asked, icrc))
        kind, body = given.frames[-1]
        assert (kind, parse_fm_payload(strip(body))[1]) == (WireKind.PACKET, asked), "hfi1's own SMA is asked"
        if is_answered:
            head = replace(MadHeader.parse(asked), method=Method.GET_RESP, status=status)
            answer = of_9b(given, head.build() + asked[24:], em.lid, qp=0, sc=15)
            given.kernel.take(build_frame(WireKind.PACKET_9B, answer))

    asks_and_gets(1, 7 << 2)
    assert port.lid == before, "what hfi1 refuses does not hold here"
    for tid in range(2, 3 + OPEN_MAX):
        asks_and_gets(tid, 0, is_answered=False)
    assert len(given.kernel._open) == OPEN_MAX
    asks_and_gets(1000, 0)
    assert (port.lid, port.lmc) == (8, 1)
    assert em.rx.drops == {}


def test_a_manager_that_begins_with_a_get_arms_the_port_and_its_neighbour() -> None:
    given = Given(is_set_up=False)
    given.say(PhysicalLink.LINK_UP)
    em, port = given.em, given.port
    port.set_state(PortState.INIT)
    info = PortInfo(lid=8, master_sm_lid=em.lid)
    for tid, method, state in ((1, Method.GET, 0), (2, Method.SET, PortState.ARMED)):
        asked = smp(given, method, replace(info, state=state), tid=tid, begins=method is Method.GET)
        em.send(build_fm_packet(em.lid, port.lid, 15, 0xFFFF, 0, 0, asked, given.world.fabric.icrc))
        head = replace(MadHeader.parse(asked), method=Method.GET_RESP)
        answer = of_9b(given, head.build() + asked[24:], em.lid, qp=0, sc=15)
        given.kernel.take(build_frame(WireKind.PACKET_9B, answer))
    assert port.state is PortState.ARMED
    assert (WireKind.IDLE, IDLE.build(message=ARM)) in given.frames


def test_what_is_no_packet_is_counted() -> None:
    given = Given()
    good = of_9b(given, bytes(24), given.em.lid)
    bad = (bytes(64), b"", good[:-4], good + bytes(4), good[:1] + b"\1" + good[2:])
    for body in bad:
        given.kernel.take(build_frame(WireKind.PACKET_9B, body))
    for frame in (build_frame(WireKind.PACKET, bytes(17)), b"", b"\x25abc"):
        given.kernel.take(frame)
    assert (given.kernel.counters.malformed, given.kernel.counters.from_kernel) == (6, 6)


def test_a_fault_of_its_registers_reaches_the_hfi() -> None:
    given = Given()
    given.world.faults.add(f"register-error on {given.port.hfi.name}")
    assert given.frames[-1] == (WireKind.ERROR, ERROR.build(block=4, bits=2)), "PIO, PioWriteAddrParity"


def test_the_port_is_given_back() -> None:
    given = Given()
    given.kernel.close()
    assert given.port.break_register is None
    given.kernel.close()
    given.say(PhysicalLink.LINK_UP)
    assert given.links == []
    assert Drop.MAD_UNREAD not in given.port.rx.drops
    Hfi1Port(
        given.port, lambda _frame: True, on_link=lambda _up: None, holder=HOLDER, clock=given.world.clock
    )
