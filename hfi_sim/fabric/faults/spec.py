"""What a fault is: its kind, its place, its time, and the packets that it means."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

from hfi_sim.base.errors import FaultError
from hfi_sim.engine.link.rule import PACKET_KINDS, FaultKind, Match, short
from hfi_sim.wire.packet import MAX_PACKET

MAX_TIME_S: Final = 1e9
MIN_EVERY_S: Final = 1e-6
"""Faults that come more often keep a lab from everything else."""
MAX_RATE_BPS: Final = 1e15
MAX_COUNT: Final = 10**9
MAX_BITS: Final = 8 * MAX_PACKET
MAX_COPIES: Final = 1000

_OPTIONS_OF: Final[dict[str, tuple[str, frozenset[FaultKind]]]] = {
    "probability": ("probability", PACKET_KINDS),
    "skip": ("skip", PACKET_KINDS),
    "delay_s": ("delay", frozenset({FaultKind.DELAY})),
    "rate_bps": ("rate", frozenset({FaultKind.RATE})),
    "bits": ("bits", frozenset({FaultKind.CORRUPT})),
    "copies": ("copies", frozenset({FaultKind.DUPLICATE})),
    "behind": ("behind", frozenset({FaultKind.REORDER})),
    "hold_s": ("hold", frozenset({FaultKind.REORDER})),
}
"""Options that only some kinds use: field -> its name for people, and the kinds."""
_MOMENTARY: Final = {FaultKind.PORT_ERROR: 0.0, FaultKind.SWITCH_REBOOT: 1.0}
"""How long these last, in seconds, unless told."""


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One fault as it is asked for.

    Raises:  FaultError: a value out of range, or an option that the kind does not have.
    """

    kind: FaultKind
    on: str
    """A link, port or node by name, `*` for every link; nodes joined by commas for partition."""
    probability: float = 1.0
    """0 to 1, drawn for each packet that fits."""
    match: Match = field(default_factory=Match)
    after_s: float = 0.0
    """From when the fault is set until it begins."""
    for_s: float | None = None
    """How long it lasts; None: until it is removed."""
    every_s: float | None = None
    """Begin again this long after each beginning."""
    count: int | None = None
    """Packets to hit, or beginnings, after which it is over."""
    skip: int = 0
    """Packets that fit and are spared first."""
    delay_s: float = 0.0
    """delay: how much longer a packet takes."""
    rate_bps: float = 0.0
    """rate: what the link has left."""
    bits: int = 1
    """corrupt: how many bits flip, between header and tail, where the ICRC covers them."""
    copies: int = 1
    """duplicate: how many more."""
    behind: int = 1
    """reorder: how many later packets overtake it."""
    hold_s: float = 1e-3
    """reorder: at the latest it goes on after this."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("after", self.after_s, 0, MAX_TIME_S),
            ("for", self.for_s, 0, MAX_TIME_S),
            ("every", self.every_s, MIN_EVERY_S, MAX_TIME_S),
            ("delay", self.delay_s, 0, MAX_TIME_S),
            ("hold", self.hold_s, 0, MAX_TIME_S),
            ("rate", self.rate_bps, 0, MAX_RATE_BPS),
            ("count", self.count, 1, MAX_COUNT),
            ("skip", self.skip, 0, MAX_COUNT),
            ("bits", self.bits, 1, MAX_BITS),
            ("copies", self.copies, 1, MAX_COPIES),
            ("behind", self.behind, 1, MAX_COUNT),
        ):
            if value is not None and not least <= value <= most:
                raise FaultError(f"fault {self.kind}: {name} is {short(value)}, not {least:g} to {most:g}")
        if not 0 <= self.probability <= 1:
            raise FaultError(
                f"fault {self.kind}: probability {self.probability:g} is not 0 to 1 (0% to 100%)"
            )
        for name, (word, kinds) in _OPTIONS_OF.items():
            if self.kind not in kinds and getattr(self, name) != _DEFAULTS[name]:
                known = ", ".join(kind for kind in FaultKind if kind in kinds)
                raise FaultError(f"fault {self.kind} has no option {word}; it is for {known}")
        if self.kind is FaultKind.DELAY and self.delay_s <= 0:
            raise FaultError("fault delay: say how long, for example delay=10us")
        if self.kind is FaultKind.RATE and self.rate_bps <= 0:
            raise FaultError("fault rate: give the rate that is left, above 0, for example rate=1G")
        if self.kind not in PACKET_KINDS and self.match != Match():
            raise FaultError(f"fault {self.kind} acts on links and nodes; it cannot choose packets")
        if self.every_s is not None and self.duration_s is None:
            raise FaultError(f"fault {self.kind}: every= repeats a fault that ends: give for= as well")

    @property
    def duration_s(self) -> float | None:
        """How long each occurrence lasts, in seconds; None: it does not end by itself."""
        return self.for_s if self.for_s is not None else _MOMENTARY.get(self.kind)


_DEFAULTS: Final = {entry.name: entry.default for entry in fields(FaultSpec)}
