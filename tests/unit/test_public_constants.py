"""Numbers that others defined, each with the name and the header that it is public under.

A number of a wire format or of a driver's interface that no vector and no peer in these tests would find wrong stands
here a second time, read from where it was published. Headers: those of Linux below include/rdma and
drivers/infiniband, of opa-ff (the Omni-Path fast fabric tools) below IbAccess/Common/Inc, of opensm.
"""

from __future__ import annotations

from typing import Any

import hfi_sim.base.types as lids
from hfi_sim import subnet_manager
from hfi_sim.base.types import CapabilityMask3, PortState
from hfi_sim.engine.link import config
from hfi_sim.management.mad import stack
from hfi_sim.management.umad import abi as umad_abi
from hfi_sim.management.umad import agents as umad_agents
from hfi_sim.subnet_manager import NoticeKind
from hfi_sim.wire import icrc
from hfi_sim.wire.header import Header
from hfi_sim.wire.lrh16b import L2_16B, L4, Lrh16B
from hfi_sim.wire.mad import header as mad
from hfi_sim.wire.mad import rmpp
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method, RmppHeader, VendorHeader
from opavnic.devices.kernel import seccomp
from opavnic.vnic import encap, transmit
from vema.attributes import class_port_info, iface_macs, mac_entries, traps, vesw_port_info
from vema.attributes.attr_id import AttrId
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.base import types as ema
from vema.base.types import ConfigState, EthLinkStatus, MadStatus, TrapOpcode
from vema.em.desired import election

TABLE: list[tuple[str, str, Any, Any]] = [
    # header, public name, its value, ours
    ("opa_port_info.h", "OPA_CAP_MASK3_IsEthOnFabricSupported", 1 << 13, CapabilityMask3.ETH_ON_FABRIC_SUPPORTED),
    ("ib_sm_types.h", "IB_PORT_DOWN", 1, PortState.DOWN),
    ("ib_sm_types.h", "IB_PORT_INIT", 2, PortState.INIT),
    ("ib_sm_types.h", "IB_PORT_ARMED", 3, PortState.ARMED),
    ("ib_sm_types.h", "IB_PORT_ACTIVE", 4, PortState.ACTIVE),
    ("stl_sm_types.h", "STL_TRAP_GID_NOW_IN_SERVICE", 0x40, NoticeKind.PORT_IN_SERVICE),
    ("stl_sm_types.h", "STL_TRAP_GID_OUT_OF_SERVICE", 0x41, NoticeKind.PORT_OUT_OF_SERVICE),
    ("stl_sm_types.h", "STL_TRAP_CHANGE_CAPABILITY", 0x90, NoticeKind.CAPABILITY_CHANGE),
    # MADs
    ("ib_mad.h", "IB_MGMT_BASE_VERSION", 1, mad.BASE_VERSION_IB),
    ("ib_mad.h", "OPA_MGMT_BASE_VERSION", 0x80, mad.BASE_VERSION_OPA),
    ("ib_mad.h", "IB_MGMT_MAD_SIZE", 24 + 232, mad.MAD_SIZE_IB),
    ("ib_mad.h", "OPA_MGMT_MAD_SIZE", 24 + 2024, mad.MAD_SIZE),
    ("ib_mad.h", "IB_MGMT_MAD_HDR", 24, MadHeader.SIZE),
    ("ib_mad.h", "IB_MGMT_RMPP_HDR", 36, MadHeader.SIZE + RmppHeader.SIZE),
    ("ib_mad.h", "IB_MGMT_VENDOR_HDR", 40, mad.DATA_OFFSET_VENDOR),
    ("ib_mad.h", "struct ib_vendor_mad: oui", 37, mad.OUI_OFFSET),
    ("ib_mad.h", "IB_MGMT_CLASS_SUBN_LID_ROUTED", 0x01, MadClass.SUBN_LID),
    ("ib_mad.h", "IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE", 0x81, MadClass.SUBN_DIRECTED),
    ("ib_mad.h", "IB_MGMT_CLASS_SUBN_ADM", 0x03, MadClass.SUBN_ADM),
    ("ib_mad.h", "IB_MGMT_CLASS_PERF_MGMT", 0x04, MadClass.PERFORMANCE),
    ("ib_mad.h", "IB_MGMT_METHOD_GET", 0x01, Method.GET),
    ("ib_mad.h", "IB_MGMT_METHOD_SET", 0x02, Method.SET),
    ("ib_mad.h", "IB_MGMT_METHOD_SEND", 0x03, Method.SEND),
    ("ib_mad.h", "IB_MGMT_METHOD_TRAP", 0x05, Method.TRAP),
    ("ib_mad.h", "IB_MGMT_METHOD_REPORT", 0x06, Method.REPORT),
    ("ib_mad.h", "IB_MGMT_METHOD_TRAP_REPRESS", 0x07, Method.TRAP_REPRESS),
    ("ib_mad.h", "IB_MGMT_METHOD_GET_RESP", 0x81, Method.GET_RESP),
    ("ib_mad.h", "IB_MGMT_METHOD_REPORT_RESP", 0x86, Method.REPORT_RESP),
    ("ib_mad.h", "IB_MGMT_METHOD_RESP", 0x80, mad.RESPONSE_BIT),
    ("ib_sa.h", "IB_SA_METHOD_GET_TABLE", 0x12, Method.GET_TABLE),
    ("ib_sa.h", "IB_SA_METHOD_GET_TABLE_RESP", 0x92, Method.GET_TABLE_RESP),
    ("ib_sa.h", "IB_SA_METHOD_DELETE", 0x15, Method.DELETE),
    ("ib_sa.h", "IB_SA_METHOD_DELETE_RESP", 0x95, Method.DELETE_RESP),
    ("ib_mad.h", "IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB", 0x0C, MadStatus.UNSUPPORTED),
    ("ib_mad.h", "IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE", 0x1C, MadStatus.INVALID),
    ("opensm ib_types.h", "IB_SA_MAD_STATUS_DENIED", 0x0700, MadStatus.DENIED),
    ("ib_mad.h", "IB_MGMT_SA_HDR", 56, rmpp.data_offset(MadClass.SUBN_ADM)),
    ("ib_mad.h", "IB_MGMT_RMPP_TYPE_ABORT", 4, rmpp.RmppType.ABORT),
    ("ib_mad.h", "IB_MGMT_RMPP_FLAG_LAST", 1 << 2, rmpp.RmppFlag.LAST),
    ("ib_user_mad.h", "IB_USER_MAD_ABI_VERSION", 5, umad_abi.ABI_VERSION),
    ("ib_user_mad.h", "IB_USER_MAD_REGISTER_AGENT", 0xC01C1B01, umad_abi.REGISTER_AGENT),
    ("ib_user_mad.h", "IB_USER_MAD_USER_RMPP", 1, umad_abi.USER_RMPP),
    ("user_mad.c", "IB_UMAD_MAX_AGENTS", 32, umad_agents.MAX_AGENTS),
    ("rdma_user_ioctl_cmds.h", "RDMA_VERBS_IOCTL", 0xC0181B01, seccomp.RDMA_VERBS_IOCTL),
    ("audit.h", "AUDIT_ARCH_AARCH64", 0xC00000B7, seccomp.ARCHITECTURES["aarch64"].audit),
    ("asm-generic/unistd.h", "__NR_ioctl", 29, seccomp.ARCHITECTURES["aarch64"].ioctl),
    ("asm-generic/unistd.h", "__NR_seccomp", 277, seccomp.ARCHITECTURES["aarch64"].seccomp),
    ("ib_mad.h", "IB_QP0", 0, stack.QP_SMI),
    ("ib_mad.h", "IB_QP1", 1, stack.QP_GSI),
    # LIDs, partitions, lanes
    ("ib_mad.h", "IB_DEFAULT_PKEY_PARTIAL", 0x7FFF, lids.PKEY_LIMITED_MANAGEMENT),
    ("ib_mad.h", "IB_DEFAULT_PKEY_FULL", 0xFFFF, lids.PKEY_FULL_MANAGEMENT),
    ("stl_types.h", "STL_LID_RESERVED", 0, lids.LID_NONE),
    ("stl_types.h", "PERMISSIVE_LID_24BITS", 0xFFFFFF, lids.LID_PERMISSIVE),
    ("stl_types.h", "IS_MCAST24", 0xF00000, lids.LID_MULTICAST_FIRST),
    ("opa_smi.h", "OPA_MAX_SCS", 32, config.SERVICE_CHANNELS),
    ("opa_smi.h", "OPA_MAX_VLS, of which ours are a part", True, config.MAX_VLS <= 32),
    ("opa_port_info.h", "OPA_PI_MASK_LMC, of which ours are a part", True, subnet_manager.MAX_LMC <= 0x0F),
    # packets
    ("opa_vnic.h", "OPA_VNIC_L2_TYPE", 0x2, L2_16B),
    ("opa_vnic.h", "OPA_VNIC_HDR_LEN", 16 + 2 + 2, encap.HEADER_SIZE),
    ("opa_vnic.h", "OPA_VNIC_L4_ETHR", 0x78, L4.ETHERNET),
    ("opa_vnic.h", "OPA_VNIC_ICRC_LEN", 4, icrc.ICRC_SIZE),
    ("opa_vnic.h", "OPA_VNIC_TAIL_LEN", 1, icrc.TAIL_SIZE),
    ("opa_vnic.h", "OPA_VNIC_SKB_MDATA_LEN", 4, transmit._METADATA),
    ("hfi1 hfi.h", "OPA_16B_L4_FM", 0x08, L4.FM),
    ("hfi1 hfi.h", "OPA_16B_L4_IB_LOCAL", 0x09, L4.IB_LOCAL),
    ("hfi1 hfi.h", "OPA_16B_L4_IB_GLOBAL", 0x0A, L4.IB_GLOBAL),
    ("hfi1 hfi.h", "OPA_16B_BTH_PAD_MASK", 7, icrc.PAD_COUNT_MASK),
    ("hfi1 chip.h", "PBC_PACKET_BYPASS", 1 << 28, encap._PBC_BYPASS),
    ("hfi1 chip.h", "PBC_IHCRC_NONE << PBC_INSERT_HCRC_SHIFT", 2 << 26, encap._PBC_NO_HCRC),
    ("hfi1 chip.h", "PBC_CREDIT_RETURN", 1 << 25, encap._PBC_CREDIT_RETURN),
    ("hfi1 chip.h", "PBC_INSERT_BYPASS_ICRC", 1 << 24, encap._PBC_INSERT_BYPASS_ICRC),
    # the Ethernet manager and its agents
    ("opa_vnic_encap.h", "OPA_EMA_CLASS_VERSION", 0x80, ema.EMA_CLASS_VERSION),
    ("opa_vnic_encap.h", "OPA_MGMT_CLASS_INTEL_EMA", 0x34, MadClass.EMA),
    ("opa_vnic_encap.h", "INTEL_OUI_1, _2, _3", bytes((0x00, 0x06, 0x6A)), ema.EMA_OUI),
    ("opa_vnic_encap.h", "INTEL_OUI_1, _2, _3", bytes((0x00, 0x06, 0x6A)), VendorHeader().oui),
    ("ib_mad.h", "IB_MGMT_CLASSPORTINFO_ATTR_ID", 0x0001, AttrId.CLASS_PORT_INFO),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_CLASS_PORT_INFO", 0x0001, AttrId.CLASS_PORT_INFO),
    ("stl_mad_types.h", "STL_MCLASS_ATTRIB_ID_NOTICE", 0x0002, AttrId.NOTICE),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_VESWPORT_INFO", 0x0011, AttrId.VESW_PORT_INFO),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_VESWPORT_MAC_ENTRIES", 0x0012, AttrId.MAC_ENTRIES),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_IFACE_UCAST_MACS", 0x0013, AttrId.IFACE_UCAST_MACS),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_IFACE_MCAST_MACS", 0x0014, AttrId.IFACE_MCAST_MACS),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_DELETE_VESW", 0x0015, AttrId.DELETE_VESW),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_VESWPORT_SUMMARY_COUNTERS", 0x0020, AttrId.SUMMARY_COUNTERS),
    ("opa_vnic_encap.h", "OPA_EM_ATTR_VESWPORT_ERROR_COUNTERS", 0x0022, AttrId.ERROR_COUNTERS),
    ("opa_vnic_encap.h", "OPA_VNIC_STATE_DROP_ALL", 1, ConfigState.DROP_ALL),
    ("opa_vnic_encap.h", "OPA_VNIC_STATE_FORWARDING", 3, ConfigState.FORWARDING),
    ("opa_vnic_encap.h", "OPA_VNIC_ETH_LINK_UP", 1, EthLinkStatus.UP),
    ("opa_vnic_encap.h", "OPA_VNIC_ETH_LINK_DOWN", 2, EthLinkStatus.DOWN),
    ("opa_vnic_encap.h", "OPA_VESWPORT_TRAP_IFACE_UCAST_MAC_CHANGE", 1, TrapOpcode.UCAST_MACS_CHANGED),
    ("opa_vnic_encap.h", "OPA_VESWPORT_TRAP_IFACE_MCAST_MAC_CHANGE", 2, TrapOpcode.MCAST_MACS_CHANGED),
    ("opa_vnic_encap.h", "OPA_VESWPORT_TRAP_ETH_LINK_STATUS_CHANGE", 3, TrapOpcode.ETH_LINK_STATUS_CHANGED),
    ("opa_vnic_encap.h", "OPA_INTEL_EMA_NOTICE_TYPE_INFO << 1", 0x04 << 1, class_port_info.GENERIC_TYPE),
    ("opa_vnic_encap.h", "OPA_VESW_MAX_NUM_DEF_PORT", 16, vesw_port_info.DEF_PORTS),
    ("opa_vnic_encap.h", "OPA_VNIC_MAX_NUM_PCP", 8, vesw_port_info.PCP_VALUES),
    ("opa_vnic_encap.h", "OPA_VNIC_DLID_SD_IS_SRC_MAC", 0x20, mac_entries.SOURCE_ENTRY),
    ("opa_vnic_encap.h", "OPA_VNIC_EMA_DATA / mactable_entry", (2048 - 40 - 8) // 16, mac_entries.MAX_SECTION),
    ("opa_vnic_encap.h", "OPA_VNIC_EMA_DATA / iface_mac_entry", (2048 - 40 - 8) // 6, iface_macs.MAX_MACS),
    ("opa_vnic_internal.h", "OPA_VNIC_FLOW_TBL_SIZE", 32, encap.FLOW_TABLE_SIZE),
    ("opa_vnic_internal.h", "OPA_VNIC_MAC_TBL_MAX_ENTRIES", 2048, ema.MAC_TABLE_ENTRIES),
    ("opa_vnic_internal.h", "OPA_VNIC_MAX_SMAC_LIMIT", 256, ema.SMAC_ENTRIES),
    ("opa_vnic_vema.c", "OPA_VNIC_MAX_NUM_VPORT", 255, ema.MAX_VPORTS),
    ("opa_vnic_vema.c", "OPA_VNIC_CLASS_CAP_TRAP", 1, class_port_info.CAPABILITY_TRAPS),
    ("opa_vnic_vema.c", "OPA_VNIC_TRAP_BURST_LIMIT", 4, traps.TRAP_BURST),
    ("opa_vnic_vema.c", "OPA_VNIC_TRAP_TIMEOUT, us", -(-4096 * (1 << 18) // 1_000_000), traps.TRAP_WINDOW_MS),
    ("ib_mad.h", "IB_MGMT_CLASS_VENDOR_RANGE2", True, 0x30 <= election.ELECTION_CLASS <= 0x4F),
]  # fmt: skip


def test_numbers_that_others_defined_are_theirs() -> None:
    assert [row for row in TABLE if row[2] != row[3]] == []


SUBNET_ATTRIBUTES = {
    "ClassPortInfo": 0x0001,
    "Notice": 0x0002,
    "NodeDescription": 0x0010,
    "NodeInfo": 0x0011,
    "SwitchInfo": 0x0012,
    "PortInfo": 0x0015,
    "PartitionTable": 0x0016,
    "SLtoSC": 0x0017,
    "VLArb": 0x0018,
    "LinearForwardingTable": 0x0019,
    "MulticastForwardingTable": 0x001B,
    "SMInfo": 0x0020,
    "LedInfo": 0x0031,
    "CableInfo": 0x0032,
    "Aggregate": 0x0080,
    "SCtoSC": 0x0081,
    "SCtoSL": 0x0082,
    "SCtoVLr": 0x0083,
    "SCtoVLt": 0x0084,
    "SCtoVLnt": 0x0085,
    "PortStateInfo": 0x0087,
    "PortGroupForwardingTable": 0x0088,
    "PortGroupTable": 0x0089,
    "BufferControl": 0x008A,
    "CongestionInfo": 0x008B,
    "SwitchCongestionLog": 0x008C,
    "SwitchCongestionSetting": 0x008D,
    "SwitchPortCongestionSetting": 0x008E,
    "HfiCongestionLog": 0x008F,
    "HfiCongestionSetting": 0x0090,
    "HfiCongestionControl": 0x0091,
    "SCtoSCMultiSet": 0x0094,
}
"""STL_MCLASS_ATTRIB_ID_* of stl_mad_types.h and stl_sm_types.h."""


def test_subnet_management_attributes_have_their_public_numbers() -> None:
    assert {code.text: int(code) for code in SubnetAttrId}.items() <= SUBNET_ATTRIBUTES.items()


FIELDS_16B = [
    # field, 32-bit word, mask of OPA_16B_*_MASK in hfi1's hfi.h
    ("length_qw", 0, 0x7FF00000),
    ("becn", 0, 0x80000000),
    ("sc", 1, 0x01F00000),
    ("rc", 1, 0x0E000000),
    ("fecn", 1, 0x10000000),
    ("l2", 1, 0x60000000),
    ("l4", 2, 0x000000FF),
    ("slid_high", 2, 0x00000F00),
    ("dlid_high", 2, 0x0000F000),
    ("pkey", 2, 0xFFFF0000),
    ("entropy", 3, 0x0000FFFF),
    ("age", 3, 0x00FF0000),
    ("slid_low", 0, 0x000FFFFF),
    ("dlid_low", 1, 0x000FFFFF),
]


def test_16b_fields_stand_where_the_driver_looks() -> None:
    found = []
    for field, *_ in FIELDS_16B:
        place = Lrh16B.HEADER.place(field)
        mask = ((1 << place.width_bits) - 1) << place.offset_bits % 32
        found.append((field, place.offset_bits // 32, mask))
    assert found == FIELDS_16B


GROUP = ["unicast", "mcastbcast", "untagged", "vlan"] + [
    f"{size}" for size in ("64", "65_127", "128_255", "256_511", "512_1023", "1024_1518", "1519_max")
]
SUMMARY = ["tx_errors", "rx_errors", "tx_packets", "rx_packets", "tx_bytes", "rx_bytes"] + [
    f"{way}_{name}" for way in ("tx", "rx") for name in GROUP
]
"""struct opa_veswport_summary_counters behind its 8 bytes of header, then 16 reserved words."""
ERRORS = {
    8: "tx_errors",
    16: "rx_errors",
    32: "tx_smac_filt",
    64: "tx_dlid_zero",
    80: "tx_logic",
    96: "tx_drop_state",
    104: "rx_bad_veswid",
    120: "rx_runt",
    128: "rx_oversize",
    144: "rx_eth_down",
    152: "rx_drop_state",
    160: "rx_logic",
}
"""struct opa_veswport_error_counters: the byte that each counter begins at."""


def _offsets(header: Header) -> dict[str, int]:
    return {place.name: place.offset for place in header.places}


def test_summary_counters_stand_where_the_driver_puts_them() -> None:
    offsets = _offsets(SummaryCounters.HEADER)
    assert {name: offsets[name] for name in SUMMARY} == {
        name: 8 + 8 * place for place, name in enumerate(SUMMARY)
    }
    assert SummaryCounters.HEADER.size == 8 + 8 * len(SUMMARY) + 16 * 8


def test_error_counters_stand_where_the_driver_puts_them() -> None:
    offsets = _offsets(ErrorCounters.HEADER)
    assert {offset: name for name, offset in offsets.items() if name in ERRORS.values()} == ERRORS
    assert ErrorCounters.HEADER.size == 168 + 8 + 16 * 8


PORT_INFO = {
    "fabric_id": 0,
    "vesw_id": 2,
    "def_port_mask": 10,
    "pkey": 14,
    "u_mcast_dlid": 20,
    "u_ucast_dlid": 24,
    "rc": 88,
    "eth_mtu": 148,
    "vesw_port_num": 152,
    "eth_link_status": 156,
    "base_mac": 160,
    "config_state": 166,
    "oper_state": 167,
    "encap_slid": 180,
}
"""struct opa_vesw_info, 152 bytes, and struct opa_per_veswport_info: where fields begin."""


def test_vesw_port_info_fields_stand_where_the_driver_puts_them() -> None:
    offsets = _offsets(vesw_port_info.VeswPortInfo.HEADER)
    assert {name: offsets[name] for name in PORT_INFO} == PORT_INFO
