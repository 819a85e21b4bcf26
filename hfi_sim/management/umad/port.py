"""One umad device: the MADs of all programs that have it open. Sans-IO: MADs and `now` in, MADs and a deadline out.

A request gets a transaction id of which the upper half is its agent's: thereby its response finds the way back. It is
repeated until the response comes or the program's retries are used up; then it comes back with status ETIMEDOUT.

Source: drivers/infiniband/core/user_mad.c, mad.c and mad_rmpp.c of Linux.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from hfi_sim.base.counters import Drop
from hfi_sim.base.deadlines import Timers
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.sending import QP_SMI
from hfi_sim.management.mad.transfers import ACK_S, MAX_MESSAGE, Arrivals, MessageKey
from hfi_sim.management.umad.abi import UmadError, UmadHeader
from hfi_sim.management.umad.agents import AgentRegistry, IsTaken, ProgramAgent
from hfi_sim.management.umad.file import UmadFile
from hfi_sim.wire.mad.header import RESPONSE_BIT, SMP_CLASSES, TID, MadHeader, Method, RmppHeader, mad_size
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, RmppType, Segmented, data_offset, has_rmpp, rmpp_of
from hfi_sim.wire.mad.smp_header import peer_of

if TYPE_CHECKING:
    from hfi_sim.nodes.end_port import EndPort

MAX_WAITING: Final = 16 << 20
"""Bytes of MADs of one file that may wait for their responses or acknowledgements."""
MAX_OUTGOING: Final = 1024
"""MADs that wait to be sent, beyond which nothing is repeated."""
MAX_FILES: Final = 256
"""Times that the device may be open."""
_ANYBODY: Final = 0
MAX_TIMEOUT_S: Final = 24 * 3600.0
"""What longer timeouts of programs are taken for."""


class OutgoingUmad(NamedTuple):
    """A MAD to send."""

    mad: bytes
    dlid: int
    sl: int
    qpn: int
    pkey: int


_SendKey = tuple[int, int, int]
"""Transaction id, class, and of a response the LID of the requester: two requesters may have chosen one id."""


@dataclass(slots=True)
class _Send:
    """A request that waits for its response, or a message that waits for acknowledgements."""

    agent: ProgramAgent
    header: UmadHeader
    as_written: bytes
    """The header in bytes."""
    mad_header: bytes
    outgoing: OutgoingUmad
    retries_left: int
    size: int
    """Bytes that it counts for among what its file has waiting."""
    segments: Segmented | None


class UmadPort:
    """The device."""

    def __init__(self, facts: EndPort, is_taken: IsTaken) -> None:
        """Make it for a port. Args:  is_taken: whether methods have an agent in this process already."""
        self.outgoing: deque[OutgoingUmad] = deque()
        """MADs to send, in order; the caller takes them."""
        self.files: set[UmadFile] = set()
        self._facts = facts
        self._agents = AgentRegistry(is_taken)
        self._sends: dict[_SendKey, _Send] = {}
        self._arrivals = Arrivals()
        self._send_timers: Timers[_SendKey] = Timers()
        self.on_work: Callable[[], None] = lambda: None
        """Called when `outgoing` or the deadline may have changed, but by `expire`."""

    # --- for files -----------------------------------------------------------------------------------------

    def open(self) -> UmadFile:
        """Open the device once more. Raises: UmadError: ENFILE: it is open too often."""
        if len(self.files) >= MAX_FILES:
            raise UmadError(errno.ENFILE, f"{MAX_FILES} files are open")
        file = UmadFile(self, self._agents)
        self.files.add(file)
        return file

    def closed(self, file: UmadFile) -> None:
        """Forget a file."""
        self.files.discard(file)

    def forget(self, agent: ProgramAgent) -> None:
        """Drop what an agent that is gone still waits for."""
        for key, send in list(self._sends.items()):
            if send.agent is agent:
                self._end_send(key)

    def send(
        self, now: float, agent: ProgramAgent, header: UmadHeader, as_written: bytes, message: bytes
    ) -> None:
        """Send what a program has written: a MAD, or an RMPP message of an agent that leaves the segments to us.

        Args:    as_written: the header as bytes, which come back if no response does. message: at least 36 bytes.
        Raises:  UmadError: EINVAL: too long, or a request with the transaction id of one that still waits. ENOMEM: too
                 much of this file waits for responses.
        """
        size = mad_size(message[0])
        mgmt_class = message[1]
        if agent.asked.rmpp_version and not has_rmpp(mgmt_class):
            raise UmadError(errno.EINVAL, f"class {mgmt_class:#04x} has no RMPP, its agent has")
        if len(message) < data_offset(mgmt_class):
            raise UmadError(
                errno.EINVAL, f"{len(message)} bytes, class {mgmt_class:#04x} has a longer header"
            )
        rmpp = rmpp_of(message)
        in_segments = agent.kernel_rmpp and has_rmpp(mgmt_class) and rmpp.active
        if len(message) > (MAX_MESSAGE if in_segments else size):
            raise UmadError(errno.EINVAL, f"a message of {len(message)} bytes is too long")
        if not _is_response(message):
            low = message[TID][4:]
            message = message[: TID.start] + agent.hi_tid.to_bytes(4, "big") + low + message[TID.stop :]
        dlid = self._facts.lid if header.lid == LID_PERMISSIVE else header.lid
        if mgmt_class in SMP_CLASSES:
            dlid = peer_of(message[:size].ljust(size, b"\0"), dlid)
        key = int.from_bytes(message[TID]), mgmt_class, dlid if _is_response(message) else _ANYBODY
        waits = header.timeout_ms > 0  # the kernel lets a response wait as well, although nothing answers it
        if key in self._sends:
            raise UmadError(errno.EINVAL, f"transaction id {key[0]:#x} is in use")
        segments = Segmented(message) if in_segments and rmpp.type == RmppType.DATA else None
        if (waits or segments) and agent.owner.waiting_bytes + max(len(message), size) > MAX_WAITING:
            raise UmadError(errno.ENOMEM, f"{agent.owner.waiting_bytes} bytes wait for responses")
        outgoing = OutgoingUmad(
            message[:size].ljust(size if mgmt_class in SMP_CLASSES else 0, b"\0"),
            dlid,
            header.sl,
            header.qpn & 0xFFFFFF,
            self._pkey_at(header.pkey_index),
        )
        if waits or segments:
            self._sends[key] = send = _Send(
                agent,
                header,
                as_written,
                message[: MadHeader.SIZE],
                outgoing,
                header.retries,
                max(len(message), size),
                segments,
            )
            agent.owner.waiting_bytes += send.size
        if segments:
            self._send_segments(now, key, send)
        else:
            self.outgoing.append(outgoing)
            if waits:
                self._send_timers.set(key, now + _timeout_s(header))
        self.on_work()

    def _pkey_at(self, index: int) -> int:
        entries = self._facts.pkeys.entries
        return entries[index] if index < len(entries) else 0

    def _send_segments(self, now: float, key: _SendKey, send: _Send) -> None:
        assert send.segments is not None  # noqa: S101 - the callers have looked
        for segment in send.segments.due():
            self.outgoing.append(send.outgoing._replace(mad=segment))
        patience_s = min(ACK_S, _timeout_s(send.header)) if send.header.timeout_ms else ACK_S
        self._send_timers.set(key, now + patience_s)

    def _end_send(self, key: _SendKey) -> None:
        send = self._sends.pop(key, None)
        if send is not None:
            send.agent.owner.waiting_bytes -= send.size
        self._send_timers.cancel(key)

    # --- from the fabric -----------------------------------------------------------------------------------

    def receive(self, now: float, request: MadRequest) -> Drop | None:
        """Take a MAD that has no other receiver on the port; return why it was dropped, or None."""
        size = mad_size(request.header.base_version)
        mad = request.mad[:size].ljust(size, b"\0")
        header = request.header
        is_response = _is_response(mad)
        agent = self._agents.of_response(header) if is_response else self._agents.of_request(header, mad)
        if agent is None:
            return Drop.MAD_UNMATCHED if is_response else Drop.MAD_NO_AGENT
        if agent.asked.qpn == QP_SMI and header.mgmt_class not in SMP_CLASSES:
            return Drop.MAD_QP  # its request left from queue pair 0, and that takes subnet management only
        rmpp = rmpp_of(mad) if has_rmpp(header.mgmt_class) else None
        if rmpp is not None and rmpp.active and agent.kernel_rmpp:
            drop = self._receive_rmpp(now, agent, request, mad, rmpp)
            self.on_work()
            return drop
        if is_response and not self._is_answer(request):
            if rmpp is None or not rmpp.active or agent.kernel_rmpp:
                return Drop.MAD_UNMATCHED
        elif is_response:
            self._end_send((header.tid, header.mgmt_class, _ANYBODY))
        return self._deliver(agent, request, request.mad[:size])

    def _is_answer(self, request: MadRequest) -> bool:
        """Return whether a program waits for a response, from where it comes."""
        send = self._sends.get((request.header.tid, request.header.mgmt_class, _ANYBODY))
        return send is not None and send.outgoing.dlid == request.slid and send.header.timeout_ms > 0

    def _deliver(self, agent: ProgramAgent, request: MadRequest, message: bytes) -> Drop | None:
        header = UmadHeader(
            agent_id=agent.id,
            qpn=request.src_qp,
            lid=request.slid,
            sl=request.sl,
            path_bits=request.dlid & (1 << self._facts.lmc) - 1,
            pkey_index=self._index_of(request.pkey),
        )
        return None if agent.owner.queue(header, message) else Drop.MAD_UNREAD

    def _index_of(self, pkey: int) -> int:
        """Return the place of a P_Key in the port's table: the same, or that of its partition."""
        entries = self._facts.pkeys.entries
        for wanted, mask in ((pkey, 0xFFFF), (pkey & 0x7FFF, 0x7FFF)):
            for index, entry in enumerate(entries):
                if entry & mask == wanted:
                    return index
        return 0

    # --- RMPP ----------------------------------------------------------------------------------------------

    def _receive_rmpp(
        self, now: float, agent: ProgramAgent, request: MadRequest, mad: bytes, rmpp: RmppHeader
    ) -> Drop | None:
        if rmpp.version != RMPP_VERSION or len(mad) < data_offset(mad[1]):
            return Drop.MAD_MALFORMED
        if rmpp.type == RmppType.DATA:
            return self._receive_segment(now, agent, request, mad)
        header = request.header
        is_of_request = _is_response(
            mad
        )  # the methods of a message and its acknowledgement differ by the bit
        key = header.tid, header.mgmt_class, _ANYBODY if is_of_request else request.slid
        send = self._sends.get(key)
        if send is None or send.segments is None or send.outgoing.dlid != request.slid:
            return Drop.MAD_UNMATCHED
        if rmpp.type != RmppType.ACK:
            self._end_send(key)  # the program hears nothing of it from the kernel either
        elif send.segments.acknowledge(rmpp):
            send.retries_left = send.header.retries
            if not send.segments.complete:
                self._send_segments(now, key, send)
            elif is_of_request and send.header.timeout_ms:
                self._send_timers.set(key, now + _timeout_s(send.header))
            else:
                self._end_send(key)
        return None

    def _receive_segment(
        self, now: float, agent: ProgramAgent, request: MadRequest, mad: bytes
    ) -> Drop | None:
        header = request.header
        key = MessageKey(request.slid, header.tid, header.mgmt_class, header.method)
        answers = _is_response(mad)
        if answers and key not in self._arrivals and not self._is_answer(request):
            return Drop.MAD_UNMATCHED
        arrival = self._arrivals.receive(now, key, mad)
        if arrival.answer is not None:
            pkey = self._facts.pkeys.answering(request.pkey)
            self.outgoing.append(OutgoingUmad(arrival.answer, request.slid, request.sl, 1, pkey))
        if arrival.refused:
            return Drop.MAD_UNMATCHED if arrival.answer is None else Drop.MAD_UNREAD
        send_key = header.tid, header.mgmt_class, _ANYBODY
        if arrival.message is not None:
            if answers:
                self._end_send(send_key)
            return self._deliver(agent, request, arrival.message)
        if answers and (send := self._sends.get(send_key)) is not None:
            self._send_timers.set(send_key, now + _timeout_s(send.header))
        return None

    # --- time ----------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `expire` is due next, or None."""
        deadlines = (self._send_timers.next(), self._arrivals.next_deadline())
        return min((when for when in deadlines if when is not None), default=None)

    def expire(self, now: float) -> None:
        """Repeat, or give back, what has waited long enough at `now`."""
        self._arrivals.expire(now)
        for send in self._send_timers.due(now):
            self._late(now, send)

    def _late(self, now: float, key: _SendKey) -> None:
        send = self._sends.get(key)
        if send is None:
            return
        if send.retries_left == 0:
            self._end_send(key)
            send.agent.owner.give_back(send.as_written, send.mad_header)
            return
        send.retries_left -= 1
        if len(self.outgoing) > MAX_OUTGOING:
            pass  # the fabric takes less than the programs repeat
        elif send.segments is not None and not send.segments.complete:
            send.segments.repeat()
            self._send_segments(now, key, send)
            return
        elif send.segments is None:
            self.outgoing.append(send.outgoing)
        self._send_timers.set(key, now + (_timeout_s(send.header) or ACK_S))


def _timeout_s(header: UmadHeader) -> float:
    return min(header.timeout_ms / 1000, MAX_TIMEOUT_S)


def _is_response(mad: bytes) -> bool:
    return bool(mad[3] & RESPONSE_BIT) or mad[3] == Method.TRAP_REPRESS
