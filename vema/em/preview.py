"""What another configuration would change, line by line, before it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.desired import EmConfig, PortFacts, Roster
from vema.em.plan import VeswPlan, class_port_info, differences, plan_vesws, port_info
from vema.em.state import Port, Vport


def preview(config: EmConfig, ports: Iterable[Port], known: Iterable[PortFacts]) -> list[str]:
    """Return one line for each change that `config` would make at an agent; empty: it would change nothing."""
    by_guid = {port.facts.guid: port for port in ports}
    plans = plan_vesws(config, Roster(known))
    lines: list[str] = []
    for plan in plans.values():
        for facts in plan.members:
            port = by_guid.get(facts.guid)
            vport = None if port is None else _vport_on(port, plan.vesw_id)
            lines += _member_lines(config, plan, facts, vport)
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


def _member_lines(config: EmConfig, plan: VeswPlan, facts: PortFacts, vport: Vport | None) -> Iterator[str]:
    section = plan.section
    if vport is None:
        yield f"+ {facts.name}: new vport on {section.name} ({section.id})"
        return
    seen = vport.info or VeswPortInfo.power_on()
    for line in differences(port_info(config, plan, facts, seen), seen):
        yield f"~ {facts.name} vport {vport.num} on {section.name} ({section.id}): {line}"


def _leaving_lines(plans: dict[int, VeswPlan], port: Port, vport: Vport) -> Iterator[str]:
    plan = plans.get(vport.vesw_id)
    members = () if plan is None else plan.members
    if vport.vesw_id and all(facts.guid != port.facts.guid for facts in members):
        yield f"- {port.facts.name} vport {vport.num}: leaves virtual switch {vport.vesw_id}, is deleted"
