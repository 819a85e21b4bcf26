"""The election of the master among several EMs on a fabric: the highest priority wins, then the lowest GUID.

Every EM sends heartbeats to all others: on a fabric of ours to a group that they have joined, beside a fabric manager
to each port that is registered as an EM's, since queue pair 1 of hardware takes no multicast. A standby becomes master
if it has heard no master for `dead_after` and no better candidate is alive. So the fabric is without a master for at
most `dead_after` plus one heartbeat.

A standby that has not heard the master for two heartbeats asks for one in its own heartbeat, and the master answers at
once. So on a lossy fabric, two masters require twenty losses in a row instead of ten.

A master that hears a better candidate hands over: it stops writing, waits until its requests are answered, and only
then names its successor. A master that was asleep for longer than `dead_after` minus two heartbeats (a stopped process,
a suspended machine) becomes a standby before it writes anything, as another EM may have taken over. If two masters hear
each other, as after a partition of the fabric has healed, the better one remains.

Sans-IO: heartbeats and time come in, the role and heartbeats to send come out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar, Final, Self

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import Code
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MAD_SIZE, MadHeader, Method

ELECTION_CLASS: Final = 0x4E
"""Vendor class of heartbeats; EMA agents never see them."""
ELECTION_OUI: Final = bytes.fromhex("024f56")
"""A locally administered OUI."""
ELECTION_GROUP: Final = 0xFFFF00
"""Multicast LID of the group of all EMs."""
ASK_AFTER: Final = 2
"""Number of missed heartbeats of the master after which a standby asks for one."""

_CODEC: Final = struct.Struct(">BBHQQ")
_VENDOR: Final = bytes(13) + ELECTION_OUI


class ElectionAttrId(Code):
    """Attributes of the class of heartbeats."""

    HEARTBEAT = 0x0001, "Heartbeat"


class Role(Enum):
    """The role of an EM."""

    STANDBY = "standby"
    MASTER = "master"
    LEAVING = "leaving"
    """A master that has stopped writing and waits for its last responses before it hands over."""


class BeatState(IntEnum):
    """The state of the sender of a heartbeat."""

    STANDBY = 1
    MASTER = 2
    RESIGNED = 3
    """It was the master; `successor` is to be the next."""
    ASKING = 4
    """A standby that has not heard the master for a while and asks for a heartbeat."""


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat. 20 bytes after the vendor header, big-endian: state 1, priority 1, reserved 2, GUIDs 8 each."""

    SIZE: ClassVar[int] = _CODEC.size

    state: int
    priority: int
    guid: int
    """Port GUID of the sender."""
    successor: int = 0
    """Port GUID of the next master, in RESIGNED."""

    @property
    def rank(self) -> tuple[int, int]:
        """Order of candidates; the greatest wins."""
        return (self.priority, -self.guid)

    def build_mad(self, tid: int) -> bytes:
        """Return the heartbeat as a MAD."""
        header = MadHeader(
            mgmt_class=ELECTION_CLASS, method=Method.SEND, tid=tid, attr_id=ElectionAttrId.HEARTBEAT
        )
        data = _CODEC.pack(self.state, self.priority, 0, self.guid, self.successor)
        return (header.build() + _VENDOR + data).ljust(MAD_SIZE, b"\0")

    @classmethod
    def parse_mad(cls, mad: bytes) -> Self:
        """Read a heartbeat.

        Raises:  WireError: truncated.
        """
        if len(mad) < DATA_OFFSET_VENDOR + cls.SIZE:
            raise WireError(
                "heartbeat", len(mad), f"{len(mad)} bytes, a heartbeat needs {cls.SIZE} after the header"
            )
        state, priority, _, guid, successor = _CODEC.unpack_from(mad, DATA_OFFSET_VENDOR)
        return cls(state, priority, guid, successor)


class Election:
    """The election as one EM sees it."""

    def __init__(
        self, *, guid: int, priority: int, heartbeat_s: float, dead_after_s: float, now: float
    ) -> None:
        """Start as a standby that has not heard other EMs yet."""
        self.guid = guid
        self.priority = priority
        self.role = Role.STANDBY
        self.master: int | None = None
        """Port GUID of the master, if this EM knows it."""
        self._heartbeat_s = heartbeat_s
        self._dead_after_s = dead_after_s
        self._next_beat = now
        self._last_wake = now
        self._silent_since = now
        self._peers: dict[int, tuple[float, Beat]] = {}
        self._successor = 0
        self._outbox: list[Beat] = []

    @property
    def may_write(self) -> bool:
        """Whether this EM may send Sets."""
        return self.role is Role.MASTER

    @property
    def rank(self) -> tuple[int, int]:
        """Order of candidates; the greatest wins."""
        return (self.priority, -self.guid)

    def peers(self) -> list[Beat]:
        """Return the last heartbeat of every other EM that is alive."""
        return [beat for _, beat in self._peers.values()]

    def heard(self, now: float, beat: Beat) -> None:
        """Handle a heartbeat of another EM."""
        if beat.guid == self.guid:
            return
        self._awake(now)
        self._peers[beat.guid] = (now, beat)
        if beat.state == BeatState.MASTER:
            self._heard_master(now, beat)
        elif beat.state == BeatState.RESIGNED:
            if beat.successor == self.guid and self.role is Role.STANDBY:
                if not self._hears_master(now):  # after a partition, another master may remain
                    self._become_master(now)
            elif self.master == beat.guid:
                self.master, self._silent_since = beat.successor, now
        elif self.role is Role.MASTER and beat.rank > self.rank:
            self.role, self._successor = Role.LEAVING, beat.guid
        elif self.role is not Role.STANDBY and beat.state == BeatState.ASKING:
            self._outbox.append(self._beat(now))

    def _hears_master(self, now: float) -> bool:
        return any(
            beat.state == BeatState.MASTER and now - at < self._dead_after_s
            for at, beat in self._peers.values()
        )

    def _heard_master(self, now: float, beat: Beat) -> None:
        if self.role is Role.STANDBY or beat.rank > self.rank:
            self.role, self.master, self._silent_since = Role.STANDBY, beat.guid, now
        else:
            self._outbox.append(self._beat(now))  # tell the other master at once that there is a better one

    def drained(self, now: float) -> None:
        """Note that no request of this EM is in flight any more: a leaving master hands over."""
        if self.role is Role.LEAVING:
            self._outbox.append(Beat(BeatState.RESIGNED, self.priority, self.guid, self._successor))
            self.role, self.master, self._silent_since = Role.STANDBY, self._successor, now

    def wait(self, now: float) -> None:
        """Stay a standby: no other EM can be heard yet, so their silence says nothing."""
        self._last_wake = self._silent_since = now
        self._next_beat = now + self._heartbeat_s

    def wake(self, now: float) -> None:
        """Do what is due at `now`."""
        self._awake(now)
        for guid in [guid for guid, (at, _) in self._peers.items() if now - at >= self._dead_after_s]:
            del self._peers[guid]
        if self.role is Role.STANDBY and now - self._silent_since >= self._dead_after_s:
            best = max((beat.rank for beat in self.peers()), default=self.rank)
            if best <= self.rank:
                self._become_master(now)
        if now >= self._next_beat:
            self._next_beat = now + self._heartbeat_s
            self._outbox.append(self._beat(now))

    def _awake(self, now: float) -> None:
        """Detect a long sleep, after which a master becomes a standby, as it may have been replaced."""
        slept = now - self._last_wake
        self._last_wake = now
        if slept > self._dead_after_s - 2 * self._heartbeat_s:
            self._silent_since = now
            if self.role is not Role.STANDBY:
                self.role, self.master = Role.STANDBY, None

    def check(self, now: float) -> bool:
        """Return whether this EM may write at `now`; call it before each batch of requests."""
        if self.role is Role.MASTER:
            self._awake(now)
        return self.may_write

    def _become_master(self, now: float) -> None:
        self.role, self.master = Role.MASTER, self.guid
        self._outbox.append(self._beat(now))

    def _beat(self, now: float) -> Beat:
        if self.role is not Role.STANDBY:
            state = BeatState.MASTER
        elif now - self._silent_since > ASK_AFTER * self._heartbeat_s:
            state = BeatState.ASKING
        else:
            state = BeatState.STANDBY
        return Beat(state, self.priority, self.guid)

    def take_beats(self) -> list[Beat]:
        """Return the heartbeats to send now."""
        beats, self._outbox = self._outbox, []
        return beats

    def next_wake(self) -> float:
        """Return when `wake` is due."""
        takeover = self._silent_since + self._dead_after_s
        if self.role is Role.STANDBY and takeover > self._last_wake:
            return min(self._next_beat, takeover)
        return self._next_beat
