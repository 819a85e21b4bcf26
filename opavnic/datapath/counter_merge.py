"""Adding what the native datapath counted to the counters of the fabric and of the VNICs. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    for link, lanes in zip(elements.links, counts["lanes"], strict=True):
        for direction, here in zip(link.directions, lanes, strict=True):
            add_element(direction.counters, here)
    for link, drawn in zip(elements.links, counts["drawn"], strict=True):
        for direction, words in zip(link.directions, drawn, strict=True):
            direction.stream.skip(words)
    for faults, tallies in zip(elements.faults, counts["faults"], strict=True):
        for lane, pairs in zip(faults, tallies, strict=True):
            for fault, (seen, hits) in zip(lane, pairs, strict=True):
                fault.tally.seen += seen
                fault.tally.hits += hits
    for index, vnic in counts["vports"].items():
        if index in vports:
            add_vnic(vports[index], vnic)


def add_element(counters: PacketCounters, more: _native.ElementCounts) -> None:
    """Add to the counters of one element."""
    if not more["in_packets"] and not more["drops"]:
        return
    counters.in_packets += more["in_packets"]
    counters.in_bytes += more["in_bytes"]
    counters.copies += more["copies"]
    counters.out_packets += more["out_packets"]
    counters.out_bytes += more["out_bytes"]
    for reason, packets in more["drops"].items():
        counters.drop(Drop(reason), packets)


def add_vnic(adapter: Adapter, more: _native.VnicCounts) -> None:
    """Add to the counters of one VNIC."""
    add_element(adapter.tx, more["tx_law"])
    add_element(adapter.rx, more["rx_law"])
    counters = adapter.counters
    _add_traffic(counters.tx, more["tx"])
    _add_traffic(counters.rx, more["rx"])
    counters.tx_dlid_zero += more["tx_dlid_zero"]
    counters.tx_drop_state += more["tx_drop_state"]
    counters.tx_smac_filt += more["tx_smac_filt"]
    counters.tx_carrier_errors += more["tx_carrier_errors"]
    counters.rx_drop_state += more["rx_drop_state"]
    counters.rx_nohandler += more["rx_nohandler"]
    counters.rx_oversize += more["rx_oversize"]
    counters.rx_runt += more["rx_runt"]
    counters.rx_fifo_errors += more["rx_fifo_errors"]
    adapter.tx_cut += more["tx_cut"]
    adapter.rx_merged += more["rx_merged"]


def _add_traffic(traffic: TrafficCounters, more: Sequence[int]) -> None:
    packets, size, unicast, mcastbcast, untagged, vlan, *sizes = more
    traffic.packets += packets
    traffic.bytes += size
    traffic.unicast += unicast
    traffic.mcastbcast += mcastbcast
    traffic.untagged += untagged
    traffic.vlan += vlan
    for index, count in enumerate(sizes):
        traffic.sizes[index] += count
