"""The boundary of one machine's fabric: packets for other machines leave the engine here and arrive from them.

A cut link has its near half in this engine and its far half in another machine's. The sending engine applies queue,
rate, latency and faults; a packet that arrives enters the receiving engine as if it had just come off the cable.
Packets that the connection cannot accept yet wait at the gate. On a link with credits the credits bound that backlog;
without credits packets beyond a limit are dropped (net_overflow).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hfi_sim.base.clock import to_ns, to_seconds
from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import Link, LinkDirection
from opavnic.cluster.machines.connections import MachineConnections
from opavnic.cluster.machines.gate import Crossed, LinksToPeers, NativeGate
from opavnic.cluster.machines.python_gate import PythonGate
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.engine.native import NativeEngine
from opavnic.state.lab import CutLinkStatus


@dataclass(slots=True)
class CutLink:
    """A link with one end on this machine and the other on a peer."""

    link: Link
    peer: NodeName
    leaves: LinkDirection
    arrives: LinkDirection
    counters: PacketCounters = field(default_factory=PacketCounters)
    """Counters of the outgoing direction, between this machine and the peer."""
    arriving: PacketCounters = field(default_factory=PacketCounters)
    """Counters of the incoming direction: what the engine here accepted."""
    before: Crossed = field(default_factory=Crossed)
    """What crossed to and from earlier processes of the peer."""
    lost: int = 0
    """Packets in transit when a connection to this process of the peer ended: the peer has not received them."""

    @property
    def name(self) -> str:
        """The name of the link."""
        return self.link.name


class Boundary:
    """All cut links of one machine."""

    def __init__(
        self,
        fabric: Fabric,
        transport: ZenohTransport,
        links: Iterable[CutLink],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Start to carry packets of these links; they are down while there is no connection."""
        self.links = {link.name: link for link in sorted(links, key=lambda link: link.name)}
        self._fabric = fabric
        self._of_peers: dict[NodeName, list[CutLink]] = {}
        """By number: both machines sort the links between them by name."""
        for cut in self.links.values():
            self._of_peers.setdefault(cut.peer, []).append(cut)
        directions = {
            peer: [(cut.leaves.number, cut.arrives.number) for cut in cuts]
            for peer, cuts in self._of_peers.items()
        }
        self._gate = _gate_of(fabric, directions, loop)
        names = {peer: [cut.name for cut in cuts] for peer, cuts in self._of_peers.items()}
        self.connections = MachineConnections(transport, self._gate, names)
        self.connections.on_new_process = self._begin
        self.connections.on_connected, self.connections.on_ended = self._connected, self._ended
        for cut in self.links.values():
            fabric.attached[f"{cut.leaves.name} network"] = cut.counters
            fabric.attached[f"{cut.arrives.name} network"] = cut.arriving
        for peer in self._of_peers:
            self._set_links(peer, False)
        fabric.before_counting.append(self.count)

    async def close(self) -> None:
        """Stop carrying packets."""
        await self.connections.close()
        self._fabric.before_counting.remove(self.count)

    # --- peers ---------------------------------------------------------------------------------------------

    def _begin(self, peer: NodeName) -> None:
        """Count anew for another process of a machine: what the earlier one had not reported is lost for good."""
        for cut, crossed in zip(self._of_peers[peer], self._gate.crossed(peer), strict=True):
            cut.before = Crossed(*(sum(both) for both in zip(cut.before, crossed, strict=True)))
            cut.lost = 0
        self._gate.begin(peer)

    def _connected(self, peer: NodeName, received: Sequence[int], one_way_s: float) -> None:
        """Bring the links to a machine up; of their latency and the network's, the larger applies."""
        self._count_lost(peer, received)
        for cut in self._of_peers[peer]:
            cut.link.network_s = one_way_s
        self._set_links(peer, True)

    def _ended(self, peer: NodeName) -> None:
        """Bring the links to a machine down: what waits is lost, and what is in transit, as far as known."""
        self._set_links(peer, False)
        self._count_lost(peer, [crossed.reported for crossed in self._gate.crossed(peer)])
        for cut in self._of_peers[peer]:
            self._gate.forget(cut.leaves.number)

    def _set_links(self, peer: NodeName, up: bool) -> None:
        """Let the ports at the ends of the links to a machine see a cable being plugged in or pulled."""
        self._fabric.set_links([cut.link for cut in self._of_peers[peer]], up, by=down_by(peer))

    def _count_lost(self, peer: NodeName, received: Sequence[int]) -> None:
        """Nothing is in transit: what has been sent to a machine, and has not been received, is lost."""
        for cut, crossed, there in zip(self._of_peers[peer], self._gate.crossed(peer), received, strict=True):
            cut.lost = crossed.sent - there

    # --- reports ------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Update the counters of what is between the machines."""
        for peer, cuts in self._of_peers.items():
            for cut, crossed in zip(cuts, self._gate.crossed(peer), strict=True):
                counters, left = cut.counters, self._gate.counts(cut.leaves.number)
                before = cut.before
                counters.in_packets, counters.in_bytes = left.packets, left.bytes
                counters.out_packets = before.reported + crossed.reported
                counters.in_flight = left.waiting + crossed.sent - crossed.reported - cut.lost
                _set(counters, Drop.NET_OVERFLOW, left.overflows)
                _set(counters, Drop.NET_LOST, left.forgotten + before.sent - before.reported + cut.lost)
                arriving = cut.arriving
                arriving.in_packets = arriving.out_packets = before.received + crossed.received
                arriving.in_bytes = arriving.out_bytes = before.received_bytes + crossed.received_bytes

    def status(self) -> list[CutLinkStatus]:
        """Return the state of every cut link as this machine sees it."""
        self.count()
        rows = {}
        for peer, cuts in self._of_peers.items():
            for cut, crossed in zip(cuts, self._gate.crossed(peer), strict=True):
                latency_ns = cut.leaves.planned.latency_ns
                rows[cut.name] = CutLinkStatus(
                    name=cut.name,
                    peer=str(peer),
                    leaves=cut.leaves.name,
                    arrives=cut.arrives.name,
                    is_open=self.connections.is_connected(peer),
                    waiting=self._gate.counts(cut.leaves.number).waiting,
                    sent=crossed.reported,
                    under_way=cut.counters.in_flight,
                    lost=cut.counters.drops.get(Drop.NET_LOST, 0),
                    received=crossed.received,
                    latency_us=round(to_seconds(latency_ns) * 1e6, 3),
                    network_us=None if not cut.link.network_s else round(cut.link.network_s * 1e6, 1),
                    network_is_slower=to_ns(cut.link.network_s) > latency_ns,
                )
        return [rows[name] for name in self.links]


def _gate_of(fabric: Fabric, links: LinksToPeers, loop: asyncio.AbstractEventLoop) -> NativeGate | PythonGate:
    """Return the gate of a fabric's engine."""
    engine = fabric.driver.engine
    native = engine.open_gate(list(links.values())) if isinstance(engine, NativeEngine) else None
    return (
        PythonGate(fabric, links, loop) if native is None else NativeGate(fabric, list(links), native, loop)
    )


def _set(counters: PacketCounters, reason: Drop, packets: int) -> None:
    """Set the number of packets dropped for a reason; a reason that has never occurred is left out."""
    if packets or reason in counters.drops:
        counters.drops[reason] = packets


def down_by(peer: str) -> str:
    """Return the name under which a link to a machine is held down."""
    return f"machine {peer}"
