"""A lab file of a topology that was read from a file: the same switches, hosts and cables, and one virtual switch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hfi_sim.base.errors import TopologyError
from hfi_sim.base.quantities import rate_text
from hfi_sim.base.text import counted
from hfi_sim.base.types import LID_MULTICAST_FIRST
from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig
from hfi_sim.engine.link.two_way import TwoWay
from hfi_sim.fabric.topology import NodeKind, Topology
from hfi_sim.fabric.topology.explicit import from_data, hfi_names
from hfi_sim.fabric.topology.model import Cable, End, Node, end_text
from hfi_sim.nodes.hfi import system_guid
from opavnic.lab.file.members import HostPorts
from opavnic.lab.file.topology import cut_off
from opavnic.lab.file.yaml_source import without_variables
from opavnic.world.em_node import EM_NODE

_NAME_MAX: Final = 32
_FEW: Final = 3
_BAD: Final = re.compile(r"[^A-Za-z0-9_-]+")
_BAD_SWITCH: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def lab_of(topology: Topology, name: str, source: str) -> tuple[str, list[str]]:
    """Return the lab file of a topology, and what of the topology is not in it.

    Args:    name: of the lab; what cannot stand in one is replaced. source: what the topology was read from.
    Raises:  TopologyError: no host has a cable.
    """
    left_out = list(topology.left_out)
    manager = next((node for node in topology.of_kind(NodeKind.HFI) if node.name == EM_NODE), None)
    cables = list(topology.cables)
    if manager is not None:
        cables = [cable for cable in cables if EM_NODE not in (cable.a[0], cable.b[0])]
        left_out.append(f"{EM_NODE}: the node of the managers, which every lab has")
    told = {host: [node for node in nodes if node is not manager] for host, nodes in topology.hosts().items()}
    cables = _largest_part_first(topology, cables)
    cabled = {end[0] for cable in cables for end in (cable.a, cable.b)}
    hosts = {host: nodes for host, nodes in told.items() if any(node.name in cabled for node in nodes)}
    bare = [host for host, nodes in told.items() if nodes and host not in hosts]
    if bare:
        left_out.append(f"{counted(len(bare), 'host')} without a cable: {_some(bare)}")
    if not hosts:
        raise TopologyError(f"{source}: no HFI has a cable: a lab needs a host")
    renamed = _names(hosts, _BAD, taken={EM_NODE})
    switches = [node for node in topology.nodes.values() if node.kind is NodeKind.SWITCH]
    new = _names((node.name for node in switches), _BAD_SWITCH, taken={EM_NODE, *renamed.values()})
    for host, nodes in hosts.items():
        new |= dict(zip((node.name for node in nodes), hfi_names(renamed[host], len(nodes)), strict=True))
    changed = [f"{old} is {now}" for old, now in renamed.items() if old != now]
    changed += [f"{node.name} is {new[node.name]}" for node in switches if node.name != new[node.name]]
    if changed:
        left_out.append(f"names that a lab cannot have: {_some(changed)}")
    ids = _Ids(topology.nodes.values())
    data: dict[str, Any] = {
        "switches": {new[node.name]: _switch(node, new[node.name], ids) for node in switches},
        "hosts": {renamed[host]: _host(nodes, ids) for host, nodes in hosts.items()},
        "links": [{"ends": [_end(cable.a, new), _end(cable.b, new)]} for cable in cables],
    }
    if not switches:
        raise TopologyError(f"{source}: no switch: the node of the managers is attached to one")
    whole = from_data(data)
    whole.attach(EM_NODE)
    ports = HostPorts(data["hosts"]).of_host
    apart = cut_off(whole, [port.name for its in ports.values() for port in its], EM_NODE)
    reached = {host: [port.member for port in its if port.name not in apart] for host, its in ports.items()}
    alone = {host: apart[its[0].name] for host, its in ports.items() if not reached[host]}
    if alone:
        left_out.append(f"{counted(len(alone), 'host')} out of the virtual switch: {_some(_reasons(alone))}")
    links = [_link(entry["ends"], cable.link) for entry, cable in zip(data["links"], cables, strict=True)]
    firsts = {host: its[0] for host, its in reached.items() if its}
    members = "all" if list(firsts.values()) == list(ports) else f"[{', '.join(map(_key, firsts.values()))}]"
    if not firsts:
        raise TopologyError(
            f"{source}: no host has a cable to the switches that the node of the managers is at"
        )
    left_out += ids.left_out
    text = "\n".join(
        [
            f"# {source}, made by `opavnic init --from`",
            f"name: {_BAD.sub('-', name).strip('-_')[:_NAME_MAX] or 'lab'}",
            "fabric:",
            "  topology:",
            "    kind: explicit",
            "    switches:",
            *(f"      {_key(switch)}: {_options(told)}" for switch, told in data["switches"].items()),
            "    links:",
            *(f"      - {link}" for link in links),
            "hosts:",
            *(f"  {_key(host)}: {_options(told)}" for host, told in data["hosts"].items()),
            "vesws:",
            f"  - {{id: 2, name: vnic, pkey: 0x8002, subnet: 10.77.0.0/16, members: {members}}}",
            "",
        ]
    )
    return text, left_out


def _largest_part_first(topology: Topology, cables: list[Cable]) -> list[Cable]:
    """Return the cables of the part with the most HFIs first: the node of the managers is attached to the first one."""
    parts: dict[str, str] = {}

    def part_of(cable: Cable) -> str:
        name = next((end[0] for end in (cable.a, cable.b) if is_switch[end[0]]), "")
        while (beside := parts.setdefault(name, name)) != name:
            name = beside
        return name

    is_switch = {node.name: node.kind is NodeKind.SWITCH for node in topology.nodes.values()}
    inner = [cable for cable in cables if is_switch[cable.a[0]] and is_switch[cable.b[0]]]
    for cable in inner:
        parts[part_of(cable)] = part_of(replace(cable, a=cable.b))
    met = Counter(part_of(cable) for cable in cables if not (is_switch[cable.a[0]] and is_switch[cable.b[0]]))
    largest = max(met, key=met.__getitem__, default="")
    return sorted(cables, key=lambda cable: part_of(cable) != largest)


def _names(names: Iterable[str], bad: re.Pattern[str], *, taken: set[str]) -> dict[str, str]:
    """Return names that a lab can have, each once."""
    found: dict[str, str] = {}
    taken = set(taken)
    for name in names:
        plain = bad.sub("-", name).strip("-_.")[:_NAME_MAX] or "node"
        unique, number = plain, 2
        while unique in taken:
            unique = f"{plain[: _NAME_MAX - 6]}-{number}"
            number += 1
        taken.add(unique)
        found[name] = unique
    return found


def _end(end: End, names: Mapping[str, str]) -> str:
    return end_text((names[end[0]], end[1]))


def _link(ends: list[str], link: TwoWay) -> str:
    pair = f'["{ends[0]}", "{ends[1]}"]'
    if link.up == link.down:
        said = _said(link.up)
    else:
        ways = (("up", _said(link.up)), ("down", _said(link.down)))
        said = [f"{name}: {{{', '.join(own)}}}" for name, own in ways if own]
    return f"{{ends: {pair}, {', '.join(said)}}}" if said else pair


def _said(way: LinkConfig) -> list[str]:
    said = []
    if way.rate_bps != PLAIN_LINK.rate_bps:
        said.append(f"rate: {rate_text(way.rate_bps)}")
    if way.latency_ns != PLAIN_LINK.latency_ns:
        said.append(f"latency: {way.latency_ns}ns")
    return said


def _options(told: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{key}: {_value(key, value)}' for key, value in told.items() if value != 1)}}}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, list):
        return (
            _value(key, value[0]) if len(value) == 1 else f"[{', '.join(_value(key, one) for one in value)}]"
        )
    if isinstance(value, str):
        return f'"{"".join(map(_character, without_variables(value)))}"'
    return f"{value:#018x}" if key == "guid" else str(value)


def _character(one: str) -> str:
    """Return a character as it stands between the quotation marks of YAML."""
    code = ord(one)
    if one.isprintable() and one not in '"\\':
        return one
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


class _Ids:
    """The GUIDs and LIDs of a file that a lab can have."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._guids: dict[int, int] = {}
        self._lids: set[int] = set()
        self._twice: list[str] = []
        self._without = 0
        for node in nodes:
            if node.guid is None or system_guid(node.guid) in self._guids:
                self._without += 1
            else:
                self._guids[system_guid(node.guid)] = node.guid

    def of_nodes(self, nodes: Sequence[Node], ports: int) -> dict[str, Any]:
        """Return the keys of a switch, or of a host with HFIs. Args: ports: LIDs of each node."""
        guids = [node.guid for node in nodes]
        found: dict[str, Any] = {}
        if all(guid is not None and self._guids.get(system_guid(guid)) == guid for guid in guids):
            found["guid"] = guids
        lids = [self._free(lid) for node in nodes for lid in (*node.lids, *([0] * ports))[:ports]]
        while lids and not lids[-1]:
            lids.pop()
        return found | ({"lid": lids} if lids else {})

    def _free(self, lid: int) -> int:
        if not lid or lid in self._lids or lid >= LID_MULTICAST_FIRST:
            self._twice += [f"{lid:#x}"] if lid else []
            return 0
        self._lids.add(lid)
        return lid

    @property
    def left_out(self) -> list[str]:
        """What the lab gives itself."""
        found = []
        if self._without:
            found.append(
                f"GUIDs of {counted(self._without, 'node')}, which the file lacks or gives twice: the lab's own"
            )
        if not self._lids:
            found.append("LIDs, which the file lacks: the lab's own")
        if self._twice:
            found.append(f"LIDs that are there twice, or no unicast LIDs: {_some(self._twice)}")
        return found


def _host(nodes: Sequence[Node], ids: _Ids) -> dict[str, Any]:
    ports = max(node.ports for node in nodes)
    return {"hfis": len(nodes), "ports": ports, **ids.of_nodes(nodes, ports)}


def _key(name: str) -> str:
    """Return a key as YAML reads it back: a text, also where it looks like a number or a truth value."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name) and name.lower() not in (
        "y", "n", "yes", "no", "on", "off", "true", "false", "null",
    )  # fmt: skip
    return name if is_plain else f'"{name}"'


def _some(items: Iterable[str]) -> str:
    items = list(items)
    more = f" and {len(items) - _FEW} more" if len(items) > _FEW else ""
    return ", ".join(items[:_FEW]) + more


def _reasons(apart: Mapping[str, str]) -> list[str]:
    return [f"{host} ({why})" for host, why in apart.items()]


def _switch(node: Node, name: str, ids: _Ids) -> dict[str, Any]:
    said = node.description or node.name
    told = {} if said == name else {"description": said}
    return {"ports": node.ports, **told, **{key: one for key, (one,) in ids.of_nodes([node], 1).items()}}
