"""Topologies spelled out as plain data, as a YAML file holds them: switches, hosts, links.

    switches: {sw0: {ports: 36, guid: 0x0011750102000001, lid: 7, description: core 1}, sw1: {}}
    hosts:    {h1: {guid: 0x0011750101000001, lid: 1}, h2: {hfis: 2, ports: 2, lid: [2, 3]}}
    links:
      - [h1, sw0:1]
      - {ends: [h2.2:1, sw0:2], rate: 25e9, latency: 1e-6, jitter: 1e-7}
      - {ends: [h2, sw0:3], latency: 10e-3, up: {rate: 1e6}, down: {rate: 20e6}}     # up: from h2 to sw0
      - [sw0:36, sw1:36]

The first HFI of a host bears its name; further ones are h2.2, h2.3, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hfi_sim.base.errors import FabricError, TopologyError
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.link.config import LINK_OPTIONS
from hfi_sim.engine.link.two_way import TwoWay
from hfi_sim.fabric.topology.model import Node, NodeKind, Topology

_DEFAULT_SWITCH_PORTS: Final = 64


def hfi_names(host: str, hfis: int) -> tuple[str, ...]:
    """Return the names of a host's HFIs: its own, then h1.2, h1.3, ..."""
    return (host, *(f"{host}.{number}" for number in range(2, hfis + 1)))


def host_nodes(host: str, hfis: int, ports: int, guids: Sequence[int], lids: Sequence[int]) -> list[Node]:
    """Return the HFIs of a host.

    Args:    ports: of each. guids: of the HFIs in order; lids: of all their ports in order, 0: as the subnet manager
             likes; both may be shorter.
    """
    return [
        Node(
            name,
            NodeKind.HFI,
            ports,
            guids[at] if at < len(guids) else None,
            host,
            lids=tuple(lids[at * ports : (at + 1) * ports]),
        )
        for at, name in enumerate(hfi_names(host, hfis))
    ]


def from_data(data: Mapping[str, Any]) -> Topology:
    """Make a topology from plain data; options of links are as in lab files.

    Raises:  TopologyError: each message starts with the path, such as `links[2].ends[0]`.
    """
    _only(data, ("switches", "hosts", "links"), "")
    topology = Topology()
    for switch, options in _section(data, "switches").items():
        path = f"switches.{switch}"
        _only(options, ("ports", "guid", "lid", "description"), path)
        description = options.get("description", "")
        if not isinstance(description, str):
            raise TopologyError(f"{path}.description: {description!r} is not a text")
        topology.switch(
            switch,
            ports=_integer(options, "ports", _DEFAULT_SWITCH_PORTS, path),
            guid=options.get("guid"),
            lid=_integer(options, "lid", 0, path),
            place=path,
            description=description,
        )
    for host, options in _section(data, "hosts").items():
        path = f"hosts.{host}"
        _only(options, ("hfis", "ports", "guid", "lid"), path)
        hfis, ports = _integer(options, "hfis", 1, path), _integer(options, "ports", 1, path)
        for node in host_nodes(host, hfis, ports, _listed(options, "guid"), _listed(options, "lid")):
            topology.add(replace(node, place=path))
    links = data.get("links") or []
    if not isinstance(links, list):
        raise TopologyError("links: a list of [END, END] or {ends: [END, END]} is expected")
    for index, link in enumerate(links):
        _add_link(topology, link, f"links[{index}]")
    topology.check()
    return topology


def _add_link(topology: Topology, link: Any, path: str) -> None:
    options: Mapping[str, Any] = {"ends": link} if isinstance(link, list) else link
    if not isinstance(options, Mapping):
        raise TopologyError(f"{path}: {link!r} is neither [END, END] nor {{ends: [END, END]}}")
    _only(options, ("ends", "up", "down", *(option.key for option in LINK_OPTIONS)), path)
    ends = options.get("ends")
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise TopologyError(f"{path}.ends: two ends such as [h1:1, sw0:3] are expected, not {ends!r}")
    try:
        link = TwoWay.parse(**{key: value for key, value in options.items() if key != "ends"})
    except FabricError as error:
        raise TopologyError(f"{path}: {error}") from None
    topology.cable(ends[0], ends[1], link, place=path)


def _listed(options: Mapping[str, Any], key: str) -> list[int]:
    value = options.get(key)
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _section(data: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    section = data.get(key) or {}
    if not isinstance(section, Mapping):
        raise TopologyError(f"{key}: names with their options are expected, not {section!r}")
    return {str(name): options if options is not None else {} for name, options in section.items()}


def _only(options: Any, known: Iterable[str], path: str) -> None:
    where = f"{path}: " if path else ""
    if not isinstance(options, Mapping):
        raise TopologyError(f"{where}options are expected, not {options!r}")
    for key in options:
        if key not in known:
            raise TopologyError(where + unknown_name("key", str(key), known))


def _integer(options: Mapping[str, Any], key: str, default: int, path: str) -> int:
    value = options.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(f"{path}.{key}: {value!r} is not a whole number")
    return value
