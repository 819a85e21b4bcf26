"""What a lab says of itself, as plain data for `opavnic status`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from hfi_sim.counters import PacketCounters
from hfi_sim.fabric import Fabric
from hfi_sim.types import mac_text
from opavnic.adapter import Adapter
from opavnic.lab.vnics import HostVnic
from vema.agent import AgentCounters
from vema.types import ConfigState

KERNEL_DROPS: Final = ("tx_dropped", "rx_dropped")


def vnic_status(
    vnic: HostVnic, frames: tuple[PacketCounters, PacketCounters], vesw_names: Mapping[int, str]
) -> dict[str, Any]:
    """Return one VNIC: what the file asked for, what the EM made of it, what the host sees.

    `vesw_id` is that of the virtual switch that the VNIC is on, before it is on any that of the lab file, or 0.

    Args:  frames: what it has counted, tx and rx. Sent and delivered frames are shown, without FCS as in `ip -s link`.
           vesw_names: names of virtual switches by id, as far as they are known.
    """
    asked, adapter, netdev = vnic.asked, vnic.adapter, vnic.netdev
    tx, rx = frames
    vesw_id = 0 if adapter is None else adapter.vesw_id
    if not vesw_id and asked is not None:
        vesw_id = asked.vesw.id
    return {
        "vesw": vesw_names.get(vesw_id),
        "vesw_id": vesw_id,
        "vport_num": vnic.vport_num,
        "interface": vnic.interface,
        "ip": None if asked is None or asked.address is None else str(asked.address),
        "mac": None if netdev is None else mac_text(netdev.host_address),
        "mtu": None if netdev is None else netdev.mtu,
        "state": vnic_state(vnic),
        "carrier": netdev is not None and netdev.carrier,
        "oper_state": None if adapter is None else int(adapter.oper_state),
        "tx_packets": tx.out_packets,
        "tx_bytes": tx.out_bytes,
        "rx_packets": rx.out_packets,
        "rx_bytes": rx.out_bytes,
        "drops": tx.dropped + rx.dropped,
    }


def vnic_state(vnic: HostVnic) -> str:
    """Return in a few words how far a VNIC has come; "up" is the last."""
    adapter, netdev = vnic.adapter, vnic.netdev
    if netdev is None or adapter is None:
        return "not created by the EM"
    if lost := getattr(netdev, "dead", None):
        return f"lost: {lost}"
    if adapter.config_state != ConfigState.FORWARDING:
        return "held down by the EM" if adapter.vesw_id else "not configured by the EM"
    if not netdev.is_up:
        return "down"
    if not netdev.carrier:
        return "no carrier"
    return "up" if adapter.oper_state == ConfigState.FORWARDING else "not operational"


def link_status(
    fabric: Fabric, datapath: str = "python", slow: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return every link with what passed on both ways, and which datapath carries it.

    Args:  slow: the links that Python carries although `datapath` is native, with the reason.
    """
    slow = slow or {}
    rows = []
    for link in fabric.links:
        forth, back = link.directions
        rows.append(
            {
                "name": forth.name,
                "state": "up" if link.up else "down",
                "packets_forth": forth.counters.out_packets,
                "packets_back": back.counters.out_packets,
                "bytes_forth": forth.counters.out_bytes,
                "bytes_back": back.counters.out_bytes,
                "drops": forth.counters.dropped + back.counters.dropped,
                "datapath": "python" if link.name in slow else datapath,
                "datapath_reason": slow.get(link.name, ""),
            }
        )
    return rows


def drop_status(fabric: Fabric, kernel: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return what was dropped so far, by element and reason, where anything was.

    Args:  kernel: what the kernel has counted at each TAP, by the name of the TAP.
    """
    drops = fabric.drops()
    for name, counted in kernel.items():
        if here := {reason: counted[reason] for reason in KERNEL_DROPS if counted[reason]}:
            drops[name] = here
    return drops


def counter_status(
    fabric: Fabric, agents: dict[str, AgentCounters], adapters: dict[str, Adapter]
) -> dict[str, dict[str, Any]]:
    """Return what every element of the fabric, every management agent and every VNIC has counted, by name."""
    counters = {name: packet_counters(values) for name, values in fabric.counters()}
    counters |= {f"{host} agent": asdict(values) for host, values in agents.items()}
    for name, adapter in adapters.items():
        counters[f"{name} ethtool"] = adapter.counters.ethtool_stats()
    return counters


def packet_counters(counters: PacketCounters) -> dict[str, Any]:
    """Return packet counters with each drop reason as a counter of its own."""
    data = asdict(counters)
    drops = data.pop("drops")
    return {**data, **{f"drop_{reason}": count for reason, count in drops.items()}}
