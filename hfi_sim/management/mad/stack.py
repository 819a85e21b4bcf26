"""The MAD stack of a port: requests with retries out, MADs to agents in. The shell around `mad.transactions`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.errors import FabricError, MadTimeoutError, WireError
from hfi_sim.base.precise_loop import loop_future
from hfi_sim.base.types import PKEY_LIMITED_MANAGEMENT
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.management.mad.agents import AgentHandler, AgentRegistration, AgentTable, MadRequest, unsupported
from hfi_sim.management.mad.sending import QP_GSI, QP_SMI, MadSender
from hfi_sim.management.mad.transactions import Done, TransactionTable
from hfi_sim.management.mad.transfers import (
    Arrivals,
    Departures,
    MessageKey,
    Where,
    busy_answer,
    goes_in_segments,
    is_segmentable,
    key_of,
)
from hfi_sim.nodes.end_port import SERVICE_LEVELS
from hfi_sim.wire.lrh16b import L4, dlid_of, is_9b, pkey_of, sc_of, slid_of
from hfi_sim.wire.mad.fm_packet import parse_mad_packet
from hfi_sim.wire.mad.header import RESPONSE_BIT, SMP_CLASSES, Mad, MadClass, MadHeader, Method
from hfi_sim.wire.mad.rmpp import (
    RMPP_END,
    RmppType,
    acknowledged_again,
    fault_of,
    is_active,
    refusal,
    rmpp_of,
)

if TYPE_CHECKING:
    from hfi_sim.nodes.end_port import EndPort

log = logging.getLogger("hfi_sim.management.mad")

BASE_VERSIONS: Final = (1, 0x80)
RestHandler = Callable[[MadRequest], Drop | None]
"""Takes a MAD that the stack has no use for; returns why it is dropped, or None."""
_TURN: Final = 32
"""Retries, segments and timeouts after which the rest waits for the next iteration of the loop."""


class MadStack:
    """Queue pairs 0 and 1 of one HFI port, or of port 0 of a switch."""

    def __init__(self, port: EndPort, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._agents = AgentTable()
        self._transactions = TransactionTable()
        self._arrivals = Arrivals()
        self._departures = Departures()
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} MAD stack",
            step=self._step,
            deadline=self._next_deadline,
            on_timer=self._expire,
            turn=_TURN,
        )
        self._next_tid = 1
        self._take_rest: RestHandler | None = None
        self._take_smp: RestHandler | None = None
        self._take_gsi: Callable[[bytes], Drop | None] | None = None
        self._gives_pma = False
        self._gives_smps = False
        self.counters = PacketCounters()
        """MADs received, delivered to an agent or a waiting request, dropped."""
        self._sender = MadSender(port, clock, self.counters, self._receive)
        port.register_l4(L4.FM, self._receive)

    @property
    def sent(self) -> int:
        """MADs sent, retries included."""
        return self._sender.sent

    def shutdown(self) -> None:
        """End: requests that wait hear nothing more, no timer is left, and nothing is sent or taken again."""
        self._runner.shutdown()

    def may_send(self, pkey: int) -> bool:
        """Return whether the port has a P_Key."""
        return self._port.pkeys.may_send(pkey)

    # --- agents --------------------------------------------------------------------------------------------

    def register_agent(
        self,
        mgmt_class: int,
        oui: bytes | None,
        methods: Iterable[int],
        handler: AgentHandler,
        *,
        class_version: int | None = None,
        rmpp: bool = False,
    ) -> AgentRegistration:
        """Give MADs of a class (and an OUI of 3 bytes, for vendor classes) and of `methods` to `handler`.

        Args:    class_version: the only version of the class that the agent takes; None: any. rmpp: in a vendor
                 class, take MADs with the ACTIVE bit of RMPP for segments; in subnet administration they always are.
        Raises:  FabricError: another agent has one of these methods.
        """
        agent = AgentRegistration(mgmt_class, oui, frozenset(methods), handler, class_version, rmpp)
        try:
            self._agents.register(agent)
        except FabricError as error:
            raise FabricError(f"{self._port.name}: {error}") from None
        return agent

    def unregister_agent(self, registration: AgentRegistration) -> None:
        """Take an agent off; harmless when it is gone already."""
        self._agents.unregister(registration)

    def is_taken(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], class_version: int | None = None
    ) -> bool:
        """Return whether an agent has one of these methods of a class and OUI, in a version of the class or in any."""
        return self._agents.is_taken(mgmt_class, oui, methods, class_version)

    def give_rest_to(self, handler: RestHandler | None) -> None:
        """Pass what no agent takes, and responses to no request of this stack, to `handler`; None: drop them."""
        self._take_rest = handler

    def give_gsi_to(
        self,
        taker: Callable[[bytes], Drop | None] | None,
        *,
        with_pma: bool = False,
        with_smps: bool = False,
    ) -> None:
        """Pass packets of queue pair 1 to `taker`, whole, as to a driver with a MAD stack of its own; None: end that.

        It returns why a packet is dropped, or None.

        Args:  with_pma: those of performance management, too; else they stay here, with the counters. with_smps: those
               of queue pair 0, too.
        """
        self._take_gsi = taker
        self._gives_pma = with_pma
        self._gives_smps = with_smps

    def give_qp0_to(self, handler: RestHandler) -> None:
        """Pass MADs of subnet management, which queue pair 0 receives, to `handler`; it may give them to `take`."""
        self._take_smp = handler

    # --- sending -------------------------------------------------------------------------------------------

    def send(
        self,
        dlid: int,
        mad: bytes,
        *,
        sl: int = 0,
        dest_qp: int = QP_GSI,
        pkey: int | None = None,
    ) -> Drop | None:
        """Send one MAD and expect nothing (a trap, a response); return why it did not leave, or None.

        Args:  mad: at most 2048 bytes; sl: service level, 0-31, of which the port has the service channel;
               pkey: the port's management P_Key unless given.
        """
        return self._sender.transmit(self._sender.packet(Where(dlid, sl, dest_qp, pkey), mad))

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

        A request or a response may be longer than a MAD where its class has RMPP: it travels in segments, and the
        timeout begins anew with each that comes.

        Args:     mad: a transaction id of 0 is replaced by a fresh one.
        Returns:  the transaction id.
        Raises:   FabricError: the id is that of another open request to the same port; or a message of several MADs,
                  and too many leave this port already.
        """
        header = mad.header
        tid = header.tid
        if tid == 0:
            tid = self.new_tid()
        message = mad.build(tid)
        key = (dlid, tid, header.mgmt_class)
        now = self._runner.time()
        if goes_in_segments(message):
            self._transactions.begin(now, key, None, timeout_s, retries, done)
            if not self._departures.begin(now, dlid, message, Where(dlid, sl, dest_qp, pkey)):
                self._transactions.forget(key)
                raise FabricError(
                    f"{self._port.name}: {len(self._departures)} long messages leave it already"
                )
        else:
            packet = self._sender.packet(Where(dlid, sl, dest_qp, pkey), message)
            self._transactions.begin(now, key, packet, timeout_s, retries, done)
            self._sender.transmit(packet)
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
        future = loop_future()

        def done(response: Mad | None) -> None:
            if not future.done():
                future.set_result(response)

        header = mad.header
        tid = self.submit(dlid, mad, done, timeout_s=timeout_s, retries=retries, sl=sl, pkey=pkey)
        try:
            response: Mad | None = await future
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

    def _respond(self, request: MadRequest, response: bytes) -> None:
        """Answer a request, in its partition; in segments where the response is a message of RMPP."""
        pkey = self._port.pkeys.answering(request.pkey)
        where = Where(request.slid, request.sl, request.src_qp, pkey, request.is_9b)
        if self._is_lone(request, response):
            self._departures.begin_lone(self._runner.time(), request.slid, response, where)
            self._runner.poll()
            return
        if goes_in_segments(response):
            if self._departures.begin(self._runner.time(), request.slid, response, where):
                self._runner.poll()
                return
            response = busy_answer(response)
        self._sender.transmit(self._sender.packet(where, response))

    def _next_deadline(self) -> float | None:
        parts = (self._transactions, self._arrivals, self._departures)
        return min([when for part in parts if (when := part.next_deadline()) is not None], default=None)

    def _expire(self, now: float) -> None:
        self._transactions.expire(now)
        self._arrivals.expire(now)
        self._departures.expire(now)

    def _step(self) -> bool:
        leaving = self._departures.next_segment()
        if leaving is not None:
            segment, where = leaving
            self._sender.transmit(self._sender.packet(where, segment))
            return True
        packet = self._transactions.next_resend()
        if packet is not None:
            self._sender.transmit(packet)
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
            fm, mad = parse_mad_packet(packet)
            header = MadHeader.parse(mad)
        except WireError as error:
            log.debug("[%s] malformed MAD: %s", self._port.name, error)
            return Drop.MAD_MALFORMED
        if fm.dest_qp not in (QP_SMI, QP_GSI):
            return Drop.MAD_QP
        slid, of_9b = slid_of(packet), is_9b(packet)
        if fm.dest_qp == QP_GSI:
            self._sender.answers_like(slid, is_9b=of_9b)
        is_given = self._gives_pma or header.mgmt_class != MadClass.PERFORMANCE
        if fm.dest_qp == QP_SMI:
            is_given = self._gives_smps
        if self._take_gsi is not None and is_given:
            return self._take_gsi(packet)
        if header.base_version not in BASE_VERSIONS:
            return Drop.MAD_MALFORMED
        sl = self._port.settings.sc_to_sl[sc_of(packet)] % SERVICE_LEVELS
        request = MadRequest(mad, header, slid, pkey_of(packet), sl, fm.src_qp, dlid_of(packet), is_9b=of_9b)
        is_smp = header.mgmt_class in SMP_CLASSES
        if is_smp != (fm.dest_qp == QP_SMI):
            return Drop.MAD_QP
        if is_smp and self._take_smp is not None:
            return self._take_smp(request)
        if is_active(mad) and self._has_rmpp(header, mad):
            return self._receive_rmpp(request)
        return self.take(request)

    def _has_rmpp(self, header: MadHeader, mad: bytes) -> bool:
        """Return whether this stack looks at the RMPP header of a MAD."""
        if is_segmentable(mad):
            return True
        agent = self._agents.of(header, mad)
        return agent is not None and agent.rmpp and len(mad) >= RMPP_END

    def _is_lone(self, request: MadRequest, response: bytes) -> bool:
        """Return whether an agent with RMPP answers with a MAD that repeats the RMPP header of the request."""
        if not is_active(response) or is_segmentable(response):
            return False
        return rmpp_of(response).type == RmppType.DATA and self._has_rmpp(request.header, request.mad)

    def take(self, request: MadRequest, *, is_message: bool = False) -> Drop | None:
        """Deliver a MAD or a reassembled message to its waiter or agent; return the drop reason if there is neither."""
        header, slid, mad = request.header, request.slid, request.mad
        if header.method & RESPONSE_BIT or header.method == Method.TRAP_REPRESS:
            done = self._transactions.complete((slid, header.tid, header.mgmt_class))
            if done is not None:
                done(Mad(header, mad[MadHeader.SIZE :]))
                return None
            if header.method & RESPONSE_BIT:
                return Drop.MAD_UNMATCHED if self._take_rest is None else self._take_rest(request)
        agent = self._agents.of(header, mad)
        if agent is None:
            drop = Drop.MAD_NO_AGENT if self._take_rest is None else self._take_rest(request)
            if drop is Drop.MAD_NO_AGENT:
                self._answer_unsupported(request)
            return drop
        response = agent.handler(request if is_message else request.whole())
        if response is not None:
            self._respond(request, response)
        return None

    def _answer_unsupported(self, request: MadRequest) -> None:
        if (answer := unsupported(request)) is not None:
            pkeys = self._port.pkeys  # hfi1 answers with the limited P_Key
            limited = pkeys.may_send(PKEY_LIMITED_MANAGEMENT)
            self._sender.answer(request, answer, PKEY_LIMITED_MANAGEMENT if limited else pkeys.management)

    def _receive_rmpp(self, request: MadRequest) -> Drop | None:
        """Take a segment of a message that this stack awaits, or an acknowledgement of one that it sends."""
        header, mad = request.header, request.whole().mad
        key = key_of(request.slid, mad)
        rmpp = rmpp_of(mad)
        now = self._runner.time()
        sends = key.reversed in self._departures
        if not (sends or key in self._arrivals or self._awaits(key, header, mad)):
            return self._give_away(request)
        if (fault := fault_of(rmpp)) is not None:
            self._departures.end(key.reversed)
            self._sender.answer(request, refusal(mad, RmppType.ABORT, fault))
            return Drop.MAD_UNMATCHED
        if rmpp.type != RmppType.DATA:
            if sends:
                if self._departures.handle(now, key.reversed, rmpp):
                    self._sender.answer(request, acknowledged_again(mad))
                self._runner.poll()
                return None
            if key in self._arrivals and rmpp.type != RmppType.ACK:
                self._arrivals.forget(key)
                return None
            return self._give_away(request)
        arrival = self._arrivals.receive(now, key, mad)
        if arrival.answer is not None:
            self._sender.answer(request, arrival.answer)
        self._transactions.extend(now, key[:3])
        self._runner.poll()
        if arrival.message is None:
            return Drop.MAD_UNMATCHED if arrival.refused else None
        message = arrival.message
        if not is_segmentable(mad) and len(message) < len(mad):
            message = mad  # such an agent reads its receive buffer to the end
        return self.take(replace(request, mad=message, header=MadHeader.parse(message)), is_message=True)

    def _awaits(self, key: MessageKey, header: MadHeader, mad: bytes) -> bool:
        """Return whether a message is for this stack: the response to a request, or a request to an agent."""
        if header.method & RESPONSE_BIT:
            return self._transactions.is_open(key[:3])
        return self._agents.of(header, mad) is not None

    def _give_away(self, request: MadRequest) -> Drop | None:
        return Drop.MAD_UNMATCHED if self._take_rest is None else self._take_rest(request)
