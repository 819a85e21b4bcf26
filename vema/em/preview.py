"""What another configuration would change, line by line, before it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.desired import EmConfig, PortFacts, Roster
from vema.em.plan import VeswPlan, class_port_info, differences, plan_vesws, port_info
from vema.em.state import Port, Vesw, Vport

SHOWN: Final = 4
"""Names in one line; of more their number is said."""


def preview(
    config: EmConfig, ports: Iterable[Port], known: Iterable[PortFacts], vesws: Mapping[int, Vesw]
) -> list[str]:
    """Return one line for each change that `config` would make at an agent; empty: it would change nothing.

    Args:  known: the ports that can be members. vesws: the virtual switches as they are now.
    """
    by_guid = {port.facts.guid: port for port in ports}
    plans = plan_vesws(config, Roster(known))
    lines: list[str] = []
    for plan in plans.values():
        for facts in plan.members:
            port = by_guid.get(facts.guid)
            vport = None if port is None else _vport_on(port, plan.vesw_id)
            lines += _member_lines(plan, facts, vport)
            if vport is not None and plan.vesw_id in vesws:
                change = _table_change(vesws[plan.vesw_id].plan, plan, facts)
                lines += [f"~ {facts.name} vport {vport.num} on {_name(plan)}: {line}" for line in change]
    for port in by_guid.values():
        seen = port.class_port_info
        if seen is not None:
            changes = differences(class_port_info(config, seen.trap_lid, seen), seen)
            lines += [f"~ {port.facts.name}: {line}" for line in changes]
        for vport in port.vports.values():
            lines += _leaving_lines(plans, port, vport)
    return lines


def _vport_on(port: Port, vesw_id: int) -> Vport | None:
    return next((vport for vport in port.vports.values() if vport.vesw_id == vesw_id), None)


def _name(plan: VeswPlan) -> str:
    return f"{plan.section.name} ({plan.vesw_id})"


def _member_lines(plan: VeswPlan, facts: PortFacts, vport: Vport | None) -> Iterator[str]:
    if vport is None:
        yield f"+ {facts.name}: new vport on {_name(plan)}"
        return
    seen = vport.info or VeswPortInfo.power_on()
    for line in differences(port_info(plan, facts, seen), seen):
        yield f"~ {facts.name} vport {vport.num} on {_name(plan)}: {line}"


def _table_change(before: VeswPlan, after: VeswPlan, facts: PortFacts) -> Iterator[str]:
    """Yield what becomes of the MAC table of a member that stays."""
    if before.learns and not after.learns:
        yield "MAC table: emptied"
        return
    if not after.learns:
        return
    old = {member.guid: member.name for member in before.members} if before.learns else {}
    new = {member.guid: member.name for member in after.members}
    for word, one, other in (("with", new, old), ("without", old, new)):
        names = [name for guid, name in one.items() if guid not in other and guid != facts.guid]
        if names:
            yield f"MAC table: {word} the addresses of {_listed(names)}"


def _listed(names: list[str]) -> str:
    if len(names) <= SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"


def _leaving_lines(plans: dict[int, VeswPlan], port: Port, vport: Vport) -> Iterator[str]:
    plan = plans.get(vport.vesw_id)
    members = () if plan is None else plan.members
    if vport.vesw_id and all(facts.guid != port.facts.guid for facts in members):
        yield f"- {port.facts.name} vport {vport.num}: leaves virtual switch {vport.vesw_id}, is deleted"
