"""A preview of the changes that a new configuration would make, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.state import Port, Vport
from vema.em.desired.desired import EmConfig
from vema.em.desired.plan import VeswPlan, class_port_info, differences, plan_vesws, port_info
from vema.em.desired.ports import PortFacts, Roster

SHOWN: Final = 4
"""Names listed in one line; for more, only the number of the others is given."""


@dataclass(frozen=True, slots=True)
class EmSnapshot:
    """An immutable snapshot of what an EM knows, so that it can be used in another thread."""

    roster: Roster
    """The ports that can be members."""
    ports: tuple[Port, ...]
    """Copies, of their vports too."""
    plans: Mapping[int, VeswPlan]
    """The virtual switches, by id."""
    group_lids: Mapping[int, int] | None = None
    """The multicast LIDs that the subnet manager has given; None: the EM chooses."""


def preview(config: EmConfig, now: EmSnapshot) -> list[str]:
    """Return one line for each change that `config` would make at an agent; empty if it would change nothing."""
    vports = {
        (port.facts.guid, vport.vesw_id): vport
        for port in now.ports
        for vport in reversed(tuple(port.vports.values()))
    }
    plans = plan_vesws(config, now.roster, now.group_lids)
    lines: list[str] = []
    for plan in plans.values():
        for facts in plan.members:
            vport = vports.get((facts.guid, plan.vesw_id))
            lines += _member_lines(plan, facts, vport)
            if vport is not None and plan.vesw_id in now.plans:
                change = _table_change(now.plans[plan.vesw_id], plan, facts)
                lines += [f"~ {facts.name} vport {vport.num} on {_name(plan)}: {line}" for line in change]
    staying = {(facts.guid, plan.vesw_id) for plan in plans.values() for facts in plan.members}
    for port in now.ports:
        seen = port.class_port_info
        if seen is not None:
            changes = differences(class_port_info(config, seen.trap_lid, seen), seen)
            lines += [f"~ {port.facts.name}: {line}" for line in changes]
        lines += [
            f"- {port.facts.name} vport {vport.num}: leaves virtual switch {vport.vesw_id}, is deleted"
            for vport in port.vports.values()
            if vport.vesw_id and (port.facts.guid, vport.vesw_id) not in staying
        ]
    return lines


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
    """Yield the changes of the MAC table of a member that stays."""
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
