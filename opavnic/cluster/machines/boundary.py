"""The boundary of one machine's fabric: packets for other machines leave the engine here and arrive from them.

A cut link has its near half in this engine and its far half in another machine's. The sending engine applies queue,
rate, latency and faults; a packet that arrives enters the receiving engine as if it had just come off the cable.
Packets that the transport cannot accept yet wait here. On a link with credits the credits bound that backlog; without
credits packets beyond a limit are dropped (net_overflow).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.instants import to_ns, to_seconds
from hfi_sim.engine.crossing import TAG_SIZE
from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import Link
from opavnic.cluster.machines.gate import gate_of
from opavnic.cluster.protocol.messages import Body
from opavnic.cluster.protocol.transport import MANAGEMENT_SC, NodeName, Transport
from opavnic.state.lab import CutLinkStatus

FULL_BYTES: Final = 1 << 20
"""Bytes waiting for credits of the receiver behind a link above which its sender is paused."""
LOOK_AGAIN_S: Final = 0.5e-3
"""Interval at which a full receiver is checked again: an engine does not announce returned credits to the outside."""


@dataclass(slots=True)
class CutLink:
    """A link with one end on this machine and the other on a peer."""

    link: Link
    peer: NodeName
    leaving: int
    """The direction that leaves from here, 0 or 1."""
    counters: PacketCounters = field(default_factory=PacketCounters)
    """Counters of the outgoing direction, between this machine and the peer."""
    arriving: PacketCounters = field(default_factory=PacketCounters)
    """Counters of the incoming direction: what the network lost, and what the engine here accepted."""
    arrived: int = 0
    """Packets that arrived from the peer and entered the engine."""
    arrived_bytes: int = 0
    """Bytes of those packets. Both counters are written by the receiving thread only, one thread at a time."""
    is_paused: bool = False
    life: int = 0
    """Life of the peer (see `NodeState.life`)."""
    sent_before: int = 0
    """Packets acknowledged by earlier processes of the peer."""
    received_before: int = 0
    """Packets received from earlier processes of the peer."""

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
        """Start to carry packets of these links; the links are down until `set_peer` brings them up."""
        self.links = {link.name: link for link in links}
        self._fabric = fabric
        self._transport = transport
        self._loop = loop
        self._leaving = {cut.link.directions[cut.leaving].number: cut for cut in self.links.values()}
        directions: dict[NodeName, list[DirectionId]] = {}
        for direction, cut in self._leaving.items():
            directions.setdefault(cut.peer, []).append(direction)
        self._gate = gate_of(fabric, directions, loop)
        self._is_closed = False
        for cut in self.links.values():
            fabric.attached[f"{cut.link.directions[cut.leaving].name} network"] = cut.counters
            fabric.attached[f"{cut.link.directions[1 - cut.leaving].name} network"] = cut.arriving
            fabric.set_link(cut.link, False, by=down_by(cut.peer))
        transport.is_threaded = self._gate.is_threaded
        transport.on_train = self._train
        transport.on_room = self._room
        for cut in self.links.values():
            transport.bind(cut.name, cut.leaving, cut.peer)
        self._gate.start(self._offer)
        fabric.before_counting.append(self.count)

    async def close(self) -> None:
        """Stop carrying packets."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._gate.stop()
        self._fabric.before_counting.remove(self.count)
        for name in self.links:
            self._transport.unbind(name)

    # --- peers ---------------------------------------------------------------------------------------------

    def set_peer(self, peer: NodeName, is_there: bool, life: int = 0) -> None:
        """Bring the links to a machine up or down; the ports at their ends see a cable being plugged in or pulled.

        Args:  life: of the peer; a new life restarts the counters that are shown.
        """
        if is_there:
            self._set_life(peer, life)
        links = [cut.link for cut in self.links.values() if cut.peer == peer]
        if not is_there:
            for cut in self.links.values():
                if cut.peer == peer:
                    self._gate.forget(cut.link.directions[cut.leaving].number)
        self._fabric.set_links(links, is_there, by=down_by(peer))

    def _set_life(self, peer: NodeName, life: int) -> None:
        self.count()
        for cut in self.links.values():
            if cut.peer == peer and cut.life != life:
                cut.life = life
                cut.sent_before, cut.received_before = cut.counters.out_packets, cut.arriving.in_packets

    def set_network(self, peer: NodeName, one_way_s: float) -> None:
        """Include the network's delay in the latency of the links to a machine: the larger of the two applies."""
        for cut in self.links.values():
            if cut.peer == peer:
                cut.link.network_s = one_way_s

    # # --- packets: in the gate's thread for each machine, and in the transport's threads -------------------------

    def _room(self, link: str, _direction: int) -> None:
        cut = self.links.get(link)
        if cut is not None:
            self._gate.wake(cut.peer)

    def _offer(self, peer: NodeName) -> None:
        """Offer the transport a machine's packets, one message of each service channel in turn, management first.

        Packets that leave the engine meanwhile join the rotation, so a fast sender cannot starve the others.
        """
        goes_on = True
        while goes_on and not self._is_closed:
            goes_on = False
            for direction, sc in sorted(self._gate.waiting(peer), key=lambda lane: lane[1] != MANAGEMENT_SC):
                cut = self._leaving[direction]
                take = partial(self._gate.take, direction, sc)
                if self._transport.send_train(cut.name, cut.leaving, sc, take):
                    goes_on = True

    def _train(self, link: str, direction: int, body: Body) -> None:
        cut = self.links.get(link)
        if cut is None or direction == cut.leaving or self._is_closed:
            return
        self._gate.arrive(cut.link.directions[direction].number, body)
        cut.arrived += body.count
        cut.arrived_bytes += body.size - TAG_SIZE * body.count
        if cut.link.directions[1 - cut.leaving].has_credits:
            self._loop.call_soon_threadsafe(self._update_credits, cut)

    # --- credits -------------------------------------------------------------------------------------------

    def _update_credits(self, cut: CutLink) -> None:
        """Pause the sender while the receiver behind the link has no room for the backlog."""
        if self._is_closed:
            return
        lanes = cut.link.directions[1 - cut.leaving].lanes
        is_full = lanes is not None and sum(lanes.waiting) > FULL_BYTES
        if is_full != cut.is_paused:
            cut.is_paused = is_full
            act = self._transport.pause if is_full else self._transport.resume
            act(cut.name, 1 - cut.leaving)
        if is_full:
            self._loop.call_later(LOOK_AGAIN_S, self._update_credits, cut)

    # # --- reports ------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Update the counters of what is between the machines."""
        reports = self._transport.links()
        for cut in self.links.values():
            report = reports.get(cut.name)
            if report is None:
                continue
            counters, left = cut.counters, self._gate.counts(cut.link.directions[cut.leaving].number)
            counters.in_packets, counters.in_bytes = left.packets, left.bytes
            counters.out_packets = report.acknowledged + report.found
            counters.in_flight = left.waiting + report.under_way
            _set(counters, Drop.NET_OVERFLOW, left.overflows)
            _set(counters, Drop.NET_LOST, left.forgotten + report.lost - report.found)
            arriving = cut.arriving
            arriving.out_packets = cut.arrived
            arriving.in_bytes = arriving.out_bytes = cut.arrived_bytes
            arriving.in_packets = cut.arrived + report.missing
            _set(arriving, Drop.NET_LOST, report.missing)

    def status(self) -> list[CutLinkStatus]:
        """Return the state of every cut link as this machine sees it."""
        self.count()
        reports = self._transport.links()
        rows = []
        for name, cut in self.links.items():
            report = reports.get(name)
            directions = cut.link.directions
            rows.append(
                CutLinkStatus(
                    name=name,
                    peer=str(cut.peer),
                    leaves=directions[cut.leaving].name,
                    arrives=directions[1 - cut.leaving].name,
                    is_open=report is not None and report.is_open,
                    sent=cut.counters.out_packets - cut.sent_before,
                    under_way=cut.counters.in_flight,
                    lost=cut.counters.drops.get(Drop.NET_LOST, 0),
                    received=cut.arriving.in_packets - cut.received_before,
                    latency_us=round(to_seconds(directions[cut.leaving].planned.latency_ns) * 1e6, 3),
                    network_us=None if not cut.link.network_s else round(cut.link.network_s * 1e6, 1),
                    network_is_slower=to_ns(cut.link.network_s) > directions[cut.leaving].planned.latency_ns,
                )
            )
        return rows


def _set(counters: PacketCounters, reason: Drop, packets: int) -> None:
    """Set the number of packets dropped for a reason; a reason that has never occurred is left out."""
    if packets or reason in counters.drops:
        counters.drops[reason] = packets


def down_by(peer: str) -> str:
    """Return the name under which a link to a machine is held down."""
    return f"machine {peer}"
