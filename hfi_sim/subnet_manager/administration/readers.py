"""Which record each attribute of a question is, and what makes these records of a fabric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hfi_sim.subnet_manager.administration import fabric_records as fabric
from hfi_sim.subnet_manager.administration import node_records as nodes
from hfi_sim.subnet_manager.administration.question import Answer
from hfi_sim.subnet_manager.administration.scope import Scope
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.sa_attributes import SaAttrId
from hfi_sim.wire.sa import records, records_tables
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records_ib import IbNodeRecord

ScopeReader = Callable[[Scope], Answer]


def _lanes(attr_id: SubnetAttrId) -> ScopeReader:
    return lambda scope: nodes.sc_to_vl(scope, attr_id)


READERS: Final[Mapping[tuple[bool, int], tuple[type[SaRecord], ScopeReader]]] = {
    (False, SaAttrId.NODE_RECORD): (records.NodeRecord, fabric.nodes),
    (True, SaAttrId.NODE_RECORD): (IbNodeRecord, fabric.ib_nodes),
    (False, SaAttrId.PORT_INFO_RECORD): (records.PortInfoRecord, fabric.port_infos),
    (False, SaAttrId.SWITCH_INFO_RECORD): (records.SwitchInfoRecord, fabric.switch_infos),
    (False, SaAttrId.LINK_RECORD): (records.LinkRecord, fabric.links),
    (False, SaAttrId.FABRIC_INFO_RECORD): (records.FabricInfoRecord, fabric.fabric_info),
    (False, SaAttrId.LFT_RECORD): (records.LftRecord, fabric.linear_tables),
    (False, SaAttrId.MFT_RECORD): (records.MftRecord, fabric.multicast_tables),
    (False, SaAttrId.PARTITION_TABLE_RECORD): (records.PartitionTableRecord, fabric.partition_tables),
    (False, SaAttrId.SL_TO_SC_RECORD): (records.SlToScRecord, fabric.sl_to_sc),
    (False, SaAttrId.SC_TO_SL_RECORD): (records.SlToScRecord, fabric.sc_to_sl),
    (False, SaAttrId.SC_TO_SC_RECORD): (records_tables.ScToScRecord, nodes.sc_to_sc),
    (False, SaAttrId.SC_TO_VLT_RECORD): (records.ScToVlRecord, _lanes(SubnetAttrId.SC_TO_VLT)),
    (False, SaAttrId.SC_TO_VLNT_RECORD): (records.ScToVlRecord, _lanes(SubnetAttrId.SC_TO_VLNT)),
    (False, SaAttrId.SC_TO_VLR_RECORD): (records.ScToVlRecord, _lanes(SubnetAttrId.SC_TO_VLR)),
    (False, SaAttrId.VL_ARBITRATION_RECORD): (records_tables.VlArbitrationRecord, nodes.vl_arbitration),
    (False, SaAttrId.BUFFER_CONTROL_RECORD): (records_tables.BufferControlRecord, nodes.buffer_control),
    (False, SaAttrId.CONGESTION_INFO_RECORD): (records_tables.CongestionInfoRecord, nodes.congestion_infos),
    (False, SaAttrId.SWITCH_CONGESTION_RECORD): (
        records_tables.SwitchCongestionRecord,
        nodes.switch_congestion,
    ),
    (False, SaAttrId.SWITCH_PORT_CONGESTION_RECORD): (
        records_tables.SwitchPortCongestionRecord,
        nodes.switch_port_congestion,
    ),
    (False, SaAttrId.HFI_CONGESTION_RECORD): (records_tables.HfiCongestionRecord, nodes.hfi_congestion),
    (False, SaAttrId.HFI_CONGESTION_CONTROL_RECORD): (
        records_tables.HfiCongestionControlRecord,
        nodes.hfi_congestion_control,
    ),
}
"""By the form, InfiniBand's or not, and the attribute."""
