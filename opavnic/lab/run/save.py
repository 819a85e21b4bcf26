"""The running state of a lab as a lab file: what the file said, with what has changed since.

Changed since may be: faults, by `opavnic fault`; virtual switches and the MAC policy, by `opavnic em apply`. What a lab
file cannot say is left out, and named.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import yaml
from pydantic import ValidationError

from hfi_sim.fabric.faults import spec_text
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.lab_sections import Em
from opavnic.lab.file.members import pinned_vports, vport_numbers
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.parts import lab_model
from opavnic.lab.file.yaml_source import without_variables
from opavnic.lab.run.by_hand import namespaces_by_hand, namespaces_of, vnics_by_hand
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.pinned import NodePort, with_ids, with_vports
from opavnic.state.lab import SavedLab
from vema.base.sections import AS_WRITTEN
from vema.em.desired.desired import EmConfig, VeswSection
from vema.em.desired.problems import all_named, model_problems

_GIVEN_BY_THE_FILE: Final = ("vesws", "mac", "fabric")
"""Keys of an EM configuration that a lab file has a place for."""


async def save_with_hosts(lab: Lab) -> SavedLab:
    """Return what `save` does, and name what was changed on hosts by hand. Raises as `save`."""
    data, left_out, model = saved_data(lab)
    # a thread: of a large lab it takes a while to write
    text = await asyncio.to_thread(_yaml, _with_ids(data, model, lab))
    hosts = await namespaces_by_hand(namespaces_of(lab))
    return SavedLab(lab_file=text, left_out=[*left_out, *vnics_by_hand(lab), *hosts])


def save(lab: Lab) -> SavedLab:
    """Return the running state of a lab as a lab file that `opavnic up` reads back to the same state.

    Raises:  LabError: no lab file can say it: the name of a virtual switch names no interface, for instance.
    """
    data, left_out, model = saved_data(lab)
    return SavedLab(lab_file=_yaml(_with_ids(data, model, lab)), left_out=left_out)


def saved_data(lab: Lab) -> tuple[dict[str, Any], list[str], LabModel]:
    """Return the plain data of what `save` writes but GUIDs and LIDs, what they cannot say, and their model.

    Raises as `save`. The model may have other numbers of vports.
    """
    data: dict[str, Any] = lab.model.model_dump(mode="json", exclude_unset=True, context=AS_WRITTEN)
    left_out: list[str] = []
    core = lab.em_core
    if core is not None:
        plans = core.vesws.values()
        members = {
            plan.plan.vesw_id: [member_name(lab.model, port.name) for port in plan.plan.members]
            for plan in plans
        }
        left_out += _take_em(data, lab, core.config, members)
    faults = [*map(spec_text, lab.world.faults.specs().values())]
    if faults or lab.model.faults:
        data["faults"] = faults
    _leave_out_losses(data)
    try:
        saved = lab.checked.of(data)
    except ValidationError as error:
        problems = all_named(model_problems(error, lab_model(), data), data)
        raise LabError(f"lab {lab.model.name} cannot be saved as a lab file: {problems}") from error
    if core is not None:
        numbers = {
            (vport.vesw_id, port.facts.name): vport.num
            for port, vport in core.vports()
            if vport.vesw_id and port.counts
        }
        there = {key: number for key, number in numbers.items() if key in saved.vports}
        data = with_vports(data, saved, pinned_vports(vport_numbers(saved.vports, there)))
    in_order = {key: data[key] for key in lab_model().model_fields if key in data}
    return in_order, left_out, saved


def _with_ids(data: dict[str, Any], model: LabModel, lab: Lab) -> dict[str, Any]:
    """Return the data with the GUIDs and LIDs that a fresh start would not give."""
    world = lab.world
    if lab.share is not None:
        return data  # the subnet manager is that of another machine, and nodes do not come and go
    fabric = world.fabric
    guids = {name: int(hfi.node_guid) for name, hfi in fabric.hfis.items()}
    guids |= {name: int(switch.node_guid) for name, switch in fabric.switches.items()}
    lids: dict[NodePort, int] = {}
    if world.managed_by == "builtin":
        lids = {(port.hfi.name, port.opa_port_num): port.lid for port in fabric.hfi_ports() if port.lid}
        lids |= {(name, 0): switch.lid for name, switch in fabric.switches.items() if switch.lid}
    lmc = world.subnet_manager.routing.lmc if lids else 0
    return with_ids(data, model.topology, guids, lids, lmc)


def member_name(model: LabModel, port: str) -> str:
    """Return the shortest name of a port as a member of a virtual switch. Args: port: HFI:PORT."""
    found = model.ports.find(port)
    return port if found is None else found.member


def _leave_out_losses(data: dict[str, Any]) -> None:
    """Take `loss` off all links: it is among the faults now, where it can have been removed meanwhile."""
    fabric = data.get("fabric", {})
    links = (fabric.get("topology") or {}).get("links") or []
    for link in (fabric.get("link", {}), *(link for link in links if isinstance(link, dict))):
        for way in (link, link.get("up") or {}, link.get("down") or {}):
            way.pop("loss", None)
    links[:] = [
        link["ends"] if isinstance(link, dict) and link.keys() == {"ends"} else link for link in links
    ]


def _take_em(data: dict[str, Any], lab: Lab, config: EmConfig, members: dict[int, list[str]]) -> list[str]:
    """Put the configuration of the manager into the data of a lab file; return what has no place there."""
    began = em_config(lab.model)
    subnets = {vesw.id: vesw.subnet for vesw in lab.model.vesws}
    of_hosts = {
        vesw.id: vesw.model_dump(include={"link_local", "neighbours"}, exclude_defaults=True)
        for vesw in lab.model.vesws
    }
    sections = []
    left_out = []
    for vesw in config.vesws:
        section: dict[str, Any] = {"id": vesw.id, "name": vesw.name, "pkey": vesw.pkey, "mtu": vesw.mtu}
        if subnet := subnets.get(vesw.id) or vesw.subnet:
            section["subnet"] = str(subnet[0]) if len(subnet) == 1 else list(map(str, subnet))
        section["members"] = members.get(vesw.id, [])
        section |= of_hosts.get(vesw.id, {})
        sections.append(
            {**section, **{key: value for key, value in _more(vesw).items() if key not in section}}
        )
    data["vesws"] = sections
    if config.mac != lab.model.em.mac:
        data["em"] = {**data.get("em", {}), "mac": config.mac}
    if config.fabric.id != lab.model.fabric.id:
        data["fabric"] = {**data.get("fabric", {}), "id": config.fabric.id}
    now, before = config.model_dump(), began.model_dump()
    for key in now:
        if key in Em.model_fields and key not in _GIVEN_BY_THE_FILE and now[key] != before[key]:
            data["em"] = {**data.get("em", {}), key: config.model_dump(mode="json", context=AS_WRITTEN)[key]}
        elif key not in _GIVEN_BY_THE_FILE and now[key] != before[key]:
            left_out.append(f"em: {key}")
    return left_out


def _more(vesw: VeswSection) -> dict[str, Any]:
    """Return the keys of a virtual switch that are not at their defaults; a lab file knows all of an EM file's."""
    told = vesw.model_dump(mode="json", context=AS_WRITTEN)
    return {
        name: told[name]
        for name, field in VeswSection.model_fields.items()
        if getattr(vesw, name) != field.get_default(call_default_factory=True)
    }


class _Hex(int):
    """A number that is written in hex: a P_Key, a GUID."""


class _Dumper(yaml.SafeDumper):
    """Writes P_Keys and GUIDs in hex, and text so that it is read back as it is."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_str(without_variables(value))


def _write_hex(dumper: yaml.SafeDumper, value: _Hex) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:int", f"{value:#06x}")


_Dumper.add_representer(_Hex, _write_hex)
_Dumper.add_representer(str, _write_text)


def _with_hex_guids(data: dict[str, Any]) -> dict[str, Any]:
    hosts = {
        name: {**host, "guid": [*map(_Hex, host["guid"])]} if isinstance(host.get("guid"), list) else host
        for name, host in data["hosts"].items()
    }
    topology = data.get("fabric", {}).get("topology") or {}
    if not topology.get("switches"):
        return {**data, "hosts": hosts}
    switches = {
        name: {**said, "guid": _Hex(said["guid"])} if said and "guid" in said else said
        for name, said in topology["switches"].items()
    }
    fabric = {**data["fabric"], "topology": {**topology, "switches": switches}}
    return {**data, "hosts": hosts, "fabric": fabric}


def _yaml(data: dict[str, Any]) -> str:
    vesws = [
        {**vesw, "pkey": _Hex(vesw["pkey"])} if "pkey" in vesw else vesw for vesw in data.get("vesws", [])
    ]
    shown = {**_with_hex_guids(data), "vesws": vesws} if vesws else _with_hex_guids(data)
    return yaml.dump(
        shown, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )
