"""All link ends of one node: each end's peer, the messages to send, and those received or refused. Does no I/O.

Messages to send and events to report collect in `outputs`; the caller of a method drains them afterwards.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from opavnic.cluster.errors import ClusterInputError, MessageError
from opavnic.cluster.protocol.messages import (
    SERVICE_CHANNELS,
    Body,
    Grant,
    Open,
    StreamId,
    Take,
    Train,
    build_grant,
    build_open,
    parse,
    train_head,
)
from opavnic.cluster.protocol.streams import (
    ACK_EVERY_BYTES,
    ONE_FOR_ALL,
    RIDE_BYTES,
    ReceiveStream,
    SendStream,
)
from opavnic.cluster.protocol.transport import MANAGEMENT_SC, LinkReport, NodeName

ACK_DELAY_S: Final = 0.01
"""How long an acknowledgement waits for more packets; the sender's window lasts many times this."""
OPEN_AGAIN_S: Final = 0.5
"""An end repeats its request for room after this time: its peer may bind the link later, or have refused it before."""


class Urgency(IntEnum):
    """Priority of messages to the same peer; lower goes first."""

    GRANT = 0
    MANAGEMENT = 1
    DATA = 2

    __hash__ = int.__hash__  # the inherited hash of an enum is a Python function, called for each message


def urgency_of(sc: int) -> Urgency:
    """Return the priority of trains of a service channel: MADs go ahead of data."""
    return Urgency.MANAGEMENT if sc == MANAGEMENT_SC else Urgency.DATA


class Put(NamedTuple):
    """A message to send."""

    peer: NodeName
    link: str
    direction: int
    urgency: Urgency
    payload: bytes


class Arrived(NamedTuple):
    """Packets for a link direction that ends here."""

    link: str
    direction: int
    body: Body


class RoomAgain(NamedTuple):
    """A blocked direction has room again."""

    link: str
    direction: int


class Lost(NamedTuple):
    """Packets were in transit when their receiver left."""

    link: str
    direction: int
    packets: int


Output = Put | Arrived | RoomAgain | Lost


@dataclass(slots=True)
class _LinkEnd:
    name: str
    peer: NodeName
    direction: int
    senders: dict[int, SendStream] = field(default_factory=dict)
    receivers: dict[int, ReceiveStream] = field(default_factory=dict)
    is_paused: bool = False

    @property
    def is_blocked(self) -> bool:
        """Whether a sender has packets left that it could not send."""
        return any(stream.is_blocked for stream in self.senders.values())


@dataclass(slots=True)
class _Peer:
    life: int
    under_way: dict[Urgency, int] = field(default_factory=lambda: {Urgency.MANAGEMENT: 0, Urgency.DATA: 0})
    """Bytes in transit to the peer."""
    owed: int = 0
    """Bytes received since the last grants; may be an overestimate."""
    longest: int = 0
    """Bytes of the longest train received from the peer."""

    @property
    def wants_grants(self) -> bool:
        """Whether enough has been received since the last grants to send new ones."""
        return self.owed >= max(ACK_EVERY_BYTES, 2 * self.longest)


class Exchange:
    """The link ends of one node."""

    def __init__(self, life: int, fabric: int = 0) -> None:
        """Args:  life: this node's, not 0."""
        self.life = life
        self.fabric = fabric
        self.pace = ONE_FOR_ALL
        """How much is sent at a time."""
        self.outputs: deque[Output] = deque()
        self.refused: Counter[str] = Counter()
        """Received messages that were refused, by reason."""
        self._links: dict[str, _LinkEnd] = {}
        self._ends_to: defaultdict[NodeName, dict[str, _LinkEnd]] = defaultdict(dict)
        self._peers: dict[NodeName, _Peer] = {}
        self._dirty: dict[tuple[str, int], float] = {}
        """Receiving streams that owe an acknowledgement: since when."""
        self._is_due = False
        """Whether some peer may be due for grants now."""
        self._asked: dict[tuple[str, int], float] = {}
        """Sending streams that wait for their first room: when they asked."""

    def bind(self, link: str, direction: int, peer: NodeName, now: float) -> None:
        """See Transport.bind. Raises ClusterInputError if the link is bound or the direction is neither 0 nor 1."""
        if link in self._links:
            raise ClusterInputError(f"link {link} is bound to {self._links[link].peer} already")
        if direction not in (0, 1):
            raise ClusterInputError(f"link {link}: direction {direction} is neither 0 nor 1")
        end = self._links[link] = _LinkEnd(link, peer, direction)
        self._ends_to[peer][link] = end
        self._sender(end, MANAGEMENT_SC, now)

    def unbind(self, link: str) -> None:
        """See Transport.unbind."""
        end = self._links.pop(link, None)
        if end is None:
            return
        del self._ends_to[end.peer][link]
        self._end_senders(end)
        self._owe_nothing(end)

    def peer_joined(self, peer: NodeName, life: int, now: float) -> None:
        """Note that a node is present; a life other than before means a new process."""
        known = self._peers.get(peer)
        if known is not None:
            if known.life == life:
                return
            self.peer_gone(peer)
        self._peers[peer] = _Peer(life)
        for end in self._ends_to[peer].values():
            for sc, stream in end.senders.items():
                stream.peer_joined(life)
                self._ask(end, sc, stream, now)

    def peer_gone(self, peer: NodeName) -> None:
        """Note that a node has left; packets in transit to it are lost."""
        if peer in self._peers:
            for end in self._ends_to[peer].values():
                self._end_senders(end)
                self._owe_nothing(end)
            del self._peers[peer]

    def send(self, link: str, sc: int, take: Take, now: float) -> int:
        """Send packets of an outgoing direction, taken with `take`; return the number of packets sent."""
        taken = 0
        while sent := self.send_train(link, sc, take, now):
            put, count = sent
            self.outputs.append(put)
            taken += count
        return taken

    def send_train(self, link: str, sc: int, take: Take, now: float) -> tuple[Put, int] | None:
        """Make a train of waiting packets and return it with its packet count; None: nothing waits, or there
        is no room.
        """
        end = self._links[link]
        if not 0 <= sc < SERVICE_CHANNELS:
            raise ClusterInputError(f"link {link}: SC {sc}; there are 0 to {SERVICE_CHANNELS - 1}")
        stream = end.senders.get(sc) or self._sender(end, sc, now)
        peer, urgency, pace = self._peers.get(end.peer), urgency_of(sc), self.pace
        packets = stream.room()
        size = 0 if peer is None else min(pace.train, pace.budget - peer.under_way[urgency])
        # with this much in transit, the peer grants before it has received all of it: do not send short trains until
        # then
        least = pace.train if stream.bytes_under_way >= pace.budget // 2 else 1
        if peer is None or packets <= 0 or size < least:
            stream.is_blocked = True
            return None
        rides = self._rides(end, sc, stream, peer)
        grant = None if rides is None else rides.grant(self.fabric, sc, self.life)
        taken = take(train_head(self._stream_id(sc, stream), stream.next, grant), packets, size)
        stream.is_blocked = taken is not None and taken[1] == 0
        if taken is None or taken[1] == 0:
            return None
        if rides is not None:
            self._has_granted(end, sc, rides)
        payload, count, bytes_taken = taken
        stream.sent(count, bytes_taken)
        peer.under_way[urgency] += bytes_taken
        return Put(end.peer, link, end.direction, urgency, payload), count

    def _rides(self, end: _LinkEnd, sc: int, sender: SendStream, peer: _Peer) -> ReceiveStream | None:
        """Return the stream whose grant the train carries, provided nothing long ahead of the train would
        delay the grant.
        """
        stream = end.receivers.get(sc)
        if (
            stream is None
            or stream.ungranted_bytes < RIDE_BYTES
            or stream.from_life != sender.life
            or end.is_paused
            or peer.under_way[urgency_of(sc)] > RIDE_BYTES
        ):
            return None
        return stream

    def pause(self, link: str) -> None:
        """See Transport.pause."""
        if link in self._links:
            self._links[link].is_paused = True

    def resume(self, link: str, now: float) -> None:
        """See Transport.resume."""
        end = self._links.get(link)
        if end is None or not end.is_paused:
            return
        end.is_paused = False
        for sc, stream in end.receivers.items():
            if stream.era:
                self._grant(end, sc, stream)

    def received(self, sender: NodeName, link: str, direction: int, payload: bytes, now: float) -> None:
        """Handle a message that `sender` sent for a link direction; a malformed or misplaced one is counted in
        `refused`.
        """
        try:
            message = parse(payload)
        except MessageError as error:
            self.refused["other_version" if error.field == "version" else "bad_message"] += 1
            return
        reason = self._accept(sender, link, direction, message, now)
        if reason is not None:
            self.refused[reason] += 1

    def poll(self, now: float) -> float | None:
        """Send what is due; return when to call again, or None."""
        due = next(iter(self._dirty.values()), None)  # a dict keeps insertion order: the oldest is first
        if due is not None and (self._is_due or now - due >= ACK_DELAY_S):
            for key, end, stream in self._owed(now):
                self._grant(end, key[1], stream)
            due = next(iter(self._dirty.values()), None)
        self._is_due = False
        if due is not None:
            due += ACK_DELAY_S
        if self._asked:
            for key, asked in list(self._asked.items()):
                if now - asked >= OPEN_AGAIN_S:
                    end = self._links[key[0]]
                    self._ask(end, key[1], end.senders[key[1]], now)
            again = min(self._asked.values()) + OPEN_AGAIN_S
            due = again if due is None else min(due, again)
        return due

    def _owed(self, now: float) -> list[tuple[tuple[str, int], _LinkEnd, ReceiveStream]]:
        """Return the receiving streams that are due to grant."""
        owed: dict[NodeName, int] = {}
        for link, sc in self._dirty:
            end = self._links[link]
            owed[end.peer] = owed.get(end.peer, 0) + end.receivers[sc].ungranted_bytes
        for name, size in owed.items():
            self._peers[name].owed = size
        found = []
        for key, since in self._dirty.items():
            end = self._links[key[0]]
            stream = end.receivers[key[1]]
            if now - since >= ACK_DELAY_S or self._peers[end.peer].wants_grants or stream.owes_a_grant:
                found.append((key, end, stream))
        return found

    def reports(self) -> Iterator[tuple[str, LinkReport]]:
        """Yield each link with its counters."""
        for name, end in self._links.items():
            senders, receivers = end.senders.values(), end.receivers.values()
            yield (
                name,
                LinkReport(
                    is_open=end.senders[MANAGEMENT_SC].is_open,
                    sent=sum(stream.total_sent for stream in senders),
                    acknowledged=sum(stream.total_acknowledged for stream in senders),
                    under_way=sum(stream.under_way for stream in senders),
                    lost=sum(stream.lost for stream in senders),
                    found=sum(stream.found for stream in senders),
                    received=sum(stream.received for stream in receivers),
                    missing=sum(stream.total_missing for stream in receivers),
                ),
            )

    def _accept(
        self, sender: NodeName, link: str, direction: int, message: Train | Open | Grant, now: float
    ) -> str | None:
        """Handle a message; return the reason for refusing it, or None."""
        stream_id, end, peer = message.stream_id, self._links.get(link), self._peers.get(sender)
        if stream_id.fabric != self.fabric:
            return "other_fabric"
        if end is None:
            return "unknown_link"
        if end.peer != sender:
            return "not_the_peer"
        if peer is None or stream_id.from_life != peer.life or stream_id.to_life != self.life:
            return "stale_life"
        leaves = direction == end.direction
        if isinstance(message, Grant) != leaves or direction not in (0, 1):
            return "wrong_direction"
        if isinstance(message, Grant):
            return self._granted(end, peer, message)
        stream = end.receivers.get(stream_id.sc)
        if stream is None:
            stream = end.receivers[stream_id.sc] = ReceiveStream()
        if isinstance(message, Open):
            if not stream.opened(message):
                return "stale_era"
            self._grant(end, stream_id.sc, stream)
            return None
        if message.grant is not None:
            refusal = self._granted(end, peer, message.grant)
            if refusal is not None:
                self.refused[refusal] += 1
        reason = stream.took(message)
        if reason is None:
            self._dirty.setdefault((link, stream_id.sc), now)
            peer.owed += message.body.size
            peer.longest = max(peer.longest, message.body.size)
            if peer.wants_grants or stream.owes_a_grant:
                self._is_due = True
            self.outputs.append(Arrived(link, direction, message.body))
        return reason

    def _granted(self, end: _LinkEnd, peer: _Peer, grant: Grant) -> str | None:
        sc = grant.stream_id.sc
        stream = end.senders.get(sc)
        was_open = stream is not None and stream.is_open
        freed = None if stream is None else stream.granted(grant)
        if stream is None or freed is None:
            return "stale_era" if stream is None or grant.stream_id.era != stream.era else "bad_grant"
        self._asked.pop((end.name, sc), None)
        peer.under_way[urgency_of(sc)] -= freed
        near = self._ends_to[end.peer].values() if freed else [end]
        for other in near:
            if not other.is_blocked and (other is not end or was_open):
                continue
            for one in other.senders.values():
                one.is_blocked = False
            self.outputs.append(RoomAgain(other.name, other.direction))
        return None

    def _sender(self, end: _LinkEnd, sc: int, now: float) -> SendStream:
        stream = end.senders[sc] = SendStream()
        peer = self._peers.get(end.peer)
        if peer is not None:
            stream.peer_joined(peer.life)
            self._ask(end, sc, stream, now)
        return stream

    def _end_senders(self, end: _LinkEnd) -> None:
        lost = 0
        peer = self._peers.get(end.peer)
        for sc, stream in end.senders.items():
            packets, size = stream.peer_gone()
            lost += packets
            if peer is not None:
                peer.under_way[urgency_of(sc)] -= size
            self._asked.pop((end.name, sc), None)
        if lost:
            self.outputs.append(Lost(end.name, end.direction, lost))

    def _owe_nothing(self, end: _LinkEnd) -> None:
        for sc in end.receivers:
            self._dirty.pop((end.name, sc), None)

    def _stream_id(self, sc: int, stream: SendStream) -> StreamId:
        return StreamId(self.fabric, sc, self.life, stream.life, stream.era)

    def _ask(self, end: _LinkEnd, sc: int, stream: SendStream, now: float) -> None:
        self._asked[end.name, sc] = now
        payload = build_open(self._stream_id(sc, stream))
        self.outputs.append(Put(end.peer, end.name, end.direction, Urgency.GRANT, payload))

    def _grant(self, end: _LinkEnd, sc: int, stream: ReceiveStream) -> None:
        grant = stream.grant(self.fabric, sc, self.life, paused=end.is_paused)
        if end.is_paused:
            self._dirty.pop((end.name, sc), None)
        else:
            self._has_granted(end, sc, stream)
        self.outputs.append(Put(end.peer, end.name, 1 - end.direction, Urgency.GRANT, build_grant(grant)))

    def _has_granted(self, end: _LinkEnd, sc: int, stream: ReceiveStream) -> None:
        """Note that a stream's grant is sent, alone or with a train."""
        self._dirty.pop((end.name, sc), None)
        peer = self._peers.get(end.peer)
        if peer is not None:
            peer.owed = max(0, peer.owed - stream.ungranted_bytes)
        stream.has_granted()
