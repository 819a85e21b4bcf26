"""What makes the records of a fabric that an attribute of a question asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hfi_sim.base.types import LID_MULTICAST_FIRST
from hfi_sim.management.sma.facts import (
    neighbour_of,
    node_description_of,
    node_info_of,
    port_info_of,
    port_num_of,
    switch_info_of,
)
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort
from hfi_sim.subnet_manager.administration.node_records import (
    hfi_ports,
    sc_to_sc,
    switch_ends,
    switch_ports,
    told,
    vl_arbitration,
)
from hfi_sim.subnet_manager.administration.scope import Answer, Scope, lid_of
from hfi_sim.wire.mad.attributes import SaAttrId, SubnetAttrId
from hfi_sim.wire.sa import records_tables as tables
from hfi_sim.wire.sa.records import (
    FabricInfoRecord,
    LftRecord,
    LinkRecord,
    MftRecord,
    NodeRecord,
    PartitionTableRecord,
    PortInfoRecord,
    ScToVlRecord,
    SlToScRecord,
    SwitchInfoRecord,
)
from hfi_sim.wire.sa.records_ib import IbNodeRecord
from hfi_sim.wire.sma.node import IbNodeInfo
from hfi_sim.wire.sma.tables import (
    GROUPS_PER_BLOCK,
    LIDS_PER_BLOCK,
    NO_PORT,
    PKEYS_PER_BLOCK,
    PORTS_PER_POSITION,
)

# --- records of the fabric as the last sweep has found it: nodes, ports, links, tables ---------------------


def nodes(scope: Scope) -> Iterator[NodeRecord]:
    """Yield a record for each HFI port and each switch."""
    for port in scope.ends():
        yield NodeRecord(
            lid=lid_of(port),
            node_info=node_info_of(port).build(),
            node_description=node_description_of(port).build(),
        )


def ib_nodes(scope: Scope) -> Iterator[IbNodeRecord]:
    """Yield the same in InfiniBand's form."""
    for port in scope.ends():
        info = IbNodeInfo.of(node_info_of(port))
        yield IbNodeRecord(
            lid=lid_of(port) & 0xFFFF,
            node_description=node_description_of(port).build(),
            **{name: getattr(info, name) for name in IbNodeInfo.HEADER.names},
        )


def port_infos(scope: Scope) -> Iterator[PortInfoRecord]:
    """Yield a record for each port that is not down."""
    for port in scope.ports():
        yield PortInfoRecord(
            lid=lid_of(port), port_num=port_num_of(port), port_info=port_info_of(port).build()
        )


def switch_infos(scope: Scope) -> Iterator[SwitchInfoRecord]:
    """Yield a record for each switch."""
    for switch in scope.switches:
        yield SwitchInfoRecord(lid=switch.lid, switch_info=switch_info_of(switch).build())


def links(scope: Scope) -> Iterator[LinkRecord]:
    """Yield a record for each direction of each link that is up between nodes of the view."""
    view = scope.view
    known = {port.name for port in view.ports} | {switch.name for switch in view.switches}
    for port in scope.ports():
        far = neighbour_of(port)
        if far is None or (far.name if isinstance(far, HfiPort) else far.switch.name) not in known:
            continue
        yield LinkRecord(
            from_lid=lid_of(port), from_port=port_num_of(port), to_port=port_num_of(far), to_lid=lid_of(far)
        )


def fabric_info(scope: Scope) -> Iterator[FabricInfoRecord]:
    """Yield how many nodes and links there are."""
    hfi_links = switch_links = 0
    for port in scope.ports():
        far = neighbour_of(port)
        if isinstance(port, SwitchPort) and isinstance(far, SwitchPort):
            switch_links += 1
        elif far is not None:
            hfi_links += 1
    yield FabricInfoRecord(
        hfis=len({port.hfi.node_guid for port in scope.hfi_ports}),
        switches=len(scope.switches),
        external_hfi_links=hfi_links // 2,
        external_switch_links=switch_links // 2,
    )


def linear_tables(scope: Scope) -> Iterator[LftRecord]:
    """Yield the blocks of each switch's linear forwarding table, up to its last LID."""
    for switch in scope.switches:
        for block in scope.blocks(-(-len(switch.lft.entries) // LIDS_PER_BLOCK)):
            yield LftRecord(lid=switch.lid, block=block, ports=_linear_block(switch, block))


def _linear_block(switch: Switch, block: int) -> bytes:
    first = block * LIDS_PER_BLOCK
    hops = (switch.lft.next_hops(lid) for lid in range(first, first + LIDS_PER_BLOCK))
    lids = range(first, first + LIDS_PER_BLOCK)
    return bytes(
        0 if lid == switch.lid else ports[0] if ports else NO_PORT
        for lid, ports in zip(lids, hops, strict=True)
    )


def multicast_tables(scope: Scope) -> Iterator[MftRecord]:
    """Yield the blocks of each switch's multicast forwarding table that hold a group."""
    for switch in scope.switches:
        blocks = {(mlid - LID_MULTICAST_FIRST) // GROUPS_PER_BLOCK for mlid in switch.mft}
        positions = max(switch.ports, default=0) // PORTS_PER_POSITION + 1
        for block in sorted(blocks):
            for position in range(min(positions, 4)):
                first = LID_MULTICAST_FIRST + block * GROUPS_PER_BLOCK
                masks = tuple(_mask(switch, first + n, position) for n in range(GROUPS_PER_BLOCK))
                yield MftRecord(lid=switch.lid, position=position, block=block, port_masks=masks)


def _mask(switch: Switch, mlid: int, position: int) -> int:
    first = position * PORTS_PER_POSITION
    members = (num - first for num in switch.mft.get(mlid, ()))
    return sum(1 << num for num in members if 0 <= num < PORTS_PER_POSITION)


def partition_tables(scope: Scope) -> Iterator[PartitionTableRecord]:
    """Yield the partitions of each end point, 32 a block."""
    for port in scope.ends():
        entries = [int(pkey) for pkey in port.pkeys.entries]
        for block in scope.blocks(max(1, -(-len(entries) // PKEYS_PER_BLOCK))):
            pkeys = entries[block * PKEYS_PER_BLOCK : (block + 1) * PKEYS_PER_BLOCK]
            padded = tuple(pkeys + [0] * (PKEYS_PER_BLOCK - len(pkeys)))
            yield PartitionTableRecord(
                lid=lid_of(port), block=block, port_num=port_num_of(port), pkeys=padded
            )


def sl_to_sc(scope: Scope) -> Iterator[SlToScRecord]:
    """Yield the SC of each SL at each end point."""
    for port in scope.ends():
        yield SlToScRecord(lid=lid_of(port), table=bytes(port.settings.sl_to_sc))


def sc_to_sl(scope: Scope) -> Iterator[SlToScRecord]:
    """Yield the SL of each SC at each end point."""
    for port in scope.ends():
        yield SlToScRecord(lid=lid_of(port), table=bytes(port.settings.sc_to_sl))


# -----------------------------------------------------------------------------------------------------------

ScopeReader = Callable[[Scope], Answer]


READERS: Final[Mapping[tuple[bool, int], ScopeReader]] = {
    (False, SaAttrId.NODE_RECORD): nodes,
    (True, SaAttrId.NODE_RECORD): ib_nodes,
    (False, SaAttrId.PORT_INFO_RECORD): port_infos,
    (False, SaAttrId.SWITCH_INFO_RECORD): switch_infos,
    (False, SaAttrId.LINK_RECORD): links,
    (False, SaAttrId.FABRIC_INFO_RECORD): fabric_info,
    (False, SaAttrId.LFT_RECORD): linear_tables,
    (False, SaAttrId.MFT_RECORD): multicast_tables,
    (False, SaAttrId.PARTITION_TABLE_RECORD): partition_tables,
    (False, SaAttrId.SL_TO_SC_RECORD): sl_to_sc,
    (False, SaAttrId.SC_TO_SL_RECORD): sc_to_sl,
    (False, SaAttrId.SC_TO_SC_RECORD): sc_to_sc,
    (False, SaAttrId.SC_TO_VLT_RECORD): told(SubnetAttrId.SC_TO_VLT, ScToVlRecord),
    (False, SaAttrId.SC_TO_VLNT_RECORD): told(SubnetAttrId.SC_TO_VLNT, ScToVlRecord),
    (False, SaAttrId.SC_TO_VLR_RECORD): told(SubnetAttrId.SC_TO_VLR, ScToVlRecord),
    (False, SaAttrId.VL_ARBITRATION_RECORD): vl_arbitration,
    (False, SaAttrId.BUFFER_CONTROL_RECORD): told(SubnetAttrId.BUFFER_CONTROL, tables.BufferControlRecord),
    (False, SaAttrId.CONGESTION_INFO_RECORD): told(
        SubnetAttrId.CONGESTION_INFO, tables.CongestionInfoRecord, Scope.ends, 0
    ),
    (False, SaAttrId.SWITCH_CONGESTION_RECORD): told(
        SubnetAttrId.SWITCH_CONGESTION_SETTING, tables.SwitchCongestionRecord, switch_ends, 0
    ),
    (False, SaAttrId.SWITCH_PORT_CONGESTION_RECORD): told(
        SubnetAttrId.SWITCH_PORT_CONGESTION_SETTING, tables.SwitchPortCongestionRecord, switch_ports
    ),
    (False, SaAttrId.HFI_CONGESTION_RECORD): told(
        SubnetAttrId.HFI_CONGESTION_SETTING, tables.HfiCongestionRecord, hfi_ports, 0
    ),
    (False, SaAttrId.HFI_CONGESTION_CONTROL_RECORD): told(
        SubnetAttrId.HFI_CONGESTION_CONTROL, tables.HfiCongestionControlRecord, hfi_ports
    ),  # its first block: no further one is used here
}
"""By the form, InfiniBand's or not, and the attribute."""
