"""Encapsulation: from an Ethernet frame to the 20 bytes in front of it. Five little-endian 32-bit words.

A `Forwarding` is an immutable snapshot of one vport's configuration and MAC table, with everything precomputed that
does not depend on the frame. The adapter replaces it at each change.

Source: the public driver's opa_vnic_make_header(), opa_vnic_get_dlid(), opa_vnic_get_sc(), opa_vnic_get_vl(),
opa_vnic_get_rc(), opa_vnic_wire_length() and, for the flow table, opa_vnic_process_vema_config().
Differs: SC, VL and RC follow the VLAN tags of the frame. The driver reads them at an offset where its own header
is about to be written, and so treats tagged frames as untagged (test_tagged_frame_uses_its_priority).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from hfi_sim.base.types import LID_MAX
from hfi_sim.wire.header import WireHeader
from hfi_sim.wire.icrc import TRAILER_SIZE
from hfi_sim.wire.lrh16b import L2_16B, L4, LT_HEAD, EthernetL4, Lrh16B
from hfi_sim.wire.packet import MAX_PACKET, QUAD_WORD
from opavnic.vnic.flow import IPV4, IPV6, VLAN_TPIDS, entropy_of, without_tags
from opavnic.vnic.mac_table import MacTable
from vema.attributes.vesw_port_info import RcShift, VeswPortInfo

HEADER_SIZE: Final = Lrh16B.SIZE + EthernetL4.SIZE
"""Bytes in front of the frame: 16B header and Ethernet L4 header."""
MIN_FRAME: Final = 60
"""Shorter frames are padded with zeros to this many bytes (without FCS)."""
MAX_FRAME: Final = MAX_PACKET - HEADER_SIZE - TRAILER_SIZE
"""Bytes of the longest frame that the Length field allows."""
FLOW_TABLE_SIZE: Final = 32

_WORD_BITS: Final = 32
_HEADER: Final = struct.Struct("<5I")


def _shift(header: type[WireHeader], name: str) -> int:
    """Return the lowest bit of a field in its word."""
    return header.HEADER.place(name).offset_bits % _WORD_BITS


_LOW_BITS: Final = Lrh16B.HEADER.place("slid_low").width_bits
"""Bits of a LID in the word of its low part."""
_LOW: Final = (1 << _LOW_BITS) - 1
_SLID_HIGH: Final = _shift(Lrh16B, "slid_high")
_DLID_HIGH: Final = _shift(Lrh16B, "dlid_high")
_LENGTH: Final = _shift(Lrh16B, "length_qw")
_SC: Final = _shift(Lrh16B, "sc")
_RC: Final = _shift(Lrh16B, "rc")
_PKEY: Final = _shift(Lrh16B, "pkey")
_VESW_ID: Final = _shift(EthernetL4, "vesw_id")
_L2_AND_LT: Final = L2_16B << _shift(Lrh16B, "l2") | LT_HEAD << _shift(Lrh16B, "lt")
_ROUNDED_UP: Final = HEADER_SIZE + TRAILER_SIZE + QUAD_WORD - 1
_UINT32: Final = 0xFFFFFFFF
_TCP: Final = 6
_UDP: Final = 17

_PBC_BYPASS: Final = 1 << 28
_PBC_NO_HCRC: Final = 2 << 26
_PBC_CREDIT_RETURN: Final = 1 << 25
_PBC_INSERT_BYPASS_ICRC: Final = 1 << 24


class Forwarding:
    """How one vport currently encapsulates frames."""

    __slots__ = (
        "_default_rc",
        "_entropy_dlid",
        "_ipv4_rcs",
        "_ipv6_rcs",
        "_non_vlan_sc",
        "_pcp_to_sc",
        "_u_mcast_dlid",
        "_word0",
        "_word2",
        "_word4",
        "dlids",
        "info",
        "pkey",
        "slid",
        "sources",
    )

    def __init__(self, info: VeswPortInfo, mac_table: MacTable) -> None:
        self.info = info
        """The configuration in the snapshot."""
        self.dlids = mac_table.dlids
        """The MAC table: LID for each destination address."""
        self.sources = mac_table.sources or None
        """The source filter of the MAC table, if it has any entry; the adapter decides whether it applies."""
        self._entropy_dlid = _entropy_dlids(info.def_port_mask, info.u_ucast_dlid)
        """By entropy: its upper and its lower half together are the flow."""
        self._u_mcast_dlid = info.u_mcast_dlid
        self._default_rc = _rc(info.rc, RcShift.DEFAULT)
        self._ipv4_rcs = _ip_rcs(info.rc, RcShift.IPV4, RcShift.IPV4_TCP, RcShift.IPV4_UDP)
        self._ipv6_rcs = _ip_rcs(info.rc, RcShift.IPV6, RcShift.IPV6_TCP, RcShift.IPV6_UDP)
        self._non_vlan_sc = info.non_vlan_sc_uc, info.non_vlan_sc_mc
        """For frames to one address, and to a group."""
        self._pcp_to_sc = info.pcp_to_sc_uc, info.pcp_to_sc_mc
        self.slid = info.encap_slid & LID_MAX
        """The SLID of every packet, 24 bits."""
        self.pkey = info.pkey
        """The P_Key of every packet."""
        self._word0 = self.slid & _LOW
        self._word2 = L4.ETHERNET | (self.slid >> _LOW_BITS) << _SLID_HIGH | info.pkey << _PKEY
        self._word4 = info.vesw_id << _VESW_ID

    @property
    def flow_dlids(self) -> tuple[int, ...]:
        """The LID of the default port of each flow, 0 to 31; 0 without default ports."""
        return _flow_table(self.info.def_port_mask, self.info.u_ucast_dlid)

    def _dlid_of_others(self, frame: bytes, entropy: int) -> int:
        """Return the destination LID of a frame to an address that is not in the MAC table."""
        first = frame[0]
        if first & 1:
            return self._u_mcast_dlid
        if first & 2:
            return frame[5] << 16 | frame[4] << 8 | frame[3]
        return self._entropy_dlid[entropy]

    def encap(self, frame: bytes, flow_hash: int) -> tuple[bytes, int] | None:
        """Return the 20 bytes to send before `frame` and the DLID in them, or None if there is no destination.

        The destination LID is taken from the first of these that applies: the MAC table; the multicast LID; the LID in
        a locally administered address, even if it is 0; the default port of the flow. Configured LIDs are used with all
        32 bits. 0 means "no destination", which the caller counts as tx_dlid_zero.

        Args:  frame: 60 bytes or more, without FCS. flow_hash: up to 32 bits.
        """
        entropy = entropy_of(flow_hash)
        dlid = self.dlids.get(frame[:6])
        if dlid is None:
            dlid = self._dlid_of_others(frame, entropy)
        if not dlid:
            return None
        sc, rc = self._sc_and_rc(frame)
        length_qw = (len(frame) + _ROUNDED_UP) // QUAD_WORD
        header = _HEADER.pack(
            self._word0 | length_qw << _LENGTH & _UINT32,
            (dlid & _LOW | sc << _SC | rc << _RC | _L2_AND_LT) & _UINT32,
            self._word2 | (dlid >> _LOW_BITS & 0xF) << _DLID_HIGH,
            entropy,
            self._word4,
        )
        return header, dlid & LID_MAX

    def _sc_and_rc(self, frame: bytes) -> tuple[int, int]:
        """Return the service channel (a whole byte, as configured) and the routing control (3 bits)."""
        group = frame[0] & 1
        if frame[12:14] in VLAN_TPIDS:
            sc = self._pcp_to_sc[group][frame[14] >> 5]
            frame = without_tags(frame)
        else:
            sc = self._non_vlan_sc[group]
        ethertype = frame[12:14]
        if ethertype == IPV4:
            return sc, self._ipv4_rcs[frame[23] if len(frame) > 23 else 0]
        if ethertype == IPV6:
            return sc, self._ipv6_rcs[frame[20] if len(frame) > 20 else 0]
        return sc, self._default_rc

    def vl(self, frame: bytes, vlan_tci: int | None = None) -> int:
        """Return the virtual lane, a whole byte as configured. The simulated fabric has one lane.

        Args:  vlan_tci: the tag that the host keeps outside the frame, if any. As in the driver, it selects the
               lane but not the service channel.
        """
        info = self.info
        group = frame[0] & 1
        if vlan_tci is None:
            if frame[12:14] not in VLAN_TPIDS:
                return info.non_vlan_vl_mc if group else info.non_vlan_vl_uc
            vlan_tci = frame[14] << 8
        return (info.pcp_to_vl_mc if group else info.pcp_to_vl_uc)[vlan_tci >> 13]


def pad_frame(frame: bytes) -> bytes:
    """Return `frame` with zeros up to 60 bytes."""
    return frame if len(frame) >= MIN_FRAME else frame.ljust(MIN_FRAME, b"\0")


def pbc(length_qw: int, vl: int) -> int:
    """Return the per-buffer control word that hfi1 puts before a packet; only hardware reads it.

    Source: the public driver's create_bypass_pbc(); its length counts 4-byte units, itself included.
    """
    flags = _PBC_BYPASS | _PBC_NO_HCRC | _PBC_CREDIT_RETURN | _PBC_INSERT_BYPASS_ICRC
    return flags | (vl & 0xF) << 12 | (length_qw * 2 + 2)


def _rc(rc: int, shift: int) -> int:
    return rc >> shift & 0x7


@lru_cache(maxsize=64)
def _ip_rcs(rc: int, other: int, tcp: int, udp: int) -> tuple[int, ...]:
    """Return the routing control for each IP protocol."""
    found = [_rc(rc, other)] * 256
    found[_TCP], found[_UDP] = _rc(rc, tcp), _rc(rc, udp)
    return tuple(found)


def _flow_table(def_port_mask: int, u_ucast_dlid: Sequence[int]) -> tuple[int, ...]:
    """Return the LID of the default port of each flow; 0 without default ports."""
    ports = [port for port in range(16) if def_port_mask >> port & 1]
    if not ports:
        return (0,) * FLOW_TABLE_SIZE
    return tuple(u_ucast_dlid[ports[flow % len(ports)]] for flow in range(FLOW_TABLE_SIZE))


@lru_cache(maxsize=64)
def _entropy_dlids(def_port_mask: int, u_ucast_dlid: tuple[int, ...]) -> tuple[int, ...]:
    """Return the LID of the default port by entropy. Cached: each section of a MAC table makes a `Forwarding` anew."""
    flow_table = _flow_table(def_port_mask, u_ucast_dlid)
    return tuple(chain.from_iterable(flow_table[high : high + 16] for high in range(16)))
