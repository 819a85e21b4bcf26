"""Adding what native VNICs counted to the counters of their adapters. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hfi_sim.base.counters import Drop, PacketCounters
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.counters import TrafficCounters

if TYPE_CHECKING:
    from opavnic import _native


def _add_element(counters: PacketCounters, more: _native.ElementCounts) -> None:
    """Add to the counters of one element."""
    if not more["in_packets"] and not more["drops"]:
        return
    _add_numbers(counters, more)
    for reason, packets in more["drops"].items():
        counters.drop(Drop(reason), packets)


def add_vnic(adapter: Adapter, more: _native.VportCounts) -> None:
    """Add to the counters of one VNIC."""
    _add_element(adapter.tx, more["tx_balance"])
    _add_element(adapter.rx, more["rx_balance"])
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
