"""What passes between a port of the fabric and the kernel that has it. Sans-IO; kernel side: source/wire.c.

Each datagram is a kind (1 byte), three zeros, and what the kind says. Numbers are big-endian; 16B packets stay as they
are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from hfi_sim.base.counters import Drop
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.header import structure

MAX_FRAME: Final = 1 << 16
PKEYS: Final = 16
"""P_Keys of a port that the kernel is told."""
_HEAD: Final = structure("head", "u8 kind, zero[3]", "big", __name__)
_STATE: Final = structure(
    "port state",
    f"u32 lid, sm_lid; u64 guid; u8 state, lmc, zero, pkey_count; u16 pkeys[{PKEYS}]; u8 sl_to_sc[32], sc_to_sl[32]",
    "big",
    __name__,
)
_DROPS: Final = structure("drops", "u16 vesw_id, reason; u32 frames, octets", "big", __name__)
_pack_head: Final = _HEAD.codec.pack
REASONS: Final = (
    Drop.VNIC_NO_VESW,
    Drop.VNIC_RX_STATE,
    Drop.VNIC_RX_RUNT,
    Drop.VNIC_RX_OVERSIZE,
    Drop.VNIC_RX_HOST,
    Drop.VNIC_TX_STATE,
    Drop.VNIC_TX_DLID,
    Drop.TX_MTU,
    Drop.MAD_UNREAD,
)
"""Why frames, and MADs, end in the kernel's driver, by number: `enum drop` of source/opa_sim_hfi.h."""
TX_REASONS: Final = frozenset((Drop.VNIC_TX_STATE, Drop.VNIC_TX_DLID, Drop.TX_MTU))
"""Of those, the reasons of frames that the kernel's host has sent."""


LINK: Final = structure(
    "link", "u64 guid; u8 port, type, state, reason; u32 phy, fabric, width, device, lni", "big", __name__
)
"""An end of a cable of hfi1."""
IDLE: Final = structure("idle", "u64 message", "big", __name__)
ERROR: Final = structure("error", "u8 block, zero[3]; u64 bits", "big", __name__)
"""An error that the hardware finds in itself: interrupt source of a block, bits of its error status."""
NEIGHBOUR: Final = {"reason": 0, "phy": 0x10, "fabric": 0x311003, "width": 0x20008, "device": 0x24F100}
"""What a switch says of itself in training: no power management; AU of 64 bytes, 0x110 credits of VL15, CRCs of 14 and
48 bits; 25 Gbit/s, four lanes."""


class PhysicalLink(IntEnum):
    """Physical states of a link, as the 8051 has them."""

    POLLING = 0x20
    LINK_UP = 0x50
    OFFLINE = 0x90


class WireKind(IntEnum):
    """What a frame holds."""

    PACKET = 0x10
    """A 16B packet; the ICRC and the upper bits of the last byte of those of the kernel are still to be set."""
    STATE = 0x20
    """What the port is, for the kernel."""
    HELLO = 0x21
    """From the kernel, when its device has come: capability mask 3. To the kernel: ask for that."""
    CAPS = 0x22
    """From the kernel: capability mask 3 has changed."""
    VNIC = 0x23
    """From the kernel: the interface index of a VNIC, and the id of the virtual switch that it is on (4 bytes each)."""
    PACKET_9B = 0x11
    """Of hfi1: a 9B packet."""
    LINK = 0x25
    """Of hfi1, and for it: an end of its cable; see `LINK` (source/opa_virtual_hfi/wire.c)."""
    IDLE = 0x26
    """Of hfi1, and for it: a message of the 8051."""
    ERROR = 0x27
    """For hfi1: see `ERROR`."""
    DROPS = 0x24
    """From the kernel: frames that have ended in its driver since it last said so; see `parse_drops`."""


class WireFrame(NamedTuple):
    """What a datagram says."""

    kind: int
    body: bytes


def parse_drops(body: bytes) -> tuple[int, Drop, int, int] | None:
    """Return what frames ended in the driver: virtual switch, 0 of none, reason, frames, octets; None: malformed."""
    if len(body) != _DROPS.size:
        return None
    vesw_id, reason, frames, octets = _DROPS.unpack(body)
    return (vesw_id, REASONS[reason], frames, octets) if reason < len(REASONS) else None


def build_frame(kind: WireKind, body: bytes = b"") -> bytes:
    """Return a datagram, 4 bytes more than its body."""
    return _pack_head(kind, bytes(3)) + body


def parse_frame(frame: bytes) -> WireFrame | None:
    """Return what a datagram says; None where it ends too soon."""
    return None if len(frame) < _HEAD.size else WireFrame(frame[0], frame[_HEAD.size :])


def state_of(port: HfiPort) -> bytes:
    """Return what the kernel is told of a port, 116 bytes: LIDs, GUID, state, its first 16 P_Keys, SL and SC tables."""
    settings = port.settings
    entries = list(port.pkeys.entries[:PKEYS])
    return _STATE.build(
        lid=port.lid,
        sm_lid=port.sm_lid,
        guid=port.guid,
        state=int(port.state),
        lmc=port.lmc,
        pkey_count=len(entries),
        pkeys=(*entries, *[0] * (PKEYS - len(entries))),
        sl_to_sc=bytes(settings.sl_to_sc[:32]),
        sc_to_sl=bytes(settings.sc_to_sl[:32]),
    )
