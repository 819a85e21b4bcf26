"""The two ends of one stream: one service channel of one direction of a link between machines.

The receiver grants room; the sender numbers packets and stays within the grant. Both count packets:

    closed --OPEN(era)--> asked --GRANT(era)--> open --peer gone--> closed, era + 1

An era ends when the sender loses contact with the receiver. A receiver that has answered OPEN of an era refuses
trains of earlier eras, so nothing that the network held back during a partition is delivered after it. Packets in
transit are then lost; in its first GRANT of the next era the receiver reports which of them had arrived.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from opavnic.cluster.protocol.messages import MAX_PACKETS, MAX_TRAIN, Grant, Open, StreamId, Train

WINDOW: Final = 1 << 14
"""Packets of a stream that may be in transit. Bytes are the tighter bound (`SendPace`) unless packets are short."""


@dataclass(frozen=True, slots=True)
class SendPace:
    """How much is sent at a time."""

    train: int
    """Bytes of a train, at most MAX_TRAIN."""

    @property
    def budget(self) -> int:
        """Bytes in transit to one peer at one priority: four trains, so that one can be built and one parsed
        meanwhile.
        """
        return 4 * self.train


ONE_FOR_ALL: Final = SendPace(240 << 10)
"""When one thread sends to all peers. The budget fits Zenoh's queue for a peer (zenoh_config.QUEUE_BATCHES),
so a stalled peer cannot block a thread that has packets for others.
"""
ONE_EACH: Final = SendPace(MAX_TRAIN)
"""When each peer has a sending thread of its own, which may block."""
ACK_EVERY: Final = WINDOW // 8
"""Packets of a stream after which the receiver grants again without waiting for a pause."""
ACK_EVERY_BYTES: Final = ONE_FOR_ALL.budget // 2
"""Bytes of all streams from a peer after which the receiver grants again: long packets use up the budget before the
window. For a peer that sends longer trains it is twice its longest train. The rest of the budget at that moment, two of
the longest trains, keeps the sender busy until the grant arrives.
"""
RIDE_BYTES: Final = ONE_FOR_ALL.budget // 8
"""Bytes of a stream after which its grant travels with a train of the opposite direction, as TCP's acknowledgements do,
which saves messages.
"""


@dataclass(slots=True)
class SendStream:
    """The sending end."""

    life: int = 0
    """Life of the receiver; 0 while it is absent."""
    era: int = 0
    is_open: bool = False
    next: int = 0
    acknowledged: int = 0
    limit: int = 0
    total_sent: int = 0
    total_acknowledged: int = 0
    lost: int = 0
    found: int = 0
    is_blocked: bool = False
    """Packets were left behind: the sender waits for room."""
    bytes_under_way: int = 0
    _trains: deque[tuple[int, int]] = field(default_factory=deque)
    """Number after its last packet, and bytes, of each train in transit."""
    _doubt: tuple[int, int, int, int] | None = None
    """Life, era, acknowledged and next of the era that ended with packets in transit."""

    @property
    def under_way(self) -> int:
        """Packets sent and neither acknowledged nor lost."""
        return self.next - self.acknowledged

    def peer_joined(self, life: int) -> None:
        """A receiver is present: the next era begins, closed until it grants room."""
        self.life = life
        self.era += 1
        self.next = self.acknowledged = self.limit = 0

    def peer_gone(self) -> tuple[int, int]:
        """The receiver is gone; return the packets and bytes in transit, which are lost."""
        packets, size = self.under_way, self.bytes_under_way
        if packets:
            self._doubt = (self.life, self.era, self.acknowledged, self.next)
        self.lost += packets
        self._trains.clear()
        self.bytes_under_way = 0
        self.next = self.acknowledged = self.limit = self.life = 0
        self.is_open = False
        return packets, size

    def room(self) -> int:
        """Return how many packets the next train may have."""
        return min(MAX_PACKETS, self.limit - self.next) if self.is_open else 0

    def sent(self, count: int, size: int) -> None:
        """Note a train that has been sent."""
        self.next += count
        self.total_sent += count
        self.bytes_under_way += size
        self._trains.append((self.next, size))

    def granted(self, grant: Grant) -> int | None:
        """Handle a grant; return the bytes that it acknowledges, or None if it is of another era or implausible."""
        stream_id = grant.stream_id
        if not self.life or stream_id.from_life != self.life or stream_id.era != self.era:
            return None
        if self.is_open and grant.next <= self.acknowledged and grant.limit <= self.limit:
            return 0  # overtaken by a later grant: grants that travel with trains have a lower priority
        if (
            not self.acknowledged <= grant.next <= self.next
            or not self.limit <= grant.limit <= grant.next + WINDOW
        ):
            return None
        if not self.is_open:
            self.is_open = True
            self._resolve(grant)
        size = 0
        while self._trains and self._trains[0][0] <= grant.next:
            size += self._trains.popleft()[1]
        self.bytes_under_way -= size
        self.total_acknowledged += grant.next - self.acknowledged
        self.acknowledged, self.limit = grant.next, grant.limit
        return size

    def _resolve(self, grant: Grant) -> None:
        if self._doubt is not None:
            life, era, acknowledged, sent = self._doubt
            if (life, era) == (
                grant.stream_id.from_life,
                grant.before_era,
            ) and acknowledged <= grant.before <= sent:
                self.found += grant.before - acknowledged
            self._doubt = None


@dataclass(slots=True)
class ReceiveStream:
    """The receiving end."""

    from_life: int = 0
    era: int = 0
    """0: no OPEN yet."""
    next: int = 0
    limit: int = 0
    missing: int = 0
    """In this era."""
    received: int = 0
    total_missing: int = 0
    granted_at: int = 0
    """`next` in the last grant."""
    ungranted_bytes: int = 0
    """Received since the last grant."""
    before_era: int = 0
    before: int = 0

    def opened(self, message: Open) -> bool:
        """Begin the era that the sender asks for; return False if it is an earlier one."""
        life, era = message.stream_id.from_life, message.stream_id.era
        if life != self.from_life:
            self.from_life, self.era, self.next = life, 0, 0
            self.before_era = self.before = 0
        if era < self.era or era == 0:
            return False
        if era > self.era:
            if self.next:  # an era in which nothing arrived need not be reported
                self.before_era, self.before = self.era, self.next
            self.era = era
            self.next = self.granted_at = self.limit = self.missing = 0
        return True

    def took(self, train: Train) -> str | None:
        """Accept a train; return None, or the reason why its packets may not be delivered."""
        stream_id, count = train.stream_id, train.body.count
        if stream_id.from_life != self.from_life or self.era == 0:
            return "stale_life"
        if stream_id.era != self.era:
            return "stale_era"
        if train.first < self.next:
            return "duplicate"
        if train.first + count > self.limit:
            return "over_window"
        gap = train.first - self.next
        self.missing += gap
        self.total_missing += gap
        self.next = train.first + count
        self.received += count
        self.ungranted_bytes += train.body.size
        return None

    @property
    def owes_a_grant(self) -> bool:
        """Whether so many packets have arrived that the sender may soon run out of room."""
        return self.next - self.granted_at >= ACK_EVERY

    def grant(self, fabric: int, sc: int, life: int, *, paused: bool = False) -> Grant:
        """Return the grant to send now; a paused one acknowledges and grants nothing new."""
        return Grant(
            StreamId(fabric, sc, life, self.from_life, self.era),
            self.granted_at if paused else self.next,
            self.limit if paused else self.next + WINDOW,
            self.missing,
            self.before_era,
            self.before,
        )

    def has_granted(self) -> None:
        """Note that the grant returned by `grant` is being sent."""
        self.granted_at, self.ungranted_bytes = self.next, 0
        self.limit = self.next + WINDOW
