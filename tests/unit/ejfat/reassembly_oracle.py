"""An oracle of reassembly for header versions 1 to 3, which knows what was sent.

A case is what senders sent, what a network made of it, and what became of it in a receiver. The oracle shares nothing
with the receiver: it knows of each arriving packet of which sent event it is, or that it is forged.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from ejfat.events.event import Event, EventKey, LostEvent
from ejfat.events.reassembly import Reassembler
from ejfat.wire.headers import LbHeaderV1, LbHeaderV2, LbHeaderV3, ReHeader, SegmentHeader

TIMEOUT_S = 0.5
STEP_S = 1e-5
DISTANCE = 64
_ROOM = 100


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that a sender sent."""

    source: Hashable
    data_id: int
    number: int
    data: bytes
    run: int


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet on its way, and of which event it is; None: it is forged."""

    payload: bytes
    source: Hashable
    of: Sent | None
    key: tuple[Hashable, int, int] | None = None
    """If it is forged: the source, data id and number whose losses it may add to."""


@dataclass(slots=True)
class Verdict:
    """What became of a case; `wrong` is empty if the laws hold."""

    sent: int = 0
    seen: int = 0
    handed: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    thrown: Counter[str] = field(default_factory=Counter)
    forged: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __iadd__(self, other: Verdict) -> Verdict:
        self.sent += other.sent
        self.seen += other.seen
        self.handed += other.handed
        self.forged += other.forged
        self.lost += other.lost
        self.thrown += other.thrown
        self.restarts += other.restarts
        self.wrong += other.wrong
        return self


class Network:
    """Senders and a network, made from a seed; `arrivals` yields the time and the packet."""

    def __init__(self, seed: int, form: str) -> None:
        """Args: form: "1" (no tick left), "1+lb", "2", "2+lb", "3+lb"."""
        self.chance = random.Random(f"{seed} {form}")
        self.form = form
        self.old = form.startswith("1")
        self.numbered = form != "1"
        self.restarts: Counter[str] = Counter()
        self.sent: list[Sent] = []
        chance = self.chance
        address = chance.choice((("10.0.0.9", "10.0.0.9", "10.0.0.9"), ("10.0.0.1", "10.0.0.2", "10.0.0.3")))
        self.senders = [
            ((address[n], 5000 + (n if address[0] == address[1] else 0)), 7)
            for n in range(chance.randint(1, 3))
        ]
        if chance.random() < 0.3:
            self.senders.append((self.senders[0][0], 8))

    def arrivals(self) -> Iterator[tuple[float, Packet]]:
        """Yield what arrives, and when."""
        chance, now = self.chance, 0.0
        streams = [list(self._stream(*sender)) for sender in self.senders]
        for rounds in range(max(map(len, streams))):  # the runs of all senders side by side
            parts = [stream[rounds] for stream in streams if rounds < len(stream)]
            now += max(pause for pause, _ in parts)
            queues = [list(reversed(packets)) for _, packets in parts]
            while any(queues):
                now += STEP_S
                yield now, chance.choice([queue for queue in queues if queue]).pop()

    def _stream(self, source: Hashable, data_id: int) -> Iterator[tuple[float, list[Packet]]]:
        """Yield the runs of a sender: the pause before, and the packets as they arrive."""
        chance = self.chance
        kind = chance.choice(("random", "each its own byte"))
        count = chance.randint(1, 8)
        sizes = [chance.randrange(1, 450) for _ in range(count)]
        again = chance.choice(
            ("no", "no", "no", "pause", "pause", "distance", "other bytes", "other lengths")
        )
        if not self.numbered or (self.old and again == "other lengths"):
            again = "pause" if again != "no" else again
        if again == "distance":
            count = 2 * DISTANCE
            sizes = [chance.randrange(1, 120) for _ in range(count)]
        events = [self._bytes(kind, size, n) for n, size in enumerate(sizes)]
        clean = again == "other bytes"
        yield 0.0, self._through_network(self._run(source, data_id, events, 0), clean=clean)
        if again == "no":
            return
        self.restarts[again] += 1
        if again == "other lengths":
            events = [chance.randbytes(len(data) + chance.randint(450, 500)) for data in events]
        elif again == "other bytes" or (again == "pause" and chance.random() < 0.5):
            events = [bytes(byte ^ 0x55 for byte in data) for data in events]
        pause = 2.1 * TIMEOUT_S if again == "pause" else 0.0
        yield pause, self._through_network(self._run(source, data_id, events, 1), clean=clean)

    def _bytes(self, kind: str, size: int, n: int) -> bytes:
        return self.chance.randbytes(size) if kind == "random" else bytes([65 + n]) * size

    def _run(self, source: Hashable, data_id: int, events: list[bytes], run: int) -> list[list[Packet]]:
        cut = []
        for number, data in enumerate(events):
            sent = Sent(source, data_id, number, data, run)
            self.sent.append(sent)
            offsets = range(0, len(data), _ROOM) or (0,)
            cut.append([self._packet(sent, offset, data[offset : offset + _ROOM]) for offset in offsets])
        return cut

    def _packet(self, sent: Sent, offset: int, part: bytes) -> Packet:
        end = offset + len(part)
        header = (
            SegmentHeader(
                data_id=sent.data_id, offset=offset, first=not offset, last=end == len(sent.data)
            ).build()
            if self.old
            else ReHeader(
                data_id=sent.data_id, offset=offset, length=len(sent.data), event=sent.number
            ).build()
        )
        return Packet(self._front(sent.number) + header + part, sent.source, sent)

    def _front(self, tick: int) -> bytes:
        match self.form:
            case "1+lb":
                return LbHeaderV1(tick=tick).build()
            case "2+lb":
                return LbHeaderV2(tick=tick, entropy=self.chance.getrandbits(16)).build()
            case "3+lb":
                return LbHeaderV3(tick=tick, slot_select=tick & 0xFFFF).build()
        return b""

    def _through_network(self, cut: list[list[Packet]], *, clean: bool) -> list[Packet]:
        """Lose, copy, delay and forge packets.

        What cannot be told apart by any receiver is left out. With version 1 and without a tick, these are events that
        overtake each other and events whose first packets are lost: packets change their order within an event, and
        those of every second event may come as late as in the next one if a packet sent after them came in time.
        """
        loss = 0.0 if clean else self.chance.choice((0.0, 0.0, 0.05, 0.2))
        arrive = self._numbered(cut, loss) if self.numbered else self._in_order(cut, loss)
        if self.chance.random() < 0.7:
            arrive = self._copied(arrive)
        if not clean and self.chance.random() < 0.4:
            arrive = self._forged(arrive)
        return arrive

    def _numbered(self, cut: list[list[Packet]], loss: float) -> list[Packet]:
        chance = self.chance
        arrive = [packet for packets in cut for packet in packets if chance.random() >= loss]
        window = chance.choice((1, 1, 3, 8))
        for start in range(0, len(arrive), window):
            piece = arrive[start : start + window]
            chance.shuffle(piece)
            arrive[start : start + window] = piece
        return arrive

    def _in_order(self, cut: list[list[Packet]], loss: float) -> list[Packet]:
        chance = self.chance
        arrive: list[Packet] = []
        late: list[Packet] = []
        shuffled = chance.random() < 0.4
        for packets in cut:
            first, *rest = packets
            here = [packet for packet in rest if chance.random() >= loss]
            behind = [packet for packet in here[:-1] if not late and chance.random() < loss]
            here = [packet for packet in here if packet not in behind]
            if shuffled and not behind and not late:
                chance.shuffle(here)
            here = [first, *here]
            for packet in late:
                here.insert(chance.randint(1, len(here)), packet)
            arrive += here
            late = behind
        return arrive + late

    def _copied(self, arrive: list[Packet]) -> list[Packet]:
        """Let copies come: within their event and over later ones, each packet at most three times."""
        chance = self.chance
        times = Counter[int]()
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(arrive)) if arrive else 0
            if not arrive or times[id(arrive[at])] == 2:
                continue
            times[id(arrive[at])] += 1
            arrive.insert(min(len(arrive), at + chance.choice((1, 1, 2, 3, 5, 9, 20))), arrive[at])
        return arrive

    def _forged(self, arrive: list[Packet]) -> list[Packet]:
        """Let hostile segments come, those of strangers and those with the source of a sender."""
        chance = self.chance
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(arrive)) if arrive else 0
            near = arrive[at].of if arrive else None
            if near is None:
                continue
            forged = self._forge(near)
            if forged is not None:
                arrive.insert(at + 1, forged)
        return arrive

    def _forge(self, near: Sent) -> Packet | None:
        chance, size = self.chance, len(near.data)
        source: Hashable = near.source
        match chance.choice(("garbage", "version", "stranger", "beyond", "length", "huge", "bytes")):
            case "garbage":
                return Packet(b"\xff" * chance.randrange(8), source, None)
            case "version" if not self.old:
                return Packet(b"\x30" + bytes(40), source, None)
            case "stranger":
                source = ("10.66.6.6", 5000)
                fake = Sent(source, near.data_id, near.number, bytes(size + 999), 0)
                packet = self._packet(fake, 0, near.data[:1])
                return Packet(packet.payload, source, None, (source, near.data_id, near.number))
            case "beyond" if not self.old:
                fake = Sent(source, near.data_id, near.number, bytes(size), 0)
                return Packet(self._packet(fake, size, b"x").payload, source, None)
            case "length" if not self.old:
                fake = Sent(source, near.data_id, near.number, bytes(size + 1), 0)
                payload = self._packet(fake, 0, near.data[: size // 2]).payload
                return Packet(payload, source, None, (source, near.data_id, near.number))
            case "huge" if not self.old:
                fake = Sent(source, near.data_id, near.number + 10_000, bytes(1200), 0)
                payload = self._packet(fake, 0, b"x").payload
                return Packet(payload, source, None, (source, near.data_id, near.number + 10_000))
            case "bytes" if size > _ROOM and not self.old:  # of a part that has come, and comes again
                fake = Sent(source, near.data_id, near.number, near.data, 0)
                payload = self._packet(fake, 0, bytes([near.data[0] ^ 1])).payload
                return Packet(payload, source, None, (source, near.data_id, near.number))
        return None


def play(seed: int, form: str) -> Verdict:
    """Send what a seed says through a receiver, and judge it."""
    network = Network(seed, form)
    receiver = Reassembler(old_headers=network.old, timeout_s=TIMEOUT_S, max_event=1000)
    verdict = Verdict()
    handed: Counter[Sent] = Counter()
    seen: set[Sent] = set()
    lost: list[LostEvent] = []
    forged: Counter[tuple[Hashable, int, int]] = Counter()
    now = 0.0
    busy = random.Random(seed)
    for now, packet in network.arrivals():
        is_due = receiver.deadline is not None and receiver.deadline <= now
        if is_due and busy.random() < 0.7:  # else its timer comes later than the packet
            lost += receiver.expire(now)
        if packet.of is not None:
            seen.add(packet.of)
        else:
            verdict.forged += 1
            if packet.key is not None:
                forged[packet.key] += 1
        before = _thrown(receiver)
        event = receiver.receive(packet.payload, now, packet.source)
        thrown = _thrown(receiver) - before
        if sum(thrown.values()) > 1 or (thrown and event is not None):
            verdict.wrong.append(f"one packet counted as {thrown}")
        if event is not None:
            _judge(event, packet, network, handed, verdict)
    lost += receiver.expire(now + 9.0)
    receiver.expire(now + 99.0)
    verdict.sent, verdict.seen, verdict.handed = len(network.sent), len(seen), sum(handed.values())
    verdict.lost += Counter(one.loss.value for one in lost)
    verdict.thrown += _thrown(receiver)
    verdict.restarts += network.restarts
    _count(receiver, network, seen, handed, lost, forged, verdict)
    verdict.wrong = [f"case {seed} of {form}: {text}" for text in verdict.wrong]
    return verdict


def _thrown(receiver: Reassembler) -> Counter[str]:
    counters = receiver.counters
    return Counter(
        {name: getattr(counters, name) for name in ("malformed", "rejected", "duplicates", "late")}
    )


def _judge(event: Event, packet: Packet, network: Network, handed: Counter[Sent], verdict: Verdict) -> None:
    """Compare an event that was handed over with what was sent."""
    sent = packet.of
    if sent is None:
        verdict.wrong.append("a forged packet completed an event")
        return
    if event.data != sent.data:
        verdict.wrong.append(f"wrong bytes were handed over as {sent.number} of {sent.source}")
    if event.source != sent.source or event.key.data_id != sent.data_id:
        verdict.wrong.append(f"{sent.source} {sent.data_id} became {event.source} {event.key}")
    if network.numbered and event.key != EventKey(sent.number, sent.data_id):
        verdict.wrong.append(f"{sent.number} became {event.key}")
    handed[sent] += 1
    if handed[sent] > 1:
        verdict.wrong.append(f"event {sent.number} of {sent.source} was handed over twice")


def _count(
    receiver: Reassembler,
    network: Network,
    seen: set[Sent],
    handed: Counter[Sent],
    lost: list[LostEvent],
    forged: Counter[tuple[Hashable, int, int]],
    verdict: Verdict,
) -> None:
    """Check that what was sent is handed over or counted as lost, by name."""
    counters, wrong = receiver.counters, verdict.wrong

    def place(source: Hashable, data_id: int, number: int) -> tuple[Hashable, int, int]:
        return source, data_id, number if network.numbered else 0

    missing = Counter(place(one.source, one.data_id, one.number) for one in seen if not handed[one])
    reported = Counter(place(one.source, one.key.data_id, one.key.event) for one in lost)
    allowed = Counter[tuple[Hashable, int, int]]()
    for key, times in forged.items():
        allowed[place(*key)] += times
    for key in missing | reported:
        if not missing[key] <= reported[key] <= missing[key] + allowed[key]:
            wrong.append(f"{key}: {missing[key]} not handed over, {reported[key]} counted as lost")
    names = Counter({loss: getattr(counters, f"events_{loss}", 0) for loss in verdict.lost})
    names["incomplete"] = counters.events_lost - names.total()
    if +names != +verdict.lost or counters.events_lost != len(lost):
        wrong.append(f"counted as lost {names}, reported {verdict.lost}")
    if counters.events_complete != sum(handed.values()):
        wrong.append(f"{counters.events_complete} counted, {sum(handed.values())} handed over")
    if counters.events_seen != counters.events_complete + counters.events_lost:
        wrong.append(f"{counters.events_seen} seen, {counters.events_complete} + {counters.events_lost}")
    if (receiver.pending, receiver.held, receiver.kept, len(receiver._streams)) != (0, 0, 0, 0):
        wrong.append("something is still held")
