"""The receiving half of a connection: puts packets in order and joins them into messages."""

from __future__ import annotations

from collections.abc import Iterator

from hfi_sim.base.errors import HfiSimError
from hfi_sim.wire.reliable_header import SACK_BITS, RcFlags

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
        self.duplicates = 0

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
            if distance <= SACK_BITS and psn not in self._ahead:
                self._ahead[psn] = (flags, tag, payload)
            else:
                self.duplicates += 1
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
