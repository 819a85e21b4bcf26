"""The MAD stack of a port: agents registered for a class, requests with retries, responses to their sender."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfi_sim.clock import Clock, TimerHandle
from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.errors import FabricError, MadTimeoutError, WireError
from hfi_sim.mad.header import (
    DATA_OFFSET_VENDOR,
    RESPONSE_BIT,
    MadHeader,
    Method,
    build_fm_packet,
    is_vendor_class,
    oui_of,
    parse_fm_payload,
)
from hfi_sim.mad.transactions import Done, TransactionTable
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import pkey_of, sc_of, slid_of
from hfi_sim.wire.packet import strip

if TYPE_CHECKING:
    from hfi_sim.hfi import HfiPort

log = logging.getLogger("hfi_sim.mad")

QP_SMI = 0
QP_GSI = 1
BASE_VERSIONS = (1, 0x80)


@dataclass(frozen=True, slots=True)
class MadRequest:
    """A MAD that arrived, with what the port knows of its sender."""

    mad: bytes
    header: MadHeader
    slid: int
    pkey: int
    sc: int
    src_qp: int


AgentHandler = Callable[[MadRequest], bytes | None]
"""Takes a MAD; a returned MAD goes back to the sender as the response."""


@dataclass(frozen=True, slots=True)
class AgentRegistration:
    """An agent: the class, the OUI (vendor classes only) and the methods that it takes."""

    mgmt_class: int
    oui: bytes | None
    methods: frozenset[int]
    handler: AgentHandler


class MadStack:
    """Queue pairs 0 and 1 of one HFI port."""

    def __init__(self, port: HfiPort, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._agents: dict[tuple[int, bytes | None, int], AgentRegistration] = {}
        self._transactions = TransactionTable()
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._next_tid = 1
        self.sent = 0
        """MADs sent, retries included."""
        self.counters = PacketCounters()
        """MADs received, delivered to an agent or a waiting request, dropped."""
        port.register_l4(L4.FM, self._receive)

    # --- agents --------------------------------------------------------------------------------------------

    def register_agent(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], handler: AgentHandler
    ) -> AgentRegistration:
        """Give MADs of a class (and an OUI of 3 bytes, for vendor classes) and of `methods` to `handler`.

        Raises:  FabricError: another agent has one of these methods.
        """
        registration = AgentRegistration(mgmt_class, oui, frozenset(methods), handler)
        for method in registration.methods:
            if (mgmt_class, oui, method) in self._agents:
                raise FabricError(
                    f"{self._port.name}: method {method:#04x} of class {mgmt_class:#04x} already has an agent"
                )
        for method in registration.methods:
            self._agents[mgmt_class, oui, method] = registration
        return registration

    def unregister_agent(self, registration: AgentRegistration) -> None:
        """Take an agent off; harmless when it is gone already."""
        for method in registration.methods:
            key = (registration.mgmt_class, registration.oui, method)
            if self._agents.get(key) is registration:
                del self._agents[key]

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
        mad: bytes,
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
        header = MadHeader.parse(mad)
        tid = header.tid
        if tid == 0:
            tid = self.new_tid()
            mad = mad[:8] + tid.to_bytes(8, "big") + mad[16:]
        packet = self._packet(dlid, mad, sl, dest_qp, pkey)
        key = (dlid, tid, header.mgmt_class)
        self._transactions.begin(self._clock.time(), key, packet, timeout_s, retries, done)
        self._transmit(packet)
        self._arm()
        return tid

    async def request(
        self,
        dlid: int,
        mad: bytes,
        *,
        timeout_s: float = 1.0,
        retries: int = 3,
        sl: int = 0,
        pkey: int | None = None,
    ) -> bytes:
        """Send a request and wait for its response.

        Raises:  MadTimeoutError: no response within timeout_s, 1 + retries times.
        """
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def done(response: bytes | None) -> None:
            if not future.done():
                future.set_result(response)

        tid = self.submit(dlid, mad, done, timeout_s=timeout_s, retries=retries, sl=sl, pkey=pkey)
        try:
            response = await future
        finally:
            self._transactions.forget((dlid, tid, mad[1]))
        if response is None:
            raise MadTimeoutError(
                f"{self._port.name}: no response from LID {dlid:#x} to attribute "
                f"{int.from_bytes(mad[16:18], 'big'):#06x} within {timeout_s:g} s, {1 + retries} tries"
            )
        return response

    def new_tid(self) -> int:
        """Return a transaction id that no open request of this stack bears."""
        tid = self._next_tid
        self._next_tid += 1
        return tid

    def _packet(self, dlid: int, mad: bytes, sl: int, dest_qp: int, pkey: int | None) -> bytes:
        port = self._port
        return build_fm_packet(
            slid=port.lid,
            dlid=dlid,
            sc=sl,
            pkey=port.pkeys.management if pkey is None else pkey,
            src_qp=dest_qp,
            dest_qp=dest_qp,
            mad=mad,
            icrc=port.icrc,
        )

    def _transmit(self, packet: bytes) -> Drop | None:
        self.sent += 1
        return self._port.send(packet)

    def _arm(self) -> None:
        deadline = self._transactions.next_deadline()
        if self._timer is not None:
            if deadline is not None and deadline >= self._timer_at:
                return  # the timer fires early enough; it will arm itself again
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer_at = deadline
            self._timer = self._clock.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for packet in self._transactions.expire(self._clock.time()):
            self._transmit(packet)
        self._arm()

    # --- receiving -----------------------------------------------------------------------------------------

    def _receive(self, port: HfiPort, packet: bytes) -> Drop | None:
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
        slid = slid_of(packet)
        if header.method & RESPONSE_BIT or header.method == Method.TRAP_REPRESS:
            key = (slid, header.tid, header.mgmt_class)
            if self._transactions.complete(key, mad):
                return None
            if header.method & RESPONSE_BIT:
                return Drop.MAD_UNMATCHED
        oui = oui_of(mad) if is_vendor_class(header.mgmt_class) else None
        registration = self._agents.get((header.mgmt_class, oui, header.method))
        if registration is None:
            return Drop.MAD_NO_AGENT
        request = MadRequest(mad, header, slid, pkey_of(packet), sc_of(packet), fm.src_qp)
        response = registration.handler(request)
        if response is not None:
            pkey = self._port.pkeys.answering(request.pkey)  # in the partition of the request
            self.send(slid, response, sl=request.sc, dest_qp=fm.src_qp, pkey=pkey)
        return None
