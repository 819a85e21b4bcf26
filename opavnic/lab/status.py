"""What a lab says of itself, as plain data for `opavnic status`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from hfi_sim.counters import PacketCounters
from hfi_sim.errors import NetdevError
from hfi_sim.fabric import Fabric
from hfi_sim.types import mac_text
from opavnic.adapter import Adapter
from opavnic.lab.parts import RunningParts
from opavnic.lab.vnics import HostVnic, vnics_of
from opavnic.vnic_port import VnicPort
from opavnic.world.ground.host import GroundHost
from opavnic.world.world import World
from vema.agent import AgentCounters
from vema.types import ConfigState

KERNEL_DROPS: Final = ("tx_dropped", "rx_dropped")


def lab_status(
    head: Mapping[str, Any],
    world: World,
    hosts: Mapping[str, GroundHost],
    running: RunningParts,
    *,
    vesw_names: Mapping[int, str],
    counters: bool,
) -> dict[str, Any]:
    """Return a lab as plain data, with what every element counted where asked for.

    Args:  head: what the lab says of itself, `datapath` among it. vesw_names: of the virtual switches known, by id.
    """
    carrier = world.carrier
    if carrier is not None:
        carrier.sync()
    vnics = [vnic for name, port in world.vnic_ports.items() for vnic in vnics_of(hosts[name], port)]
    kernel = {f"{name} netdev": values for name, values in kernel_counters(vnics).items()}
    data: dict[str, Any] = {
        **head,
        "mads": world.mads,
        "hosts": [host_status(host, world.vnic_ports[name], vesw_names) for name, host in hosts.items()],
        "apps": running.app_status(),
        "links": link_status(
            world.fabric, head["datapath"], carrier.slow_links() if carrier is not None else {}
        ),
        "drops": drop_status(world.fabric, kernel),
        "balance": world.fabric.balance(),
    }
    if parts := running.status():
        data["parts"] = parts
    if counters:
        adapters = {str(vnic): vnic.adapter for vnic in vnics if vnic.adapter is not None}
        agents = {host: port.agent.counters for host, port in world.vnic_ports.items()}
        data["counters"] = counter_status(world.fabric, agents, adapters)
        data["counters"] |= kernel
    return data


def kernel_counters(vnics: Iterable[HostVnic]) -> dict[str, dict[str, int]]:
    """Return what the kernel has counted at each TAP, by host and virtual switch; none of one that is gone.

    A TAP of which the lab file does not know goes by host and interface.
    """
    found = {}
    for vnic in vnics:
        with contextlib.suppress(NetdevError):
            counted = None if vnic.netdev is None else vnic.netdev.kernel_counters()
            if counted is not None:
                found[str(vnic)] = counted
    return found


def host_status(host: GroundHost, port: VnicPort, vesw_names: Mapping[int, str]) -> dict[str, Any]:
    """Return one host with its VNICs."""
    return {
        "name": host.name,
        "namespace": host.namespace_name,
        "lid": port.port.lid,
        "vnics": [
            vnic_status(vnic, port.frames(vnic.vport_num), vesw_names) for vnic in vnics_of(host, port)
        ],
    }


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
