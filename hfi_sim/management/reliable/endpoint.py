"""All reliable connections of one port, without I/O: packets and `now` in, packets and events out.

    asking side                      answering side
    connect -> REQ  ---------------> ConnectRequest
    Established    <--------------- REP  <- accept          (REJ <- reject: Rejected)
    send -> DATA, DATA ------------> MessageReceived
    MessageSent    <--------------- ACK

A REQ is repeated until it is answered; a repeated REQ is answered again, never accepted twice. DATA for a
connection that does not exist is answered with RESET, so a peer that was forgotten learns of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hfi_sim.base.deadlines import Deadlines
from hfi_sim.base.errors import HfiSimError, WireError
from hfi_sim.management.reliable.config import (
    Closed,
    CloseReason,
    ConnectRequest,
    Established,
    MessageReceived,
    MessageSent,
    RcConfig,
    RcEvent,
    Rejected,
)
from hfi_sim.management.reliable.sender import Sender
from hfi_sim.wire.reliable_header import SACK_BITS, RcFlags, RcHeader, RcOpcode

PSN_MASK = 0xFFFFFFFF


class MessageTooLongError(HfiSimError):
    """The peer sends a message beyond the agreed length."""


class MessageReceiver:
    """Numbered packets in, messages in order out; says what to acknowledge."""

    def __init__(self, first_psn: int, max_message: int) -> None:
        self._expected = first_psn
        self._max_message = max_message
        self._ahead: dict[int, tuple[int, int, bytes]] = {}
        self._parts: list[bytes] = []
        self._length = 0
        self.ack_due = False

    @property
    def ack(self) -> int:
        """The next psn expected."""
        return self._expected

    @property
    def sack(self) -> int:
        """Bit i: packet `ack` + 1 + i is here already."""
        bits = 0
        for psn in self._ahead:
            bits |= 1 << ((psn - self._expected - 1) & PSN_MASK)
        return bits

    def receive(self, psn: int, flags: int, tag: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
        """Take one packet; yield each message (tag, bytes) that it completes.

        Raises:  MessageTooLongError: the peer exceeds the longest message.
        """
        distance = (psn - self._expected) & PSN_MASK
        if distance:
            self.ack_due = True
            if distance <= SACK_BITS:
                self._ahead.setdefault(psn, (flags, tag, payload))
            return
        if flags & RcFlags.ACK_REQ:
            self.ack_due = True
        entry: tuple[int, int, bytes] | None = (flags, tag, payload)
        while entry is not None:
            self._expected = (self._expected + 1) & PSN_MASK
            yield from self._join(*entry)
            entry = self._ahead.pop(self._expected, None)

    def _join(self, flags: int, tag: int, payload: bytes) -> Iterator[tuple[int, bytes]]:
        if payload:  # parts without bytes take memory, and no length would bound it
            self._parts.append(payload)
        self._length += len(payload)
        if self._length > self._max_message:
            raise MessageTooLongError(f"{self._length} bytes, {self._max_message} are allowed")
        if flags & RcFlags.LAST:
            message = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts, self._length = [], 0
            yield tag, message


FIRST_PSN: Final = 1
_NO_ANSWER: Final = (RcOpcode.CLOSE, RcOpcode.RESET, RcOpcode.REJ)


class _State(Enum):
    CONNECTING = "connecting"
    ASKED = "asked"
    ESTABLISHED = "established"


@dataclass(slots=True)
class _Connection:
    conn_id: int
    remote_lid: int
    state: _State
    service: int
    private: bytes
    sender: Sender
    receiver: MessageReceiver
    remote_conn: int = 0
    next_message_id: int = 1
    handshake: RcOpcode | None = None
    """REQ or REP to be transmitted with the next flush."""
    handshake_deadline: float | None = None
    handshake_retries: int = 0

    @property
    def deadline(self) -> float | None:
        return self.handshake_deadline if self.state is _State.CONNECTING else self.sender.deadline


class RcEndpoint:
    """Every connection of one port. Call `flush` after any other call, and hand on what it returns."""

    def __init__(self, random_bits: Callable[[int], int], config: RcConfig | None = None) -> None:
        """Make an endpoint without connections; `random_bits(n)` gives n random bits (Random.getrandbits)."""
        self.config = config or RcConfig()
        self._random_bits = random_bits
        self._connections: dict[int, _Connection] = {}
        self._asked: dict[tuple[int, int], int] = {}
        self._dirty: dict[int, None] = {}
        self._packets: list[tuple[int, bytes]] = []
        self._events: list[RcEvent] = []
        self._deadlines: Deadlines[int] = Deadlines(self._deadline_of)

    @property
    def connections(self) -> int:
        """Connections that exist now, in any state."""
        return len(self._connections)

    def __contains__(self, conn_id: object) -> bool:
        """Return whether the connection exists."""
        return conn_id in self._connections

    def connect(self, remote_lid: int, service: int, private: bytes = b"") -> int:
        """Ask the port with `remote_lid` for a connection to `service` (16 bits); return its number here.

        Raises:  ValueError: private data beyond one packet.
        """
        self._check_private(private)
        connection = self._new(remote_lid, _State.CONNECTING, service, private)
        connection.handshake = RcOpcode.REQ
        return connection.conn_id

    def accept(self, conn_id: int, private: bytes = b"") -> None:
        """Grant a ConnectRequest; the connection can be used at once.

        Raises:  KeyError: no such connection. ValueError: it is not a request, or too much private data.
        """
        self._check_private(private)
        connection = self._connections[conn_id]
        if connection.state is not _State.ASKED:
            raise ValueError(f"connection {conn_id:#x} is {connection.state.value}, not asked for by a peer")
        connection.state = _State.ESTABLISHED
        connection.private = private
        connection.handshake = RcOpcode.REP
        self._dirty[conn_id] = None

    def reject(self, conn_id: int, private: bytes = b"") -> None:
        """Refuse a ConnectRequest.

        Raises:  KeyError: no such connection. ValueError: too much private data.
        """
        self._check_private(private)
        connection = self._connections[conn_id]
        self._control(connection, RcOpcode.REJ, private)
        self._forget(connection)

    def send(self, conn_id: int, tag: int, data: bytes | memoryview) -> int:
        """Queue one message; return its number on the connection.

        Args:    tag: 16 bits that say to the user of the peer what the message is.
        Raises:  KeyError: no such connection. ValueError: longer than `max_message`.
        """
        if len(data) > self.config.max_message:
            raise ValueError(f"message of {len(data)} bytes; {self.config.max_message} are allowed")
        connection = self._connections[conn_id]
        message_id = connection.next_message_id
        connection.next_message_id += 1
        connection.sender.push(message_id, tag, data)
        self._dirty[conn_id] = None
        return message_id

    def close(self, conn_id: int) -> None:
        """Close and forget a connection, tell the peer once, raise no event; ignore an unknown number."""
        connection = self._connections.get(conn_id)
        if connection is None:
            return
        if connection.remote_conn:
            self._control(connection, RcOpcode.CLOSE)
        self._forget(connection)

    def events(self) -> list[RcEvent]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    def deadline(self) -> float | None:
        """Return when `on_timer` wants to be called next, in seconds, or None."""
        return self._deadlines.next()

    def _deadline_of(self, conn_id: int) -> float | None:
        connection = self._connections.get(conn_id)
        return connection.deadline if connection is not None else None

    def on_timer(self, now: float) -> None:
        """Repeat what was not answered in time, give up what never was."""
        for conn_id in self._deadlines.take_due(now):
            connection = self._connections[conn_id]
            if connection.state is _State.CONNECTING:
                connection.handshake_retries += 1
                alive = connection.handshake_retries <= self.config.max_retries
                connection.handshake = RcOpcode.REQ
                connection.handshake_deadline = None
            else:
                alive = connection.sender.on_timeout()
            if alive:
                self._dirty[connection.conn_id] = None
            else:
                self._fail(connection, CloseReason.RETRIES)

    def receive(self, remote_lid: int, packet: bytes, now: float) -> bool:
        """Take what follows the 16B header, without padding; return False where malformed."""
        try:
            header = RcHeader.parse(packet)
        except WireError:
            return False
        payload = packet[RcHeader.SIZE :]
        if header.opcode == RcOpcode.REQ:
            self._receive_req(remote_lid, header, payload)
            return True
        connection = self._connections.get(header.dst_conn)
        if connection is None or connection.remote_lid != remote_lid:
            self._unknown(remote_lid, header)
        elif connection.state is _State.CONNECTING:
            self._receive_answer(connection, header, payload)
        elif connection.remote_conn != header.src_conn:
            self._unknown(remote_lid, header)
        else:
            self._receive_established(connection, header, payload, now)
        return True

    def flush(self, now: float) -> list[tuple[int, bytes]]:
        """Return the packets to transmit now, as (dlid, what follows the 16B header)."""
        dirty, self._dirty = self._dirty, {}
        for conn_id in dirty:
            connection = self._connections.get(conn_id)
            if connection is not None:
                self._flush_connection(connection, now)
                self._deadlines.touch(conn_id)
        packets, self._packets = self._packets, []
        return packets

    def _flush_connection(self, connection: _Connection, now: float) -> None:
        if connection.handshake is not None:
            opcode, connection.handshake = connection.handshake, None
            self._control(connection, opcode, connection.private)
            if opcode is RcOpcode.REQ:
                factor = min(1 << connection.handshake_retries, self.config.backoff_limit)
                connection.handshake_deadline = now + self.config.initial_rto_s * factor
        if connection.state is not _State.ESTABLISHED:
            return
        receiver = connection.receiver
        packets = connection.sender.pull(now)
        if packets or receiver.ack_due:
            ack, sack = receiver.ack, receiver.sack
            for packet, flags in packets:
                header = RcHeader(
                    RcOpcode.DATA,
                    flags,
                    packet.tag,
                    connection.remote_conn,
                    connection.conn_id,
                    packet.psn,
                    ack,
                    sack,
                )
                self._packets.append((connection.remote_lid, header.build() + packet.payload))
            if not packets:
                self._control(connection, RcOpcode.ACK)
            receiver.ack_due = False

    def _receive_req(self, remote_lid: int, header: RcHeader, private: bytes) -> None:
        known = self._asked.get((remote_lid, header.src_conn))
        if known is not None:
            connection = self._connections[known]
            if connection.state is _State.ESTABLISHED:
                connection.handshake = RcOpcode.REP
                self._dirty[known] = None
            return
        connection = self._new(remote_lid, _State.ASKED, header.tag, b"")
        connection.remote_conn = header.src_conn
        self._asked[remote_lid, header.src_conn] = connection.conn_id
        self._events.append(ConnectRequest(connection.conn_id, remote_lid, header.tag, private))

    def _receive_answer(self, connection: _Connection, header: RcHeader, private: bytes) -> None:
        if header.opcode == RcOpcode.REP:
            connection.remote_conn = header.src_conn
            connection.state = _State.ESTABLISHED
            connection.handshake = None
            self._dirty[connection.conn_id] = None
            self._events.append(Established(connection.conn_id, private))
        elif header.opcode == RcOpcode.REJ:
            self._forget(connection)
            self._events.append(Rejected(connection.conn_id, private))
        # DATA may overtake a REP that was lost: the peer repeats it once the REP has been repeated

    def _receive_established(
        self, connection: _Connection, header: RcHeader, payload: bytes, now: float
    ) -> None:
        if header.opcode in (RcOpcode.CLOSE, RcOpcode.RESET):
            reset = header.opcode == RcOpcode.RESET
            self._fail(connection, CloseReason.RESET if reset else CloseReason.PEER)
            return
        if header.opcode not in (RcOpcode.DATA, RcOpcode.ACK):
            return  # a repeated REP: the first one was heard
        conn_id = connection.conn_id
        self._dirty[conn_id] = None
        for message_id in connection.sender.acknowledge(header.ack, header.sack, now):
            self._events.append(MessageSent(conn_id, message_id))
        if header.opcode == RcOpcode.DATA:
            try:
                for tag, data in connection.receiver.receive(header.psn, header.flags, header.tag, payload):
                    self._events.append(MessageReceived(conn_id, tag, data))
            except MessageTooLongError:
                self._control(connection, RcOpcode.CLOSE)
                self._fail(connection, CloseReason.PROTOCOL)

    def _unknown(self, remote_lid: int, header: RcHeader) -> None:
        if header.opcode not in _NO_ANSWER:
            reset = RcHeader(RcOpcode.RESET, dst_conn=header.src_conn, src_conn=header.dst_conn)
            self._packets.append((remote_lid, reset.build()))

    def _control(self, connection: _Connection, opcode: RcOpcode, private: bytes = b"") -> None:
        header = RcHeader(
            opcode,
            tag=connection.service if opcode is RcOpcode.REQ else 0,
            dst_conn=connection.remote_conn,
            src_conn=connection.conn_id,
            ack=connection.receiver.ack,
            sack=connection.receiver.sack,
        )
        self._packets.append((connection.remote_lid, header.build() + private))

    def _new(self, remote_lid: int, state: _State, service: int, private: bytes) -> _Connection:
        conn_id = 0
        while conn_id == 0 or conn_id in self._connections:
            conn_id = self._random_bits(32)
        sender = Sender(self.config, FIRST_PSN)
        receiver = MessageReceiver(FIRST_PSN, self.config.max_message)
        connection = _Connection(conn_id, remote_lid, state, service, private, sender, receiver)
        self._connections[conn_id] = connection
        self._dirty[conn_id] = None
        return connection

    def _fail(self, connection: _Connection, reason: CloseReason) -> None:
        self._forget(connection)
        self._events.append(Closed(connection.conn_id, reason))

    def _forget(self, connection: _Connection) -> None:
        del self._connections[connection.conn_id]
        self._asked.pop((connection.remote_lid, connection.remote_conn), None)

    def _check_private(self, private: bytes) -> None:
        if len(private) > self.config.max_payload:
            raise ValueError(f"private data of {len(private)} bytes; {self.config.max_payload} fit a packet")
