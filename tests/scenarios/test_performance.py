"""What a fabric manager reads of ports after things went wrong, and that clearing is only its own affair."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.base.types import PortState
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.management.pma.agent import PerformanceAgent
from hfi_sim.management.pma.ports import counted_switch
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.header import MadHeader
from hfi_sim.wire.mad.pma_attributes import HAPPENED, PKEY_VIOLATION, RcvErrorCode
from hfi_sim.wire.packet import build_packet
from unit.hfi_sim.management.pma.pm_client import PmClient, Values, counted

L4 = 0x55
FULL = 0xFFFF
GBIT = 1e9
"""A flit of 8 bytes takes 64 ns."""
STATUS_ASKED, STATUS_TOLD, CLEARED = 8, 34, 12
"""Flits of MADs: the question for the status of a port, its answer for one port and VL, and the answer to clearing."""


class Bed:
    """Three hosts on one switch by links of 1 Gbit/s; the first one asks, from a link of its own."""

    def __init__(self, flow: FlowControl | None = None) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock)
        self.switch = self.fabric.add_switch("sw0", ports=4)
        self.manager = self._host("manager", 4, None)
        self.h1 = self._host("h1", 1, flow)
        self.h2 = self._host("h2", 2, flow)
        self.sm = SubnetManager(self.fabric, self.manager)
        self.sm.sweep()
        for port in (self.manager, self.h1, self.h2):
            self.sm.set_management(port, True)
        self.faults = Faults(self.fabric)
        self.pm = PmClient(self.manager, self.clock)
        self.sw0 = PerformanceAgent(partial(counted_switch, self.switch), default_port=0)

    def _host(self, name: str, port_num: int, flow: FlowControl | None) -> HfiPort:
        port = self.fabric.add_hfi(name).ports[1]
        self.fabric.connect(port, self.switch.ports[port_num], LinkConfig(GBIT, latency_ns=0, flow=flow))
        port.register_l4(L4, self._take)
        return port

    def _take(self, _port: HfiPort, _packet: bytes, _token: BufferToken | None) -> None:
        return None

    def packet(self, source: HfiPort, dlid: int, *, size: int = 1000, **fields: int) -> bytes:
        values: dict[str, int] = {"l4": L4, "pkey": FULL, **fields}
        lrh = Lrh16B(source.lid, dlid, **values)
        return build_packet(lrh, bytes(size - 21), self.fabric.icrc)

    def send(self, packets: int = 1, **fields: int) -> None:
        """Send packets from h1 to h2."""
        for _ in range(packets):
            self.h1.send(self.packet(self.h1, self.h2.lid, **fields))
            self.clock.advance(0.0001)

    def at(self, port_num: int) -> Values:
        """Return the counters of a port of the switch that are not 0."""
        return counted(self.pm.status(self.sw0, port_num)[0])


def test_both_ends_of_a_link_count_the_same_packets_in_flits() -> None:
    bed = Bed()
    bed.pm.clear(bed.h2, 1)
    bed.pm.clear(bed.sw0, 1, 2)
    bed.send(5)
    sent = {"xmit_data": 5 * 125, "xmit_pkts": 5}
    received = {"rcv_data": 5 * 125, "rcv_pkts": 5}
    assert (bed.at(1), bed.at(2)) == (received, sent)
    # the answer to clearing, and this request, which came before it was answered
    assert counted(bed.pm.status(bed.h2, 1)[0]) == {
        "rcv_data": 625 + STATUS_ASKED,
        "rcv_pkts": 6,
        "xmit_data": CLEARED,
        "xmit_pkts": 1,
    }


def test_counters_are_those_of_the_links_less_what_was_cleared_and_nobody_else_notices_that() -> None:
    bed = Bed()
    bed.send(3)
    link = bed.h1.link
    before = link.direction_from(bed.h1).counters.out_packets
    bed.pm.clear(bed.sw0, 1, counters=("rcv_pkts",))
    bed.send(2)
    assert link.direction_from(bed.h1).counters.out_packets == before + 2
    after = bed.at(1)
    assert after["rcv_pkts"] == 2
    assert after["rcv_data"] == (link.direction_from(bed.h1).counters.out_bytes) // 8


def test_packets_to_groups_are_counted_where_they_pass() -> None:
    bed = Bed()
    mlid = bed.sm.groups.create()
    bed.sm.groups.assign({mlid: [bed.h1, bed.h2, bed.manager]})
    bed.pm.clear(bed.sw0, 0, 1, 2, 3, 4)
    bed.pm.clear(bed.h2, 1)
    bed.h1.send(bed.packet(bed.h1, mlid))
    bed.clock.advance(0.001)
    names = ("multicast_rcv_pkts", "multicast_xmit_pkts")
    each = [tuple(port[name] for name in names) for port, _ in bed.pm.data(bed.sw0, 1, 2, 3, 4)]
    assert each == [(1, 0), (0, 1), (0, 0), (0, 1)]
    assert bed.pm.status(bed.h2, 1)[0]["multicast_rcv_pkts"] == 1


def test_packets_lost_and_damaged_on_the_wire_are_errors_of_the_end_that_receives() -> None:
    bed = Bed()
    bed.pm.clear(bed.h2, 1)
    bed.pm.clear(bed.sw0, 1, 2)
    bed.faults.add("loss on h1 count=2 direction=tx")
    bed.send(3)
    bed.faults.add("corrupt on h2 count=3 direction=rx")
    bed.send(3)
    assert bed.at(1)["local_link_integrity_errors"] == 2
    assert "local_link_integrity_errors" not in bed.at(2)
    [(errors, _)] = bed.pm.errors(bed.h2, 1)
    assert counted(errors) == {"local_link_integrity_errors": 3, "rcv_errors": 3}
    assert bed.h2.rx.drops == {Drop.RX_ICRC: 3}
    assert bed.pm.first(bed.h2, 1).rcv_status == 0  # there is no code for it


def test_link_quality_falls_with_errors_and_recovers() -> None:
    bed = Bed()
    assert [port["link_quality"] for port, _ in bed.pm.data(bed.sw0, 0, 1, 3)] == [5, 5, 0]
    for errors, quality in [(1, 4), (10, 3), (100, 2)]:
        bed.faults.add(f"loss on h1 count={errors} direction=tx")
        bed.send(errors)
        assert bed.pm.status(bed.sw0, 1)[0]["link_quality"] == quality
    assert bed.pm.status(bed.h1, 1)[0]["link_quality"] == 5  # h1 has received all well
    bed.clock.advance(20)
    assert bed.pm.status(bed.sw0, 1)[0]["link_quality"] == 5
    assert bed.at(1)["local_link_integrity_errors"] == 111


def test_link_that_flaps_is_counted_at_both_ends_and_has_no_quality_while_it_is_down() -> None:
    bed = Bed()
    bed.faults.add("link-down on h2 for=10ms every=20ms count=3")
    bed.clock.advance(0.005)
    assert bed.pm.status(bed.sw0, 2)[0]["link_quality"] == 0
    bed.clock.advance(0.1)
    assert bed.at(2)["link_downed"] == 3
    assert bed.pm.status(bed.h2, 1)[0]["link_downed"] == 3
    assert bed.pm.status(bed.h2, 1)[0]["link_quality"] == 5


def test_switch_port_that_enforces_partitions_counts_and_remembers_the_first_offender() -> None:
    bed = Bed()
    bed.sm.set_pkeys(bed.h1, [0x8005, 0x8006, 0x8007])
    bed.sm.set_pkeys(bed.h2, [0x8005])
    bed.switch.ports[1].enforce_pkeys([0x8005, 0x8006, FULL], outbound=False)
    bed.switch.ports[2].enforce_pkeys([0x8005, FULL], inbound=False)
    for pkey in (0x8007, 0x8007, 0x8006):
        bed.send(pkey=pkey)
    assert bed.at(1)["rcv_constraint_errors"] == 2
    assert bed.at(2)["xmit_constraint_errors"] == 1
    first = bed.pm.first(bed.sw0, 1)
    assert (first.rcv_constraint_status, first.rcv_constraint_pkey) == (HAPPENED | PKEY_VIOLATION, 0x8007)
    first = bed.pm.first(bed.sw0, 2)
    assert (first.xmit_constraint_status, first.xmit_constraint_pkey) == (HAPPENED, 0x8006)
    assert first.xmit_constraint_slid == bed.h1.lid


def test_hfi_counts_what_its_own_partition_table_refuses() -> None:
    bed = Bed()
    bed.sm.set_pkeys(bed.h1, [0x8005])
    bed.send(2, pkey=0x8006)
    bed.send(1, pkey=0x8005)
    assert bed.pm.status(bed.h1, 1)[0]["xmit_constraint_errors"] == 2
    assert bed.pm.first(bed.h1, 1).xmit_constraint_pkey == 0x8006
    assert bed.pm.status(bed.h2, 1)[0]["rcv_constraint_errors"] == 1
    assert bed.pm.first(bed.h2, 1).rcv_constraint_slid == bed.h1.lid


def test_first_error_stays_until_it_is_cleared() -> None:
    bed = Bed()
    for dlid in (0x777, 0x778):
        bed.h1.send(bed.packet(bed.h1, dlid, sc=3))
        bed.clock.advance(0.001)
    first = bed.pm.first(bed.sw0, 1)
    assert (first.relay_status, first.relay_dlid, first.relay_sc) == (HAPPENED, 0x777, 3)
    assert first.relay_slid == bed.h1.lid
    bed.pm.forget(bed.sw0, 1, info_mask=1 << 31)
    assert bed.pm.first(bed.sw0, 1).relay_dlid == 0x777
    bed.pm.forget(bed.sw0, 1)
    assert bed.pm.first(bed.sw0, 1).relay_status == 0
    bed.h1.send(bed.packet(bed.h1, 0x779))
    bed.clock.advance(0.001)
    assert bed.pm.first(bed.sw0, 1).relay_dlid == 0x779
    assert bed.at(1)["rcv_switch_relay_errors"] == 3


def test_packet_for_somebody_else_is_an_error_with_its_first_16_bytes() -> None:
    bed = Bed()
    stray = bed.packet(bed.h1, 0x777)
    bed.switch.program({**dict(enumerate(bed.switch.lft.entries)), 0x777: 2}, bed.switch.mft)
    bed.h1.send(stray)
    bed.clock.advance(0.001)
    assert bed.pm.status(bed.h2, 1)[0]["rcv_errors"] == 1
    first = bed.pm.first(bed.h2, 1)
    assert first.rcv_status == HAPPENED | RcvErrorCode.BAD_DLID
    assert first.rcv_flit_1 + first.rcv_flit_2 == stray[:16]


def test_discards_of_a_full_queue_and_of_mtus_are_counted_at_the_port_and_its_vl() -> None:
    bed = Bed()
    out = bed.switch.ports[2]
    out.set_sc_to_vl([0, 1, *[0] * 30])
    out.set_vl_mtus([10240, 2048, *[10240] * 14])
    bed.pm.clear(bed.sw0, 2)
    bed.send(sc=1, size=4000)
    out.link.configure(replace(out.link.planned.up, rate_bps=1e6, queue=SizeOrTime(2500)))
    for _ in range(4):
        bed.send()
    [(errors, vls)] = bed.pm.errors(bed.sw0, 2, vl_mask=0x8003)
    assert errors["xmit_discards"] == 3
    assert [vl["xmit_discards"] for vl in vls] == [2, 1, 0]
    [(data, vls)] = bed.pm.data(bed.sw0, 2, vl_mask=3)
    assert data["sw_congestion"] == 2
    assert [vl["sw_congestion"] for vl in vls] == [2, 0]
    assert data["error_summary"] == 3


def test_waiting_for_credits_is_counted_in_flit_times_of_the_vl() -> None:
    bed = Bed(FlowControl(vls=2, buffer_bytes=16384, fecn_bytes=4000))
    bed.pm.clear(bed.sw0, 1, 2)
    bed.pm.clear(bed.h1, 1)
    bed.h2.stall()
    for _ in range(60):
        bed.h1.send(bed.packet(bed.h1, bed.h2.lid))
    bed.clock.advance(0.002)
    there = bed.pm.status(bed.sw0, 2, vl_mask=3)
    # 16 packets fill the buffer of h2, each of 8 us; the others have waited ever since
    assert there[0]["xmit_wait"] == there[1][0]["xmit_wait"] > 0
    assert there[1][1]["xmit_wait"] == 0
    bed.clock.advance(0.001)
    later = bed.pm.status(bed.sw0, 2)[0]["xmit_wait"]
    assert later - there[0]["xmit_wait"] == 1_000_000 // 64
    bed.h2.resume()
    bed.clock.advance(0.01)
    link = bed.switch.ports[2].link
    lanes = link.direction_from(bed.switch.ports[2]).lanes
    marked = bed.pm.status(bed.sw0, 2, vl_mask=1)
    assert marked[0]["mark_fecn"] == lanes.fecn_marked > 0
    assert bed.pm.status(bed.h2, 1, vl_mask=1)[1][0]["rcv_fecn"] == lanes.fecn_marked
    bed.h2.send(bed.packet(bed.h2, bed.h1.lid))
    bed.clock.advance(0.001)
    assert bed.at(2)["rcv_becn"] == 1


def test_port_that_reads_nothing_overruns_its_buffer() -> None:
    bed = Bed()
    bed.h2.stall()
    for _ in range(130):
        bed.h1.send(bed.packet(bed.h1, bed.h2.lid, size=10_000, sc=5))
    bed.clock.advance(0.1)
    bed.h2.resume()
    bed.clock.advance(0.1)
    overruns = bed.pm.status(bed.h2, 1)[0]["excessive_buffer_overruns"]
    assert overruns == bed.h2.rx.drops[Drop.RX_OVERFLOW] > 0
    assert bed.pm.first(bed.h2, 1).overrun_status == HAPPENED | 5 << 2


def test_frames_to_a_port_that_is_not_active_are_discards_of_the_port_before_it() -> None:
    bed = Bed()
    bed.switch.ports[2].state = PortState.INIT
    bed.send(3)
    assert bed.at(2)["xmit_discards"] == 3


@pytest.mark.parametrize("lid_of", ["own", "other"])
def test_agent_answers_to_its_own_port_as_to_others(lid_of: str) -> None:
    bed = Bed()
    asker = PmClient(bed.h1 if lid_of == "own" else bed.h2, bed.clock)
    assert asker.status(bed.h1, 0)[0]["port_num"] == 1
    assert bed.fabric.balance() == {}


def test_limited_member_may_ask_itself_and_nobody_else_that_is_limited() -> None:
    bed = Bed()
    for port in (bed.h1, bed.h2):
        bed.sm.set_management(port, False)
    assert PmClient(bed.h1, bed.clock).status(bed.h1, 1)[0]["link_quality"] == 5
    bed.h1.mad.send(bed.h2.lid, MadHeader(mgmt_class=4, method=1, tid=9, attr_id=1).build())
    bed.clock.advance(0.1)
    assert bed.h2.rx.drops == {Drop.RX_PKEY: 1}
    assert bed.fabric.balance() == {}


def test_group_of_one_is_no_error() -> None:
    bed = Bed()
    mlid = bed.sm.groups.create()
    bed.sm.groups.assign({mlid: [bed.h1]})
    bed.h1.send(bed.packet(bed.h1, mlid))
    bed.clock.advance(0.001)
    assert bed.switch.counters.drops == {Drop.SW_NO_GROUP: 1}
    assert "rcv_switch_relay_errors" not in bed.at(1)
    bed.h2.send(bed.packet(bed.h2, mlid))
    bed.clock.advance(0.001)
    assert bed.at(2)["rcv_switch_relay_errors"] == 1


def test_agents_of_switches_are_asked_through_the_fabric() -> None:
    bed = Bed()
    bed.send(3)
    port0 = bed.switch.port0
    assert [port["port_num"] for port, _ in bed.pm.data(port0, 0, 1, 2, 3, 4)] == [0, 1, 2, 3, 4]
    bed.pm.clear(port0, 0, 1, 2)
    bed.send(3)
    assert counted(bed.pm.status(port0, 2)[0]) == {"xmit_data": 375, "xmit_pkts": 3}
    # the answer to clearing, and the two requests since
    assert counted(bed.pm.status(port0, 0)[0]) == {
        "xmit_data": CLEARED + STATUS_TOLD,
        "xmit_pkts": 2,
        "rcv_data": 2 * STATUS_ASKED,
        "rcv_pkts": 2,
    }
    assert bed.fabric.balance() == {}


def test_limited_member_may_ask_a_full_one() -> None:
    bed = Bed()
    bed.sm.set_management(bed.h1, False)
    assert PmClient(bed.h1, bed.clock).status(bed.manager, 1)[0]["link_quality"] == 5
