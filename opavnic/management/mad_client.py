"""A blocking client of the raw MAD socket, with one request at a time."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.header import MAD_SIZE, MadHeader, Method, method_of
from opavnic.base.errors import OpavnicError
from opavnic.base.socket_peer import foreign_peer
from opavnic.management.mad_frames import WHERE, MadMessage, MessageReader, Outcome

TIMEOUT_S = 30.0
"""How long to wait for the lab, which itself gives up on an agent after a few seconds."""
_READ_SIZE = 65536
_ABOVE_ALL_LIDS = 0xFFFFFFFF
_WHERE = struct.Struct(">2I")
_UNASKED = (Method.TRAP, Method.TRAP_REPRESS)


class MadSocketError(OpavnicError):
    """The socket does not exist, speaks another protocol, or its lab has ended."""


class MadClient:
    """Sends MADs through the socket of a lab: `with MadClient(path) as client: client.request(lid, mad)`."""

    def __init__(self, path: Path, *, timeout_s: float = TIMEOUT_S, own: bool = False) -> None:
        """Connect.

        Args:    own: require that this user or root listens; set it unless the user has chosen `path`.
        Raises:  MadSocketError: no process listens at `path`, or that of another user.
        """
        self.path = path
        self._reader = MessageReader()
        self._ready: list[MadMessage] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise MadSocketError(f"{path}: cannot connect: {error.strerror or error}") from error
        if own and (uid := foreign_peer(self._socket)) is not None:
            self._socket.close()
            raise MadSocketError(f"{path} is served by uid {uid}, not by this user (uid {os.geteuid()})")

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self._socket.close()

    def agents(self) -> tuple[int, ...]:
        """Return the LIDs of the ports that have a management agent, ascending.

        Raises:  MadSocketError: the lab has ended.
        """
        found: list[int] = []
        while True:
            message = self._exchange(MadMessage(found[-1] if found else 0, b""))
            found += struct.unpack(f">{len(message.mad) // 4}I", message.mad)
            if len(message.mad) < MAD_SIZE:
                return tuple(found)

    def where(self) -> tuple[int, int]:
        """Return the LID of the port that MADs are sent from, and that of its subnet administration; 0: none yet.

        Raises:  MadSocketError: the lab has ended, or is of a version that does not say.
        """
        message = self._exchange(MadMessage(WHERE, b""))
        if len(message.mad) != _WHERE.size:
            raise MadSocketError(
                f"{self.path}: the lab does not say which LIDs it has: it is of another version"
            )
        own, administration = _WHERE.unpack(message.mad)
        return own, administration

    def request(self, lid: int, mad: bytes, *, sl: int = 0, pkey: int = 0) -> bytes | None:
        """Send a request and return its response; None if the agent does not answer. Traps are skipped.

        Args:    pkey: 0 uses the management P_Key of the lab's port.
        Raises:  MadSocketError: the lab has ended, or has refused to send it.
        """
        message = self._exchange(MadMessage(lid, mad, pkey, sl))
        if message.outcome == Outcome.REFUSED:
            raise self._refusal(lid, mad)
        return message.mad if message.outcome == Outcome.OK else None

    def send(self, lid: int, mad: bytes, *, sl: int = 0, pkey: int = 0) -> None:
        """Send a MAD that has no response, such as a trap.

        Raises:  MadSocketError: the lab has ended, or has refused to send it.
        """
        self._post(MadMessage(lid, mad, pkey, sl))
        self._post(
            MadMessage(_ABOVE_ALL_LIDS, b"")
        )  # answered in order: a refusal of the MAD comes before the answer to this
        if self._answer().outcome == Outcome.REFUSED:
            self._answer()
            raise self._refusal(lid, mad)

    def _refusal(self, lid: int, mad: bytes) -> MadSocketError:
        return MadSocketError(
            f"{self.path}: a MAD of {len(mad)} bytes for LID {lid:#x} was not sent: it needs {MadHeader.SIZE} to "
            f"{MAD_SIZE} bytes, and a LID, service level and P_Key that the port can use"
        )

    def _exchange(self, message: MadMessage) -> MadMessage:
        self._post(message)
        return self._answer()

    def _post(self, message: MadMessage) -> None:
        try:
            self._socket.sendall(message.build())
        except OSError as error:
            raise MadSocketError(f"{self.path}: {error}") from error

    def _answer(self) -> MadMessage:
        """Return the next answer, skipping traps."""
        try:
            while True:
                received = self._next()
                unasked = len(received.mad) >= MadHeader.SIZE and method_of(received.mad) in _UNASKED
                if not unasked or received.outcome != Outcome.OK:
                    return received
        except (OSError, WireError) as error:
            raise MadSocketError(f"{self.path}: {error}") from error

    def _next(self) -> MadMessage:
        while not self._ready:
            data = self._socket.recv(_READ_SIZE)
            if not data:
                raise ConnectionResetError("the lab has hung up")
            self._ready.extend(self._reader.feed(data))
        return self._ready.pop(0)
