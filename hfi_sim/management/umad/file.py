"""One open umad file of a program: its agents, and the messages that it has not read."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hfi_sim.management.umad.abi import (
    ENABLE_PKEY,
    HEADER_SIZE,
    ID,
    OLD_HEADER_SIZE,
    REGISTER_AGENT,
    REGISTER_AGENT2,
    UNREGISTER_AGENT,
    Registration,
    UmadError,
    UmadHeader,
    with_status,
)
from hfi_sim.management.umad.agents import MAX_AGENTS, ProgramAgent
from hfi_sim.wire.mad.header import mad_size
from hfi_sim.wire.mad.rmpp import RMPP_END

if TYPE_CHECKING:
    from hfi_sim.management.umad.service import UmadService

MAX_UNREAD: Final = 16 << 20
"""Bytes of MADs that a program may leave unread; what comes beyond that is dropped."""


class UmadFile:
    """What a descriptor of a program stands for."""

    def __init__(self, service: UmadService) -> None:
        self.on_news: Callable[[], None] = lambda: None
        """Called when there is something to read, or the file has died."""
        self.waiting_bytes = 0
        """Of its MADs that wait for a response; kept by the device."""
        self._service = service
        self._agents: dict[int, ProgramAgent] = {}
        self._unread: deque[tuple[bytes, bytes]] = deque()
        self._unread_bytes = 0
        self._with_pkey = False
        self._in_use = False
        self.dead = False
        """Whether the device has gone away under the program."""

    @property
    def readable(self) -> bool:
        """Whether a read returns at once."""
        return bool(self._unread) or self.dead

    @property
    def _header_size(self) -> int:
        return HEADER_SIZE if self._with_pkey else OLD_HEADER_SIZE

    # --- calls of the program ------------------------------------------------------------------------------

    def ioctl(self, command: int, data: bytes) -> bytes:
        """Do what an ioctl asks for; return its argument as the program finds it afterwards.

        Raises:  UmadError: with the errno of the call.
        """
        if command == ENABLE_PKEY:
            if self._in_use:
                raise UmadError(errno.EINVAL, "too late: an agent has been registered")
            self._with_pkey = True
            return b""
        if self.dead and command != UNREGISTER_AGENT:
            raise UmadError(errno.EPIPE, "the device has gone")
        if command in (REGISTER_AGENT, REGISTER_AGENT2):
            asked = Registration.parse(command, data)
            id_ = next((number for number in range(MAX_AGENTS) if number not in self._agents), None)
            if id_ is None:
                raise UmadError(errno.ENOMEM, f"this file has {MAX_AGENTS} agents already")
            self._agents[id_] = self._service.register(self, id_, asked)
            if command == REGISTER_AGENT2 and not self._in_use:
                self._with_pkey = True
            self._in_use = True
            return ID.build(id=id_) + data[ID.size :]
        if command == UNREGISTER_AGENT:
            if len(data) < ID.size:
                raise UmadError(errno.EINVAL, "which agent?")
            id_ = ID.parse(data).id
            if id_ not in self._agents:
                raise UmadError(errno.EINVAL, f"this file has no agent {id_}")
            self._unregister(id_)
            return data
        raise UmadError(errno.ENOTTY, f"unknown ioctl {command:#x}")

    def write(self, data: bytes) -> int:
        """Send a MAD; return how many bytes were taken: all.

        Raises:  UmadError: with the errno of the call.
        """
        size = self._header_size
        if len(data) < size + RMPP_END:
            raise UmadError(
                errno.EINVAL, f"{len(data)} bytes: a header and a MAD have {size + RMPP_END} or more"
            )
        header = UmadHeader.parse(data, with_pkey=self._with_pkey)
        if header.agent_id >= MAX_AGENTS:
            raise UmadError(errno.EINVAL, f"agent {header.agent_id}: their numbers end at {MAX_AGENTS - 1}")
        if self.dead:
            raise UmadError(errno.EIO, "the device has gone")
        agent = self._agents.get(header.agent_id)
        if agent is None:
            raise UmadError(errno.EIO, f"this file has no agent {header.agent_id}")
        self._service.send(agent, header, data[:size], data[size:])
        return len(data)

    def read(self, size: int) -> bytes | None:
        """Return the next message with its header, or None where there is none.

        Raises:  UmadError: EINVAL: it does not fit the buffer of `size` bytes, and stays. ENOSPC: the first segment of
                 an RMPP message fits, and the buffer gets that (`head`). EIO: the device has gone.
        """
        if size < self._header_size:
            raise UmadError(errno.EINVAL, f"a buffer of {size} bytes does not hold the header")
        if self.dead:
            raise UmadError(errno.EIO, "the device has gone")
        if not self._unread:
            return None
        head, mad = self._unread[0]
        data = head + mad
        if len(data) > size:
            first = self._header_size + min(len(mad), mad_size(mad[0]))
            if size < first or first == len(data):
                raise UmadError(errno.EINVAL, f"a buffer of {size} bytes for a message of {len(data)}")
            raise UmadError(
                errno.ENOSPC, f"a buffer of {size} bytes for a message of {len(data)}", data[:first]
            )
        self._unread.popleft()
        self._unread_bytes -= len(mad)
        return data

    def close(self) -> None:
        """Free its agents, and forget what was not read; harmless when it is closed already."""
        for id_ in tuple(self._agents):
            self._unregister(id_)
        self._unread.clear()
        self._unread_bytes = 0
        self._service.files.discard(self)

    def _unregister(self, id_: int) -> None:
        self._service.unregister(self._agents.pop(id_))

    # --- what the device does with it ------------------------------------------------------------------------

    def queue(self, header: UmadHeader, mad: bytes) -> bool:
        """Add a message to be read; return False, and drop it, where too many wait."""
        if self.dead or self._unread_bytes + len(mad) > MAX_UNREAD:
            return False
        header = replace(header, length=self._header_size + len(mad))
        self._add(header.build(with_pkey=self._with_pkey), mad)
        return True

    def _add(self, head: bytes, mad: bytes) -> None:
        self._unread.append((head, mad))
        self._unread_bytes += len(mad)
        self.on_news()

    def give_back(self, head: bytes, mad_header: bytes) -> None:
        """Give a request back that had no response: its header as it was written, and the 24 bytes of its MAD's."""
        self._add(with_status(head, errno.ETIMEDOUT), mad_header)

    def die(self) -> None:
        """Let every call fail from now on: the device has gone."""
        for id_ in tuple(self._agents):
            self._unregister(id_)
        self.dead = True
        self.on_news()
