"""Where a fabric goes on at other machines: packets leave the engine here for a transport, and come back from it.

A cut link has its near half in this engine and its far half in another one. A packet has gone through queue, rate,
latency and faults of its direction where it was sent; what arrives enters the far engine as if it had just come by the
cable. What the transport cannot take waits here, and bounds the credits of the link; without credits it is dropped
(net_overflow) once too much waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from hfi_sim.cable import Link
from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.engine.crossing import TAG_SIZE
from hfi_sim.engine.outputs import BufferToken, DirectionId, Left
from hfi_sim.fabric import Fabric
from hfi_sim.wire.lrh16b import sc_of
from opavnic.cluster.transport import MANAGEMENT_SC, NodeName, Transport

WAITING_BYTES: Final = 8 << 20
"""Of packets of one link that the transport does not take; more are dropped (net_overflow)."""
OFFER: Final = 64
"""Packets offered to the transport at once."""
FULL_BYTES: Final = 1 << 20
"""Of packets that wait for credits of the receiver behind a link; from here on its sender is stopped."""
LOOK_AGAIN_S: Final = 0.5e-3
"""After which time to look whether these have gone on: credits announce nothing to the outside of an engine."""


@dataclass(slots=True)
class _Waiting:
    """Packets of one service channel that have left the engine, in order."""

    packets: deque[bytes] = field(default_factory=deque)
    """As records (`hfi_sim.engine.crossing`)."""
    tokens: deque[BufferToken] = field(default_factory=deque)
    """One for each packet, on a link with credits; otherwise none."""


@dataclass(slots=True)
class CutLink:
    """A link of which one end is here, and the other one at another machine."""

    link: Link
    peer: NodeName
    leaving: int
    """The direction that leaves from here, 0 or 1."""
    counters: PacketCounters = field(default_factory=PacketCounters)
    """Of what leaves from here, between this machine and the other."""
    arriving: PacketCounters = field(default_factory=PacketCounters)
    """Of what comes from there: what the network lost, and what the engine here took."""
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    """By service channel."""
    waiting_bytes: int = 0
    forgotten: int = 0
    """Packets that waited for a machine when it went."""
    waits_for_room: bool = False
    is_offering: bool = False
    """The transport may say that there is room while it is being given packets."""
    is_paused: bool = False
    life: int = 0
    """Of the machine at the other end."""
    sent_before: int = 0
    """What had arrived at earlier processes of that machine."""
    received_before: int = 0
    """What had come from them."""

    @property
    def name(self) -> str:
        """The name of the link."""
        return self.link.name


class Boundary:
    """All cut links of one machine."""

    def __init__(
        self,
        fabric: Fabric,
        transport: Transport,
        links: Iterable[CutLink],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Begin to carry packets of these links; they are down until `set_peer` says otherwise."""
        self.links = {link.name: link for link in links}
        self._fabric = fabric
        self._transport = transport
        self._loop = loop
        self._leaving: dict[DirectionId, CutLink] = {}
        self._dirty: dict[str, CutLink] = {}
        """Links that have packets to offer."""
        self._is_closed = False
        for cut in self.links.values():
            self._leaving[cut.link.directions[cut.leaving].number] = cut
            fabric.attached[f"{cut.link.directions[cut.leaving].name} network"] = cut.counters
            fabric.attached[f"{cut.link.directions[1 - cut.leaving].name} network"] = cut.arriving
            fabric.set_link(cut.link, False, by=down_by(cut.peer))
            transport.bind(cut.name, cut.leaving, cut.peer)
        fabric.on_left = self._left
        transport.on_train = self._train
        transport.on_room = self._room
        fabric.before_counting.append(self.count)

    def close(self) -> None:
        """Carry nothing more."""
        if self._is_closed:
            return
        self._is_closed = True
        self._fabric.before_counting.remove(self.count)
        for name in self.links:
            self._transport.unbind(name)

    # --- peers ---------------------------------------------------------------------------------------------

    def set_peer(self, peer: NodeName, is_there: bool, life: int = 0) -> None:
        """Take the links to a machine up, or down: the ports at their ends see a cable that is cut.

        Args:  life: the process of that machine; another one begins to count anew.
        """
        if is_there:
            self._heed_life(peer, life)
        links = [cut.link for cut in self.links.values() if cut.peer == peer]
        if not is_there:
            for cut in self.links.values():
                if cut.peer == peer:
                    self._forget(cut)
        self._fabric.set_links(links, is_there, by=down_by(peer))

    def _heed_life(self, peer: NodeName, life: int) -> None:
        self.count()
        for cut in self.links.values():
            if cut.peer == peer and cut.life != life:
                cut.life = life
                cut.sent_before, cut.received_before = cut.counters.out_packets, cut.arriving.in_packets

    def set_network(self, peer: NodeName, one_way_s: float) -> None:
        """Let the network to a machine be part of the latency of the links to it: the larger of the two counts."""
        for cut in self.links.values():
            if cut.peer == peer:
                cut.link.network_s = one_way_s

    def _forget(self, cut: CutLink) -> None:
        """Lose what waits for a machine that is gone."""
        for waiting in cut.waiting.values():
            cut.forgotten += len(waiting.packets)
            self._release(waiting.tokens)
        cut.waiting.clear()
        cut.waiting_bytes = 0
        self._dirty.pop(cut.name, None)

    # --- leaving -------------------------------------------------------------------------------------------

    def _left(self, left: Left) -> None:
        _, direction, record, token = left
        cut = self._leaving[direction]
        counters = cut.counters
        size = len(record) - TAG_SIZE
        counters.in_packets += 1
        counters.in_bytes += size
        # an engine that finds nobody to take its packets tells of them, and does not keep them
        if not size or (token is None and cut.waiting_bytes + size > WAITING_BYTES):
            counters.drop(Drop.NET_OVERFLOW)
            return
        cut.waiting_bytes += size
        sc = sc_of(record)
        waiting = cut.waiting.get(sc)
        if waiting is None:
            waiting = cut.waiting[sc] = _Waiting()
        waiting.packets.append(record)
        if token is not None:
            waiting.tokens.append(token)
        if not cut.waits_for_room:
            self._offer_soon(cut)

    def _offer_all(self) -> None:
        dirty, self._dirty = self._dirty, {}
        if not self._is_closed:
            for cut in dirty.values():
                self._offer(cut)

    def _offer(self, cut: CutLink) -> None:
        """Give the transport what it takes, management ahead of data."""
        if cut.is_offering:
            return
        cut.is_offering = True
        try:
            self._offer_waiting(cut)
        finally:
            cut.is_offering = False

    def _offer_waiting(self, cut: CutLink) -> None:
        cut.waits_for_room = False
        for sc in sorted(cut.waiting, key=lambda sc: sc != MANAGEMENT_SC):
            waiting = cut.waiting[sc]
            while waiting.packets:
                offered = list(islice(waiting.packets, OFFER))
                taken = self._transport.send_train(cut.name, cut.leaving, sc, offered)
                gone = offered[:taken]
                cut.waiting_bytes -= sum(map(len, gone)) - TAG_SIZE * taken
                for _ in gone:
                    waiting.packets.popleft()
                if waiting.tokens:  # each packet has one, on a link with credits
                    self._release([waiting.tokens.popleft() for _ in gone])
                if taken == 0:
                    cut.waits_for_room = True
                    break

    def _release(self, tokens: Iterable[BufferToken]) -> None:
        driver = self._fabric.driver
        for token in tokens:
            driver.engine.release(driver.now, token)
        driver.run_soon()

    def _room(self, link: str, _direction: int) -> None:
        if (cut := self.links.get(link)) is not None and not self._is_closed:
            if cut.is_offering:
                self._offer_soon(cut)
            else:
                self._offer(cut)

    def _offer_soon(self, cut: CutLink) -> None:
        if not self._dirty:
            self._loop.call_soon(self._offer_all)
        self._dirty[cut.name] = cut

    # --- arriving ------------------------------------------------------------------------------------------

    def _train(self, link: str, direction: int, packets: list[bytes]) -> None:
        cut = self.links.get(link)
        if cut is None or direction == cut.leaving or self._is_closed:
            return
        counters, driver = cut.arriving, self._fabric.driver
        counters.in_packets += len(packets)
        counters.out_packets += len(packets)
        size = sum(map(len, packets)) - TAG_SIZE * len(packets)
        counters.in_bytes += size
        counters.out_bytes += size
        number = cut.link.directions[direction].number
        driver.engine.arrive(driver.now, number, packets)
        driver.run()
        if cut.link.has_credits:
            self._heed_credits(cut)

    def _heed_credits(self, cut: CutLink) -> None:
        """Stop the sender while the receiver behind the link has no room for what waits."""
        lanes = cut.link.directions[1 - cut.leaving].lanes
        is_full = lanes is not None and sum(lanes.waiting) > FULL_BYTES
        if is_full != cut.is_paused:
            cut.is_paused = is_full
            act = self._transport.pause if is_full else self._transport.resume
            act(cut.name, 1 - cut.leaving)
        if is_full and not self._is_closed:
            self._loop.call_later(LOOK_AGAIN_S, self._heed_credits, cut)

    # --- looking ------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Bring the counters of what is between the machines up to date."""
        reports = self._transport.links()
        for cut in self.links.values():
            report = reports.get(cut.name)
            if report is None:
                continue
            counters = cut.counters
            counters.out_packets = report.acknowledged + report.found
            waiting = sum(len(waiting.packets) for waiting in cut.waiting.values())
            counters.in_flight = waiting + report.under_way
            if lost := cut.forgotten + report.lost - report.found:
                counters.drops[Drop.NET_LOST] = lost
            if report.missing:
                cut.arriving.drops[Drop.NET_LOST] = report.missing
                cut.arriving.in_packets = cut.arriving.out_packets + report.missing

    def status(self) -> list[dict[str, Any]]:
        """Return every cut link as this machine sees it."""
        self.count()
        reports = self._transport.links()
        rows = []
        for name, cut in self.links.items():
            report = reports.get(name)
            directions = cut.link.directions
            rows.append(
                {
                    "name": name,
                    "peer": str(cut.peer),
                    "leaves": directions[cut.leaving].name,
                    "arrives": directions[1 - cut.leaving].name,
                    "is_open": report is not None and report.is_open,
                    "sent": cut.counters.out_packets - cut.sent_before,
                    "under_way": cut.counters.in_flight,
                    "lost": cut.counters.drops.get(Drop.NET_LOST, 0),
                    "received": cut.arriving.in_packets - cut.received_before,
                    "latency_us": round(cut.link.latency_s * 1e6, 3),
                    "network_us": None if not cut.link.network_s else round(cut.link.network_s * 1e6, 1),
                    "network_is_slower": cut.link.network_s > cut.link.latency_s,
                }
            )
        return rows


def down_by(peer: str) -> str:
    """Return in whose name a link to a machine is held down."""
    return f"machine {peer}"
