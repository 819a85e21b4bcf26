"""Snapshots for native VNICs: how one encapsulates, and how packets for those of a port find them. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from opavnic.vnic.adapter import Adapter
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
