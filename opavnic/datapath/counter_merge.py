"""Adding what the native datapath counted to the counters of the fabric and of the VNICs. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hfi_sim.counters import Drop, PacketCounters
from opavnic.adapter import Adapter
from opavnic.counters import TrafficCounters
from opavnic.datapath.snapshot import Elements

if TYPE_CHECKING:
    from opavnic import _native


def add_counts(counts: _native.Counts, elements: Elements, vports: Mapping[int, Adapter]) -> None:
    """Add one harvest to the counters of the elements that it belongs to."""
    for port, tx, rx in zip(elements.ports, counts["port_tx"], counts["port_rx"], strict=True):
        add_element(port.tx, tx)
        add_element(port.rx, rx)
    for switch, here in zip(elements.switches, counts["switches"], strict=True):
        add_element(switch.counters, here)
    for link, pair in zip(elements.links, counts["directions"], strict=True):
        for direction, here in zip(link.directions, pair, strict=True):
            add_element(direction.counters, here)
    for link, drawn in zip(elements.links, counts["drawn"], strict=True):
        for direction, words in zip(link.directions, drawn, strict=True):
            direction.stream.skip(words)
    for faults, tallies in zip(elements.faults, counts["faults"], strict=True):
        for inflicted, pairs in zip(faults, tallies, strict=True):
            for fault, (seen, hits) in zip(inflicted, pairs, strict=True):
                fault.tally.seen += seen
                fault.tally.hits += hits
    for index, vnic in counts["vports"].items():
        if index in vports:
            add_vnic(vports[index], vnic)


def add_element(counters: PacketCounters, more: _native.ElementCounts) -> None:
    """Add to the counters of one element."""
    if not more["in_packets"] and not more["drops"]:
        return
    _add_numbers(counters, more)
    for reason, packets in more["drops"].items():
        counters.drop(Drop(reason), packets)


def add_vnic(adapter: Adapter, more: _native.VportCounts) -> None:
    """Add to the counters of one VNIC."""
    add_element(adapter.tx, more["tx_balance"])
    add_element(adapter.rx, more["rx_balance"])
    _add_numbers(adapter.counters, more)
    _add_traffic(adapter.counters.tx, more["tx"])
    _add_traffic(adapter.counters.rx, more["rx"])


def _add_traffic(traffic: TrafficCounters, more: _native.TrafficCounts) -> None:
    _add_numbers(traffic, more)
    for index, frames in enumerate(more["sizes"]):
        traffic.sizes[index] += frames


def _add_numbers(counters: object, more: Mapping[str, object]) -> None:
    """Add each number to the counter of its name: both sides are made from one declaration."""
    for name, number in more.items():
        if isinstance(number, int):
            setattr(counters, name, getattr(counters, name) + number)
