"""A umad device on a port of an HFI: the MADs of all programs that have it open.

A request gets a transaction id of which the upper half is its agent's: thereby its response finds the way back. The MAD
stack repeats it until the response comes or the program's retries are used up; then it comes back with ETIMEDOUT.

Source: drivers/infiniband/core/user_mad.c, mad.c and mad_rmpp.c of Linux.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import Final

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.management.mad.agents import AgentRegistration, MadRequest
from hfi_sim.management.mad.sending import QP_SMI
from hfi_sim.management.mad.sends import Send, SendEnd, SendKey, Where
from hfi_sim.management.mad.transfers import MAX_MESSAGE
from hfi_sim.management.umad.abi import Registration, UmadError, UmadHeader
from hfi_sim.management.umad.agents import ProgramAgent, check
from hfi_sim.management.umad.file import UmadFile
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.header import (
    METHOD_OFFSET,
    SMP_CLASSES,
    TID,
    MadHeader,
    is_response,
    is_vendor_class,
    mad_size,
)
from hfi_sim.wire.mad.rmpp import RmppType, Segmented, data_offset, has_rmpp, is_active, rmpp_of
from hfi_sim.wire.mad.smp_header import peer_of

MAX_WAITING: Final = 16 << 20
"""Bytes of MADs of one file that may wait for their responses or acknowledgements."""
MAX_FILES: Final = 256
"""Times that the device may be open."""
MAX_TIMEOUT_S: Final = 24 * 3600.0
"""What longer timeouts of programs are taken for."""
_ANYBODY: Final = 0
_NOBODY: Final = -1
_HI_TID_MASK: Final = 0xFFFFFFFF


class UmadService:
    """The device of one port, from its making until `close`."""

    def __init__(self, port: HfiPort) -> None:
        """Take the MADs of a port that no agent of this process takes."""
        self.port = port
        self.files: set[UmadFile] = set()
        """One for each time that a program has the device open."""
        self._agents: dict[int, tuple[ProgramAgent, AgentRegistration]] = {}
        """By the upper half of their transaction ids, with what stands for them in the MAD stack."""
        self._last_tid = 0
        port.mad.give_rest_to(self._take_rest)
        port.mad.on_failure = self._die

    def open(self) -> UmadFile:
        """Open the device once more. Raises: UmadError: ENFILE: it is open too often."""
        if len(self.files) >= MAX_FILES:
            raise UmadError(errno.ENFILE, f"{MAX_FILES} files are open")
        file = UmadFile(self)
        self.files.add(file)
        return file

    def close(self) -> None:
        """Take the device away: programs that have it open get errors."""
        self.port.mad.give_rest_to(None)
        self._die()

    def _die(self) -> None:
        for file in tuple(self.files):
            file.die()

    # --- for files -----------------------------------------------------------------------------------------

    def register(self, owner: UmadFile, id_: int, asked: Registration) -> ProgramAgent:
        """Enter an agent of a file.

        Raises:  UmadError: EINVAL, as the kernel says to a registration that makes no sense or whose methods are taken.
        """
        check(asked)
        agent = ProgramAgent(owner, id_, self._next_tid(), asked)
        try:
            registration = self.port.mad.register_agent(
                asked.mgmt_class,
                asked.oui if is_vendor_class(asked.mgmt_class) else None,
                asked.methods if asked.mgmt_class else (),
                partial(self._unsolicited, agent),
                class_version=asked.class_version,
                rmpp=agent.kernel_rmpp,
                of_program=True,
            )
        except FabricError as error:
            raise UmadError(errno.EINVAL, str(error)) from None
        self._agents[agent.hi_tid] = agent, registration
        return agent

    def _next_tid(self) -> int:
        while True:
            self._last_tid = self._last_tid + 1 & _HI_TID_MASK or 1
            if self._last_tid not in self._agents:
                return self._last_tid

    def unregister(self, agent: ProgramAgent) -> None:
        """Take an agent off, and drop what it still waits for."""
        _, registration = self._agents.pop(agent.hi_tid)
        self.port.mad.unregister_agent(registration)
        for key in tuple(agent.waiting.values()):
            self.port.mad.forget(key)

    def send(self, agent: ProgramAgent, header: UmadHeader, as_written: bytes, message: bytes) -> None:
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
        answers = is_response(message[METHOD_OFFSET])
        if not answers:
            low = message[TID][4:]
            message = message[: TID.start] + agent.hi_tid.to_bytes(4, "big") + low + message[TID.stop :]
        dlid = self.port.lid if header.lid == LID_PERMISSIVE else header.lid
        if mgmt_class in SMP_CLASSES:
            dlid = peer_of(message[:size].ljust(size, b"\0"), dlid)
        tid = int.from_bytes(message[TID])
        own_key = dlid if answers else _ANYBODY, tid, mgmt_class, answers
        if own_key in agent.waiting:
            raise UmadError(errno.EINVAL, f"transaction id {tid:#x} is in use")
        is_message = in_segments and rmpp.type == RmppType.DATA
        where = Where(dlid, header.sl, header.qpn & 0xFFFFFF, self._pkey_at(header.pkey_index))
        mad = message[:size].ljust(size if mgmt_class in SMP_CLASSES else 0, b"\0")
        if not (header.timeout_ms or is_message):
            self.port.mad.transmit(where, mad)
            return
        is_deaf = (
            agent.asked.qpn == QP_SMI and mgmt_class not in SMP_CLASSES
        )  # its queue pair takes SMPs only
        key = _NOBODY if is_deaf else dlid, tid, mgmt_class, answers
        if self.port.mad.waits(key):
            raise UmadError(errno.EINVAL, f"another has answered transaction {tid:#x}")
        waiting = max(len(message), size)
        if agent.owner.waiting_bytes + waiting > MAX_WAITING:
            raise UmadError(errno.ENOMEM, f"{agent.owner.waiting_bytes} bytes wait for responses")
        agent.waiting[own_key] = key
        agent.owner.waiting_bytes += waiting
        back = as_written, message[: MadHeader.SIZE]
        self.port.mad.begin(
            Send(
                key,  # the kernel lets a response wait as well, although nothing answers it
                where,
                Segmented(message) if is_message else mad,
                partial(self._ended, agent, own_key, waiting, back, header.timeout_ms > 0),
                min(header.timeout_ms / 1000, MAX_TIMEOUT_S),
                header.retries,
                joins=agent.kernel_rmpp and header.timeout_ms > 0,
            )
        )

    def _pkey_at(self, index: int) -> int:
        entries = self.port.pkeys.entries
        return entries[index] if index < len(entries) else 0

    def _ended(
        self,
        agent: ProgramAgent,
        own_key: SendKey,
        waiting: int,
        back: tuple[bytes, bytes],
        awaits: bool,
        outcome: MadRequest | SendEnd,
    ) -> Drop | None:
        """Note that something waits no more. Args:  back: what the program gets where no response has come."""
        del agent.waiting[own_key]
        agent.owner.waiting_bytes -= waiting
        if isinstance(outcome, MadRequest):
            return self._deliver(agent, outcome) if awaits else Drop.MAD_UNMATCHED
        if (
            outcome is SendEnd.TIMED_OUT
        ):  # of an end by the receiver the program hears nothing from the kernel either
            agent.owner.give_back(*back)
        return None

    # --- from the MAD stack --------------------------------------------------------------------------------

    def _unsolicited(self, agent: ProgramAgent, request: MadRequest) -> Drop | None:
        """Take a MAD for which an agent has registered; a response belongs to a request instead."""
        if is_response(request.header.method):
            return self._take_rest(request)
        return self._deliver(agent, request)

    def _take_rest(self, request: MadRequest) -> Drop | None:
        """Take a response that no request awaits: only a program that does RMPP itself gets it, if a segment."""
        header = request.header
        if not is_response(header.method):
            return Drop.MAD_NO_AGENT
        agent, _ = self._agents.get(header.tid >> 32, (None, None))
        if agent is None:
            return Drop.MAD_UNMATCHED
        if agent.asked.qpn == QP_SMI and header.mgmt_class not in SMP_CLASSES:
            return Drop.MAD_QP
        is_segment = has_rmpp(header.mgmt_class) and is_active(request.mad)
        return self._deliver(agent, request) if is_segment and not agent.kernel_rmpp else Drop.MAD_UNMATCHED

    def _deliver(self, agent: ProgramAgent, request: MadRequest) -> Drop | None:
        message = request.mad
        is_message = agent.kernel_rmpp and has_rmpp(message[1]) and is_active(message)
        header = UmadHeader(
            agent_id=agent.id,
            qpn=request.src_qp,
            lid=request.slid,
            sl=request.sl,
            path_bits=request.dlid & (1 << self.port.lmc) - 1,
            pkey_index=self._index_of(request.pkey),
        )
        taken = agent.owner.queue(header, message if is_message else message[: mad_size(message[0])])
        return None if taken else Drop.MAD_UNREAD

    def _index_of(self, pkey: int) -> int:
        """Return the place of a P_Key in the port's table: the same, or that of its partition."""
        entries = self.port.pkeys.entries
        for wanted, mask in ((pkey, 0xFFFF), (pkey & 0x7FFF, 0x7FFF)):
            for index, entry in enumerate(entries):
                if entry & mask == wanted:
                    return index
        return 0
