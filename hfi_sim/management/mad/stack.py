"""The MAD stack of a port: requests with retries out, MADs to agents in. The shell around `mad.sends`."""

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
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.management.mad.agents import (
    AgentHandler,
    AgentRegistration,
    AgentTable,
    Done,
    MadRequest,
)
from hfi_sim.management.mad.sending import QP_GSI, QP_SMI, MadSender
from hfi_sim.management.mad.sends import ACK_RETRIES, Send, SendEnd, SendKey, Sends, Where, unheeded
from hfi_sim.management.mad.transfers import (
    Arrivals,
    busy_answer,
    goes_in_segments,
    is_segmentable,
    key_of,
)
from hfi_sim.nodes.end_port import SERVICE_LEVELS
from hfi_sim.wire.lrh16b import L4, dlid_of, is_9b, pkey_of, sc_of, slid_of
from hfi_sim.wire.mad.fm_packet import parse_mad_packet
from hfi_sim.wire.mad.header import (
    RESPONSE_BIT,
    SMP_CLASSES,
    TID,
    Mad,
    MadClass,
    MadHeader,
    is_response,
)
from hfi_sim.wire.mad.rmpp import (
    Lone,
    RmppType,
    Segmented,
    acknowledged_again,
    fault_of,
    has_rmpp,
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
        self._sends = Sends()
        self._arrivals = Arrivals()
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} MAD stack",
            step=self._step,
            deadline=self._next_deadline,
            on_timer=self._expire,
            turn=_TURN,
            on_failure=lambda: self.on_failure(),
        )
        self.on_failure: Callable[[], object] = lambda: None
        """Called once, after the stack has failed."""
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
        of_program: bool = False,
    ) -> AgentRegistration:
        """Give MADs of a class (and an OUI of 3 bytes, for vendor classes) and of `methods` to `handler`.

        Args:    class_version: the only version of the class that the agent takes; None: any. rmpp: in a vendor
                 class, take MADs with the ACTIVE bit of RMPP for segments; in subnet administration they always are.
                 of_program: the agent stands for one of a program, which alone decides about RMPP.
        Raises:  FabricError: another agent has one of these methods.
        """
        rmpp = rmpp or (mgmt_class == MadClass.SUBN_ADM and not of_program)
        agent = AgentRegistration(
            mgmt_class, oui, frozenset(methods), handler, class_version, rmpp, of_program
        )
        try:
            self._agents.register(agent)
        except FabricError as error:
            raise FabricError(f"{self._port.name}: {error}") from None
        return agent

    def unregister_agent(self, registration: AgentRegistration) -> None:
        """Take an agent off; harmless when it is gone already."""
        self._agents.unregister(registration)

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
        return self._sender.send(Where(dlid, sl, dest_qp, pkey), mad)

    def transmit(self, where: Where, mad: bytes) -> Drop | None:
        """Send one MAD of any class, an SMP by queue pair 0; return why it did not leave, or None."""
        if mad[1] in SMP_CLASSES:
            return self._port.send_smp(mad, where.dlid, where.pkey or 0)
        return self._sender.send(where, mad)

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
        tid = header.tid or self.new_tid()
        message = mad.build(tid)
        where = Where(dlid, sl, dest_qp, pkey)
        size = len(message) if goes_in_segments(message) else 0
        if size and not self._sends.has_room(dlid, size):
            raise FabricError(f"{self._port.name}: too many long messages leave it already")

        def ended(outcome: MadRequest | SendEnd) -> None:
            if isinstance(outcome, MadRequest):
                done(Mad(outcome.header, outcome.mad[MadHeader.SIZE :]))
            else:
                done(None)

        content = Segmented(message) if size else message
        key = (dlid, tid, header.mgmt_class, False)
        joins = header.mgmt_class == MadClass.SUBN_ADM
        self.begin(Send(key, where, content, ended, timeout_s, retries, joins, size))
        return tid

    def begin(self, send: Send) -> None:
        """Send a MAD or a message, and wait for what is to come.

        Raises:   FabricError: something waits under its key. ValueError: it cannot be sent so.
        """
        self._sends.begin(self._runner.time(), send)
        if isinstance(send.content, bytes):
            try:
                self.transmit(send.where, send.content)
            except ValueError:
                self._sends.end(send.key)
                raise
        self._runner.poll()

    def waits(self, key: SendKey) -> bool:
        """Return whether something waits under a key."""
        return self._sends.get(key) is not None

    def forget(self, key: SendKey) -> None:
        """Wait no more for what was sent under a key; harmless where nothing waits."""
        self._sends.stop(key, SendEnd.FORGOTTEN)

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
            self.forget((dlid, tid, header.mgmt_class, False))
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

    def _respond(self, request: MadRequest, response: bytes, *, lone: bool) -> None:
        """Answer a request, in its partition; in segments where the response is a message of RMPP.

        Args:  lone: the response only repeats the RMPP header of the request.
        """
        pkey = self._port.pkeys.answering(request.pkey)
        where = Where(request.slid, request.sl, request.src_qp, pkey, request.is_9b)
        if not lone and not goes_in_segments(response):
            self._sender.send(where, response)
            return
        key = (request.slid, int.from_bytes(response[TID]), response[1], True)
        self._sends.stop(key, SendEnd.FORGOTTEN)
        if lone:
            self.begin(Send(key, where, Lone(response), unheeded, size=len(response)))
        elif self._sends.has_room(request.slid, len(response)):
            content = Segmented(response)
            self.begin(Send(key, where, content, unheeded, retries=ACK_RETRIES, size=len(response)))
        else:
            self._sender.send(where, busy_answer(response))

    def _next_deadline(self) -> float | None:
        times = (self._sends.next_deadline(), self._arrivals.next_deadline())
        return min([when for when in times if when is not None], default=None)

    def _expire(self, now: float) -> None:
        self._sends.expire(now)
        self._arrivals.expire(now)

    def _step(self) -> bool:
        leaving = self._sends.next_out()
        if leaving is not None:
            self.transmit(*leaving)
            return True
        ended = self._sends.next_given_up()
        if ended is not None:
            ended(SendEnd.TIMED_OUT)
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
        if is_active(mad) and has_rmpp(header.mgmt_class):
            return self._receive_rmpp(request)
        return self.take(request)

    def take(self, request: MadRequest, *, is_message: bool = False) -> Drop | None:
        """Deliver a MAD or a reassembled message to its waiter or agent; return the drop reason if there is neither."""
        header, slid, mad = request.header, request.slid, request.mad
        if is_response(header.method):
            send = self._sends.end((slid, header.tid, header.mgmt_class, False))
            if send is not None:
                return send.ended(request)
            if header.method & RESPONSE_BIT:
                return self._give_away(request)
        agent = self._agents.of(header, mad)
        if agent is None:
            drop = Drop.MAD_NO_AGENT if self._take_rest is None else self._take_rest(request)
            if drop is Drop.MAD_NO_AGENT:
                self._sender.answer_unsupported(request)
            return drop
        response = agent.handler(request if is_message or agent.of_program else request.whole())
        if response is None or isinstance(response, Drop):
            return response
        lone = agent.rmpp and is_active(response) and not is_segmentable(response)
        self._respond(request, response, lone=lone and rmpp_of(response).type == RmppType.DATA)
        return None

    def _receive_rmpp(self, request: MadRequest) -> Drop | None:
        """Take a segment of a message that this stack awaits, or an acknowledgement of one that it sends."""
        header, mad = request.header, request.whole().mad
        rmpp, now = rmpp_of(mad), self._runner.time()
        answers = is_response(header.method)
        agent = None if answers else self._agents.of(header, mad)
        sent = (request.slid, header.tid, header.mgmt_class, not answers)  # what it answers or acknowledges
        send = self._sends.get(sent)
        is_acked = send is not None and send.is_message
        is_awaited = agent.rmpp if agent is not None else answers and send is not None and send.joins
        key = key_of(request.slid, mad)
        if not (is_acked or is_awaited or key in self._arrivals):
            return self.take(request)
        if (fault := fault_of(rmpp)) is not None:
            if is_acked:
                self._sends.stop(sent, SendEnd.ABORTED)
            self._sender.answer(request, refusal(mad, RmppType.ABORT, fault))
            return Drop.MAD_UNMATCHED
        if rmpp.type != RmppType.DATA:
            if send is not None and is_acked:
                if self._sends.acknowledge(now, send, rmpp):
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
        if is_awaited and answers:
            self._sends.extend(now, sent)
        self._runner.poll()
        if arrival.message is None:
            return Drop.MAD_UNMATCHED if arrival.refused else None
        message = arrival.message
        reads_to_end = agent is not None and not agent.of_program and not is_segmentable(mad)
        if reads_to_end and len(message) < len(mad):
            message = mad  # such an agent reads its receive buffer to the end
        return self.take(replace(request, mad=message, header=MadHeader.parse(message)), is_message=True)

    def _give_away(self, request: MadRequest) -> Drop | None:
        return Drop.MAD_UNMATCHED if self._take_rest is None else self._take_rest(request)
