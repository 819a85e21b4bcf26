"""Rules that every engine keeps, as pure functions: native/engine/src/forwarding.rs states the same in Rust.

A packet's hops are the switches that it has come to. They travel beside it, from link to link, and are nowhere on the
wire: 16B packets have no field for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hfi_sim.port_state import PortState
from hfi_sim.types import SC_MANAGEMENT
from hfi_sim.wire.lrh16b import SIZE, sc_of

_DIGITS: Final = 16
"""Of an entropy to the base 2; all further ones are 0."""


def is_astray(hops: int, switches: int) -> bool:
    """Return whether a packet goes in a circle, and would for ever.

    Args:  hops: switches that it has come to, this one included; switches: all of the fabric, also those that are off.
    """
    return hops > switches


def path_of(entropy: int, paths: int, hops: int) -> int:
    """Return which of several equal paths a packet takes.

    Its entropy is read as a number to the base `paths`. Each switch on the way looks at another digit of it, the first
    switch at the last digit. If all looked at the same one, a switch behind others that have chosen had no choice.

    Args:  hops: switches that it has come to, this one included.
    """
    place: int = paths ** min(hops - 1, _DIGITS)
    return entropy // place % paths


def is_management(packet: bytes) -> bool:
    """Return whether a packet is one of subnet management: it is on SC15. Too short for a header: it is not."""
    return len(packet) >= SIZE and sc_of(packet) == SC_MANAGEMENT


def sc_leaving(sc: int, table: Sequence[int]) -> int | None:
    """Return the service channel on which a switch sends on what came on `sc`; None: it carries no data, and it ends.

    Subnet management stays on SC15, and nothing else gets there.
    Args:    table: SCtoSC of the two ports, an entry for each of 32.
    Source:  stl_sm_types.h of opa-ff, STL_SCSCMAP; opa-fm maps turns that are not allowed to SC15.
    """
    if sc == SC_MANAGEMENT:
        return sc
    return None if table[sc] == SC_MANAGEMENT else table[sc]


def lets_pass(state: PortState, packet: bytes) -> bool:
    """Return whether a port in this state lets a packet in or out.

    ACTIVE any; INIT and ARMED those of subnet management, which is to bring the port to ACTIVE; DOWN none.
    Source:  InfiniBand architecture 7.2.7 (link states); for OPA, SC15 is what VL15 is there.
    """
    return state is PortState.ACTIVE or (state is not PortState.DOWN and is_management(packet))
