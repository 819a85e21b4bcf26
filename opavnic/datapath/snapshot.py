"""Snapshots for the native datapath: the fabric by index, and the configuration of a vport. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hfi_sim.cable import Link, LinkDirection, LinkPort
from hfi_sim.fabric import Fabric
from hfi_sim.hfi import HfiPort
from hfi_sim.link.rule import FaultKind, FaultRule
from hfi_sim.port_state import PortState
from hfi_sim.switch import Switch, SwitchPort
from opavnic.adapter import Adapter
from opavnic.vnic_port import VnicPort

if TYPE_CHECKING:
    from opavnic import _native

FAST_RATE_BPS: Final = 40e9
"""A link of this rate and more is never the bottleneck of one thread; slower ones are carried by Python."""


@dataclass(slots=True)
class Elements:
    """The elements behind the indexes of one snapshot, to attribute counters to."""

    ports: list[HfiPort] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    faults: list[list[Sequence[FaultRule]]] = field(default_factory=list)
    """By link and direction, those that the native datapath inflicts."""
    port_by_lid: dict[int, HfiPort] = field(default_factory=dict)
    """With every LID of a port."""


@dataclass(slots=True)
class FabricSnapshot:
    """What the native datapath is given, and what it means."""

    elements: Elements
    ports: list[_native.Port]
    switches: list[_native.Switch]
    links: list[_native.Link]

    @property
    def port_index(self) -> dict[str, int]:
        """The index of each HFI port by name."""
        return {port.name: index for index, port in enumerate(self.elements.ports)}


def take_fabric(
    fabric: Fabric,
    vnic_ports: Sequence[VnicPort],
    vport_index: Mapping[Adapter, int],
) -> FabricSnapshot:
    """Return the fabric as it is now.

    Args:  vport_index: the adapters whose frames the native datapath carries.
    """
    elements = Elements(list(fabric.hfi_ports()), list(fabric.switches.values()), list(fabric.links))
    elements.faults = [
        [_plain_faults(fabric, direction) or () for direction in item.directions] for item in elements.links
    ]
    elements.port_by_lid = {
        lid: port
        for port in elements.ports
        if port.lid
        for lid in range(port.lid, port.lid + (1 << port.lmc))
    }
    link_index = {id(link): index for index, link in enumerate(elements.links)}
    ends = _end_index(elements)
    vnics = {id(vnics.port): vnics for vnics in vnic_ports}

    def leaving(port: LinkPort) -> _native.Direction | None:
        if port.link is None:
            return None
        return link_index[id(port.link)], 0 if port is port.link.ends[0] else 1

    def link(item: Link, faults: list[Sequence[FaultRule]]) -> _native.Link:
        return {
            "ends": (ends[id(item.ends[0])], ends[id(item.ends[1])]),
            "up": item.up,
            "slow": slow_reason(fabric, item, vnics, vport_index) != "",
            "faults": [[(rule.chance, _bits(rule)) for rule in here] for here in faults],
            "streams": (item.directions[0].stream.state, item.directions[1].stream.state),
        }

    return FabricSnapshot(
        elements,
        [_port(port, leaving(port), vnics.get(id(port)), vport_index) for port in elements.ports],
        [_switch(switch, [leaving(port) for port in switch.ports.values()]) for switch in elements.switches],
        [link(item, faults) for item, faults in zip(elements.links, elements.faults, strict=True)],
    )


def slow_reason(
    fabric: Fabric, item: Link, vnics: Mapping[int, VnicPort], vport_index: Mapping[Adapter, int]
) -> str:
    """Return why Python carries what enters a link; empty where the native datapath does."""
    if fabric.is_observed(item):
        return "observed"
    if any(_plain_faults(fabric, direction) is None for direction in item.directions):
        return "faults"
    if item.flow is not None:
        return "credits"
    if item.latency_s + item.jitter_s > fabric.timer_resolution_s:
        return f"latency {item.latency_s + item.jitter_s:g} s"
    if item.rate_bps < FAST_RATE_BPS:
        return f"rate {item.rate_bps:g} bit/s"
    for end in item.ends:
        if isinstance(end, SwitchPort) and end.switch.lft.has_choices:
            return f"{end.switch.name} chooses among equal paths"
        if isinstance(end, HfiPort):
            here = vnics.get(id(end))
            if here is None:
                return f"{end.name} has no VNICs"
            if any(vnic not in vport_index for vnic in here.demux.table.values()):
                return f"{end.name} has VNICs that are not TAPs"
    return ""


def _plain_faults(fabric: Fabric, direction: LinkDirection) -> Sequence[FaultRule] | None:
    """Return what the native datapath can do to packets of a direction; None where that takes Python."""
    rules = direction.rules
    if fabric.engine.is_holding(direction.number) or not all(rule.is_plain for rule in rules):
        return None
    return rules


def _bits(rule: FaultRule) -> int:
    """Return how many bits of a packet a plain fault flips; 0: the packet is lost."""
    return rule.bits if rule.kind is FaultKind.CORRUPT else 0


def _end_index(elements: Elements) -> dict[int, tuple[int, int | None]]:
    ends: dict[int, tuple[int, int | None]] = {id(port): (i, None) for i, port in enumerate(elements.ports)}
    for index, switch in enumerate(elements.switches):
        ends |= {id(port): (index, number) for number, port in enumerate(switch.ports.values())}
    return ends


def _port(
    port: HfiPort,
    leaving: _native.Direction | None,
    vnics: VnicPort | None,
    vport_index: Mapping[Adapter, int],
) -> _native.Port:
    table = vnics.demux.table if vnics is not None else {}
    vesws = {
        key: vport_index[vnic]
        for key, vnic in table.items()
        if isinstance(vnic, Adapter) and vnic in vport_index
    }
    return {
        "active": port.state is PortState.ACTIVE,
        "lid": port.lid,
        "lmc": port.lmc,
        "sendable": sorted(port.pkeys.sendable),
        "admitted": sorted(port.pkeys.admitted),
        "groups": sorted(port.multicast_lids),
        "direction": leaving,
        "vesw_mask": vnics.demux.mask if vnics is not None else 0,
        "vesws": vesws,
        "nohandler": vesws[min(vesws)] if vesws else None,
    }


def _switch(switch: Switch, leaving: Sequence[_native.Direction | None]) -> _native.Switch:
    order = {number: index for index, number in enumerate(switch.ports)}
    return {
        "up": switch.up,
        "ports": [
            (port.state is PortState.ACTIVE, direction)
            for port, direction in zip(switch.ports.values(), leaving, strict=True)
        ],
        "lft": {lid: order[number] for lid, number in switch.lft.items()},
        "mft": {lid: sorted(order[number] for number in group) for lid, group in switch.mft.items()},
    }


def take_vport(adapter: Adapter) -> _native.VportConfig:
    """Return how one VNIC encapsulates now, and whether frames pass."""
    forwarding = adapter.forwarding
    info = forwarding.info
    sources = adapter.sources
    return {
        "vesw_id": info.vesw_id,
        "pkey": info.pkey,
        "slid": info.encap_slid,
        "rc": info.rc,
        "u_mcast_dlid": info.u_mcast_dlid,
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
        "mtu": adapter.netdev.mtu,
        "oper_up": adapter.is_passing,
    }


def fingerprint(fabric: Fabric, vnic_ports: Sequence[VnicPort]) -> list[object]:
    """Return what the snapshots are made of, for comparison: equal means that nothing changed.

    Tables are immutable and swapped whole, so the comparison looks at few of them closely.
    """
    marks: list[object] = []
    for port in fabric.hfi_ports():
        marks.append((port.state, port.lid, port.lmc, port.pkeys, port.multicast_lids, port.link))
    for switch in fabric.switches.values():
        marks.append((switch.up, switch.lft, switch.mft, [_mark(port) for port in switch.ports.values()]))
    marks += [_link_mark(fabric, link) for link in fabric.links]
    for vnics in vnic_ports:
        marks.append(tuple(vnics.demux.table.items()))
        for adapter in vnics.adapters.values():
            marks.append((adapter, adapter.forwarding, adapter.netdev.mtu, adapter.is_passing))
    return marks


def _link_mark(fabric: Fabric, link: Link) -> object:
    faults = [_plain_faults(fabric, direction) for direction in link.directions]
    return link, link.up, link.rate_bps, fabric.is_observed(link), faults


def _mark(port: SwitchPort) -> object:
    return port.state, port.link


def direction_of(elements: Elements, link: int, start: int) -> LinkDirection:
    """Return the direction that an index pair of the native datapath names."""
    return elements.links[link].directions[start]
