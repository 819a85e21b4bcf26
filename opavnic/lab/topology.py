"""The topology that a lab file asks for: a shape by its name and numbers, or switches and links one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hfi_sim.topology import HostSpec, Topology, generate
from hfi_sim.topology.explicit import from_data, hfi_names
from opavnic.lab.units import parse_rate, parse_time

EXPLICIT: Final = "explicit"

HostPorts = Mapping[str, tuple[int, int]]
"""Host -> number of HFIs, number of ports of each."""


def lab_topology(
    options: Mapping[str, Any],
    hosts: HostPorts,
    first: Sequence[str] = (),
    *,
    rate_bps: float,
    latency_s: float,
) -> Topology:
    """Return the topology of a lab.

    Args:    options: the section `fabric.topology`, without what is not set. first: HFIs besides those of hosts,
             which get their LIDs before them. rate_bps, latency_s: of cables that do not say.
    Raises:  TopologyError: it cannot be built.
    """
    options = {"kind": "single-switch", **options}
    kind = options.pop("kind")
    if kind == EXPLICIT:
        return _explicit(options, hosts, first, rate_bps, latency_s)
    specs = [HostSpec(name, hfi_names(name, hfis), ports) for name, (hfis, ports) in hosts.items()]
    if kind == "single-switch":
        topology = generate(kind, hosts=[*map(HostSpec, first), *specs], **options)
    else:  # the shape's places are for hosts
        topology = _with_first(generate(kind, hosts=specs, **options), first)
    topology.cables = [replace(cable, rate_bps=rate_bps, latency_s=latency_s) for cable in topology.cables]
    return topology


def _explicit(
    options: Mapping[str, Any], hosts: HostPorts, first: Sequence[str], rate_bps: float, latency_s: float
) -> Topology:
    links = [link if isinstance(link, dict) else {"ends": link} for link in options.get("links", ())]
    data = {
        "switches": options.get("switches"),
        "hosts": {name: {"hfis": hfis, "ports": ports} for name, (hfis, ports) in hosts.items()},
        "links": [{"rate": rate_bps, "latency": latency_s, **link} for link in links],
    }
    return _with_first(from_data(data, read_rate=parse_rate, read_time=parse_time), first)


def _with_first(topology: Topology, first: Sequence[str]) -> Topology:
    """Attach further HFIs; what stands first gets the first LID."""
    for name in first:
        topology.attach(name)
    nodes = sorted(topology.nodes.values(), key=lambda node: node.name not in first)
    topology.nodes = {node.name: node for node in nodes}
    return topology
