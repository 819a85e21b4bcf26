"""The section `cluster` of a lab file: how a lab is spread over machines, and which of them have managers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BeforeValidator, Field

from hfi_sim.base.did_you_mean import nearest
from opavnic.lab.file.name_rules import LabName
from vema.base.sections import Section, empty_is_default
from vema.em.desired.problems import Problem

if TYPE_CHECKING:
    from opavnic.lab.file.model import LabModel

MAX_EM_STANDBYS: Final = 15
"""Each has a priority of its own in the election, below 15, which the coordinator has."""


class Cluster(Section):
    """How a lab is spread over machines that `opavnic up --cluster` and `opavnic node` bring together."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=1024)] | list[LabName] | None = None
    """How many machines it takes, the coordinator included, or their names. Without it, `--wait` says."""
    place: Annotated[dict[LabName, LabName], BeforeValidator(empty_is_default)] = Field(default_factory=dict)
    """Host or switch -> machine. The others are spread evenly, so that few links are cut."""
    labels: Annotated[dict[LabName, list[LabName]], BeforeValidator(empty_is_default)] = Field(
        default_factory=dict
    )
    """Machine -> labels that it bears; `place` may name a label in place of a machine."""
    em_standby: Annotated[list[LabName], Field(max_length=MAX_EM_STANDBYS)] = Field(default_factory=list)
    """Machines whose Ethernet Manager and subnet manager take over where the coordinator is gone; the first that is
    there does. Each needs a host, on whose port they run."""
    trust_members: Annotated[bool, Field(strict=True)] = False
    """Whether every machine may run programs on hosts of the others and set faults there, not only the coordinator."""


def standby_problems(model: LabModel) -> list[Problem]:
    """Return why managers cannot stand by as `cluster.em_standby` says, as far as the file alone tells."""
    problems: list[Problem] = []
    path = ("cluster", "em_standby")
    standbys, nodes = model.cluster.em_standby, model.cluster.nodes
    for index, name in enumerate(standbys):
        if name in standbys[:index]:
            problems.append(Problem((*path, index), f'machine "{name}" appears twice'))
        elif isinstance(nodes, list) and name not in nodes:
            problems.append(Problem((*path, index), f'unknown machine "{name}" ({nearest(name, nodes)})'))
    for key, mode in (("em", model.em.mode), ("subnet_manager", model.subnet_manager.mode)):
        if standbys and mode != "builtin":
            text = f"only the built-in managers have standbys, and `{key}: {mode}` leaves them to yours"
            problems.append(Problem(path, text))
    return problems
