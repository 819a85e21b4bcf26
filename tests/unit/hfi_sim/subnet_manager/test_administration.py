"""The subnet administration, asked over the fabric: tables, paths, groups, services, notices, and hostile requests."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import LIDS_OF_JOINED_GROUPS, CapabilityMask3, is_multicast_lid
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager.administration.scope import gid_of
from hfi_sim.subnet_manager.administration.subscriptions import MAX_OF_ONE
from hfi_sim.subnet_manager.groups import Announced
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.attributes import SaAttrId, SaMethod, SaStatus
from hfi_sim.wire.mad.header import Mad, MadClass, MadHeader, MadStatus, Method
from hfi_sim.wire.packet import build_packet
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import (
    FabricInfoRecord,
    InformInfo,
    InformInfoRecord,
    LftRecord,
    LinkRecord,
    McMemberRecord,
    MftRecord,
    NodeRecord,
    PartitionTableRecord,
    PortInfoRecord,
    ScToVlRecord,
    ServiceRecord,
    SmInfoRecord,
    SwitchInfoRecord,
    TraceRecord,
    VfInfoRecord,
)
from hfi_sim.wire.sa.records_ib import IbMcMemberRecord, IbNodeRecord, IbPathRecord
from hfi_sim.wire.sa.records_tables import (
    BufferControlRecord,
    CableInfoRecord,
    CongestionInfoRecord,
    HfiCongestionControlRecord,
    HfiCongestionRecord,
    ScToScRecord,
    SwitchCongestionRecord,
    SwitchPortCongestionRecord,
    VlArbitrationRecord,
)
from hfi_sim.wire.sma.node import NodeDescription, NodeInfo
from hfi_sim.wire.sma.notice import CAPABILITIES, TrapNumber
from hfi_sim.wire.sma.port_info import MtuCode, PortInfo
from hfi_sim.wire.sma.tables import SmInfo
from unit.hfi_sim.subnet_manager.subnet import MGID, VNIC_MGID, Subnet

L4 = 0x55


@pytest.fixture
def subnet() -> Subnet:
    return Subnet()


def name_of(record: NodeRecord) -> str:
    return NodeDescription.parse(record.node_description).build().rstrip(b"\0").decode()


# --- tables ------------------------------------------------------------------------------------------------------


def test_nodes_ports_links_and_switches_are_those_of_the_fabric(subnet: Subnet) -> None:
    nodes = subnet.table(NodeRecord)
    assert {name_of(node) for node in nodes} == {"em", "h1", "h2", "h3", "h4", "leaf0", "leaf1", "spine0"}
    links = subnet.table(LinkRecord)
    assert len(links) == 2 * len(subnet.fabric.links)
    assert len(subnet.table(SwitchInfoRecord)) == 3
    info = subnet.table(FabricInfoRecord)[0]
    assert (info.hfis, info.switches, info.external_hfi_links, info.external_switch_links) == (5, 3, 5, 2)
    ports = subnet.table(PortInfoRecord)
    assert len(ports) == len(links) + 3, "each end of a link, and port 0 of each switch"
    assert {PortInfo.parse(port.port_info).state for port in ports} == {4}


def test_a_component_mask_selects(subnet: Subnet) -> None:
    asked = NodeRecord(node_info=NodeInfo(port_guid=subnet.h2.guid).build())
    mask = NodeRecord.mask("node_info.port_guid")
    assert [name_of(node) for node in subnet.table(NodeRecord, asked, mask=mask)] == ["h2"]


@pytest.mark.parametrize("leaves", [2, 12])
def test_a_table_of_many_mads_survives_losses(leaves: int) -> None:
    subnet = Subnet(leaves=leaves, hosts_per_leaf=8)
    subnet.faults.add("loss on h1 10%")
    ports = subnet.ask(
        SaMessage.request(Method.GET_TABLE, SaAttrId.PORT_INFO_RECORD, PortInfoRecord()),
        timeout_s=20,
        within=300,
    ).table(PortInfoRecord)
    assert len(ports) == 2 * len(subnet.fabric.links) + leaves + 1
    assert subnet.fabric.balance() == {}


def test_a_get_gives_one_record_or_says_why_not(subnet: Subnet) -> None:
    def get(record: NodeRecord, mask: int) -> SaMessage:
        return subnet.ask(SaMessage.request(Method.GET, SaAttrId.NODE_RECORD, record, mask=mask))

    assert get(NodeRecord(lid=subnet.h2.lid), 1).one(NodeRecord).lid == subnet.h2.lid
    assert get(NodeRecord(lid=999), 1).header.status == SaStatus.NO_RECORDS
    assert get(NodeRecord(), 0).header.status == SaStatus.TOO_MANY_RECORDS


def test_infiniband_form_comes_in_short_mads(subnet: Subnet) -> None:
    response = subnet.ask(SaMessage.request(Method.GET_TABLE, SaAttrId.NODE_RECORD, IbNodeRecord()))
    assert (response.header.base_version, response.header.class_version) == (1, 2)
    guids = {record.port_guid for record in response.table(IbNodeRecord)}
    assert guids >= {port.guid for port in subnet.ports.values()}


def test_forwarding_tables_and_partitions_are_those_programmed(subnet: Subnet) -> None:
    leaf = subnet.fabric.switches["leaf0"]
    block = subnet.table(LftRecord, LftRecord(lid=leaf.lid), mask=1)[0]
    assert block.ports[subnet.h1.lid] == leaf.lft.next_hops(subnet.h1.lid)[0]
    assert block.ports[0] == 255
    tables = subnet.table(PartitionTableRecord)
    own = next(table for table in tables if table.lid == subnet.h1.lid)
    assert [pkey for pkey in own.pkeys if pkey] == [int(pkey) for pkey in subnet.h1.pkeys.entries]


def test_the_manager_tells_of_itself_to_both_classes(subnet: Subnet) -> None:
    record = subnet.table(SmInfoRecord)[0]
    info = SmInfo.parse(record.sm_info)
    assert (record.lid, info.port_guid, info.state) == (subnet.em.lid, subnet.em.guid, 3)
    assert subnet.em.is_sm


def test_virtual_fabrics_are_the_partitions(subnet: Subnet) -> None:
    records = subnet.table(VfInfoRecord)
    assert [(record.index, record.pkey) for record in records] == [(0, 0x7FFF), (1, 0x8002)]
    by_pkey = subnet.table(VfInfoRecord, VfInfoRecord(pkey=0x0002), mask=VfInfoRecord.mask("pkey"))
    assert [record.index for record in by_pkey] == [1]


def test_tables_of_lanes_are_those_that_an_smp_shows(subnet: Subnet) -> None:
    ends = 2 * len(subnet.fabric.links)
    sections = subnet.table(VlArbitrationRecord)
    assert sorted({(r.lid, r.port_num) for r in sections if r.lid == subnet.h1.lid}) == [(subnet.h1.lid, 1)]
    assert {record.block for record in sections} == {0, 1, 2, 3}
    buffers = subnet.table(BufferControlRecord)
    assert len(buffers) >= ends
    maps = subnet.table(ScToScRecord)
    assert {record.table for record in maps} == {bytes(range(32))}
    leaf = subnet.fabric.switches["leaf0"]
    assert (
        sum(record.lid == leaf.lid for record in maps)
        == sum(p.link is not None for p in leaf.ports.values()) ** 2
    )
    subnet.h1.set_sc_to_vl((3, *range(1, 15), 15, *[0] * 16))
    asked = ScToVlRecord(lid=subnet.h1.lid)
    mask = ScToVlRecord.mask("lid")
    (shown,) = subnet.table(ScToVlRecord, asked, mask=mask, attr_id=SaAttrId.SC_TO_VLT_RECORD)
    assert shown.table[:3] == bytes((3, 1, 2))


@pytest.mark.parametrize(
    ("mask", "address", "length", "status"),
    [
        ((), 128, 127, SaStatus.INSUFFICIENT_COMPONENTS),
        (("length", "address"), 0, 63, SaStatus.INVALID),
        (("length", "address"), 200, 100, SaStatus.INVALID),
    ],
)
def test_cable_is_read_within_its_upper_page(
    subnet: Subnet, mask: tuple[str, ...], address: int, length: int, status: int
) -> None:
    asked = CableInfoRecord(address=address, length=length)
    bits = CableInfoRecord.mask(*mask)
    request = SaMessage.request(Method.GET_TABLE, SaAttrId.CABLE_INFO_RECORD, asked, mask=bits)
    assert subnet.ask(request).header.status == status


def test_both_ends_of_a_cable_show_one_cable(subnet: Subnet) -> None:
    asked = CableInfoRecord(address=128, length=127)
    mask = CableInfoRecord.mask("length", "address")
    found = subnet.table(CableInfoRecord, asked, mask=mask)
    pages: dict[tuple[int, int], bytes] = {}
    for record in found:
        key = record.lid, record.port_num
        pages[key] = pages.get(key, b"") + record.memory[: record.length + 1]
    assert {len(page) for page in pages.values()} == {128}
    links = subnet.table(LinkRecord)
    assert len(pages) == len(links)
    assert all(pages[link.from_lid, link.from_port] == pages[link.to_lid, link.to_port] for link in links)
    serials = {page[68:84] for page in pages.values()}
    assert len(serials) == len(links) // 2
    assert all(
        sum(page[:63]) & 0xFF == page[63] and sum(page[64:95]) & 0xFF == page[95] for page in pages.values()
    )


def test_tables_of_congestion_are_of_the_nodes_that_have_them(subnet: Subnet) -> None:
    assert len(subnet.table(CongestionInfoRecord)) == 5 + 3
    assert len(subnet.table(SwitchCongestionRecord)) == 3
    assert len(subnet.table(HfiCongestionRecord)) == 5
    assert len(subnet.table(HfiCongestionControlRecord)) == 5
    ports = subnet.table(SwitchPortCongestionRecord)
    assert {record.lid for record in ports} == {switch.lid for switch in subnet.fabric.switches.values()}


def test_tables_that_hold_nothing_say_so(subnet: Subnet) -> None:
    for attr_id in (SaAttrId.QUARANTINED_NODE_RECORD, SaAttrId.DEVICE_GROUP_NAME_RECORD):
        assert subnet.ask(SaMessage.request(Method.GET_TABLE, attr_id)).header.status == SaStatus.NO_RECORDS
    request = SaMessage.request(Method.GET_TABLE, SaAttrId.SWITCH_COST_RECORD)
    assert subnet.ask(request).header.status == MadStatus.UNSUPPORTED


def test_what_it_does_not_know_it_says(subnet: Subnet) -> None:
    for method, attr_id in ((Method.GET, 0x7777), (Method.SET, SaAttrId.NODE_RECORD)):
        assert subnet.ask(SaMessage.request(method, attr_id)).header.status == MadStatus.UNSUPPORTED
    odd = SaMessage.request(Method.GET, SaAttrId.CLASS_PORT_INFO)
    odd = dataclasses.replace(odd, header=dataclasses.replace(odd.header, class_version=3))
    assert subnet.ask(odd).header.status == MadStatus.BAD_VERSION


def test_who_is_not_in_the_management_partition_is_denied(subnet: Subnet) -> None:
    subnet.manager.set_pkeys(subnet.em, [0x8002])
    request = SaMessage.request(Method.GET_TABLE, SaAttrId.NODE_RECORD)
    assert subnet.ask(request, pkey=0x8002).header.status == SaStatus.DENIED


# --- paths -------------------------------------------------------------------------------------------------------


def path_of(subnet: Subnet, **values: object) -> SaMessage:
    record = IbPathRecord(**values)  # type: ignore[arg-type]
    mask = IbPathRecord.mask(*values)
    return subnet.ask(SaMessage.request(Method.GET_TABLE, SaAttrId.PATH_RECORD, record, mask=mask))


def test_a_path_names_lids_and_the_partition_of_both_ends(subnet: Subnet) -> None:
    gids = {"sgid": gid_of(subnet.h1.guid), "dgid": gid_of(subnet.h2.guid)}
    path = path_of(subnet, **gids).table(IbPathRecord)
    assert [(p.slid, p.dlid, p.pkey) for p in path] == [(subnet.h1.lid, subnet.h2.lid, 0x8002)]
    assert len(path_of(subnet, **gids, pkey=0x0002).table(IbPathRecord)) == 1, (
        "either P_Key names the partition"
    )
    assert path_of(subnet, **gids, pkey=0x8009).header.status == SaStatus.NO_RECORDS
    assert (
        path_of(subnet, sgid=gid_of(subnet.h1.guid), dgid=bytes(15) + b"\1").header.status
        == SaStatus.INVALID_GID
    )
    assert path_of(subnet, dlid=2).header.status == SaStatus.INSUFFICIENT_COMPONENTS


def test_a_path_leads_to_a_switch_too(subnet: Subnet) -> None:
    leaf = subnet.fabric.switches["leaf1"]
    path = path_of(subnet, sgid=gid_of(subnet.h1.guid), dgid=gid_of(leaf.node_guid)).table(IbPathRecord)
    assert [(p.dlid, p.pkey & 0x7FFF) for p in path] == [(leaf.lid, 0x7FFF)]


def test_a_trace_lists_the_nodes_of_the_way(subnet: Subnet) -> None:
    record = IbPathRecord(slid=subnet.h1.lid, dlid=subnet.ports["h3"].lid)
    request = SaMessage.request(
        SaMethod.GET_TRACE_TABLE, SaAttrId.TRACE_RECORD, mask=IbPathRecord.mask("slid", "dlid")
    )
    response = subnet.ask(dataclasses.replace(request, data=record.build()))
    assert response.header.method == Method.GET_TABLE_RESP
    assert [step.node_type for step in response.table(TraceRecord)] == [1, 2, 2, 2, 1]


# --- groups ------------------------------------------------------------------------------------------------------


def hear_group(port: HfiPort) -> list[bytes]:
    heard: list[bytes] = []

    def take(_port: HfiPort, data: bytes, _token: BufferToken | None) -> None:
        heard.append(data[16:21])

    port.register_l4(L4, take)
    return heard


def multicast(subnet: Subnet, port: HfiPort, mlid: int, text: bytes) -> None:
    lrh = Lrh16B(port.lid, mlid, l4=L4, pkey=0x8002)
    port.send(build_packet(lrh, text.ljust(64, b"\0"), subnet.fabric.icrc))
    subnet.clock.advance(1e-3)


def lid_of_group(response: SaMessage) -> int:
    assert response.header.status == 0
    mlid = response.one(McMemberRecord).mlid
    assert mlid >> 28 == 0xF
    return 0xF00000 | mlid & 0xFFFFF


def test_who_has_joined_hears_the_group_and_who_has_left_does_not(subnet: Subnet) -> None:
    heard = hear_group(subnet.h2)
    mlid = lid_of_group(subnet.join(subnet.h1, VNIC_MGID))
    assert is_multicast_lid(mlid)
    assert mlid in LIDS_OF_JOINED_GROUPS
    multicast(subnet, subnet.h1, mlid, b"early")
    assert lid_of_group(subnet.join(subnet.h2, VNIC_MGID)) == mlid
    multicast(subnet, subnet.h1, mlid, b"hello")
    assert subnet.leave(subnet.h2, VNIC_MGID).header.status == 0
    multicast(subnet, subnet.h1, mlid, b"after")
    assert heard == [b"hello"]
    assert subnet.fabric.balance() == {}


def test_who_only_sends_reaches_the_members_and_hears_nothing(subnet: Subnet) -> None:
    h1_heard, h2_heard = hear_group(subnet.h1), hear_group(subnet.h2)
    mlid = lid_of_group(subnet.join(subnet.h2))
    assert subnet.join(subnet.h1, state=4).header.status == 0
    multicast(subnet, subnet.h1, mlid, b"hello")
    multicast(subnet, subnet.h2, mlid, b"again")
    assert (h1_heard, h2_heard) == ([], [b"hello"])
    assert subnet.fabric.drops()["h1:1 rx"] == {Drop.RX_DLID: 1}, "it is in the tree, and drops what comes"
    assert subnet.fabric.balance() == {}


def test_the_last_that_leaves_ends_the_group(subnet: Subnet) -> None:
    mlid = lid_of_group(subnet.join(subnet.h1))
    assert subnet.leave(subnet.h1).header.status == 0
    assert subnet.leave(subnet.h1).header.status == SaStatus.INVALID
    assert subnet.join(subnet.h1, state=4).header.status == SaStatus.INVALID, "a sender makes no group"
    assert all(mlid not in switch.mft for switch in subnet.fabric.switches.values())
    assert lid_of_group(subnet.join(subnet.h2, VNIC_MGID)) == mlid, "its LID is free again"


def test_a_join_has_to_fit_the_group(subnet: Subnet) -> None:
    subnet.join(subnet.h1, sl=0)
    assert subnet.join(subnet.h2, sl=3).header.status == SaStatus.INVALID
    assert subnet.join(subnet.h2, pkey=0x8009).header.status == SaStatus.INVALID
    assert subnet.join(subnet.ports["h3"]).header.status == SaStatus.INVALID, "h3 is not in the partition"
    incomplete = McMemberRecord(mgid=VNIC_MGID, port_gid=gid_of(subnet.h1.guid), join_state=1)
    mask = McMemberRecord.mask("mgid", "port_gid", "join_state")
    request = SaMessage.request(Method.SET, SaAttrId.MC_MEMBER_RECORD, incomplete, mask=mask)
    assert subnet.ask(request).header.status == SaStatus.INSUFFICIENT_COMPONENTS


def test_the_broadcast_group_of_ipoib_is_made_for_the_first_that_joins(subnet: Subnet) -> None:
    broadcast = bytes.fromhex("ff12401b8002") + bytes(6) + b"\xff" * 4

    def join(port: HfiPort, mgid: bytes = broadcast, pkey: int = 0x8002, state: int = 1) -> SaMessage:
        """Join as IPoIB does, which says nothing of what the group is to be like."""
        record = IbMcMemberRecord(mgid=mgid, port_gid=gid_of(port.guid), join_state=state, pkey=pkey)
        mask = IbMcMemberRecord.mask("mgid", "port_gid", "pkey", "join_state")
        return subnet.ask(SaMessage.request(Method.SET, SaAttrId.MC_MEMBER_RECORD, record, mask=mask), port)

    made = join(subnet.h1)
    assert made.header.status == 0
    group = made.one(IbMcMemberRecord)
    assert (group.pkey, group.q_key, group.mtu, group.sl) == (0x8002, 0, MtuCode.MTU_2048, 0)
    assert 0xC000 < group.mlid < 0xFFFF
    assert group.rate
    again = join(subnet.h2)
    assert (again.header.status, again.one(IbMcMemberRecord).mlid) == (0, group.mlid)
    other = broadcast[:4] + b"\x80\x09" + broadcast[6:]
    assert join(subnet.h1, other).header.status == SaStatus.INVALID, "the P_Key is not that of the MGID"
    assert join(subnet.h1, other, 0x8009).header.status == SaStatus.INVALID, "h1 is not in that partition"
    assert join(subnet.h1, other, 0x8009, 4).header.status == SaStatus.INVALID, "a sender makes no group"
    some = broadcast[:12] + b"\0\0\0\x01"
    assert join(subnet.h1, some).header.status == SaStatus.INSUFFICIENT_COMPONENTS, (
        "others say what they want"
    )


def test_a_limited_member_joins_for_nobody_else(subnet: Subnet) -> None:
    def join_h2_from(port: HfiPort) -> int:
        record = McMemberRecord(mgid=MGID, port_gid=gid_of(subnet.h2.guid), join_state=1, pkey=0x8002)
        mask = McMemberRecord.mask("mgid", "port_gid", "join_state", "pkey", "q_key", "sl", "traffic_class")
        return subnet.ask(
            SaMessage.request(Method.SET, SaAttrId.MC_MEMBER_RECORD, record, mask=mask), port
        ).header.status

    assert join_h2_from(subnet.h1) == SaStatus.DENIED
    subnet.manager.set_management(subnet.h1, True)
    assert join_h2_from(subnet.h1) == 0


def test_a_member_whose_port_goes_away_is_no_member_any_more(subnet: Subnet) -> None:
    subnet.join(subnet.h1)
    subnet.join(subnet.h2)
    assert subnet.h2.link is not None
    subnet.fabric.set_link(subnet.h2.link, False)
    members = subnet.table(McMemberRecord)
    assert [member.port_gid for member in members] == [gid_of(subnet.h1.guid)]
    subnet.fabric.set_link(subnet.h2.link, True)
    assert not subnet.h2.multicast_lids


def test_a_group_that_was_made_here_is_told_of_and_nobodys_to_join(subnet: Subnet) -> None:
    notices = subnet.hear(subnet.h2, TrapNumber.GROUP_ADDED)
    group = Announced(VNIC_MGID, 0x8002, 9000)
    groups = subnet.manager.groups
    groups.assign({0xF00002: [subnet.h1, subnet.h2]})
    groups.announce(0xF00002, group)
    asked_for = McMemberRecord(mgid=VNIC_MGID)
    by_mgid = McMemberRecord.mask("mgid")
    assert len(subnet.table(McMemberRecord)) == 1, "one of each group"
    found = subnet.table(McMemberRecord, asked_for, mask=by_mgid)
    assert [(r.mgid, r.port_gid, r.pkey, r.mlid, r.mtu) for r in found] == [
        (VNIC_MGID, gid_of(port.guid), 0x8002, 0xF0000002, MtuCode.MTU_10240)
        for port in (subnet.h1, subnet.h2)
    ]
    assert subnet.join(subnet.h1, VNIC_MGID).header.status == SaStatus.DENIED
    assert subnet.leave(subnet.h1, VNIC_MGID).header.status == SaStatus.INVALID
    asked = VfInfoRecord(mgid=VNIC_MGID)
    (fabric,) = subnet.table(VfInfoRecord, asked, mask=VfInfoRecord.mask("mgid"))
    assert fabric.pkey == 0x8002
    assert [notice.data[:16] for notice in notices] == [VNIC_MGID]
    groups.announce(0xF00002, None)
    asked_again = SaMessage.request(Method.GET_TABLE, SaAttrId.MC_MEMBER_RECORD, McMemberRecord())
    assert subnet.ask(asked_again).header.status == SaStatus.NO_RECORDS


def test_both_forms_see_one_group(subnet: Subnet) -> None:
    mlid = lid_of_group(subnet.join(subnet.h1))
    ib = subnet.table(IbMcMemberRecord)
    assert [(record.mgid, record.mlid) for record in ib] == [(MGID, 0xC000 | mlid & 0x3FFF)]
    masks = [mask for record in subnet.table(MftRecord) for mask in record.port_masks]
    assert any(masks)


# --- services ----------------------------------------------------------------------------------------------------


def offer(subnet: Subnet, port: HfiPort, lease: int = 0xFFFFFFFF, method: int = Method.SET) -> SaMessage:
    record = ServiceRecord(
        service_id=0x1100D03C34822222,
        gid=gid_of(port.guid),
        pkey=0xFFFF,
        lease=lease,
        name=b"EM".ljust(64, b"\0"),
    )
    mask = ServiceRecord.mask("service_id", "gid", "pkey", "lease", "name")
    return subnet.ask(SaMessage.request(method, SaAttrId.SERVICE_RECORD, record, mask=mask), within=1)


def test_a_service_is_found_until_it_is_deleted(subnet: Subnet) -> None:
    assert offer(subnet, subnet.h1).header.status == 0
    record = subnet.table(ServiceRecord)[0]
    assert (record.lid, record.name[:2]) == (subnet.h1.lid, b"EM")
    assert offer(subnet, subnet.h1, method=Method.DELETE).header.status == 0
    request = SaMessage.request(Method.GET_TABLE, SaAttrId.SERVICE_RECORD)
    assert subnet.ask(request).header.status == SaStatus.NO_RECORDS
    assert offer(subnet, subnet.h2).header.status == SaStatus.DENIED


def test_a_service_ends_with_its_lease(subnet: Subnet) -> None:
    offer(subnet, subnet.h1, lease=60)
    response = subnet.ask(SaMessage.request(Method.GET, SaAttrId.SERVICE_RECORD), within=1)
    assert 55 <= response.one(ServiceRecord).lease <= 60
    subnet.clock.advance(60)
    assert len(subnet.administration.core.services) == 0


# --- notices -----------------------------------------------------------------------------------------------------


def test_a_cut_cable_and_its_return_are_heard_of(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1)
    assert subnet.h2.link is not None
    subnet.fabric.set_link(subnet.h2.link, False)
    subnet.clock.advance(1)
    out, link = TrapNumber.GID_OUT_OF_SERVICE, TrapNumber.LINK_STATE_CHANGE
    assert [notice.trap_number for notice in heard] == [out, link]
    assert heard[0].data[:16] == gid_of(subnet.h2.guid)
    assert int.from_bytes(heard[1].data[:4]) == subnet.fabric.switches["leaf0"].lid
    heard.clear()
    subnet.fabric.set_link(subnet.h2.link, True)
    subnet.clock.advance(1)
    assert {notice.trap_number for notice in heard} == {TrapNumber.GID_IN_SERVICE, link}


def test_a_subscriber_hears_what_it_has_asked_for(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1, TrapNumber.GROUP_ADDED)
    subnet.join(subnet.h2)
    subnet.leave(subnet.h2)
    assert [(notice.trap_number, notice.data[:16]) for notice in heard] == [(TrapNumber.GROUP_ADDED, MGID)]


def test_a_capability_is_told(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1, TrapNumber.CAPABILITY_CHANGE)
    subnet.h2.announce(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)
    subnet.clock.advance(1)
    assert [notice.issuer_lid for notice in heard] == [subnet.h2.lid]


def test_a_description_is_told_and_shown(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1, TrapNumber.CAPABILITY_CHANGE)
    subnet.h2.hfi.describe("node7")
    subnet.clock.advance(1)
    assert [CAPABILITIES.parse(notice.data).description_changed for notice in heard] == [True]
    assert "node7" in {name_of(node) for node in subnet.table(NodeRecord)}


def test_reports_are_repeated_until_they_are_acknowledged(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1, TrapNumber.GROUP_ADDED)
    subnet.faults.add("loss on h1 count=2 method=6")
    subnet.join(subnet.h2)
    assert len(heard) == 1
    assert subnet.administration.core.subscriptions.lost == 0


def test_a_subscriber_that_has_gone_away_is_forgotten(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1, TrapNumber.GROUP_ADDED, acknowledge=False)
    subnet.join(subnet.h2)
    assert len(heard) == 4, "once, and three times again"
    request = SaMessage.request(Method.GET_TABLE, SaAttrId.INFORM_INFO_RECORD)
    assert subnet.ask(request).header.status == SaStatus.NO_RECORDS


def test_a_subscription_is_listed_and_ends_when_asked(subnet: Subnet) -> None:
    heard = subnet.hear(subnet.h1, 64)
    records = subnet.table(InformInfoRecord)
    assert [(record.lid, InformInfo.parse(record.inform_info).trap) for record in records] == [
        (subnet.h1.lid, 64)
    ]
    end = SaMessage.request(Method.SET, SaAttrId.INFORM_INFO, InformInfo(trap=64, subscribe=0))
    assert subnet.ask(end).header.status == 0
    assert subnet.ask(end).header.status == SaStatus.INVALID
    assert heard == []


def test_one_port_cannot_take_all_subscriptions(subnet: Subnet) -> None:
    statuses = [
        subnet.ask(
            SaMessage.request(Method.SET, SaAttrId.INFORM_INFO, InformInfo(trap=trap)), within=0.01
        ).header.status
        for trap in range(MAX_OF_ONE + 1)
    ]
    assert set(statuses[:-1]) == {0}
    assert statuses[-1] == SaStatus.NO_RESOURCES


# --- hostile -----------------------------------------------------------------------------------------------------

_SUBNET = Subnet()


@given(
    method=st.sampled_from([0x01, 0x02, 0x12, 0x13, 0x15]),
    attr_id=st.sampled_from([int(attr) for attr in SaAttrId] + [0, 0xFFFF]),
    versions=st.sampled_from([(1, 2), (0x80, 0x80), (1, 0x80)]),
    rest=st.binary(max_size=200),
)
@settings(max_examples=300)
def test_any_request_gets_a_response(
    method: int, attr_id: int, versions: tuple[int, int], rest: bytes
) -> None:
    subnet = _SUBNET
    header = MadHeader(
        base_version=versions[0],
        mgmt_class=MadClass.SUBN_ADM,
        class_version=versions[1],
        method=method,
        tid=0,
        attr_id=attr_id,
    )
    answers: list[Mad | None] = []
    subnet.h1.mad.submit(subnet.em.lid, Mad(header, bytes(12) + rest), answers.append)
    subnet.clock.advance(0.1)
    assert len(answers) == 1
    assert answers[0] is not None
    assert subnet.fabric.balance() == {}


def test_records_have_room_in_a_get(subnet: Subnet) -> None:
    kinds: list[type[SaRecord]] = [VfInfoRecord, FabricInfoRecord]
    assert all(kind.SIZE <= 2048 - 56 for kind in kinds)


def test_nothing_is_left_when_it_stops(subnet: Subnet) -> None:
    mlid = lid_of_group(subnet.join(subnet.h1))
    subnet.administration.stop()
    assert mlid not in subnet.h1.multicast_lids
    assert not subnet.em.is_sm
    answers: list[Mad | None] = []
    subnet.h1.mad.submit(
        subnet.em.lid,
        SaMessage.request(Method.GET, SaAttrId.CLASS_PORT_INFO).mad(),
        answers.append,
        retries=0,
    )
    subnet.clock.advance(2)
    assert answers == [None]
