"""Where an SMP goes next: the rules of directed routes as pure functions.

Each function changes the hop pointer and the return path as the rule says, and returns where the SMP goes. Port
numbers above 255 have no place in a path: no route leads through them.

Source: the InfiniBand architecture, 14.2.2 (C14-9, C14-13); smi.c of Linux.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from hfi_sim.wire.mad.smp_header import PATH_LENGTH, Smp

_MAX_PORT_NUM: Final = 0xFF


class SmpEnd(Enum):
    """An SMP goes no further."""

    HERE = "to the agents of this node"
    DISCARD = "nowhere: its route makes no sense here"


@dataclass(frozen=True, slots=True)
class Out:
    """Out of a port of this node, on the directed route."""

    port_num: int


@dataclass(frozen=True, slots=True)
class Routed:
    """By LID, after or before the directed part."""

    dlid: int


Next = SmpEnd | Out | Routed


def sent(smp: Smp, dlid: int) -> Next:
    """Return where an SMP goes that this node sends. Args: dlid: where it is addressed to, unless it is directed."""
    if not smp.directed:
        return Routed(dlid)
    if smp.hop_count >= PATH_LENGTH:
        return SmpEnd.DISCARD
    if smp.returning:
        return answered(smp, dlid)
    if smp.dr_slid is not None:
        return Routed(dlid)
    if smp.hop_pointer:
        return SmpEnd.DISCARD
    smp.hop_pointer = 1
    if smp.hop_count == 0:
        return SmpEnd.HERE if smp.dr_dlid is None else Routed(smp.dr_dlid)
    return _out(smp.leaves_by(1))


def arrived(smp: Smp, in_port: int, *, is_switch: bool) -> Next:
    """Return where an SMP goes that has come to this node by a port."""
    if not smp.directed:
        return SmpEnd.HERE
    if smp.hop_count >= PATH_LENGTH:
        return SmpEnd.DISCARD
    return _back(smp, is_switch) if smp.returning else _forth(smp, in_port, is_switch)


def answered(smp: Smp, slid: int) -> Next:
    """Return where a response goes that this node gives. Args: slid: where the request came from, by its packet."""
    if smp.directed and smp.hop_count >= PATH_LENGTH:
        return SmpEnd.DISCARD
    if not smp.directed or smp.dr_dlid is not None:
        return Routed(slid)
    if smp.hop_count == 0:
        smp.hop_pointer = 0
        return SmpEnd.HERE if smp.dr_slid is None else Routed(smp.dr_slid)
    smp.hop_pointer = smp.hop_count
    return _out(smp.came_by(smp.hop_count))


def _forth(smp: Smp, in_port: int, is_switch: bool) -> Next:
    pointer, count = smp.hop_pointer, smp.hop_count
    if count and pointer == 0:  # a part by LID ends here, the directed one begins
        if smp.dr_slid is None or not is_switch:
            return SmpEnd.DISCARD
        smp.hop_pointer = 1
        return _out(smp.leaves_by(1))
    if pointer < count:
        if not is_switch or in_port > _MAX_PORT_NUM:
            return SmpEnd.DISCARD
        smp.record(pointer, in_port)
        smp.hop_pointer = pointer + 1
        return _out(smp.leaves_by(pointer + 1))
    if pointer == count:
        if count:
            smp.record(pointer, min(in_port, _MAX_PORT_NUM))
        smp.hop_pointer = pointer + 1
        dlid = smp.dr_dlid
        if dlid is None:
            return SmpEnd.HERE
        return Routed(dlid) if is_switch else SmpEnd.DISCARD
    return SmpEnd.HERE if pointer == count + 1 else SmpEnd.DISCARD


def _back(smp: Smp, is_switch: bool) -> Next:
    pointer, count = smp.hop_pointer, smp.hop_count
    if pointer == 0:
        return SmpEnd.HERE
    if pointer > count + 1:
        return SmpEnd.DISCARD
    smp.hop_pointer = pointer - 1
    if pointer == 1:
        slid = smp.dr_slid
        if slid is None:
            return SmpEnd.HERE
        return Routed(slid) if is_switch else SmpEnd.DISCARD
    return _out(smp.came_by(pointer - 1)) if is_switch else SmpEnd.DISCARD


def _out(port_num: int) -> Next:
    return Out(port_num) if port_num else SmpEnd.DISCARD
