"""What native VNICs are given: how one encapsulates, how packets find theirs; and what they have counted. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from hfi_sim.base.counters import Drop, PacketCounters
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.counters import TrafficCounters
from opavnic.vnic.demux import VnicDemux

if TYPE_CHECKING:
    from opavnic import _native


class DemuxSnapshot(NamedTuple):
    """Arguments of `_native.Carrier.set_demux`, behind the port."""

    mask: int
    vports: dict[int, int]
    nohandler: int | None


def take_demux(demux: VnicDemux, vport_index: Mapping[Adapter, int]) -> DemuxSnapshot:
    """Return how packets find the native VNICs of a port.

    A packet for a virtual switch without a VNIC is counted by the VNIC with the lowest id: natively, where no VNIC of
    the port is in Python.

    Args:  vport_index: the adapters that are native.
    """
    vports = {
        key: vport_index[vnic]
        for key, vnic in demux.table.items()
        if isinstance(vnic, Adapter) and vnic in vport_index
    }
    is_whole = bool(vports) and len(vports) == len(demux.table)
    return DemuxSnapshot(demux.mask, vports, vports[min(vports)] if is_whole else None)


def take_vport(adapter: Adapter, *, passing: bool | None = None) -> _native.VportConfig:
    """Return how one VNIC encapsulates now, and whether frames pass.

    Args:  passing: what it says of that; None: as it is now.
    """
    forwarding = adapter.forwarding
    info = forwarding.info
    sources = adapter.sources
    return {
        "vesw_id": info.vesw_id,
        "pkey": info.pkey,
        "slid": info.encap_slid,
        "rc": info.rc,
        "u_mcast_dlid": info.u_mcast_dlid,
        "hash_shift": adapter.hash_shift,
        "flow_dlids": forwarding.flow_dlids,
        "sc_uc": tuple(info.pcp_to_sc_uc),
        "sc_mc": tuple(info.pcp_to_sc_mc),
        "non_vlan_sc_uc": info.non_vlan_sc_uc,
        "non_vlan_sc_mc": info.non_vlan_sc_mc,
        "macs": list(forwarding.dlids.items()),
        "sources": None
        if sources is None
        else (
            sorted(sources.exact),
            [(mask.to_bytes(6, "big"), mac.to_bytes(6, "big")) for mask, mac in sources.masked],
        ),
        "quiet": None if adapter.quiet is None else list(adapter.quiet),
        "mtu": adapter.netdev.mtu,
        "oper_up": adapter.is_passing if passing is None else passing,
    }


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
