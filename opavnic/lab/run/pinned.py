"""Numbers that a running lab has and that the order of its file would not give: a saved file says them.

Hosts have a number, HFIs and switches GUIDs, ports LIDs, and members vports. All are given in the order of the file. A
lab that has changed has others, and what was there before a change keeps its own: addresses follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hfi_sim.base.kept_numbers import pins_for
from hfi_sim.base.types import Guid
from hfi_sim.fabric.guids import GuidSpace
from hfi_sim.fabric.topology import NodeKind, Topology
from hfi_sim.fabric.topology.explicit import hfi_names
from hfi_sim.nodes.hfi import port_guid
from hfi_sim.subnet_manager.lids import LidTable
from opavnic.lab.file.fabric_model import EXPLICIT
from opavnic.lab.file.members import Membership
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.sections import LabData

NodePort = tuple[str, int]
"""A node and the number of a port; 0: a switch as a whole."""


def with_vports(data: LabData, model: LabModel, pinned: Mapping[Membership, int]) -> LabData:
    """Return the data with these numbers of vports, and no others. Args: model: that of the data."""
    vesws = []
    for vesw in data.get("vesws") or []:
        told = {key: value for key, value in vesw.items() if key != "vports"}
        its = {
            member: number
            for member in vesw["members"]
            if (port := model.ports.find(member)) is not None
            and (number := pinned.get((vesw["id"], port.name))) is not None
        }
        vesws.append({**told, "vports": its} if its else told)
    return {**data, "vesws": vesws}


def with_ids(
    data: LabData, topology: Topology, guids: Mapping[str, int], lids: Mapping[NodePort, int], lmc: int
) -> LabData:
    """Return the data with GUIDs and LIDs where a lab that starts with it would give others.

    Args:  topology: that of the data, which says no GUID and no LID besides those that the data say. guids: of all
           nodes. lids: of all ports that have one. lmc: of the ports.
    """
    told_guids = pins_for(guids, lambda pinned: _guids_in_order(topology, pinned))
    told_lids = pins_for(lids, lambda pinned: _lids_in_order(topology, guids, lids, pinned, lmc))
    hosts = {}
    for name, section in data["hosts"].items():
        own = dict(section or {})
        hfis = hfi_names(name, int(own.get("hfis", 1)))
        ports = [(hfi, number) for hfi in hfis for number in range(1, int(own.get("ports", 1)) + 1)]
        if any(hfi in told_guids for hfi in hfis):
            own["guid"] = [guids[hfi] for hfi in hfis]
        if any(port in told_lids for port in ports):
            own["lid"] = [lids.get(port, 0) for port in ports]
        hosts[name] = own
    return _with_switches({**data, "hosts": hosts}, told_guids, told_lids)


def _with_switches(data: LabData, guids: Mapping[str, int], lids: Mapping[NodePort, int]) -> LabData:
    section = data.get("fabric", {}).get("topology") or {}
    if section.get("kind") != EXPLICIT:
        return data
    switches = {}
    for name, said in (section.get("switches") or {}).items():
        own = dict(said or {})
        if name in guids:
            own["guid"] = guids[name]
        if (name, 0) in lids:
            own["lid"] = lids[name, 0]
        switches[name] = own
    return {**data, "fabric": {**data["fabric"], "topology": {**section, "switches": switches}}}


def _guids_in_order(topology: Topology, pinned: Mapping[str, int]) -> dict[str, int]:
    told = {name: node.guid for name, node in topology.nodes.items() if node.guid is not None} | dict(pinned)
    space = GuidSpace()
    space.reserve(told.values())
    return {name: space.claim(name, told.get(name)) for name in topology.nodes}


def _lids_in_order(
    topology: Topology,
    guids: Mapping[str, int],
    lids: Mapping[NodePort, int],
    pinned: Mapping[NodePort, int],
    lmc: int,
) -> dict[NodePort, int]:
    """Return the LIDs that a subnet manager gives at the start: to HFIs, then to switches."""
    table = LidTable()
    told = {
        (node.name, 0 if node.kind is NodeKind.SWITCH else number): lid
        for node in topology.nodes.values()
        for number, lid in enumerate(node.lids, 1)
        if lid
    } | dict(pinned)
    for key, lid in told.items():
        table.keep(_guid(key, guids), lid, 1 << lmc if key[1] else 1)
    order = [*_ports(topology, NodeKind.HFI), *_ports(topology, NodeKind.SWITCH)]
    return {key: table.lid_of(_guid(key, guids), lmc if key[1] else 0) for key in order if key in lids}


def _ports(topology: Topology, kind: NodeKind) -> Iterable[NodePort]:
    for node in topology.of_kind(kind):
        yield from (
            ((node.name, number) for number in range(1, node.ports + 1))
            if (kind is NodeKind.HFI)
            else [(node.name, 0)]
        )


def _guid(key: NodePort, guids: Mapping[str, int]) -> Guid:
    name, number = key
    guid = Guid(guids[name])
    return port_guid(guid, number) if number else guid
