"""VeswPortInfo, attribute 0x0011: the whole configuration and state of one vport. Big-endian, 280 bytes.

The first 152 bytes describe the virtual Ethernet switch, the other 128 the port on it.

Source: seed 001, "Ethernet switch configuration" and "Virtual port configuration"; the public driver's
opa_vnic_get_vesw_info(), opa_vnic_get_per_veswport_info() and their set counterparts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self

import construct

from hfi_sim.types import MacAddr
from vema.attributes.fields import READ_ONLY, READ_WRITE, check_size, misfit, note, reserved
from vema.types import MAC_TABLE_ENTRIES, SMAC_ENTRIES, ConfigState

DEF_PORTS: Final = 16
"""Default ports of a virtual Ethernet switch."""
PCP_VALUES: Final = 8
"""Priorities of a VLAN tag."""
POWER_ON_MTU: Final = 1500


def _per_priority(name: str, meaning: str) -> Any:
    return name / construct.Bytes(PCP_VALUES) * note(READ_WRITE, f"{meaning}, one byte for each PCP")


def _untagged(name: str, meaning: str) -> Any:
    return name / construct.Int8ub * note(READ_WRITE, f"{meaning} of frames without a VLAN tag")


LAYOUT: Final = construct.Struct(
    # the virtual Ethernet switch
    "fabric_id" / construct.Int16ub * note(READ_WRITE, "fabric id, 10 bits used in MAC addresses"),
    "vesw_id" / construct.Int16ub * note(READ_WRITE, "virtual Ethernet switch, 12 bits; 0: on none"),
    reserved(4, 6),
    "def_port_mask" / construct.Int16ub * note(READ_WRITE, "which default ports are in use, a bit each"),
    reserved(12, 2),
    "pkey" / construct.Int16ub * note(READ_WRITE, "partition key of the packets"),
    reserved(16, 4),
    "u_mcast_dlid" / construct.Int32ub * note(READ_WRITE, "LID for multicast and broadcast frames"),
    "u_ucast_dlid"
    / construct.Array(DEF_PORTS, construct.Int32ub)
    * note(READ_WRITE, "LID of each default port"),
    "rc"
    / construct.Int32ub
    * note(READ_WRITE, "routing controls: 3 bits from bit 0, 4, ... 24; see RcShift"),
    reserved(92, 56),
    "eth_mtu" / construct.Int16ub * note(READ_WRITE, "largest MTU, in bytes of Ethernet payload"),
    reserved(150, 2),
    # the port on it
    "vesw_port_num" / construct.Int32ub * note(READ_WRITE, "number of the port on the virtual switch"),
    "eth_link_status" / construct.Int8ub * note(READ_ONLY, "1 up, 2 down, 0 no such vport"),
    reserved(157, 3),
    "base_mac" / construct.Bytes(6) * note(READ_WRITE, "the MAC address that the EM gives"),
    "config_state" / construct.Int8ub * note(READ_WRITE, "3 forwarding; anything else drops all"),
    "oper_state" / construct.Int8ub * note(READ_ONLY, "3 forwarding, 1 dropping all"),
    "max_mac_tbl_ent" / construct.Int16ub * note(READ_ONLY, "entries of the MAC table, 2048"),
    "max_smac_ent" / construct.Int16ub * note(READ_ONLY, "how many of them may be source entries, 256"),
    "mac_tbl_digest" / construct.Int32ub * note(READ_ONLY, "digest that came with the last MacEntries Set"),
    reserved(176, 4),
    "encap_slid" / construct.Int32ub * note(READ_WRITE, "source LID of the packets"),
    _per_priority("pcp_to_sc_uc", "service class of tagged unicast frames"),
    _per_priority("pcp_to_vl_uc", "virtual lane of tagged unicast frames"),
    _per_priority("pcp_to_sc_mc", "service class of tagged multicast frames"),
    _per_priority("pcp_to_vl_mc", "virtual lane of tagged multicast frames"),
    _untagged("non_vlan_sc_uc", "service class, unicast,"),
    _untagged("non_vlan_vl_uc", "virtual lane, unicast,"),
    _untagged("non_vlan_sc_mc", "service class, multicast,"),
    _untagged("non_vlan_vl_mc", "virtual lane, multicast,"),
    reserved(220, 48),
    "uc_macs_gen_count" / construct.Int16ub * note(READ_ONLY, "changes of the unicast list, modulo 2**16"),
    "mc_macs_gen_count" / construct.Int16ub * note(READ_ONLY, "changes of the multicast list, modulo 2**16"),
    reserved(272, 8),
)
"""The layout in document order."""

_CODEC: Final = struct.Struct(
    ">HH6sH2sH4sI64sI56sH2s"  # 152 bytes of switch
    "IB3s6sBBHHI4sI8s8s8s8sBBBB48sHH8s"  # 128 bytes of port
)
_DLIDS: Final = struct.Struct(f">{DEF_PORTS}I")
_NO_DLIDS: Final = (0,) * DEF_PORTS
_NO_MAC: Final = MacAddr(bytes(6))


class RcShift:
    """Where the routing control of each kind of frame stands in `rc`; 3 bits each.

    Source: the public driver's opa_vnic_get_rc().
    """

    DEFAULT: Final = 0
    IPV4: Final = 4
    IPV4_UDP: Final = 8
    IPV4_TCP: Final = 12
    IPV6: Final = 16
    IPV6_TCP: Final = 20
    IPV6_UDP: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class VeswPortInfo:
    """Configuration (as the EM wrote it) and state (the agent's) of a vport."""

    SIZE: ClassVar[int] = 280
    VESW_SIZE: ClassVar[int] = 152

    fabric_id: int = 0
    """16 bits on the wire, 10 used in MAC addresses."""
    vesw_id: int = 0
    """16 bits on the wire, 12 used."""
    reserved_4: bytes = bytes(6)
    def_port_mask: int = 0
    """Bit n: u_ucast_dlid[n] is a default port."""
    reserved_12: bytes = bytes(2)
    pkey: int = 0
    reserved_16: bytes = bytes(4)
    u_mcast_dlid: int = 0
    """32 bits on the wire, a LID has 24."""
    u_ucast_dlid: tuple[int, ...] = _NO_DLIDS
    """16 LIDs."""
    rc: int = 0
    """Routing controls, 3 bits each: see `RcShift`."""
    reserved_92: bytes = bytes(56)
    eth_mtu: int = 0
    """Bytes of Ethernet payload."""
    reserved_150: bytes = bytes(2)

    vesw_port_num: int = 0
    eth_link_status: int = 0
    reserved_157: bytes = bytes(3)
    base_mac: MacAddr = _NO_MAC
    config_state: int = 0
    oper_state: int = 0
    max_mac_tbl_ent: int = 0
    max_smac_ent: int = 0
    mac_tbl_digest: int = 0
    reserved_176: bytes = bytes(4)
    encap_slid: int = 0
    """32 bits on the wire, a LID has 24."""
    pcp_to_sc_uc: bytes = bytes(8)
    pcp_to_vl_uc: bytes = bytes(8)
    pcp_to_sc_mc: bytes = bytes(8)
    pcp_to_vl_mc: bytes = bytes(8)
    non_vlan_sc_uc: int = 0
    non_vlan_vl_uc: int = 0
    non_vlan_sc_mc: int = 0
    non_vlan_vl_mc: int = 0
    reserved_220: bytes = bytes(48)
    uc_macs_gen_count: int = 0
    mc_macs_gen_count: int = 0
    reserved_272: bytes = bytes(8)

    @classmethod
    def power_on(cls) -> Self:
        """Return what a vport is before any EM has spoken, and what a Get says where there is no vport.

        Source: the public driver's vema_get_pod_values().
        """
        return cls(
            eth_mtu=POWER_ON_MTU,
            config_state=ConfigState.DROP_ALL,
            oper_state=ConfigState.DROP_ALL,
            max_mac_tbl_ent=MAC_TABLE_ENTRIES,
            max_smac_ent=SMAC_ENTRIES,
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 280 bytes. No value of the fields is refused.
        """
        check_size("VeswPortInfo", data, cls.SIZE)
        values = dict(zip(_NAMES, _CODEC.unpack_from(data), strict=True))
        values["u_ucast_dlid"] = _DLIDS.unpack(values["u_ucast_dlid"])
        return cls(**values)

    def build(self) -> bytes:
        """Return the 280 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        try:
            values = [getattr(self, name) for name in _NAMES]
            values[_DLIDS_AT] = _DLIDS.pack(*self.u_ucast_dlid)
            return _CODEC.pack(*values)
        except struct.error:
            raise misfit("VeswPortInfo", LAYOUT, self) from None


_NAMES: Final = tuple(field.name for field in fields(VeswPortInfo))
_DLIDS_AT: Final = _NAMES.index("u_ucast_dlid")
