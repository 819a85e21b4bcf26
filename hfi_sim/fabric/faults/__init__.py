"""Faults on a fabric: what goes wrong, where, when, and for which packets. All by the fabric's seeded randomness."""

from __future__ import annotations

from hfi_sim.engine.link.rule import FaultKind, FaultTarget, Match
from hfi_sim.fabric.faults.kinds import KINDS, FaultSpec, OwnKind, register
from hfi_sim.fabric.faults.syntax import parse_fault, parse_match, spec_from_data, spec_text
from hfi_sim.fabric.faults.targets import cut_between, directions_of, links_of

__all__ = [
    "KINDS",
    "FaultKind",
    "FaultSpec",
    "FaultTarget",
    "Match",
    "OwnKind",
    "cut_between",
    "directions_of",
    "links_of",
    "parse_fault",
    "parse_match",
    "register",
    "spec_from_data",
    "spec_text",
]
