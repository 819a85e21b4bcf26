"""Two exchanges with a network between them that a test orders, delays, loses and duplicates."""

from __future__ import annotations

from dataclasses import dataclass, field

from opavnic.cluster.protocol.exchange import ACK_DELAY_S, Arrived, Exchange, Lost, Put, RoomAgain
from opavnic.cluster.protocol.messages import Packets
from opavnic.cluster.protocol.transport import LinkReport, NodeName

A, B = NodeName("a"), NodeName("b")
LINK = "a:1-b:1"


@dataclass
class TwoNodes:
    """Node a sends direction 0 of one link to node b."""

    now: float = 0.0
    a: Exchange = field(default_factory=lambda: Exchange(life=11, fabric=0x301))
    b: Exchange = field(default_factory=lambda: Exchange(life=22, fabric=0x301))
    wire: list[tuple[NodeName, Put]] = field(default_factory=list)
    """What is under way, with its sender."""
    delivered: dict[NodeName, list[bytes]] = field(default_factory=lambda: {A: [], B: []})
    lost: int = 0
    rooms: int = 0

    def bind(self) -> TwoNodes:
        self.a.bind(LINK, 0, B, self.now)
        self.b.bind(LINK, 1, A, self.now)
        return self

    def meet(self) -> TwoNodes:
        self.a.peer_joined(B, self.b.life, self.now)
        self.b.peer_joined(A, self.a.life, self.now)
        self.settle()
        return self

    def part(self) -> None:
        self.a.peer_gone(B)
        self.b.peer_gone(A)
        self.collect()

    def collect(self) -> None:
        for name, node in ((A, self.a), (B, self.b)):
            node.poll(self.now)
            while node.outputs:
                match node.outputs.popleft():
                    case Put() as put:
                        self.wire.append((name, put))
                    case Arrived(_, _, body):
                        self.delivered[name] += body.packets
                    case Lost(_, _, packets):
                        self.lost += packets
                    case RoomAgain():
                        self.rooms += 1

    def carry(self, index: int = 0, *, keep: bool = False) -> None:
        """Deliver one message of those under way; `keep` leaves a copy there."""
        sender, put = self.wire[index] if keep else self.wire.pop(index)
        node = self.b if put.peer == B else self.a
        node.received(sender, put.link, put.direction, put.payload, self.now)
        self.collect()

    def settle(self, seconds: float = 2 * ACK_DELAY_S) -> None:
        """Deliver everything, acknowledgements too."""
        self.collect()
        while self.wire:
            self.carry()
        self.now += seconds
        self.collect()
        while self.wire:
            self.carry()

    def answer(self, *packets: bytes) -> int:
        taken = self.b.send(LINK, 0, Packets(packets).take, self.now)
        self.collect()
        return taken

    def send(self, *packets: bytes, sc: int = 0) -> int:
        taken = self.a.send(LINK, sc, Packets(packets).take, self.now)
        self.collect()
        return taken

    @property
    def sender(self) -> LinkReport:
        return dict(self.a.reports())[LINK]

    @property
    def receiver(self) -> LinkReport:
        return dict(self.b.reports())[LINK]
