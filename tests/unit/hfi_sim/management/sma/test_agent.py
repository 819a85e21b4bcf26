"""What a subnet manager gets from HFIs and switches, and what its Sets do."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import PortState
from hfi_sim.engine.link.arbiter import Arbitration, Buffers
from hfi_sim.engine.link.config import FlowControl
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.sma.agent import TrapQueue
from hfi_sim.management.sma.facts import NO_LOCAL_MEDIA, port_state_info_of
from hfi_sim.management.sma.hfi_port import SM_START
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.attributes import SubnetAttrId as Attr
from hfi_sim.wire.mad.header import MadStatus, Method
from hfi_sim.wire.packet import build_packet
from hfi_sim.wire.sma.node import NodeDescription, NodeInfo, SwitchInfo
from hfi_sim.wire.sma.notice import CAPABILITIES, LINK_STATE, NoticeType, SubnetNotice, TrapNumber
from hfi_sim.wire.sma.port_info import PhysicalState, PortInfo, PortStateInfo
from hfi_sim.wire.sma.tables import LED_INFO, BufferControl
from unit.hfi_sim.management.sma.managed_fabric import H2, SELF, SW0, SW1, Managed, data_of, status_of

ONE = 0x01000000


@pytest.fixture
def managed() -> Iterator[Managed]:
    fabric = Managed()
    yield fabric
    assert fabric.fabric.balance() == {}


def port_info(managed: Managed, path: tuple[int, ...] | int, number: int = 1) -> PortInfo:
    return PortInfo.parse(managed.get(path, Attr.PORT_INFO, ONE | number))


def set_port(managed: Managed, path: tuple[int, ...], number: int, **values: object) -> PortInfo:
    wanted = PortInfo(**{"lid": 9, "master_sm_lid": 1, "neighbor_mtu": (0x77,) * 16, **values})  # type: ignore[arg-type]
    return PortInfo.parse(managed.get(path, Attr.PORT_INFO, ONE | number, wanted.build()))


def state_of(managed: Managed) -> int:
    return managed.h2.state


# --- who is there --------------------------------------------------------------------------------------------


def test_every_node_says_who_it_is_through_ports_that_are_in_init(managed: Managed) -> None:
    found = {path: NodeInfo.parse(managed.get(path, Attr.NODE_INFO)) for path in (SELF, SW0, SW1, H2)}
    names = [NodeDescription.parse(managed.get(path, Attr.NODE_DESCRIPTION)).name for path in found]
    assert names == ["h1", "sw0", "sw1", "h2"]
    assert [info.node_type for info in found.values()] == [1, 2, 2, 1]
    assert [info.local_port_num for info in found.values()] == [1, 1, 3, 1]
    assert found[H2].node_guid == found[H2].port_guid == managed.h2.guid
    far = port_info(managed, SW1, 1)
    assert (far.neighbor_node_guid, far.neighbor_port_num) == (managed.h2.guid, 1)


def test_a_cut_route_leads_nowhere(managed: Managed) -> None:
    assert managed.ask((1, 4), Attr.NODE_INFO) is None
    assert managed.ask((2,), Attr.NODE_INFO) is None
    assert managed.ask((*H2, 1), Attr.NODE_INFO) is None


@pytest.mark.parametrize(
    ("path", "attr_id", "attr_mod", "status"),
    [
        (SELF, Attr.SWITCH_INFO, 0, MadStatus.UNSUPPORTED),
        (SELF, Attr.NODE_INFO, 1, MadStatus.INVALID),
        (SELF, 0x7777, 0, MadStatus.UNSUPPORTED),
        (SELF, Attr.PORT_INFO, 0x02000001, MadStatus.INVALID),
        (SW0, Attr.PORT_INFO, ONE | 99, MadStatus.INVALID),
        (SW0, Attr.PORT_INFO, 0xFF000000, MadStatus.INVALID),
        (SW0, Attr.LINEAR_FORWARDING, ONE | 0x3FFFF, MadStatus.INVALID),
        (SW0, Attr.PORT_GROUP, ONE, MadStatus.UNSUPPORTED),
        (SW0, Attr.AGGREGATE, 0, MadStatus.INVALID),
        (SELF, Attr.SM_INFO, 0, MadStatus.UNSUPPORTED),
        (SELF, Attr.CABLE_INFO, 0x0007E000 | 100 << 19, MadStatus.INVALID),
    ],
)
def test_what_does_not_make_sense_is_refused_with_a_status(
    managed: Managed, path: tuple[int, ...], attr_id: int, attr_mod: int, status: MadStatus
) -> None:
    assert managed.status(path, attr_id, attr_mod) == status


def test_another_class_version_is_refused(managed: Managed) -> None:
    mad = bytearray(2048)
    mad[:24] = struct.pack(">4BHHQHHI", 0x80, 0x81, 0x81, 1, 0, 0, 77, 0x11, 0, 0)
    mad[32:40] = b"\xff" * 8
    managed.h1.send_smp(bytes(mad), 0, 0xFFFF)
    assert status_of(managed.heard[-1]) == MadStatus.BAD_VERSION


def test_node_info_of_base_version_1_says_that_the_node_speaks_opa(managed: Managed) -> None:
    for attr_id, status in ((0x11, 0), (0x15, MadStatus.UNSUPPORTED)):
        mad = bytearray(256)
        mad[:24] = struct.pack(">4BHHQHHI", 1, 0x81, 1, 1, 0, 0, 78, attr_id, 0, 0)
        mad[32:36] = b"\xff" * 4
        managed.h1.send_smp(bytes(mad), 0, 0xFFFF)
        answer = managed.heard.pop()
        assert status_of(answer) == status
        assert len(answer.mad) == 256
        if not status:
            assert answer.mad[64] == 0x80


# --- the right to manage -------------------------------------------------------------------------------------


def test_a_limited_member_may_ask_its_own_node_and_no_other(managed: Managed) -> None:
    assert managed.ask(SELF, Attr.NODE_INFO, pkey=0x7FFF) is not None
    assert managed.ask(SW0, Attr.NODE_INFO, pkey=0x7FFF) is None
    assert managed.ask(H2, Attr.NODE_INFO, pkey=0x7FFF) is None
    assert managed.sw0.port0.mad.counters.drops == {Drop.MAD_DENIED: 1}


def test_who_does_not_know_the_mkey_reads_at_protection_1_and_sets_nothing(managed: Managed) -> None:
    managed.become_manager()
    set_port(managed, H2, 1, lid=4, master_sm_lid=1, mkey=0x1234, mkey_protect=1, mkey_lease_period=15)
    led = LED_INFO.build(led_mask=1 << 31)
    assert managed.ask(H2, Attr.PORT_INFO, ONE | 1) is not None
    assert managed.ask(H2, Attr.LED_INFO, ONE, led) is None
    trap = SubnetNotice.parse(managed.traps()[0].mad[32:])
    assert (trap.trap_number, trap.issuer_lid) == (TrapNumber.BAD_MKEY, 4)
    shown = port_info(managed, H2)
    assert (shown.mkey, shown.mkey_violations) == (0, 1)
    with_key = managed.ask(H2, Attr.LED_INFO, ONE, led, mkey=0x1234)
    assert with_key is not None
    assert LED_INFO.parse(data_of(with_key)).led_mask == 1 << 31


def test_at_protection_2_nothing_is_read_until_the_lease_is_over(managed: Managed) -> None:
    set_port(managed, H2, 1, mkey=0x1234, mkey_protect=2, mkey_lease_period=5)
    assert managed.ask(H2, Attr.PORT_INFO, ONE | 1) is None
    managed.clock.advance(4.9)
    assert managed.ask(H2, Attr.PORT_INFO, ONE | 1) is None
    managed.clock.advance(0.2)
    assert managed.ask(H2, Attr.PORT_INFO, ONE | 1) is not None


def test_a_program_on_the_node_needs_the_mkey_as_well(managed: Managed) -> None:
    """ib_mad hands the SMPs of the node's own programs to the driver without the flag that ignores the M_Key."""
    set_port(managed, SELF, 1, mkey=0x1234, mkey_protect=1)
    led = LED_INFO.build(led_mask=1 << 31)
    assert managed.ask(SELF, Attr.LED_INFO, ONE, led) is None
    assert port_info(managed, SELF).mkey == 0
    assert managed.ask(SELF, Attr.LED_INFO, ONE, led, mkey=0x1234) is not None


# --- what is set takes effect --------------------------------------------------------------------------------


def test_ports_go_from_init_by_armed_to_active_and_no_other_way(managed: Managed) -> None:
    wanted = PortInfo(lid=9, master_sm_lid=1, state=PortState.ACTIVE).build()
    assert managed.status(H2, Attr.PORT_INFO, ONE | 1, wanted) == MadStatus.INVALID
    assert state_of(managed) == 2
    begun = PortInfo(lid=9, master_sm_lid=1, state=PortState.ARMED).build()
    for modifier in (ONE | 1, ONE | 1 | SM_START):
        assert managed.ask(H2, Attr.PORT_INFO, modifier, begun) is not None
        assert (state_of(managed) == PortState.ARMED) == bool(modifier & SM_START), "a manager begins"
    assert managed.ask(H2, Attr.PORT_INFO, ONE | 1, wanted) is not None
    assert state_of(managed) == PortState.ARMED, "the neighbour is not ARMED yet"
    set_port(managed, SW1, 1, state=PortState.ARMED)
    managed.get(H2, Attr.PORT_INFO, ONE | 1, wanted)
    assert state_of(managed) == PortState.ACTIVE
    assert port_info(managed, SW1, 1).neighbor_normal
    assert (managed.h2.lid, managed.h2.lmc) == (9, 0)


@pytest.mark.parametrize(
    ("state", "values", "lid"),
    [
        (PortState.INIT, {"lid": 0}, 0),
        (PortState.INIT, {"lid": 0, "master_sm_lid": 0}, 0),
        (PortState.ACTIVE, {"lid": 0}, None),
        (PortState.ACTIVE, {"master_sm_lid": 0}, 9),
        (PortState.INIT, {"lid": 0xF00001}, None),
        (PortState.INIT, {"lid": 0x1000009}, None),
        (PortState.INIT, {"master_sm_lid": 0xF00001}, 9),
        (PortState.INIT, {"lid": 0xFFFFFF}, None),
    ],
)
def test_lid_that_a_port_may_not_have_is_invalid_and_left_alone(
    managed: Managed, state: PortState, values: dict[str, int], lid: int | None
) -> None:
    if state is PortState.ACTIVE:
        set_port(managed, SW1, 1, state=PortState.ARMED)
        managed.h2.settings.info = replace(managed.h2.settings.info, is_sm_configuration_started=True)
    for step in range(PortState.ARMED, state + 1):
        set_port(managed, H2, 1, lid=7, master_sm_lid=1, state=step)
    before = managed.h2.lid
    wanted = PortInfo(**{"lid": 9, "master_sm_lid": 1, "port_error_action": 5, **values}).build()  # type: ignore[arg-type]
    is_valid = state is PortState.INIT and values.get("lid", 9) == 0
    status = managed.status(H2, Attr.PORT_INFO, ONE | 1, wanted)
    assert status == (MadStatus.OK if is_valid else MadStatus.INVALID)
    assert managed.h2.lid == (before if lid is None else lid)
    is_whole = values.get("lid", 0) >> 24
    assert managed.h2.settings.info.port_error_action == (0 if is_whole else 5), "the rest holds all the same"


def test_states_of_many_ports_are_set_at_once(managed: Managed) -> None:
    armed = PortStateInfo(state=PortState.ARMED).build()
    managed.get(SW0, Attr.PORT_STATE_INFO, 0x02000001, armed * 2)
    assert [port.state for port in managed.sw0.ports.values()][:2] == [PortState.ARMED] * 2
    shown = managed.get(SW0, Attr.PORT_STATE_INFO, 0x05000000)
    assert [PortStateInfo.parse(shown[at:]).state for at in range(0, 40, 8)] == [4, 3, 3, 1, 1]


def test_routes_by_lid_lead_smps_and_answers_where_the_manager_says(managed: Managed) -> None:
    managed.become_manager()
    for lid, guid in ((1, managed.h1.guid), (2, managed.sw0.node_guid), (4, managed.h2.guid)):
        assert NodeInfo.parse(managed.get(lid, Attr.NODE_INFO)).port_guid == guid
    assert managed.get(2, Attr.LINEAR_FORWARDING, ONE)[:6] == bytes([255, 1, 0, 2, 2, 255])
    assert managed.ask(5, Attr.NODE_INFO) is None
    info = SwitchInfo.parse(managed.get(2, Attr.SWITCH_INFO))
    assert info.linear_fdb_top == 63


def test_groups_get_the_ports_of_each_position(managed: Managed) -> None:
    block = struct.pack(">8Q", 0b1010, 0, *([0] * 6))
    assert managed.get(SW0, Attr.MULTICAST_FORWARDING, ONE, block)[:64] == block
    assert managed.sw0.mft == {0xF00000: frozenset({1, 3})}
    managed.get(SW0, Attr.MULTICAST_FORWARDING, ONE, bytes(63) + b"\1")
    assert managed.sw0.mft == {0xF00007: frozenset({0})}


def test_partitions_are_at_their_places_and_enforced_at_switches(managed: Managed) -> None:
    table = struct.pack(">32H", 0x8001, 0x7FFF, 0xFFFF, 0, 0x8005, *([0] * 27))
    assert managed.get(H2, Attr.PARTITION_TABLE, ONE, table)[:64] == table
    assert managed.h2.pkeys.entries == (0x8001, 0x7FFF, 0xFFFF, 0, 0x8005)
    managed.get(SW1, Attr.PARTITION_TABLE, ONE | 1 << 16, table)
    assert managed.sw1.ports[1].enforces == (False, False)
    set_port(managed, SW1, 1, enforce_inbound=True)
    assert managed.sw1.ports[1].enforces == (True, False)
    assert managed.ask(H2, Attr.NODE_INFO) is not None


def test_lanes_and_their_mtus_reach_the_engine_and_vl15_stays_open(managed: Managed) -> None:
    lanes = bytes([1] * 15 + [15] + [1] * 16)
    managed.get(SW1, Attr.SC_TO_VLT, ONE | 0x100 | 1, lanes)
    assert all(port.sc_to_vl == tuple(lanes) for port in managed.sw1.ports.values())
    assert managed.get(H2, Attr.SC_TO_VLT, ONE, lanes)[:32] == lanes
    info = set_port(managed, H2, 1, neighbor_mtu=(0x47, *([0] * 15)))
    assert managed.h2.vl_mtus == (2048, 10240, *([0] * 13), 2048)
    assert (info.mtu_of_vl(0), info.mtu_of_vl(1), info.mtu_of_vl(2)) == (2048, 10240, 0)
    assert managed.ask(H2, Attr.NODE_INFO) is not None


@pytest.mark.parametrize("flow", [None, FlowControl(vls=8), FlowControl(vls=2, sc_to_vl=(1,) * 32)])
def test_an_mtu_of_0_for_all_other_lanes_leaves_management_its_own(flow: FlowControl | None) -> None:
    managed = Managed(flow)
    for path, number in ((SW0, 2), (SW1, 3), (SW1, 1), (H2, 1)):
        set_port(managed, path, number, neighbor_mtu=(0x70, *[0] * 15))
    assert managed.get(H2, Attr.SC_TO_VLT, ONE)[15] == 15
    assert managed.ask(H2, Attr.NODE_INFO) is not None
    assert managed.fabric.balance() == {}


def test_service_levels_are_where_senders_find_them(managed: Managed) -> None:
    levels = bytes([1, 0, 15, *([15] * 29)])
    assert managed.get(H2, Attr.SL_TO_SC, 0, levels)[:32] == levels
    settings = managed.h2.settings
    assert [settings.sc_of(sl) for sl in range(3)] == [1, 0, None]
    assert managed.get(H2, Attr.SC_TO_SL, 0, bytes(32))[:32] == bytes(32)


def test_service_channels_between_ports_of_a_switch_reach_the_engine(managed: Managed) -> None:
    ports = managed.sw1.ports
    to_2, to_3 = bytes([2] * 15 + [15] + [4] * 16), bytes([3] * 32)
    sent = managed.get(SW1, Attr.SC_TO_SC, 2 << 24 | 1 << 8 | 2, to_2 + to_3)
    assert sent[:64] == to_2 + to_3
    assert ports[1].sc_to_sc == {2: tuple(to_2), 3: tuple(to_3)}
    shown = managed.get(SW1, Attr.SC_TO_SC, 3 << 24 | 1 << 8 | 1)
    assert shown[:96] == bytes(range(32)) + to_2 + to_3
    managed.get(SW1, Attr.SC_TO_SC, ONE | 0x30000 | 1 << 8 | 1, to_3)
    assert all(port.sc_to_sc == dict.fromkeys(ports, tuple(to_3)) for port in ports.values())
    managed.get(SW1, Attr.SC_TO_SC, ONE | 0x10000 | 2 << 8 | 2, bytes(range(32)))
    assert list(ports[2].sc_to_sc) == [1]
    assert list(ports[3].sc_to_sc) == [1, 2, 3, 4]
    assert managed.ask(H2, Attr.NODE_INFO) is not None


def multiset(ingress: int, egress: int, table: bytes) -> bytes:
    return ingress.to_bytes(32, "big") + egress.to_bytes(32, "big") + table


def test_a_multiset_has_a_table_for_many_pairs_of_ports(managed: Managed) -> None:
    ports = managed.sw1.ports
    blocks = multiset(0b1010, 0b10100, bytes([2] * 32)) + multiset(0b10, 0b1000, bytes([15] * 32))
    assert managed.get(SW1, Attr.SC_TO_SC_MULTISET, 2 << 24, blocks)[: len(blocks)] == blocks
    assert ports[1].sc_to_sc == {2: (2,) * 32, 3: (15,) * 32, 4: (2,) * 32}
    assert ports[3].sc_to_sc == {2: (2,) * 32, 4: (2,) * 32}
    assert not ports[2].sc_to_sc


@pytest.mark.parametrize(
    ("attr_id", "attr_mod", "data"),
    [
        (Attr.SC_TO_SC, ONE | 1 << 8 | 2, bytes([32] * 32)),
        (Attr.SC_TO_SC, ONE | 1 << 8 | 9, bytes([1] * 32)),
        (Attr.SC_TO_SC, 4 << 24 | 1 << 8 | 2, bytes([1] * 128)),
        (Attr.SC_TO_SC_MULTISET, ONE, multiset(2, 4, bytes([99] * 32))),
        (Attr.SC_TO_SC_MULTISET, ONE, multiset(2 | 1 << 200, 4, bytes([1] * 32))),
        (Attr.SC_TO_SC_MULTISET, ONE, multiset(3, 4, bytes([1] * 32))),
        (Attr.SC_TO_SC_MULTISET, 255 << 24, multiset(2, 4, bytes([1] * 32))),
    ],
)
def test_a_table_of_channels_or_ports_that_are_not_there_is_refused_whole(
    managed: Managed, attr_id: int, attr_mod: int, data: bytes
) -> None:
    assert managed.status(SW1, attr_id, attr_mod, data) == MadStatus.INVALID
    assert not any(port.sc_to_sc for port in managed.sw1.ports.values())


def arbitration_table(*entries: tuple[int, int]) -> bytes:
    return b"".join(bytes(entry) for entry in entries).ljust(256, b"\0")


def test_tables_of_arbitration_reach_the_engine_with_the_limit_of_high_priority(managed: Managed) -> None:
    low = arbitration_table((0, 30), (1, 10), (0, 30), (20, 9))
    assert managed.get(H2, Attr.VL_ARB, ONE, low)[:256] == low
    assert managed.h2.arbitration == Arbitration((60, 10, *[0] * 14), (0,) * 16, 0)
    managed.get(H2, Attr.VL_ARB, ONE | 1 << 16, arbitration_table((2, 5)))
    set_port(managed, H2, 1, vl_high_limit=3)
    assert managed.h2.arbitration == Arbitration((60, 10, *[0] * 14), (0, 0, 5, *[0] * 13), 3 * 4096)
    set_port(managed, H2, 1, vl_high_limit=255)
    assert managed.h2.arbitration is not None
    assert managed.h2.arbitration.high_limit_bytes is None
    for section in (0, 1):
        managed.get(H2, Attr.VL_ARB, ONE | section << 16, bytes(256))
    assert managed.h2.arbitration is None
    managed.get(SW1, Attr.VL_ARB, ONE | 0x100, low)
    assert all(port.arbitration is not None for port in managed.sw1.ports.values())
    assert managed.status(H2, Attr.VL_ARB, ONE | 4 << 16, low) == MadStatus.INVALID


def test_buffers_are_counted_in_the_units_of_the_port(managed: Managed) -> None:
    unit = 8 << port_info(managed, H2).buffer_alloc
    block = struct.pack(">HH64H", 0, 100, *(value for vl in range(32) for value in (vl, 2 * vl)))
    has = [vl if vl < 8 or vl == 15 else 0 for vl in range(16)]
    kept = struct.pack(">HH32H", 0, 100, *(value for vl in has for value in (vl, 2 * vl))).ljust(132, b"\0")
    assert managed.get(H2, Attr.BUFFER_CONTROL, ONE, block)[:132] == kept, "an HFI has VLs 0 to 7, and 15"
    assert managed.h2.buffers == Buffers(
        tuple(vl * unit for vl in has), tuple(2 * vl * unit for vl in has), 100 * unit
    )
    assert port_info(managed, H2).operational_vls == 7, "those with buffers"
    managed.get(SW1, Attr.BUFFER_CONTROL, 2 << 24 | 1, block.ljust(136, b"\0") + bytes(136))
    assert managed.sw1.ports[1].buffers == Buffers(
        tuple(vl * unit for vl in range(16)), tuple(2 * vl * unit for vl in range(16)), 100 * unit
    )
    assert managed.sw1.ports[2].buffers == Buffers((0,) * 16, (0,) * 16, 0)
    assert managed.ask(H2, Attr.NODE_INFO) is not None


def test_a_port_says_what_the_credits_of_its_link_are() -> None:
    flow = FlowControl(vls=2, buffer_bytes=32 << 10, shared_bytes=16 << 10)
    managed = Managed(flow)
    info = port_info(managed, H2)
    unit = 8 << info.buffer_alloc
    assert info.overall_buffer_space * unit == 80 << 10
    control = BufferControl.parse(managed.get(H2, Attr.BUFFER_CONTROL, ONE))
    assert control.overall_shared * unit == 16 << 10
    assert [vl["dedicated"] * unit for vl in control.vls[:3]] == [32 << 10, 32 << 10, 0]
    assert managed.fabric.balance() == {}


def test_a_port_counts_what_it_has_dropped_for_the_pkey_from_what_was_set(managed: Managed) -> None:
    managed.become_manager()
    for port in (*managed.sw0.ports.values(), *managed.sw1.ports.values()):
        port.state = PortState.ACTIVE
    for end in (managed.h1, managed.h2):
        end.set_state(PortState.ACTIVE)
    managed.h1.set_pkeys([*managed.h1.pkeys.entries, 0x8005])
    lrh = Lrh16B(1, 4, l4=0x55, pkey=0x8005)

    def shown_after(packets: int) -> int:
        for _ in range(packets):
            managed.h1.send(build_packet(lrh, bytes(40), managed.fabric.icrc))
        managed.clock.advance(0.01)
        return port_info(managed, H2).pkey_violations

    assert shown_after(0) == 0
    assert shown_after(3) == 3
    set_port(managed, H2, 1, lid=4, pkey_violations=0, state=PortState.ACTIVE)
    assert shown_after(2) == 2
    managed.sw1.ports[1].enforce_pkeys([0x8001], inbound=False)
    assert shown_after(4) == 2
    assert port_info(managed, SW1, 1).pkey_violations == 4


def test_a_port_is_disabled_and_trains_again(managed: Managed) -> None:
    down = PortStateInfo(physical_state=3, state=PortState.DOWN).build()
    managed.get(SW1, Attr.PORT_STATE_INFO, ONE | 1, down)
    assert state_of(managed) == PortState.DOWN
    assert port_info(managed, SW1, 1).physical_state == 3
    managed.get(SW1, Attr.PORT_STATE_INFO, ONE | 1, PortStateInfo(physical_state=2).build())
    assert state_of(managed) == PortState.INIT
    assert managed.ask(H2, Attr.NODE_INFO) is not None


@pytest.mark.parametrize(
    ("path", "attr_id", "attr_mod", "size"),
    [
        (SW1, Attr.VL_ARB, ONE | 1 << 16 | 1, 256),
        (SW1, Attr.VL_ARB, ONE | 2 << 16 | 1, 256),
        (SW1, Attr.BUFFER_CONTROL, ONE | 1, 132),
        (SW1, Attr.SC_TO_VLR, ONE | 1, 32),
        (SW1, Attr.SC_TO_VLNT, ONE | 1, 32),
        (SW1, Attr.SWITCH_CONGESTION_SETTING, 0, 76),
    ],
)
def test_tables_are_read_back_as_they_were_set(
    managed: Managed, path: tuple[int, ...], attr_id: int, attr_mod: int, size: int
) -> None:
    data = bytes(number % 16 + 1 for number in range(size))
    assert managed.get(path, attr_id, attr_mod, data)[:size] == data
    assert managed.get(path, attr_id, attr_mod)[:size] == data


# --- Aggregate -----------------------------------------------------------------------------------------------


def member(attr_id: int, attr_mod: int, size: int, data: bytes = b"") -> bytes:
    return struct.pack(">HHI", attr_id, size // 8, attr_mod) + data.ljust(size, b"\0")


def test_an_aggregate_holds_many_answers_up_to_the_first_that_is_refused(managed: Managed) -> None:
    good = member(Attr.NODE_INFO, 0, 48) + member(Attr.PORT_INFO, ONE | 1, 248)
    whole = managed.ask(SW1, Attr.AGGREGATE, 2, good, method=Method.GET)
    assert whole is not None
    assert status_of(whole) == 0
    data = data_of(whole)
    assert NodeInfo.parse(data[8:]).node_guid == managed.sw1.node_guid
    assert PortInfo.parse(data[64:]).neighbor_node_guid == managed.h2.guid
    bad = member(Attr.NODE_INFO, 0, 40) + good
    answer = managed.ask(SW1, Attr.AGGREGATE, 3, bad, method=Method.GET)
    assert answer is not None
    assert status_of(answer) == MadStatus.INVALID
    assert struct.unpack_from(">H", data_of(answer), 2)[0] == 5, "no error bit, as hfi1 sets none"
    assert len(data_of(answer)) == 8 + 40, "the response ends there"


# --- traps ---------------------------------------------------------------------------------------------------


def heard(managed: Managed) -> tuple[MadRequest, SubnetNotice]:
    """Return the one trap that the manager hears, and what it says."""
    managed.clock.advance(0.01)
    (trap,) = managed.traps()
    return trap, SubnetNotice.parse(trap.mad[32:])


def test_a_switch_tells_of_a_link_until_it_is_heard(managed: Managed) -> None:
    managed.become_manager()
    managed.traps()
    managed.fabric.set_link(managed.fabric.links[2], False)
    trap, notice = heard(managed)
    assert (notice.trap_number, notice.producer, notice.issuer_lid) == (TrapNumber.LINK_STATE_CHANGE, 2, 3)
    assert LINK_STATE.parse(notice.data).lid == 3
    managed.clock.advance(1.2)
    (again,) = managed.traps()
    assert again.header.tid == trap.header.tid
    repress = bytearray(again.mad)
    repress[3] = Method.TRAP_REPRESS
    managed.h1.send_smp(bytes(repress), 3, 0xFFFF)
    managed.clock.advance(10)
    assert managed.traps() == []
    assert managed.ask(SW1, Attr.NODE_INFO) is not None


def test_an_hfi_tells_that_it_describes_itself_otherwise(managed: Managed) -> None:
    managed.become_manager()
    managed.traps()
    managed.h2.hfi.describe("node7")
    _, notice = heard(managed)
    assert (notice.trap_number, notice.producer) == (TrapNumber.CAPABILITY_CHANGE, 1)
    told = CAPABILITIES.build(lid=managed.h2.lid, description_changed=True)
    assert notice.data.rstrip(b"\0") == told
    assert NodeDescription.parse(managed.get(H2, Attr.NODE_DESCRIPTION)).name == "node7"


def test_ports_say_where_a_manager_may_run(managed: Managed) -> None:
    managed.h2.mgmt_allowed = False
    assert not port_info(managed, H2).mgmt_allowed
    assert not port_info(managed, SW1, 1).mgmt_allowed, "of the HFI that is behind it"
    assert port_info(managed, SELF).mgmt_allowed
    assert port_info(managed, SW1, 3).mgmt_allowed, "between switches"


def test_nobody_tells_a_manager_that_has_not_said_where_it_is(managed: Managed) -> None:
    managed.fabric.set_link(managed.fabric.links[2], False)
    managed.clock.advance(10)
    assert managed.traps() == []


def test_a_trap_that_nobody_represses_ends(managed: Managed) -> None:
    managed.become_manager()
    managed.traps()
    managed.h2.set_sm(True)
    managed.clock.advance(60)
    traps = managed.traps()
    assert len(traps) == 6
    assert {SubnetNotice.parse(mad.mad[32:]).trap_number for mad in traps} == {TrapNumber.CAPABILITY_CHANGE}


def test_as_many_traps_of_one_type_wait_as_on_hfi1() -> None:
    queue = TrapQueue()

    def add(tid: int, kind: NoticeType) -> bool:
        return queue.add(0.0, tid, kind, bytes(24) + tid.to_bytes(8, "big"), 1.0)

    assert [add(tid, NoticeType.SECURITY) for tid in range(101)] == [True] * 100 + [False]
    assert add(200, NoticeType.URGENT), "another type has room of its own"
    queue.repress(7)
    assert add(300, NoticeType.SECURITY)


def test_port_without_a_cable_is_offline_for_want_of_media_and_one_with_a_dead_cable_polls(
    managed: Managed,
) -> None:
    assert managed.sw0.ports[1].link is not None
    managed.fabric.set_links([managed.sw0.ports[1].link], False, "test")
    states = {number: port_state_info_of(managed.sw0.ports[number]) for number in (1, 2, 4)}
    assert states[1].physical_state == PhysicalState.POLLING
    assert states[2].physical_state == PhysicalState.LINK_UP
    assert states[4].physical_state == PhysicalState.OFFLINE
    assert [states[number].offline_disabled_reason for number in (1, 2, 4)] == [0, 0, NO_LOCAL_MEDIA]
    managed.sw0.ports[4].settings.physical_state = PhysicalState.DISABLED
    assert port_state_info_of(managed.sw0.ports[4]).physical_state == PhysicalState.DISABLED


def test_a_manager_sets_how_long_packets_may_be_first_at_ports_of_switches() -> None:
    managed = Managed(flow=FlowControl(hoq_life_ns=8_000_000))
    assert {queue & 0x1F for queue in port_info(managed, SW1).xmit_q} == {11}, "8.388608 ms"
    assert set(port_info(managed, H2).xmit_q) == {0}, "an HFI has no lifetimes"
    told = tuple(0xE0 | vl % 21 for vl in range(32))
    assert set_port(managed, SW1, 1, xmit_q=told).xmit_q == told
    assert managed.sw1.ports[1].hoq_codes == tuple(vl % 21 for vl in range(16))
    assert managed.sw1.ports[3].hoq_codes == ()


def test_without_a_lifetime_ports_say_that_there_is_none(managed: Managed) -> None:
    assert set(port_info(managed, SW1).xmit_q) == {0xF4}
