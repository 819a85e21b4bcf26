"""VeswPortInfo, attribute 0x0011: the whole configuration and state of one vport. Big-endian, 280 bytes.

The first 152 bytes describe the virtual Ethernet switch, the other 128 the port on it.

Source: seed 001, "Ethernet switch configuration" and "Virtual port configuration"; the public driver's
opa_vnic_get_vesw_info(), opa_vnic_get_per_veswport_info() and their set counterparts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Self

from hfi_sim.base.types import ETH_MTU_DEFAULT, MacAddr
from hfi_sim.wire.field import BITS_PER_BYTE, BYTES, DECIMAL, HEX, MAC, Field, Shown
from hfi_sim.wire.header import WireHeader, declared
from vema.base.types import (
    MAC_TABLE_ENTRIES,
    READ_ONLY,
    READ_WRITE,
    SMAC_ENTRIES,
    ConfigState,
    EthLinkStatus,
    reserved,
)

DEF_PORTS: Final = 16
"""Default ports of a virtual Ethernet switch."""
PCP_VALUES: Final = 8
"""Priorities of a VLAN tag."""

_NO_DLIDS: Final = (0,) * DEF_PORTS
_NO_MAC: Final = MacAddr(bytes(6))
_NO_PCPS: Final = bytes(PCP_VALUES)
_LINK_TEXTS: Final = {0: "no such vport", **{int(status): status.text for status in EthLinkStatus}}


class RcShift:
    """The position in `rc` of the routing control of each kind of frame; 3 bits each.

    Source: the public driver's opa_vnic_get_rc().
    """

    DEFAULT: Final = 0
    IPV4: Final = 4
    IPV4_UDP: Final = 8
    IPV4_TCP: Final = 12
    IPV6: Final = 16
    IPV6_TCP: Final = 20
    IPV6_UDP: Final = 24


_CONTROLS: Final = {
    name.lower(): (0b111 << shift, "") for name, shift in vars(RcShift).items() if name.isupper()
}


def _set(bits: int, meaning: str, shown: Shown = DECIMAL) -> Field:
    return Field(bits, meaning, shown, access=READ_WRITE)


def _state(bits: int, meaning: str, shown: Shown = DECIMAL) -> Field:
    return Field(bits, meaning, shown, access=READ_ONLY)


def _per_priority(meaning: str) -> Field:
    return _set(PCP_VALUES * BITS_PER_BYTE, f"{meaning}, one byte for each PCP", BYTES)


def _untagged(meaning: str) -> Field:
    return _set(8, f"{meaning} of frames without a VLAN tag")


@declared("VeswPortInfo", "VeswPortInfo", "big", names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class VeswPortInfo(WireHeader):
    """Configuration (as the EM wrote it) and state (the agent's) of a vport."""

    # the virtual Ethernet switch
    fabric_id: Annotated[int, _set(16, "fabric id, 10 bits used in MAC addresses", HEX)] = 0
    vesw_id: Annotated[int, _set(16, "virtual Ethernet switch, 12 bits; 0: on none")] = 0
    reserved_4: Annotated[bytes, reserved(6)] = bytes(6)
    def_port_mask: Annotated[int, _set(16, "which default ports are in use, a bit each", HEX)] = 0
    reserved_12: Annotated[bytes, reserved(2)] = bytes(2)
    pkey: Annotated[int, _set(16, "partition key of the packets", HEX)] = 0
    reserved_16: Annotated[bytes, reserved(4)] = bytes(4)
    u_mcast_dlid: Annotated[int, _set(32, "LID for multicast and broadcast frames", HEX)] = 0
    """32 bits on the wire, although a LID has 24; the same applies to `u_ucast_dlid`."""
    u_ucast_dlid: Annotated[
        tuple[int, ...], Field(32, "LID of each default port", HEX, count=DEF_PORTS, access=READ_WRITE)
    ] = _NO_DLIDS
    rc: Annotated[
        int,
        Field(
            32,
            "routing controls: 3 bits from bit 0, 4, ... 24; see RcShift",
            HEX,
            parts=_CONTROLS,
            access=READ_WRITE,
        ),
    ] = 0
    reserved_92: Annotated[bytes, reserved(56)] = bytes(56)
    eth_mtu: Annotated[int, _set(16, "largest MTU, in bytes of Ethernet payload")] = 0
    reserved_150: Annotated[bytes, reserved(2)] = bytes(2)
    # the port on it
    vesw_port_num: Annotated[int, _set(32, "number of the port on the virtual switch")] = 0
    eth_link_status: Annotated[
        int, Field(8, "1 up, 2 down, 0 no such vport", codes=_LINK_TEXTS, access=READ_ONLY)
    ] = 0
    reserved_157: Annotated[bytes, reserved(3)] = bytes(3)
    base_mac: Annotated[MacAddr, _set(48, "the MAC address that the EM gives", MAC)] = _NO_MAC
    config_state: Annotated[
        int, Field(8, "3 forwarding; anything else drops all", codes=ConfigState, access=READ_WRITE)
    ] = 0
    oper_state: Annotated[
        int, Field(8, "3 forwarding, 1 dropping all", codes=ConfigState, access=READ_ONLY)
    ] = 0
    max_mac_tbl_ent: Annotated[int, _state(16, "entries of the MAC table, 2048")] = 0
    max_smac_ent: Annotated[int, _state(16, "how many of them may be source entries, 256")] = 0
    mac_tbl_digest: Annotated[int, _state(32, "digest that came with the last MacEntries Set", HEX)] = 0
    reserved_176: Annotated[bytes, reserved(4)] = bytes(4)
    encap_slid: Annotated[int, _set(32, "source LID of the packets", HEX)] = 0
    """32 bits on the wire, a LID has 24."""
    pcp_to_sc_uc: Annotated[bytes, _per_priority("service channel of tagged unicast frames")] = _NO_PCPS
    pcp_to_vl_uc: Annotated[bytes, _per_priority("virtual lane of tagged unicast frames")] = _NO_PCPS
    pcp_to_sc_mc: Annotated[bytes, _per_priority("service channel of tagged multicast frames")] = _NO_PCPS
    pcp_to_vl_mc: Annotated[bytes, _per_priority("virtual lane of tagged multicast frames")] = _NO_PCPS
    non_vlan_sc_uc: Annotated[int, _untagged("service channel, unicast,")] = 0
    non_vlan_vl_uc: Annotated[int, _untagged("virtual lane, unicast,")] = 0
    non_vlan_sc_mc: Annotated[int, _untagged("service channel, multicast,")] = 0
    non_vlan_vl_mc: Annotated[int, _untagged("virtual lane, multicast,")] = 0
    reserved_220: Annotated[bytes, reserved(48)] = bytes(48)
    uc_macs_gen_count: Annotated[
        int, _state(16, "readings of the unicast list by the driver, modulo 2**16")
    ] = 0
    mc_macs_gen_count: Annotated[
        int, _state(16, "readings of the multicast list by the driver, modulo 2**16")
    ] = 0
    reserved_272: Annotated[bytes, reserved(8)] = bytes(8)

    @classmethod
    def power_on(cls) -> Self:
        """Return the defaults of a vport that no EM has configured, which a Get also returns if there is no vport.

        Source: the public driver's vema_get_pod_values().
        """
        return cls(
            eth_mtu=ETH_MTU_DEFAULT,
            config_state=ConfigState.DROP_ALL,
            oper_state=ConfigState.DROP_ALL,
            max_mac_tbl_ent=MAC_TABLE_ENTRIES,
            max_smac_ent=SMAC_ENTRIES,
        )
