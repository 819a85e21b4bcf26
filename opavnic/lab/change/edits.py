"""Edits of the plain data of a lab file: hosts, virtual switches and links that come and go.

Each edit returns new data, which share what is as before. The data have no ranges; `opavnic.lab.run.save` makes them
of a running lab.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.topology import NodeKind, Topology
from hfi_sim.fabric.topology.explicit import hfi_names
from hfi_sim.fabric.topology.model import end_text, parse_end
from opavnic.base.errors import OpavnicError
from opavnic.lab.file.fabric_model import EXPLICIT
from opavnic.lab.file.host_setup import OF_INTERFACE, host_numbers
from opavnic.lab.file.members import MAX_HFIS, HostPorts, count_of, meant_member
from opavnic.lab.file.sections import LabData, check_name
from opavnic.world.em_node import EM_NODE


class EditError(OpavnicError, InputError):
    """A change that cannot be meant: an unknown name, a port that is taken."""


# --- fabric --------------------------------------------------------------------------------------------------


def with_explicit_topology(data: LabData, topology: Topology) -> LabData:
    """Return the data with the fabric as it is cabled, link by link, if a shape describes it.

    Args:  topology: what is there, with the node of the managers, which lab files do not mention.
    """
    fabric = dict(data.get("fabric") or {})
    if (fabric.get("topology") or {}).get("kind") == EXPLICIT:
        return data
    switches = {
        node.name: {"ports": node.ports} | ({} if node.guid is None else {"guid": node.guid})
        for node in topology.of_kind(NodeKind.SWITCH)
    }
    links = [
        [end_text(cable.a), end_text(cable.b)]
        for cable in topology.cables
        if EM_NODE not in (cable.a[0], cable.b[0])
    ]
    fabric["topology"] = {"kind": EXPLICIT, "switches": switches, "links": links}
    return {**data, "fabric": fabric}


def _ends(link: Any) -> tuple[str, str]:
    near, far = link["ends"] if isinstance(link, Mapping) else link
    return end_text(parse_end(near)), end_text(parse_end(far))


def _links(data: LabData) -> list[Any]:
    return list(data["fabric"]["topology"].get("links") or [])


def _with_links(data: LabData, links: Sequence[Any]) -> LabData:
    fabric = data["fabric"]
    return {**data, "fabric": {**fabric, "topology": {**fabric["topology"], "links": list(links)}}}


def _taken(data: LabData, topology: Topology) -> set[str]:
    """Return the ports that have a cable, with that of the managers."""
    of_managers = (cable for cable in topology.cables if EM_NODE in (cable.a[0], cable.b[0]))
    taken = {end_text(end) for cable in of_managers for end in (cable.a, cable.b)}
    return taken | {end for link in _links(data) for end in _ends(link)}


def add_link(
    data: LabData, topology: Topology, ends: Sequence[str], options: Mapping[str, Any] | None = None
) -> LabData:
    """Return the data with one more link. Raises EditError: a port has a cable."""
    data = with_explicit_topology(data, topology)
    taken = _taken(data, topology)
    for end in map(end_text, map(parse_end, ends)):
        if end in taken:
            raise EditError(f"port {end} has a cable already")
    link: Any = {"ends": list(ends), **options} if options else list(ends)
    return _with_links(data, [*_links(data), link])


def remove_link(data: LabData, topology: Topology, ends: Sequence[str]) -> LabData:
    """Return the data without a link, which two ports name. Raises EditError: there is none."""
    data = with_explicit_topology(data, topology)
    wanted = {end_text(parse_end(end)) for end in ends}
    left = [link for link in _links(data) if set(_ends(link)) != wanted]
    if len(left) == len(_links(data)):
        names = ["--".join(_ends(link)) for link in _links(data)]
        raise EditError(unknown_name("link", "--".join(end_text(parse_end(end)) for end in ends), names))
    return _with_links(data, left)


def free_switch_port(data: LabData, topology: Topology, switch: str | None = None) -> tuple[str, LabData]:
    """Return a free port of a switch, and the data in which it exists.

    Args:    switch: its name; None: the one with the fewest hosts that has a free port, else the first one grows.
    Raises:  EditError: no such switch, or it is full.
    """
    switches = dict(data["fabric"]["topology"].get("switches") or {})
    taken = _taken(data, topology)
    if switch is not None and switch not in switches:
        raise EditError(unknown_name("switch", switch, switches))
    hosts = set(map(str, data["hosts"]))
    near = dict.fromkeys(switches, 0)
    for link in _links(data):
        a, b = (parse_end(end)[0] for end in _ends(link))
        for one, other in ((a, b), (b, a)):
            if one in near and other.partition(".")[0] in hosts:
                near[one] += 1
    leaves = [name for name in switches if near[name]] or list(switches)
    for name in [switch] if switch is not None else sorted(leaves, key=lambda name: near[name]):
        ports = int((switches[name] or {}).get("ports", 64))
        for number in range(1, ports + 1):
            if f"{name}:{number}" not in taken:
                return f"{name}:{number}", data
    grown = switch or leaves[0]
    ports = int((switches[grown] or {}).get("ports", 64)) + 1
    switches[grown] = {**(switches[grown] or {}), "ports": ports}
    fabric = data["fabric"]
    section = {**fabric["topology"], "switches": switches}
    return f"{grown}:{ports}", {**data, "fabric": {**fabric, "topology": section}}


# --- hosts ---------------------------------------------------------------------------------------------------


def add_host(
    data: LabData,
    topology: Topology,
    name: str,
    section: Mapping[str, Any] | None = None,
    *,
    vesws: Iterable[str] = (),
    at: str | None = None,
    number: int | None = None,
) -> LabData:
    """Return the data with one more host, whose port 1 is cabled to a free port of a switch.

    Args:    section: its keys, as in a lab file. vesws: virtual switches to join. at: the switch, or its port.
             number: the one that it gets if its section says none; None: one more than all others.
    Raises:  EditError: the name is taken, an unknown virtual switch or switch.
    """
    if name in data["hosts"]:
        raise EditError(f'host "{name}" is there already')
    if name in topology.nodes:
        raise EditError(f'"{name}" is the name of another node of the fabric: a host needs one of its own')
    if section is not None and not isinstance(section, Mapping):
        raise EditError(f"host {name}: its keys are a mapping such as {{hfis: 2}}, not {section!r:.60}")
    try:
        check_name(name)
    except ValueError as error:
        raise EditError(str(error)) from None
    data = with_explicit_topology(data, topology)
    numbers = host_numbers(data["hosts"])
    own = dict(section or {})
    own.setdefault("number", max(numbers.values()) + 1 if number is None else number)
    hosts = _pinned({**data["hosts"], name: own}, {**numbers, name: own["number"]})
    data = {**data, "hosts": hosts}
    for hfi in hfi_names(name, count_of(own, "hfis", MAX_HFIS)):
        if at is not None and ":" in at and hfi == name:
            port = at
        else:
            port, data = free_switch_port(data, topology, None if at is None else at.partition(":")[0])
        data = add_link(data, topology, [f"{hfi}:1", port])
    for vesw in vesws:
        data = join(data, vesw, [name])
    return data


def remove_host(data: LabData, topology: Topology, name: str) -> LabData:
    """Return the data without a host, its links and its memberships. Raises EditError."""
    if name not in data["hosts"]:
        raise EditError(unknown_name("host", name, map(str, data["hosts"])))
    if len(data["hosts"]) == 1:
        raise EditError(f'host "{name}" is the only one: a lab has at least one; opavnic down ends the lab')
    data = with_explicit_topology(data, topology)
    numbers = host_numbers(data["hosts"])
    nodes = set(hfi_names(name, int((data["hosts"][name] or {}).get("hfis", 1))))
    links = [link for link in _links(data) if not nodes & {parse_end(end)[0] for end in _ends(link)}]
    hosts = {other: section for other, section in data["hosts"].items() if other != name}
    data = _with_links({**data, "hosts": _pinned(hosts, numbers)}, links)
    vesws = [
        _with_members(vesw, [member for member in vesw["members"] if _node(member) not in nodes])
        for vesw in data.get("vesws") or []
    ]
    for vesw in vesws:
        if not vesw["members"]:
            data = _without_references(data, vesw["name"])
    return {**data, "vesws": [vesw for vesw in vesws if vesw["members"]]}


def _pinned(hosts: Mapping[str, Any], numbers: Mapping[str, int]) -> LabData:
    """Return hosts that have these numbers, which are written where they do not follow from the order."""
    pinned: LabData = {}
    last = 0
    for name, section in hosts.items():
        own = dict(section or {})
        own.pop("number", None)
        if numbers[name] != last + 1:
            own["number"] = numbers[name]
        last = numbers[name]
        pinned[name] = own
    return pinned


def keep_numbers(hosts: Mapping[str, Any], running: Mapping[str, int]) -> LabData:
    """Return the hosts of a file with the numbers of those that run; a file may give a host another one.

    A new host gets its number of the file, or the next one where it is taken.
    """
    told = {
        str(name): section["number"]
        for name, section in hosts.items()
        if isinstance(section, Mapping) and section.get("number") is not None
    }
    numbers = {name: told.get(name, running[name]) for name in map(str, hosts) if name in running}
    for name, number in host_numbers(hosts).items():
        if name not in numbers:
            free = number if name in told or number not in numbers.values() else max(numbers.values()) + 1
            numbers[name] = free
    return _pinned(hosts, numbers)


# --- virtual switches ----------------------------------------------------------------------------------------


def _node(member: str) -> str:
    """Return the HFI of a member: h2 of h2, h2.2 of h2.2:1."""
    return member.partition(":")[0]


def _with_members(vesw: Mapping[str, Any], members: Sequence[str]) -> LabData:
    """Return a virtual switch with these members, and what else it says of members."""
    left = {**vesw, "members": list(members)}
    if "default_ports" in vesw:
        left["default_ports"] = [member for member in vesw["default_ports"] if member in members]
    if "vports" in vesw:
        left["vports"] = {member: number for member, number in vesw["vports"].items() if member in members}
    return left


def _without_references(data: LabData, vesw: str) -> LabData:
    """Return the data in which no host says anything of a virtual switch that goes."""

    def is_of_it(title: object) -> bool:
        name, _, nth = str(title).rpartition("-")
        return title == vesw or (name == vesw and nth.isdigit())

    hosts: LabData = {}
    for name, section in data["hosts"].items():
        own = dict(section or {})
        for key in ("addresses", "qdiscs"):
            if own.get(key):
                own[key] = {title: its for title, its in own[key].items() if not is_of_it(title)}
        if own.get("sysctls"):
            of_interfaces = {key: OF_INTERFACE.fullmatch(key) for key in own["sysctls"]}
            gone = {key for key, found in of_interfaces.items() if found is not None and is_of_it(found[1])}
            own["sysctls"] = {key: value for key, value in own["sysctls"].items() if key not in gone}
        if own.get("routes"):
            own["routes"] = [route for route in own["routes"] if not is_of_it(_device(route))]
        hosts[name] = own
    return {**data, "hosts": hosts}


def _device(route: Any) -> object:
    """Return the virtual switch that a route names; None: it names none."""
    if isinstance(route, Mapping):
        return route.get("dev")
    words = str(route).split()
    return words[words.index("dev") + 1] if "dev" in words[:-1] else None


def _vesws(data: LabData) -> list[LabData]:
    return [dict(vesw) for vesw in data.get("vesws") or []]


def _vesw(data: LabData, name: str) -> LabData:
    vesws = {vesw["name"]: vesw for vesw in _vesws(data)}
    if name not in vesws:
        raise EditError(unknown_name("virtual switch", name, vesws))
    return vesws[name]


def _replaced(data: LabData, name: str, change: Callable[[LabData], LabData | None]) -> LabData:
    changed = [change(vesw) if vesw["name"] == name else vesw for vesw in _vesws(data)]
    return {**data, "vesws": [vesw for vesw in changed if vesw is not None]}


def add_vesw(data: LabData, section: Mapping[str, Any]) -> LabData:
    """Return the data with one more virtual switch; without an id it gets the lowest free one.

    Raises:  EditError: it has no name, or the name or the id is taken.
    """
    vesws = _vesws(data)
    name = section.get("name")
    if not isinstance(name, str):
        raise EditError("a virtual switch needs a name: {name: green, members: [h1, h2]}")
    if any(vesw["name"] == name for vesw in vesws):
        raise EditError(f'virtual switch "{name}" is there already')
    used = {vesw["id"] for vesw in vesws}
    vesw_id = section.get("id", next(number for number in range(1, len(used) + 2) if number not in used))
    return {**data, "vesws": [*vesws, {"id": vesw_id, **section}]}


def remove_vesw(data: LabData, name: str) -> LabData:
    """Return the data without a virtual switch, and without what hosts say of it. Raises EditError."""
    _vesw(data, name)
    return _replaced(_without_references(data, name), name, lambda _: None)


def join(data: LabData, name: str, hosts: Iterable[str]) -> LabData:
    """Return the data with further members of a virtual switch. Raises EditError."""
    members = list(_vesw(data, name)["members"])
    ports = HostPorts(data["hosts"])
    nodes = [
        hfi
        for host, told in data["hosts"].items()
        for hfi in hfi_names(host, count_of(told, "hfis", MAX_HFIS))
    ]
    for host in hosts:
        if _node(host) not in nodes:
            meant = meant_member(host, ports)
            raise EditError(f'unknown host "{host}"{meant}' if meant else unknown_name("host", host, nodes))
        if host in members:
            raise EditError(f'host "{host}" is a member of "{name}" already')
        members.append(host)
    return _replaced(data, name, lambda vesw: {**vesw, "members": members})


def leave(data: LabData, name: str, hosts: Iterable[str]) -> LabData:
    """Return the data without some members of a virtual switch. Raises EditError."""
    members = list(_vesw(data, name)["members"])
    for host in hosts:
        if host not in members:
            raise EditError(f'virtual switch "{name}": ' + unknown_name("member", host, members))
        members.remove(host)
    if not members:
        raise EditError(f'virtual switch "{name}" would have no member: opavnic vesw remove {name}')
    return _replaced(data, name, lambda vesw: _with_members(vesw, members))
