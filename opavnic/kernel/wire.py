"""The frames between a port of the fabric and the kernel that has it. Sans-IO; kernel side: source/opa_sim_hfi.c.

Each is an Ethernet frame of ethertype 0x88b5. Behind its header stand a kind, a zero, the length of what follows
(2 bytes) and that. Big-endian, except for 16B packets, which stay as they are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.header import structure

ETHERTYPE: Final = 0x88B5
MTU: Final = 12000
"""Of the kernel's end of the wire: the longest 16B packet has some 10 KiB."""
MAX_FRAME: Final = 1 << 16
PKEYS: Final = 16
"""P_Keys of a port that the kernel is told."""
_HEAD: Final = structure(
    "frame", "u8 to[6], sender[6]; u16 ethertype; u8 kind, zero; u16 length", "big", __name__
)
_STATE: Final = structure(
    "port state",
    f"u32 lid, sm_lid; u64 guid; u8 state, lmc, zero, pkey_count; u16 pkeys[{PKEYS}]; u8 sl_to_sc[32], sc_to_sl[32]",
    "big",
    __name__,
)
_ALL: Final = b"\xff" * 6
_pack_head: Final = _HEAD.codec.pack
_OURS: Final = bytes.fromhex("02005e000001")


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


class WireFrame(NamedTuple):
    """A frame that came."""

    kind: int
    body: bytes


def build_frame(kind: WireKind, body: bytes = b"") -> bytes:
    """Return a frame, 18 bytes more than its body."""
    return _pack_head(_ALL, _OURS, ETHERTYPE, kind, 0, len(body)) + body


def parse_frame(frame: bytes) -> WireFrame | None:
    """Return a frame; None where it is of another ethertype, such as the kernel's own IPv6, or ends too soon."""
    if len(frame) < _HEAD.size:
        return None
    _to, _from, ethertype, kind, _zero, length = _HEAD.unpack(frame)
    body = frame[_HEAD.size : _HEAD.size + length]
    return WireFrame(kind, body) if ethertype == ETHERTYPE and len(body) == length else None


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
