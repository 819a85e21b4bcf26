"""The settings that a subnet manager has made on a node, as plain data, sent to the machine that carries the node.

The subnet manager of a cluster runs on one machine, which has the model of the whole fabric. It sets up the nodes of
that model directly (`hfi_sim.subnet_manager.manager`); for a node on another machine, all its settings are sent there
as one program, whole and idempotent, and applied to the real node. An external fabric manager sends SMPs, which cross
the links between machines like all packets; the resulting settings go the other way, so that the coordinator's model,
which people look at, follows.
"""

from __future__ import annotations

import base64
import zlib
from array import array
from collections.abc import Mapping
from typing import Any

from hfi_sim.base.types import CapabilityMask3, Lid, PortState
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import Link
from hfi_sim.nodes.end_port import ONE_TO_ONE
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort
from hfi_sim.routing.table import LinearTable
from opavnic.cluster.errors import ClusterError

Program = dict[str, Any]


def program_of(fabric: Fabric, name: str) -> Program:
    """Return the settings that the subnet manager has made on a node of the model."""
    if (switch := fabric.switches.get(name)) is not None:
        return _switch_program(switch)
    return {"ports": {str(number): _port_program(port) for number, port in fabric.hfis[name].ports.items()}}


def _port_program(port: HfiPort) -> Program:
    return {
        "lid": int(port.lid),
        "lmc": port.lmc,
        "sm_lid": int(port.sm_lid),
        "pkeys": [int(pkey) for pkey in port.pkeys.entries],
        "manages": port.mgmt_allowed,
        "groups": sorted(port.multicast_lids),
        "lanes": _lanes(port),
        "active": port.state is PortState.ACTIVE,
    }


def _switch_program(switch: Switch) -> Program:
    return {
        "lid": int(switch.lid),
        "lft": base64.b64encode(zlib.compress(switch.lft.entries.tobytes(), 1)).decode(),
        "lft_groups": [list(group) for group in switch.lft.groups],
        "mft": {str(lid): sorted(ports) for lid, ports in switch.mft.items()},
        "active": [number for number, port in switch.ports.items() if port.state is PortState.ACTIVE],
        "lanes": {str(number): _lanes(port) for number, port in switch.ports.items() if _lanes(port)},
    }


def _lanes(port: HfiPort | SwitchPort) -> Program:
    """Return the tables SCtoVLt and SCtoSC of a port, if it has any."""
    said: Program = {}
    if port.sc_to_vl:
        said["sc_to_vl"] = list(port.sc_to_vl)
    if isinstance(port, SwitchPort) and port.sc_to_sc:
        said["sc_to_sc"] = {str(out): list(table) for out, table in port.sc_to_sc.items()}
    return said


def _apply_lanes(port: HfiPort | SwitchPort, said: Program) -> None:
    if (vls := tuple(said.get("sc_to_vl", ()))) != port.sc_to_vl:
        port.set_sc_to_vl(vls)
    if isinstance(port, SwitchPort):
        tables = {int(out): tuple(table) for out, table in said.get("sc_to_sc", {}).items()}
        port.set_sc_to_sc({out: tables.get(out, ONE_TO_ONE) for out in {*tables, *port.sc_to_sc}})


def apply_program(fabric: Fabric, name: str, program: Program) -> None:
    """Set up a node as a program says; a port without an active cable stays down regardless.

    Raises:  ClusterError: the program is malformed, or does not fit the node.
    """
    try:
        if (switch := fabric.switches.get(name)) is not None:
            _apply_to_switch(switch, program)
            return
        for number, port in fabric.hfis[name].ports.items():
            _apply_to_port(port, program["ports"][str(number)])
    except (KeyError, ValueError, TypeError, zlib.error) as error:
        raise ClusterError(f"{name}: invalid program: {type(error).__name__}: {error}") from error


def _apply_to_port(port: HfiPort, program: Program) -> None:
    port.set_lid(Lid(program["lid"]), program["lmc"])
    port.sm_lid = Lid(program["sm_lid"])
    port.mgmt_allowed = program["manages"]
    port.set_pkeys(program["pkeys"])
    port.multicast_lids = frozenset(program["groups"])
    _apply_lanes(port, program["lanes"])
    if program["active"] and port.state is PortState.INIT:
        port.set_state(PortState.ARMED)
        port.set_state(PortState.ACTIVE)


def _apply_to_switch(switch: Switch, program: Program) -> None:
    entries = array("H", zlib.decompress(base64.b64decode(program["lft"])))
    lft = LinearTable(entries, [tuple(group) for group in program["lft_groups"]])
    mft = {int(lid): frozenset(ports) for lid, ports in program["mft"].items()}
    switch.lid = Lid(program["lid"])
    switch.program(lft, mft)
    active = set(program["active"])
    for number, port in switch.ports.items():
        if number in active and port.link is not None and port.link.up:
            port.state = PortState.ACTIVE
        _apply_lanes(port, program["lanes"].get(str(number), {}))


# # --- the other way: reports of a machine on its own nodes ----------------------------------------------------


def report_of(fabric: Fabric, links: Mapping[str, Link], is_external: bool, name: str) -> Any:
    """Return what the coordinator needs to know of a node that this machine carries, or of a link that ends here.

    Args:    is_external: with what a fabric manager has set up.
    """
    if name in links:
        return links[name].up
    said: Program = {"program": program_of(fabric, name)} if is_external else {}
    if (hfi := fabric.hfis.get(name)) is not None:
        said["description"] = hfi.description
        said["capabilities"] = {str(number): int(port.capability_mask3) for number, port in hfi.ports.items()}
    return said


def apply_report(
    fabric: Fabric, carried: frozenset[str], links: Mapping[str, Link], by: str, report: Mapping[str, Any]
) -> None:
    """Apply a machine's report to the model; statements about nodes that it does not carry are ignored.

    Args:    carried: the nodes of that machine. links: theirs, by name. by: the name under which these are held down.
    Raises:  ClusterError: the report is malformed.
    """
    with fabric.together():
        for is_up in (False, True):
            told = [links[name] for name in report if name in links and report[name] is is_up]
            fabric.set_links(told, is_up, by=by)
    try:
        for name in carried & report.keys():
            said = report[name]
            if (hfi := fabric.hfis.get(name)) is not None:
                hfi.describe(str(said["description"]))
                for number, port in hfi.ports.items():
                    wanted = CapabilityMask3(said["capabilities"][str(number)])
                    port.withdraw(port.capability_mask3 & ~wanted)
                    if missing := wanted & ~port.capability_mask3:
                        port.announce(missing)
            if "program" in said:
                apply_program(fabric, name, said["program"])
    except (KeyError, ValueError, TypeError) as error:
        raise ClusterError(f"{by}: malformed report: {type(error).__name__}: {error}") from error


def node_of(end: Any) -> str:
    """Return the name of the node that a port of a link belongs to."""
    node = end.hfi if isinstance(end, HfiPort) else end.switch
    return str(node.name)


def is_remote(end: Any) -> bool:
    """Return whether another machine carries the node of a port."""
    node = end.hfi if isinstance(end, HfiPort) else end.switch
    return bool(node.is_remote)
