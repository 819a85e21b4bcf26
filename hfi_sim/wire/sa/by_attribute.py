"""The records of subnet administration by the number of their attribute."""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.mad.attributes import SaAttrId
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
    SaClassPortInfo,
    ScToVlRecord,
    ServiceRecord,
    SlToScRecord,
    SmInfoRecord,
    SwitchInfoRecord,
    TraceRecord,
    VfInfoRecord,
)
from hfi_sim.wire.sa.records_ib import (
    IbClassPortInfo,
    IbInformInfo,
    IbInformInfoRecord,
    IbMcMemberRecord,
    IbNodeRecord,
    IbNotice,
    IbPathRecord,
    IbServiceRecord,
)
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

RECORDS: Final[dict[int, type[SaRecord]]] = {
    SaAttrId.CLASS_PORT_INFO: SaClassPortInfo,
    SaAttrId.INFORM_INFO: InformInfo,
    SaAttrId.NODE_RECORD: NodeRecord,
    SaAttrId.PORT_INFO_RECORD: PortInfoRecord,
    SaAttrId.SWITCH_INFO_RECORD: SwitchInfoRecord,
    SaAttrId.LFT_RECORD: LftRecord,
    SaAttrId.MFT_RECORD: MftRecord,
    SaAttrId.SM_INFO_RECORD: SmInfoRecord,
    SaAttrId.LINK_RECORD: LinkRecord,
    SaAttrId.SERVICE_RECORD: ServiceRecord,
    SaAttrId.PARTITION_TABLE_RECORD: PartitionTableRecord,
    SaAttrId.PATH_RECORD: IbPathRecord,
    SaAttrId.VL_ARBITRATION_RECORD: VlArbitrationRecord,
    SaAttrId.SC_TO_SC_RECORD: ScToScRecord,
    SaAttrId.BUFFER_CONTROL_RECORD: BufferControlRecord,
    SaAttrId.CABLE_INFO_RECORD: CableInfoRecord,
    SaAttrId.CONGESTION_INFO_RECORD: CongestionInfoRecord,
    SaAttrId.SWITCH_CONGESTION_RECORD: SwitchCongestionRecord,
    SaAttrId.SWITCH_PORT_CONGESTION_RECORD: SwitchPortCongestionRecord,
    SaAttrId.HFI_CONGESTION_RECORD: HfiCongestionRecord,
    SaAttrId.HFI_CONGESTION_CONTROL_RECORD: HfiCongestionControlRecord,
    SaAttrId.MC_MEMBER_RECORD: McMemberRecord,
    SaAttrId.TRACE_RECORD: TraceRecord,
    SaAttrId.SL_TO_SC_RECORD: SlToScRecord,
    SaAttrId.SC_TO_SL_RECORD: SlToScRecord,
    SaAttrId.SC_TO_VLNT_RECORD: ScToVlRecord,
    SaAttrId.SC_TO_VLT_RECORD: ScToVlRecord,
    SaAttrId.SC_TO_VLR_RECORD: ScToVlRecord,
    SaAttrId.VF_INFO_RECORD: VfInfoRecord,
    SaAttrId.FABRIC_INFO_RECORD: FabricInfoRecord,
    SaAttrId.INFORM_INFO_RECORD: InformInfoRecord,
}
"""Class version 0x80."""

RECORDS_IB: Final[dict[int, type[SaRecord]]] = {
    SaAttrId.CLASS_PORT_INFO: IbClassPortInfo,
    SaAttrId.NOTICE: IbNotice,
    SaAttrId.INFORM_INFO: IbInformInfo,
    SaAttrId.NODE_RECORD: IbNodeRecord,
    SaAttrId.SERVICE_RECORD: IbServiceRecord,
    SaAttrId.PATH_RECORD: IbPathRecord,
    SaAttrId.MC_MEMBER_RECORD: IbMcMemberRecord,
    SaAttrId.INFORM_INFO_RECORD: IbInformInfoRecord,
}
"""Class version 2."""
