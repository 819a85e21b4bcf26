"""The MAD stack of a port: requests with retries out, MADs to agents in. The shell around `mad.transactions`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from hfi_sim.clock import Clock
from hfi_sim.core_runner import CoreRunner
from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.engine.outputs import BufferToken
from hfi_sim.errors import FabricError, MadTimeoutError, WireError
from hfi_sim.mad.agents import AgentHandler, AgentRegistration, AgentTable, MadRequest
from hfi_sim.mad.header import (
    DATA_OFFSET_VENDOR,
    RESPONSE_BIT,
    SMP_CLASSES,
    MadHeader,
    Method,
    build_fm_packet,
    is_vendor_class,
    parse_fm_payload,
)
from hfi_sim.mad.message import Mad
from hfi_sim.mad.transactions import Done, Outgoing, TransactionTable
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import dlid_of, pkey_of, sc_of, slid_of
from hfi_sim.wire.packet import strip

if TYPE_CHECKING:
    from hfi_sim.end_port import EndPort

log = logging.getLogger("hfi_sim.mad")

QP_SMI: Final = 0
QP_GSI: Final = 1
BASE_VERSIONS: Final = (1, 0x80)
RestHandler = Callable[[MadRequest], Drop | None]
"""Takes a MAD that the stack has no use for; returns why it is dropped, or None."""
_TURN: Final = 32
"""Retries and timeouts after which the rest waits for the next iteration of the loop."""


class MadStack:
    """Queue pairs 0 and 1 of one HFI port, or of port 0 of a switch."""

    def __init__(self, port: EndPort, clock: Clock) -> None:
        self._port = port
        self._agents = AgentTable()
        self._transactions = TransactionTable()
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} MAD stack",
            step=self._step,
            deadline=self._transactions.next_deadline,
            on_timer=self._transactions.expire,
            turn=_TURN,
        )
        self._next_tid = 1
        self._take_rest: RestHandler | None = None
        self._take_smp: RestHandler | None = None
        self.sent = 0
        """MADs sent, retries included."""
        self.counters = PacketCounters()
        """MADs received, delivered to an agent or a waiting request, dropped."""
        port.register_l4(L4.FM, self._receive)

    def shutdown(self) -> None:
        """End: requests that wait hear nothing more, no timer is left, and nothing is sent or taken again."""
        self._runner.shutdown()

    # --- agents --------------------------------------------------------------------------------------------

    def register_agent(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], handler: AgentHandler
    ) -> AgentRegistration:
        """Give MADs of a class (and an OUI of 3 bytes, for vendor classes) and of `methods` to `handler`.

        Raises:  FabricError: another agent has one of these methods.
        """
        try:
            return self._agents.register(mgmt_class, oui, methods, handler)
        except FabricError as error:
            raise FabricError(f"{self._port.name}: {error}") from None

    def unregister_agent(self, registration: AgentRegistration) -> None:
        """Take an agent off; harmless when it is gone already."""
        self._agents.unregister(registration)

    def is_taken(self, mgmt_class: int, oui: bytes | None, methods: Iterable[int]) -> bool:
        """Return whether an agent has one of these methods of a class and OUI."""
        return self._agents.is_taken(mgmt_class, oui, methods)

    def give_rest_to(self, handler: RestHandler | None) -> None:
        """Pass what no agent takes, and responses to no request of this stack, to `handler`; None: drop them."""
        self._take_rest = handler

    def give_qp0_to(self, handler: RestHandler) -> None:
        """Pass MADs of subnet management, which queue pair 0 receives, to `handler`; it may give them to `take`."""
        self._take_smp = handler

    # --- sending -------------------------------------------------------------------------------------------

    def send(
        self, dlid: int, mad: bytes, *, sl: int = 0, dest_qp: int = QP_GSI, pkey: int | None = None
    ) -> Drop | None:
        """Send one MAD and expect nothing (a trap, a response); return why it did not leave, or None.

        Args:  mad: at most 2048 bytes; sl: service level, 0-31, which is the SC on this fabric;
               pkey: the port's management P_Key unless given.
        """
        return self._transmit(self._packet(dlid, mad, sl, dest_qp, pkey))

    def submit(
        self,
        dlid: int,
        mad: Mad,
        done: Done,
        *,
        timeout_s: float = 1.0,
        retries: int = 3,
        sl: int = 0,
        dest_qp: int = QP_GSI,
        pkey: int | None = None,
    ) -> int:
        """Send a request; `done` is called once, with the response or with None after the last timeout.

        Args:     mad: a transaction id of 0 is replaced by a fresh one.
        Returns:  the transaction id.
        Raises:   FabricError: the id is that of another open request to the same port.
        """
        header = mad.header
        tid = header.tid
        if tid == 0:
            tid = self.new_tid()
        packet = self._packet(dlid, mad.build(tid), sl, dest_qp, pkey)
        key = (dlid, tid, header.mgmt_class)
        self._transactions.begin(self._runner.time(), key, packet, timeout_s, retries, done)
        self._transmit(packet)
        self._runner.poll()
        return tid

    async def request(
        self,
        dlid: int,
        mad: Mad,
        *,
        timeout_s: float = 1.0,
        retries: int = 3,
        sl: int = 0,
        pkey: int | None = None,
    ) -> Mad:
        """Send a request and wait for its response.

        Raises:  MadTimeoutError: no response within timeout_s, 1 + retries times.
        """
        future: asyncio.Future[Mad | None] = asyncio.get_running_loop().create_future()

        def done(response: Mad | None) -> None:
            if not future.done():
                future.set_result(response)

        header = mad.header
        tid = self.submit(dlid, mad, done, timeout_s=timeout_s, retries=retries, sl=sl, pkey=pkey)
        try:
            response = await future
        finally:
            self._transactions.forget((dlid, tid, header.mgmt_class))
        if response is None:
            raise MadTimeoutError(
                f"{self._port.name}: no response from LID {dlid:#x} to attribute "
                f"{header.attr_id:#06x} within {timeout_s:g} s, {1 + retries} tries"
            )
        return response

    def new_tid(self) -> int:
        """Return a transaction id that no open request of this stack bears."""
        tid = self._next_tid
        self._next_tid += 1
        return tid

    def _packet(self, dlid: int, mad: bytes, sl: int, dest_qp: int, pkey: int | None) -> Outgoing:
        port = self._port
        slid = port.lid
        if pkey is None:
            pkey = port.pkeys.management
        packet = build_fm_packet(
            slid=slid,
            dlid=dlid,
            sc=sl,
            pkey=pkey,
            src_qp=dest_qp,
            dest_qp=dest_qp,
            mad=mad,
            icrc=port.icrc,
        )
        return Outgoing(packet, slid, dlid, pkey)

    def _transmit(self, packet: Outgoing) -> Drop | None:
        self.sent += 1
        return self._port.send_built(*packet)

    def _step(self) -> bool:
        packet = self._transactions.next_resend()
        if packet is not None:
            self._transmit(packet)
            return True
        done = self._transactions.next_given_up()
        if done is not None:
            done(None)
            return True
        return False

    # --- receiving -----------------------------------------------------------------------------------------

    def _receive(self, _port: EndPort, packet: bytes, _token: BufferToken | None) -> Drop | None:
        counters = self.counters
        counters.in_packets += 1
        counters.in_bytes += len(packet)
        drop = self._dispatch(packet)
        if drop is not None:
            counters.drop(drop)
        else:
            counters.out_packets += 1
            counters.out_bytes += len(packet)
        return None

    def _dispatch(self, packet: bytes) -> Drop | None:
        try:
            fm, mad = parse_fm_payload(strip(packet))
            header = MadHeader.parse(mad)
        except WireError as error:
            log.debug("[%s] malformed MAD: %s", self._port.name, error)
            return Drop.MAD_MALFORMED
        if fm.dest_qp not in (QP_SMI, QP_GSI):
            return Drop.MAD_QP
        if header.base_version not in BASE_VERSIONS or (
            is_vendor_class(header.mgmt_class) and len(mad) < DATA_OFFSET_VENDOR
        ):
            return Drop.MAD_MALFORMED
        request = MadRequest(
            mad, header, slid_of(packet), pkey_of(packet), sc_of(packet), fm.src_qp, dlid_of(packet)
        )
        is_smp = header.mgmt_class in SMP_CLASSES
        if is_smp != (fm.dest_qp == QP_SMI):
            return Drop.MAD_QP
        return self.take(request) if self._take_smp is None or not is_smp else self._take_smp(request)

    def take(self, request: MadRequest) -> Drop | None:
        """Give a MAD to the request that waits for it, to an agent, or to what takes the rest; return why to nobody."""
        mad, header, slid = request.mad, request.header, request.slid
        if header.method & RESPONSE_BIT or header.method == Method.TRAP_REPRESS:
            done = self._transactions.complete((slid, header.tid, header.mgmt_class))
            if done is not None:
                done(Mad(header, mad[MadHeader.SIZE :]))
                return None
            if header.method & RESPONSE_BIT:
                return Drop.MAD_UNMATCHED if self._take_rest is None else self._take_rest(request)
        handler = self._agents.handler_of(header, mad)
        if handler is None:
            return Drop.MAD_NO_AGENT if self._take_rest is None else self._take_rest(request)
        response = handler(request)
        if response is not None:
            pkey = self._port.pkeys.answering(request.pkey)  # in the partition of the request
            self.send(slid, response, sl=request.sc, dest_qp=request.src_qp, pkey=pkey)
        return None
