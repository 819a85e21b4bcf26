"""Forwarding rules that every engine follows, as pure functions; native/engine/src/forwarding.rs has the same in Rust.

A packet's hops are the switches that it has visited. They travel beside it from link to link, and are not on the
wire: 16B packets have no field for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hfi_sim.base.types import SC_MANAGEMENT, PortState
from hfi_sim.wire.lrh16b import SIZE, sc_of

_DIGITS: Final = 16
"""Base-2 digits of an entropy; higher digits are 0."""


def is_astray(hops: int, switches: int) -> bool:
    """Return whether a packet is in a forwarding loop.

    Args:  hops: switches visited, this one included; switches: all switches of the fabric, also those that are off.
    """
    return hops > switches


def path_of(entropy: int, paths: int, hops: int) -> int:
    """Return which of several equal paths a packet takes.

    Its entropy is read as a number to the base `paths`. Each switch on the way uses another digit, the first switch
    the last digit. If all used the same digit, a switch behind others that have chosen would have no choice left.

    Args:  hops: switches visited, this one included.
    """
    place: int = paths ** min(hops - 1, _DIGITS)
    return entropy // place % paths


def is_management(packet: bytes) -> bool:
    """Return whether a packet is for subnet management, that is, on SC15; data too short for a header is not."""
    return len(packet) >= SIZE and sc_of(packet) == SC_MANAGEMENT


def sc_leaving(sc: int, table: Sequence[int]) -> int | None:
    """Return the service channel on which a switch forwards a packet that came on `sc`; None: it is dropped.

    Subnet management stays on SC15, and no other packet gets there.
    Args:    table: SCtoSC of the two ports, an entry for each of 32.
    Source:  stl_sm_types.h of opa-ff, STL_SCSCMAP; opa-fm maps forbidden turns to SC15.
    """
    if sc == SC_MANAGEMENT:
        return sc
    return None if table[sc] == SC_MANAGEMENT else table[sc]


def lets_pass(state: PortState, packet: bytes) -> bool:
    """Return whether a port in this state lets a packet in or out.

    ACTIVE: any packet; INIT and ARMED: subnet management only, which brings the port to ACTIVE; DOWN: none.
    Source:  InfiniBand architecture 7.2.7 (link states); OPA's SC15 corresponds to VL15.
    """
    return state is PortState.ACTIVE or (state is not PortState.DOWN and is_management(packet))
