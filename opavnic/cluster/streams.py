"""The two ends of one stream: one service channel of one direction of a link between machines.

The receiver grants room, the sender numbers packets and stays within it, and both count in packets:

    closed --OPEN(era)--> asked --ROOM(era)--> open --peer gone--> closed, era + 1

An era ends when the sender loses sight of the receiver. A receiver that has answered OPEN of an era takes no train of
an earlier one: what a network held back during a partition is not delivered after it. What was under way is lost, and
what of that had arrived, the receiver says in its first ROOM of the next era.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from opavnic.cluster.messages import MAX_PACKETS, MAX_TRAIN, Ends, Open, Room, Train

WINDOW: Final = 1 << 14
"""Packets of a stream that may be under way. Bytes bound those that are not very short: `Pace`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is sent at a time."""

    train: int
    """Bytes of a train, at most MAX_TRAIN."""

    @property
    def budget(self) -> int:
        """Bytes under way to one peer in one urgency: of four trains, one can be made and one taken apart meanwhile."""
        return 4 * self.train


ONE_FOR_ALL: Final = Pace(240 << 10)
"""Where one thread sends to all peers. The budget fits what Zenoh queues for a peer (zenoh_config.QUEUE_BATCHES): one
that takes nothing keeps no thread waiting that has packets for others."""
ONE_EACH: Final = Pace(MAX_TRAIN)
"""Where each peer has a thread that sends to it, and may wait."""
ACK_EVERY: Final = WINDOW // 8
"""Packets of a stream after which the receiver grants again without waiting for a pause,"""
ACK_EVERY_BYTES: Final = ONE_FOR_ALL.budget // 2
"""and bytes of all streams from a peer: long packets use up the budget before the window. From one that sends longer
trains, it is two of these. What is left when a grant goes, two of the longest trains, keeps its sender busy until it is
there."""
RIDE_BYTES: Final = ONE_FOR_ALL.budget // 8
"""Bytes of a stream of which a train takes the grant along that goes the other way meanwhile, as TCP's acknowledgements
do: so many fewer messages."""


@dataclass(slots=True)
class SendStream:
    """The sending end."""

    life: int = 0
    """Of the receiver; 0 while nobody is there."""
    era: int = 0
    is_open: bool = False
    next: int = 0
    acknowledged: int = 0
    limit: int = 0
    total_sent: int = 0
    total_acknowledged: int = 0
    lost: int = 0
    found: int = 0
    round_trip_s: float | None = None
    is_blocked: bool = False
    """Packets were left behind: the sender waits for room."""
    bytes_under_way: int = 0
    _trains: deque[tuple[int, int, float]] = field(default_factory=deque)
    """Number after its last packet, bytes, and time of each train under way."""
    _doubt: tuple[int, int, int, int] | None = None
    """Life, era, acknowledged and next of the era that ended with packets under way."""

    @property
    def under_way(self) -> int:
        """Packets sent and neither acknowledged nor lost."""
        return self.next - self.acknowledged

    def peer_joined(self, life: int) -> None:
        """A receiver is there: the next era begins, closed until it grants room."""
        self.life = life
        self.era += 1
        self.next = self.acknowledged = self.limit = 0

    def peer_gone(self) -> tuple[int, int]:
        """The receiver is gone; return the packets and bytes that were under way, which are lost."""
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

    def sent(self, count: int, size: int, now: float) -> None:
        """Note a train that is under way."""
        self.next += count
        self.total_sent += count
        self.bytes_under_way += size
        self._trains.append((self.next, size, now))

    def granted(self, room: Room, now: float) -> int | None:
        """Take a grant; return the bytes that it acknowledges, or None if it is of another era or cannot be true."""
        ends = room.ends
        if not self.life or ends.from_life != self.life or ends.era != self.era:
            return None
        if self.is_open and room.next <= self.acknowledged and room.limit <= self.limit:
            return 0  # a later one went ahead of it: those that ride on trains have not their urgency
        if (
            not self.acknowledged <= room.next <= self.next
            or not self.limit <= room.limit <= room.next + WINDOW
        ):
            return None
        if not self.is_open:
            self.is_open = True
            self._resolve(room)
        size = 0
        while self._trains and self._trains[0][0] <= room.next:
            _, train_size, sent_at = self._trains.popleft()
            size += train_size
            self.round_trip_s = now - sent_at
        self.bytes_under_way -= size
        self.total_acknowledged += room.next - self.acknowledged
        self.acknowledged, self.limit = room.next, room.limit
        return size

    def _resolve(self, room: Room) -> None:
        if self._doubt is not None:
            life, era, acknowledged, sent = self._doubt
            if (life, era) == (room.ends.from_life, room.before_era) and acknowledged <= room.before <= sent:
                self.found += room.before - acknowledged
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
    """Received since then."""
    before_era: int = 0
    before: int = 0

    def opened(self, message: Open) -> bool:
        """Begin the era that the sender asks for; return False if it is an earlier one."""
        life, era = message.ends.from_life, message.ends.era
        if life != self.from_life:
            self.from_life, self.era, self.next = life, 0, 0
            self.before_era = self.before = 0
        if era < self.era or era == 0:
            return False
        if era > self.era:
            if self.next:  # of an era in which nothing came, the sender knows it
                self.before_era, self.before = self.era, self.next
            self.era, self.next, self.missing = era, 0, 0
            self.limit = 0
        return True

    def took(self, train: Train) -> str | None:
        """Take a train; return None, or why its packets may not be delivered."""
        ends, count = train.ends, train.body.count
        if ends.from_life != self.from_life or self.era == 0:
            return "stale_life"
        if ends.era != self.era:
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
        """So many packets have come that the sender may soon have to wait for room."""
        return self.next - self.granted_at >= ACK_EVERY

    def room(self, fabric: int, sc: int, life: int, *, paused: bool = False) -> Room:
        """Return the grant to send now; a paused one acknowledges and grants nothing new."""
        return Room(
            Ends(fabric, sc, life, self.from_life, self.era),
            self.granted_at if paused else self.next,
            self.limit if paused else self.next + WINDOW,
            self.missing,
            self.before_era,
            self.before,
        )

    def has_granted(self) -> None:
        """Note that the sender gets the grant that `room` returned."""
        self.granted_at, self.ungranted_bytes = self.next, 0
        self.limit = self.next + WINDOW
