"""The records of subnet administration by the number of their attribute."""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.mad.attributes import SaAttrId
from hfi_sim.wire.sa import records, records_ib, records_tables
from hfi_sim.wire.sa.record import SaRecord

RECORDS: Final[dict[int, type[SaRecord]]] = {
    SaAttrId.CLASS_PORT_INFO: records.SaClassPortInfo,
    SaAttrId.INFORM_INFO: records.InformInfo,
    SaAttrId.NODE_RECORD: records.NodeRecord,
    SaAttrId.PORT_INFO_RECORD: records.PortInfoRecord,
    SaAttrId.SWITCH_INFO_RECORD: records.SwitchInfoRecord,
    SaAttrId.LFT_RECORD: records.LftRecord,
    SaAttrId.MFT_RECORD: records.MftRecord,
    SaAttrId.SM_INFO_RECORD: records.SmInfoRecord,
    SaAttrId.LINK_RECORD: records.LinkRecord,
    SaAttrId.SERVICE_RECORD: records.ServiceRecord,
    SaAttrId.PARTITION_TABLE_RECORD: records.PartitionTableRecord,
    SaAttrId.PATH_RECORD: records_ib.IbPathRecord,
    SaAttrId.VL_ARBITRATION_RECORD: records_tables.VlArbitrationRecord,
    SaAttrId.SC_TO_SC_RECORD: records_tables.ScToScRecord,
    SaAttrId.BUFFER_CONTROL_RECORD: records_tables.BufferControlRecord,
    SaAttrId.CABLE_INFO_RECORD: records_tables.CableInfoRecord,
    SaAttrId.CONGESTION_INFO_RECORD: records_tables.CongestionInfoRecord,
    SaAttrId.SWITCH_CONGESTION_RECORD: records_tables.SwitchCongestionRecord,
    SaAttrId.SWITCH_PORT_CONGESTION_RECORD: records_tables.SwitchPortCongestionRecord,
    SaAttrId.HFI_CONGESTION_RECORD: records_tables.HfiCongestionRecord,
    SaAttrId.HFI_CONGESTION_CONTROL_RECORD: records_tables.HfiCongestionControlRecord,
    SaAttrId.MC_MEMBER_RECORD: records.McMemberRecord,
    SaAttrId.TRACE_RECORD: records.TraceRecord,
    SaAttrId.SL_TO_SC_RECORD: records.SlToScRecord,
    SaAttrId.SC_TO_SL_RECORD: records.SlToScRecord,
    SaAttrId.SC_TO_VLNT_RECORD: records.ScToVlRecord,
    SaAttrId.SC_TO_VLT_RECORD: records.ScToVlRecord,
    SaAttrId.SC_TO_VLR_RECORD: records.ScToVlRecord,
    SaAttrId.VF_INFO_RECORD: records.VfInfoRecord,
    SaAttrId.FABRIC_INFO_RECORD: records.FabricInfoRecord,
    SaAttrId.INFORM_INFO_RECORD: records.InformInfoRecord,
}
"""Class version 0x80."""

RECORDS_IB: Final[dict[int, type[SaRecord]]] = {
    SaAttrId.CLASS_PORT_INFO: records_ib.IbClassPortInfo,
    SaAttrId.NOTICE: records_ib.IbNotice,
    SaAttrId.INFORM_INFO: records_ib.IbInformInfo,
    SaAttrId.NODE_RECORD: records_ib.IbNodeRecord,
    SaAttrId.SERVICE_RECORD: records_ib.IbServiceRecord,
    SaAttrId.PATH_RECORD: records_ib.IbPathRecord,
    SaAttrId.MC_MEMBER_RECORD: records_ib.IbMcMemberRecord,
    SaAttrId.INFORM_INFO_RECORD: records_ib.IbInformInfoRecord,
}
"""Class version 2."""
