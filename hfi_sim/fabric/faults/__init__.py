"""Faults on a fabric: what goes wrong, where, when, and for which packets. All by the fabric's seeded randomness."""

from __future__ import annotations

from hfi_sim.engine.link.rule import FaultKind, Match
from hfi_sim.fabric.faults.spec import FaultSpec
from hfi_sim.fabric.faults.syntax import parse_fault, parse_match, spec_from_data, spec_text

__all__ = [
    "FaultKind",
    "FaultSpec",
    "Match",
    "parse_fault",
    "parse_match",
    "spec_from_data",
    "spec_text",
]
