"""The MAD stack of a port behind a umad device: requests with their responses, agents. Sans-IO: messages in and out.

The kernel repeats requests, matches responses, and does RMPP; what comes here is a message with the header of umad.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.errors import WireError
from hfi_sim.management.mad.agents import AgentHandler, AgentRegistration, AgentTable, Done, MadRequest
from hfi_sim.management.umad.abi import HEADER_SIZE, Registration, UmadError, UmadHeader, needs_gid
from hfi_sim.wire.mad.header import RESPONSE_BIT, TID, Mad, MadClass, MadHeader, Method, mad_size
from opavnic.manager.port_files import PortReading
from vema.base.types import EMA_CLASS_VERSION, EMA_OUI
from vema.em.desired.election import ELECTION_CLASS, ELECTION_OUI

log = logging.getLogger("opavnic.manager")

_LOW_TID: Final = 0xFFFFFFFF
_QP_GSI: Final = 1
_OPA_VERSION: Final = 0x80
_IB_VERSION: Final = 2
_HEADERS: Final = 36
"""The least that the kernel takes of a MAD."""
_MAX_MS: Final = 0x7FFFFFFF

AGENTS: Final = (
    Registration(_QP_GSI, MadClass.EMA, EMA_CLASS_VERSION, frozenset({Method.TRAP}), EMA_OUI, 0, False),
    Registration(_QP_GSI, MadClass.SUBN_ADM, _OPA_VERSION, frozenset({Method.REPORT}), None, 1, False),
    Registration(_QP_GSI, MadClass.SUBN_ADM, _IB_VERSION, frozenset({Method.REPORT}), None, 1, False),
    Registration(_QP_GSI, ELECTION_CLASS, _OPA_VERSION, frozenset({Method.SEND}), ELECTION_OUI, 0, False),
)
"""The agents of an EM at the device: traps of agents, reports of subnet administration, heartbeats of other EMs."""


@dataclass(slots=True)
class TransportCounters:
    """What has passed."""

    sent: int = 0
    received: int = 0
    timed_out: int = 0
    foreign: int = 0
    """MADs that no request or agent awaited, or that are malformed."""


class UmadTransport:
    """A `vema.em.service.interfaces.MadTransport`."""

    def __init__(self, clock: Clock, port: Callable[[], PortReading]) -> None:
        """Begin without a device: requests are not answered until there is one. Args: port: returns it as it is."""
        self.counters = TransportCounters()
        self._clock = clock
        self._port = port
        self._write: Callable[[bytes], None] | None = None
        self._agent_of: Mapping[tuple[int, int], int] = {}
        self._agents = AgentTable()
        self._open: dict[int, tuple[int, Done]] = {}
        """Class and receiver of the response, by transaction id."""
        self._tid = 0

    # --- the device ----------------------------------------------------------------------------------------

    def connect(self, write: Callable[[bytes], None], numbers: Sequence[int]) -> None:
        """Go on with a device. Args: numbers: of the AGENTS there."""
        self._write = write
        self._agent_of = {
            (agent.mgmt_class, agent.class_version): number
            for agent, number in zip(AGENTS, numbers, strict=True)
        }

    def disconnect(self) -> None:
        """Go on without a device: no open request is answered any more."""
        self._write = None
        given_up, self._open = list(self._open.values()), {}
        for _, done in given_up:
            done(None)

    @property
    def open_requests(self) -> int:
        """Requests that wait for their response."""
        return len(self._open)

    # --- sending -------------------------------------------------------------------------------------------

    def submit(
        self, dlid: int, mad: Mad, done: Done, *, timeout_s: float = 1.0, retries: int = 3, sl: int = 0
    ) -> int:
        """Send a request with a fresh transaction id; call `done` once, with the response or None."""
        while True:
            self._tid = self._tid % _LOW_TID + 1
            if self._tid not in self._open:
                break
        tid = self._tid
        if self._write is None:
            self._clock.call_later(timeout_s * (1 + retries), done, None)
            return tid
        self._open[tid] = mad.header.mgmt_class, done
        timeout_ms = min(max(1, round(timeout_s * 1000)), _MAX_MS)
        self._send(dlid, mad.build(tid), sl, timeout_ms, retries)
        return tid

    def send(self, dlid: int, mad: bytes, *, sl: int = 0) -> None:
        """Send one MAD without waiting for a response."""
        self._send(dlid, mad, sl, 0, 0)

    def _send(self, dlid: int, mad: bytes, sl: int, timeout_ms: int, retries: int) -> None:
        agent = self._agent_of.get((mad[1], mad[2]))
        if self._write is None or agent is None:
            return
        port = self._port()
        header = UmadHeader(
            agent_id=agent,
            timeout_ms=timeout_ms,
            retries=retries,
            length=len(mad),
            lid=dlid,
            sl=sl,
            pkey_index=port.pkey_index,
        )
        least = max(_HEADERS, mad_size(mad[0]))
        head = header.build(with_pkey=True, with_gid=needs_gid(port.lid))
        self.counters.sent += 1
        self._write(head + mad.ljust(least, b"\0"))

    def refused(self, message: bytes, error: OSError) -> None:
        """Take back a message that the device has not taken; its request has no response."""
        lid = UmadHeader.parse(message, with_pkey=True).lid
        log.debug("[%s] a MAD to LID %#x is refused: %s", self._port().name, lid, error)
        mad = message[HEADER_SIZE:]
        if mad[3] & RESPONSE_BIT:
            return
        self._unanswered(int.from_bytes(mad[TID]))

    # --- receiving -----------------------------------------------------------------------------------------

    def register_agent(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], handler: AgentHandler
    ) -> AgentRegistration:
        """Pass MADs of a class with certain methods to `handler`; the device has to be asked for them by AGENTS.

        Raises:  FabricError: they have a handler already.
        """
        agent = AgentRegistration(mgmt_class, oui, frozenset(methods), handler)
        self._agents.register(agent)
        return agent

    def unregister_agent(self, registration: AgentRegistration) -> None:
        """End a registration."""
        self._agents.unregister(registration)

    def take(self, message: bytes) -> None:
        """Take a message from the device: a response, a request that was not answered, or a MAD for an agent."""
        self.counters.received += 1
        try:
            umad = UmadHeader.parse(message, with_pkey=True)
            mad = message[HEADER_SIZE:]
            header = MadHeader.parse(mad)
        except (UmadError, WireError):
            self.counters.foreign += 1
            return
        if umad.status:
            self.counters.timed_out += umad.status == errno.ETIMEDOUT
            self._unanswered(header.tid)
        elif header.method & RESPONSE_BIT and header.method != Method.REPORT_RESP:
            mgmt_class, done = self._open.get(header.tid & _LOW_TID, (None, None))
            if done is None or mgmt_class != header.mgmt_class:
                self.counters.foreign += 1
                return
            del self._open[header.tid & _LOW_TID]
            done(Mad(header, bytes(mad[MadHeader.SIZE :])))
        else:
            self._unsolicited(umad, header, mad)

    def _unanswered(self, tid: int) -> None:
        _, done = self._open.pop(tid & _LOW_TID, (None, None))
        if done is not None:
            done(None)

    def _unsolicited(self, umad: UmadHeader, header: MadHeader, mad: bytes) -> None:
        agent = self._agents.of(header, mad)
        if agent is None:
            self.counters.foreign += 1
            return
        pkeys = self._port().pkeys
        pkey = pkeys[umad.pkey_index] if umad.pkey_index < len(pkeys) else 0
        request = MadRequest(mad, header, umad.lid, pkey, umad.sl, umad.qpn)
        answer = agent.handler(request.whole())
        if isinstance(answer, bytes):
            self._send(umad.lid, answer, umad.sl, 0, 0)
