"""The section `cluster` of a lab file: how a lab is spread over machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from opavnic.lab.file.sections import LabName
from vema.base.sections import Section, empty_is_default


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
    trust_members: Annotated[bool, Field(strict=True)] = False
    """Whether every machine may run programs on hosts of the others and set faults there, not only the coordinator."""
