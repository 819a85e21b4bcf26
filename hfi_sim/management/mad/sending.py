"""How MADs leave a port: in 16B packets, in 9B packets to those that speak so, or within the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.types import PKEY_LIMITED_MANAGEMENT, SC_MANAGEMENT
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.management.mad.agents import MadRequest, unsupported
from hfi_sim.management.mad.sends import Where
from hfi_sim.wire.mad.fm_packet import build_answer_packet

if TYPE_CHECKING:
    from hfi_sim.nodes.end_port import EndPort

QP_SMI: Final = 0
QP_GSI: Final = 1


class MadSender:
    """Builds the packets of one port's MADs, and sends them."""

    def __init__(
        self,
        port: EndPort,
        clock: Clock,
        counters: PacketCounters,
        receive: Callable[[EndPort, bytes, BufferToken | None], object],
    ) -> None:
        """Args:  counters: of MADs that have no service channel. receive: takes what the port sends to itself."""
        self._port = port
        self._clock = clock
        self._counters = counters
        self._receive = receive
        self._peers_of_9b: set[int] = set()
        """LIDs, of 16 bits, whose last MAD to queue pair 1 came as a 9B packet: what goes to them does likewise."""
        self.sent = 0
        """MADs sent, retries included."""

    def answers_like(self, slid: int, *, is_9b: bool) -> None:
        """Send to the sender of a packet in the form that it has."""
        (self._peers_of_9b.add if is_9b else self._peers_of_9b.discard)(slid)

    def send(self, where: Where, mad: bytes) -> Drop | None:
        """Send a MAD; return why it did not leave, or None."""
        port = self._port
        slid = port.lid
        dlid, sl, dest_qp, asked_pkey, is_9b = where
        is_9b = is_9b or (dest_qp == QP_GSI and dlid in self._peers_of_9b)
        pkey = port.pkeys.management if asked_pkey is None else asked_pkey
        sc = SC_MANAGEMENT if dest_qp == QP_SMI else port.settings.sc_of(sl)
        if sc is None:
            self._counters.in_packets += 1
            self._counters.drop(Drop.MAD_SL)
            return Drop.MAD_SL
        packet = build_answer_packet(slid, dlid, sc, sl, pkey, dest_qp, mad, port.icrc, is_9b=is_9b)
        self.sent += 1
        if port.has_lid(dlid) and port.pkeys.may_send(pkey):
            # a port asks itself within the host, as in hfi1: without a link, in any state, a LID of 0 included
            self._clock.call_soon(self._receive, port, packet, None)
            return None
        return port.send_built(packet, slid, dlid, pkey)

    def answer(self, request: MadRequest, answer: bytes, pkey: int | None = None) -> None:
        """Send something to the sender of a request, in the form in which that came.

        Args:  pkey: None: the one that answers the request's.
        """
        pkey = self._port.pkeys.answering(request.pkey) if pkey is None else pkey
        where = Where(request.slid, request.sl, request.src_qp, pkey, request.is_9b)
        self.send(where, answer)

    def answer_unsupported(self, request: MadRequest) -> None:
        """Say that no agent is there, where that is said at all; with the limited P_Key, as hfi1."""
        if (answer := unsupported(request)) is not None:
            pkeys = self._port.pkeys
            limited = pkeys.may_send(PKEY_LIMITED_MANAGEMENT)
            self.answer(request, answer, PKEY_LIMITED_MANAGEMENT if limited else pkeys.management)
