"""What a fault is: its kind, its place, its time, and the packets that it means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from hfi_sim.base.errors import FaultError
from hfi_sim.base.options import RATE, SHARE, TIME, options_of
from hfi_sim.engine.link.rule import (
    MAX_TIME_S,
    PACKET_KINDS,
    FaultKind,
    FaultOption,
    FaultTarget,
    Match,
    PacketOptions,
)
from hfi_sim.fabric.faults.kinds import Kind

MIN_EVERY_S: Final = 1e-6
"""Faults that come more often keep a lab from everything else."""
MAX_RATE_BPS: Final = 1e15


@dataclass(frozen=True, slots=True)
class FaultSpec(PacketOptions):
    """One fault as it is asked for.

    Raises:  FaultError: a value out of range, or an option that the kind does not have.
    """

    kind: Kind
    on: str
    """A link, port or node by name, `*` for every link; nodes joined by commas for partition."""
    match: Match = field(default_factory=Match)
    probability: Annotated[
        float,
        FaultOption(
            "probability", SHARE, "of a hit, drawn for each packet that fits", 0, 1, kinds=PACKET_KINDS
        ),
    ] = 1.0
    after_s: Annotated[
        float, FaultOption("after", TIME, "from when the fault is set until it begins", 0, MAX_TIME_S)
    ] = 0.0
    for_s: Annotated[
        float | None,
        FaultOption("for", TIME, "how long it lasts; otherwise until it is removed", 0, MAX_TIME_S),
    ] = None
    every_s: Annotated[
        float | None,
        FaultOption("every", TIME, "begin again this long after each beginning", MIN_EVERY_S, MAX_TIME_S),
    ] = None
    rate_bps: Annotated[
        float,
        FaultOption(
            "rate",
            RATE,
            "the rate that is left",
            0,
            MAX_RATE_BPS,
            kinds=frozenset({FaultKind.RATE}),
            required="give the rate that is left, above 0, for example rate=1G",
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        for option in FAULT_OPTIONS.values():
            value = getattr(self, option.field)
            if problem := option.problem(value):
                raise FaultError(f"fault {self.kind}: {problem}")
            if not option.is_for(self.kind) and value != option.default:
                known = ", ".join(kind for kind in FaultKind if kind in option.kinds)
                raise FaultError(f"fault {self.kind} has no option {option.key}; it is for {known}")
            if option.is_for(self.kind) and option.required and not value:
                raise FaultError(f"fault {self.kind}: {option.required}")
        has_direction = isinstance(self.kind, FaultKind) and self.kind.target is FaultTarget.LINKS
        direction = self.match.direction if has_direction else None
        if self.kind not in PACKET_KINDS and self.match != Match(direction=direction):
            raise FaultError(f"fault {self.kind} acts on links and nodes; it cannot choose packets")
        if self.every_s is not None and self.duration_s is None:
            raise FaultError(f"fault {self.kind}: every= repeats a fault that ends: give for= as well")

    @property
    def duration_s(self) -> float | None:
        """How long each occurrence lasts, in seconds; None: it does not end by itself."""
        return self.for_s if self.for_s is not None else self.kind.lasts_s


FAULT_OPTIONS: Final = {
    option.key: option for option in options_of(FaultSpec) if isinstance(option, FaultOption)
}
"""By the names that people write."""
