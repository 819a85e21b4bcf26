"""Queue pair 0 of a node: SMPs pass through it hop by hop, or end at the node's agent. The shell around `smp.rules`.

An SMP travels on SC15, so ports need not be ACTIVE; on a directed route from and to the permissive LID, so no port
needs a LID. Each hop is a packet of its own on one link, with the faults of that link.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.base.types import LID_NONE, LID_PERMISSIVE, SC_MANAGEMENT
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.sending import QP_SMI
from hfi_sim.management.mad.stack import MadStack
from hfi_sim.management.smp.rules import Next, Out, Routed, SmpEnd, answered, arrived, sent
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort0
from hfi_sim.wire.mad.fm_packet import build_answer_packet
from hfi_sim.wire.mad.header import MadHeader
from hfi_sim.wire.mad.smp_header import Smp

log = logging.getLogger("hfi_sim.management.smp")


@dataclass(frozen=True, slots=True)
class SmpRequest:
    """An SMP for the agent of this node."""

    smp: Smp
    """Its bytes; an agent that answers changes them."""
    request: MadRequest
    in_port: int
    """The port that it came by: 0 within a switch, the port's own number at an HFI."""
    is_local: bool
    """Whether a program on this node sent it: the limited management P_Key is enough for it."""


SubnetAgent = Callable[[SmpRequest], bool | Drop | None]
"""Takes an SMP: True where `smp` is now the response, False where there is none; a Drop counts it; None: others on the
node may want it."""


class SubnetInterface:
    """Queue pair 0 of an HFI port or of a switch."""

    def __init__(self, port: HfiPort | SwitchPort0, stack: MadStack) -> None:
        """Take all SMPs of a port, until an agent has been given those that end there."""
        self._port = port
        self._own_num = port.opa_port_num if isinstance(port, HfiPort) else 0
        self._stack = stack
        self.agent: SubnetAgent = lambda _request: None
        """The agent of this node."""
        port.send_smp = self.send
        stack.give_qp0_to(self._receive)

    # --- from programs of this node ------------------------------------------------------------------------

    def send(self, mad: bytes, dlid: int, pkey: int) -> Drop | None:
        """Send an SMP of a program, or of an agent, of this node; return why it was dropped, or None.

        Args:  dlid: for those routed by LID, and for the first part of a mixed route.
        """
        try:
            smp = Smp(mad)
        except WireError as error:
            log.debug("[%s] malformed SMP: %s", self._port.name, error)
            return Drop.MAD_MALFORMED
        return self._pass(smp, sent(smp, dlid), pkey, own=True)

    # --- from the fabric -----------------------------------------------------------------------------------

    def _receive(self, request: MadRequest) -> Drop | None:
        try:
            smp = Smp(request.mad)
        except WireError as error:
            log.debug("[%s] malformed SMP: %s", self._port.name, error)
            return Drop.MAD_MALFORMED
        port = self._port
        in_port = port.in_port if isinstance(port, SwitchPort0) else self._own_num
        way = arrived(smp, in_port, is_switch=isinstance(port, SwitchPort0))
        if way is SmpEnd.HERE or (isinstance(way, Routed) and self._is_own(way.dlid)):
            return self._end_here(smp, request, in_port, is_local=False)
        drop = self._pass(smp, way, request.pkey, own=False, is_9b=request.is_9b)
        return drop if drop is Drop.MAD_ROUTE else None  # what a port did not let out, it has counted

    def _end_here(self, smp: Smp, request: MadRequest, in_port: int, *, is_local: bool) -> Drop | None:
        request = _with(request, smp)
        taken = self.agent(SmpRequest(smp, request, in_port, is_local))
        if isinstance(taken, Drop):
            return taken
        if taken is None:
            return self._stack.take(request)
        if taken:
            pkey = self._port.pkeys.answering(request.pkey)
            way = answered(smp, request.slid)
            if is_local:
                self._stack.take(_with(request, smp))
            else:
                self._pass(smp, way, pkey, own=True, is_9b=request.is_9b)
        return None

    # --- onwards -------------------------------------------------------------------------------------------

    def _pass(self, smp: Smp, way: Next, pkey: int, *, own: bool, is_9b: bool = False) -> Drop | None:
        if way is SmpEnd.DISCARD:
            return Drop.MAD_ROUTE
        if isinstance(way, Out):
            packet = self._packet(smp, LID_PERMISSIVE, LID_PERMISSIVE, pkey, is_9b)
            return self._leave(packet, way.port_num, pkey)
        if way is SmpEnd.HERE:
            return self._loop_back(smp, LID_PERMISSIVE, LID_PERMISSIVE, pkey)
        lid = self._port.lid
        if own and self._port.has_lid(way.dlid):  # before a manager gives it a LID, that is 0
            return self._loop_back(smp, lid, way.dlid, pkey)
        packet = self._packet(smp, lid, way.dlid, pkey, is_9b)
        return self._port.send_built(packet, lid, way.dlid, pkey)

    def _loop_back(self, smp: Smp, slid: int, dlid: int, pkey: int) -> Drop | None:
        mad = bytes(smp)
        request = MadRequest(mad, MadHeader.parse(mad), slid, pkey, SC_MANAGEMENT, QP_SMI, dlid)
        return self._end_here(smp, request, self._own_num, is_local=True)

    def _is_own(self, dlid: int) -> bool:
        return dlid != LID_NONE and self._port.has_lid(dlid)

    def _packet(self, smp: Smp, slid: int, dlid: int, pkey: int, is_9b: bool) -> bytes:
        """Return an SMP in the form in which it came, or in which it was asked for."""
        mad, icrc = bytes(smp), self._port.icrc
        return build_answer_packet(slid, dlid, SC_MANAGEMENT, 0, pkey, QP_SMI, mad, icrc, is_9b=is_9b)

    def _leave(self, packet: bytes, port_num: int, pkey: int) -> Drop | None:
        """Send a packet out of one port; no route leads through an HFI."""
        if isinstance(self._port, SwitchPort0):
            return self._port.direct(packet, port_num)
        if port_num != self._own_num:
            return Drop.MAD_ROUTE
        return self._port.send_built(packet, LID_PERMISSIVE, LID_PERMISSIVE, pkey)


def _with(request: MadRequest, smp: Smp) -> MadRequest:
    """Return what arrived with the SMP as it is now."""
    mad = bytes(smp)
    return replace(request, mad=mad, header=MadHeader.parse(mad))
