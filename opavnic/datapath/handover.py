"""The way of packets from the native datapath into the Python one. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable

from hfi_sim.fabric import Fabric
from hfi_sim.wire.lrh16b import slid_of
from opavnic.datapath.snapshot import Elements, direction_of


def carry_on(fabric: Fabric, elements: Elements, packets: Iterable[tuple[int, int, int, bytes]]) -> None:
    """Let packets go on in Python: index of the link, of the end that they start from, switches they came to, bytes.

    The port that a packet came from answers congestion here, wherever on the way Python gets the packet: what it owes
    to a receiver is known to Python alone.
    """
    for link, start, hops, packet in packets:
        port = elements.port_by_lid.get(slid_of(packet))
        if port is not None:
            packet = fabric.engine.answer_congestion(port.number, packet)
        direction_of(elements, link, start).enter(packet, hops)
