"""The agent: one request in, one response out; traps where there is a sink."""

from __future__ import annotations

import pytest

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Method
from unit.vema.agent.fake_vnic import AgentBench
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.attributes.traps import notice_of
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import MadStatus, TrapOpcode
from vema.em.core.messages import build_request

GET, SET = Method.GET, Method.SET
UNSUPPORTED, INVALID, DENIED = MadStatus.UNSUPPORTED, MadStatus.INVALID, MadStatus.DENIED
NOTHING = bytes(2008)


@pytest.fixture
def bench() -> AgentBench:
    return AgentBench()


def entry(number: int, dlid: int = 5) -> MacEntry:
    return MacEntry(MacAddr(bytes((2, 0, 0, 0, 0, number))), b"\xff" * 6, dlid << 8)


# what is refused, for every attribute


@pytest.mark.parametrize("method", [0, 3, 5, 6, 7, 0x12, 0x15, 0x81, 0xFF])
def test_method_other_than_get_and_set_is_unsupported(bench: AgentBench, method: int) -> None:
    bench.create()
    assert bench.ask(method, AttrId.VESW_PORT_INFO) == (UNSUPPORTED, NOTHING)


@pytest.mark.parametrize("method", [GET, SET])
@pytest.mark.parametrize("attr_id", [0, 2, 0x10, 0x16, 0x21, 0xFFFF])
def test_unknown_attribute_is_unsupported(bench: AgentBench, method: int, attr_id: int) -> None:
    assert bench.ask(method, attr_id) == (UNSUPPORTED, NOTHING)


@pytest.mark.parametrize("attr_id", [0x13, 0x14, 0x20, 0x22])
def test_set_of_a_read_only_attribute_is_unsupported(bench: AgentBench, attr_id: int) -> None:
    bench.create()
    assert bench.ask(SET, attr_id) == (UNSUPPORTED, NOTHING)


def test_get_of_delete_vesw_is_unsupported(bench: AgentBench) -> None:
    bench.create()
    assert bench.ask(GET, AttrId.DELETE_VESW) == (UNSUPPORTED, NOTHING)


@pytest.mark.parametrize(("method", "attr_id"), [
    (GET, 0x12), (SET, 0x12), (GET, 0x13), (GET, 0x14), (SET, 0x15), (GET, 0x20), (GET, 0x22),
])  # fmt: skip
def test_absent_vport_is_invalid(bench: AgentBench, method: int, attr_id: int) -> None:
    bench.create(1)
    assert bench.ask(method, attr_id, attr_mod=2) == (INVALID, NOTHING)


@pytest.mark.parametrize("size", [24, 40, 140, 256, 320, 2047, 2049, 4096])
def test_how_much_of_a_mad_was_sent_does_not_matter(bench: AgentBench, size: int) -> None:
    value = VeswPortInfo(vesw_id=9, eth_mtu=0x5A5A).build()
    whole = build_request(SET, AttrId.VESW_PORT_INFO, value, attr_mod=1).build().ljust(4096, b"\x5a")
    answer = bench.agent.receive(whole[:size])
    assert answer == AgentBench().agent.receive(whole[: min(size, 2048)].ljust(2048, b"\0"))
    assert len(answer) == 2048


# who may Set


@pytest.mark.parametrize("attr_id", [0x01, 0x11, 0x12, 0x15, 0x99])
def test_set_from_a_limited_member_is_denied_and_changes_nothing(bench: AgentBench, attr_id: int) -> None:
    vnic = bench.create()
    before = vnic.port_info

    assert bench.ask(SET, attr_id, b"\xff" * 280, pkey=0x7FFF) == (DENIED, NOTHING)

    assert bench.agent.counters.denied == 1
    assert vnic.port_info == before
    assert bench.agent.class_port_info == ClassPortInfo()


@pytest.mark.parametrize("method", [GET, SET])
@pytest.mark.parametrize("pkey", [0x8001, 0x0001])
def test_request_from_another_partition_is_denied_and_counted(
    bench: AgentBench, method: int, pkey: int
) -> None:
    bench.create()
    assert bench.ask(method, AttrId.VESW_PORT_INFO, pkey=pkey) == (DENIED, NOTHING)
    assert (bench.agent.counters.denied, bench.agent.counters.refused) == (1, 1)


def test_get_from_a_limited_member_is_answered(bench: AgentBench) -> None:
    assert bench.ask(GET, AttrId.VESW_PORT_INFO, pkey=0x7FFF)[0] == 0


@pytest.mark.parametrize("pkey", [0x7FFF, 0x8001])
def test_set_from_anybody_passes_where_the_rule_is_off(pkey: int) -> None:
    bench = AgentBench(sets_need_full_member=False)
    assert bench.ask(SET, AttrId.VESW_PORT_INFO, pkey=pkey)[0] == 0


# ClassPortInfo


def test_class_port_info_before_any_set_has_the_agents_fields_only(bench: AgentBench) -> None:
    status, data = bench.ask(GET, AttrId.CLASS_PORT_INFO, attr_mod=0xDEADBEEF)
    assert status == 0
    assert data == bytes.fromhex("8080ff0100000012").ljust(2008, b"\0")


def test_class_port_info_keeps_what_was_set_but_for_the_agents_fields(bench: AgentBench) -> None:
    _, data = bench.ask(SET, AttrId.CLASS_PORT_INFO, b"\xa5" * 80)
    assert data == (bytes.fromhex("8080ff0100000012") + b"\xa5" * 72).ljust(2008, b"\0")
    assert bench.ask(GET, AttrId.CLASS_PORT_INFO)[1] == data


# VeswPortInfo and DeleteVesw


def test_get_of_an_absent_vport_gives_power_on_defaults_and_creates_nothing(bench: AgentBench) -> None:
    status, data = bench.ask(GET, AttrId.VESW_PORT_INFO, attr_mod=9)
    info = VeswPortInfo.parse(data)
    assert status == 0
    assert (info.eth_mtu, info.config_state, info.oper_state) == (1500, 1, 1)
    assert (info.max_mac_tbl_ent, info.max_smac_ent, info.eth_link_status) == (2048, 256, 0)
    assert not bench.vnics


@pytest.mark.parametrize(
    ("attr_mod", "vport_num"), [(0, 0), (1, 1), (255, 255), (0x100, 0), (0xABCDEF12, 0x12)]
)
def test_set_creates_the_vport_of_the_low_byte(bench: AgentBench, attr_mod: int, vport_num: int) -> None:
    status, _ = bench.ask(SET, AttrId.VESW_PORT_INFO, attr_mod=attr_mod)
    assert status == 0
    assert list(bench.vnics) == [vport_num]


def test_set_where_no_netdev_can_be_had_is_invalid_and_may_be_tried_again(bench: AgentBench) -> None:
    bench.out_of_netdevs = True
    assert bench.ask(SET, AttrId.VESW_PORT_INFO) == (INVALID, NOTHING)
    bench.out_of_netdevs = False
    assert bench.ask(SET, AttrId.VESW_PORT_INFO)[0] == 0


def test_all_256_vports_exist_beside_each_other(bench: AgentBench) -> None:
    for number in range(256):
        bench.ask(SET, AttrId.VESW_PORT_INFO, VeswPortInfo(vesw_id=number + 1).build(), attr_mod=number)
    for number in range(256):
        _, data = bench.ask(GET, AttrId.VESW_PORT_INFO, attr_mod=number)
        assert VeswPortInfo.parse(data).vesw_id == number + 1


def test_quirk_delete_leaves_the_vport_with_defaults(bench: AgentBench) -> None:
    bench.create()
    status, data = bench.ask(SET, AttrId.DELETE_VESW)
    assert status == 0
    assert VeswPortInfo.parse(data).eth_link_status == 2
    assert bench.ask(GET, AttrId.MAC_ENTRIES)[0] == 0


# MacEntries


def test_mac_entries_set_answers_with_the_table_and_get_ignores_the_digest(bench: AgentBench) -> None:
    bench.create()
    section = MacEntries(2046, 0xCAFE, (entry(1), None))

    assert bench.ask(SET, AttrId.MAC_ENTRIES, section.build()) == (0, section.build().ljust(2008, b"\0"))

    ask = MacEntries(2046, 0x1111, (None,) * 2).build()
    assert bench.ask(GET, AttrId.MAC_ENTRIES, ask)[1] == section.build().ljust(2008, b"\0")


def test_mac_entries_set_of_nothing_takes_the_digest(bench: AgentBench) -> None:
    vnic = bench.create()
    status, _ = bench.ask(SET, AttrId.MAC_ENTRIES, MacEntries(2048, 0xD16E57).build())
    assert (status, vnic.mac_table_digest) == (0, 0xD16E57)


@pytest.mark.parametrize("method", [GET, SET])
@pytest.mark.parametrize(("offset", "num"), [(0, 126), (2047, 2), (2049, 0), (0xFFFF, 0xFFFF), (0xFFFF, 1)])
def test_mac_entries_bad_range_is_invalid(bench: AgentBench, method: int, offset: int, num: int) -> None:
    vnic = bench.create()
    data = offset.to_bytes(2, "big") + num.to_bytes(2, "big") + b"\xff" * 2004
    assert bench.ask(method, AttrId.MAC_ENTRIES, data) == (INVALID, NOTHING)
    assert not vnic.table
    assert vnic.mac_table_digest == 0


# address lists


def macs(count: int) -> list[MacAddr]:
    return [MacAddr(b"\x02\x00" + number.to_bytes(4, "big")) for number in range(count)]


@pytest.mark.parametrize(
    ("start", "wanted", "count"), [(0, 0, 333), (10, 5, 5), (395, 0, 5), (400, 0, 0), (0xFFFF, 9, 0)]
)
def test_list_gives_the_stretch_asked_for(bench: AgentBench, start: int, wanted: int, count: int) -> None:
    bench.create().uc = macs(400)
    _, data = bench.ask(GET, AttrId.IFACE_UCAST_MACS, IfaceMacs(start, wanted).build())
    stretch = IfaceMacs.parse(data)
    assert (stretch.start, stretch.num_macs, stretch.total, stretch.gen_count) == (start, count, 400, 7)
    assert list(stretch.macs) == macs(400)[start : start + count]


def test_list_reply_never_exceeds_a_mad(bench: AgentBench) -> None:
    bench.create().mc = macs(500)
    _, data = bench.ask(GET, AttrId.IFACE_MCAST_MACS, IfaceMacs(0, 400).build())
    assert IfaceMacs.parse(data).num_macs == 333


def test_quirk_list_reply_claims_more_than_it_holds() -> None:
    bench = AgentBench(driver_quirks=True)
    bench.create().mc = macs(500)
    _, data = bench.ask(GET, AttrId.IFACE_MCAST_MACS, IfaceMacs(0, 400).build())
    assert IfaceMacs.parse_request(data).num_macs == 400
    assert len(data) == 2008


def test_counters_are_those_of_the_vnic(bench: AgentBench) -> None:
    bench.create(4)
    _, data = bench.ask(GET, AttrId.SUMMARY_COUNTERS, attr_mod=4)
    assert SummaryCounters.parse(data).tx_packets == 5
    _, data = bench.ask(GET, AttrId.ERROR_COUNTERS, attr_mod=4)
    assert ErrorCounters.parse(data).rx_runt == 6


# traps


def sink(bench: AgentBench, lid: int = 7, sl: int = 3) -> None:
    bench.ask(SET, AttrId.CLASS_PORT_INFO, ClassPortInfo(trap_lid=lid, trap_sl_rsvd=sl << 3 | 5).build())


def test_trap_goes_to_the_sink_with_the_current_configuration(bench: AgentBench) -> None:
    vnic = bench.create(3)
    sink(bench)
    vnic.apply(VeswPortInfo(fabric_id=1, vesw_id=2, vesw_port_num=4, encap_slid=0x50006))

    vnic.report(TrapOpcode.ETH_LINK_STATUS_CHANGED)

    (trap,) = bench.traps
    assert (trap.dlid, trap.sl, len(trap.mad)) == (7, 3, 272)
    assert trap.mad[:4] == bytes.fromhex("80348005")
    assert trap.mad[8:18] == bytes.fromhex("00000000000000010002")
    assert trap.mad[37:40] == bytes.fromhex("00066a")
    notice = notice_of(trap.mad)
    assert (notice.issuer_lid, notice.fabric_id, notice.vesw_id) == (0x50006, 1, 2)
    assert (notice.vesw_port_num, notice.opa_port_num, notice.vport_num, notice.opcode) == (4, 1, 3, 3)


def test_trap_without_a_sink_is_not_sent(bench: AgentBench) -> None:
    bench.create().report(TrapOpcode.UCAST_MACS_CHANGED)
    assert not bench.traps
    assert bench.agent.counters.traps_suppressed == 1


def test_traps_share_one_transaction_counter_and_are_limited_per_vport(bench: AgentBench) -> None:
    sink(bench)
    first, second = bench.create(1), bench.create(2)
    for _ in range(7):
        first.report(TrapOpcode.UCAST_MACS_CHANGED)
    second.report(TrapOpcode.UCAST_MACS_CHANGED)
    assert [int.from_bytes(trap.mad[8:16], "big") for trap in bench.traps] == [1, 2, 3, 4, 5, 6]
    assert [notice_of(trap.mad).vport_num for trap in bench.traps] == [1] * 5 + [2]


def test_new_window_opens_1074_ms_after_the_first_trap_of_the_last(bench: AgentBench) -> None:
    sink(bench)
    vnic = bench.create()
    for _ in range(6):
        vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
    bench.now += 1.073
    vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
    assert len(bench.traps) == 5
    bench.now = 100.0 + 1.074
    vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
    assert len(bench.traps) == 6


def test_vport_made_again_has_all_its_traps_whatever_the_removed_one_sent(bench: AgentBench) -> None:
    sink(bench)
    for sent in (5, 10):
        vnic = bench.create()
        for _ in range(6):
            vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
        assert len(bench.traps) == sent
        bench.agent.forget(vnic.vport_num)


def test_quirk_report_without_a_sink_uses_up_an_open_window(bench: AgentBench) -> None:
    sink(bench)
    vnic = bench.create()
    vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
    sink(bench, lid=0)
    for _ in range(3):
        vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
    sink(bench)
    for _ in range(3):
        vnic.report(TrapOpcode.UCAST_MACS_CHANGED)
    assert len(bench.traps) == 2
