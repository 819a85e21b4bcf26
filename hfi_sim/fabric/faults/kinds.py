"""What a fault is: its kind, of the simulator, of programs or of installed packages; place, time, and what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Annotated, Final

from hfi_sim.base.entry_points import JoinedRows, owner_of
from hfi_sim.base.errors import FaultError
from hfi_sim.base.options import RATE, SHARE, TIME, options_of
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.link.rule import (
    MAX_TIME_S,
    PACKET_KINDS,
    FaultKind,
    FaultOption,
    FaultTarget,
    Match,
    PacketOptions,
)

if TYPE_CHECKING:
    from hfi_sim.fabric.fabric import Fabric


GROUP: Final = "opavnic.faults"


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A kind of faults of one's own.

    Raises:  FaultError: a name that cannot stand in a line, or one of the simulator's; packets as a target.
    """

    value: str
    """Its name, as `brown-out` in `brown-out on sw0 for=2s`."""
    begin: Callable[[Fabric, str, str], Callable[[], None]]
    """Takes the fabric, the place behind `on`, and under which name links are held (`by`); returns what undoes it."""
    target: FaultTarget = FaultTarget.LINKS
    """What a place means, and which places there are."""
    lasts_s: float | None = None
    """How many seconds it lasts unless told; None: until it is removed."""

    def __post_init__(self) -> None:
        if (
            not self.value
            or not self.value.isprintable()
            or " " in self.value
            or self.value in list(FaultKind)
        ):
            raise FaultError(f"a kind of faults cannot be called {self.value!r}: one word, and a new one")
        if self.target in (FaultTarget.PACKETS, FaultTarget.PROGRAM):
            raise FaultError(f"fault {self.value}: one's own act on links, a switch, an HFI or nodes")

    def __str__(self) -> str:
        return self.value

    def start(self, fabric: Fabric, place: str, by: str) -> Callable[[], None]:
        """Break something; return what mends it.

        Raises:  FaultError: its function has failed, or returned something else.
        """
        try:
            end = self.begin(fabric, place, by)
        except FaultError:
            raise
        except Exception as error:
            raise FaultError(f"fault {self}: {type(error).__name__}: {error}") from error
        if not callable(end):
            raise FaultError(
                f"fault {self}: begin returned {type(end).__name__}, and no function that ends it"
            )
        return end


Kind = FaultKind | OwnKind


def _load(point: EntryPoint) -> OwnKind:
    whose = f"fault {point.name} of {owner_of(point)}"
    try:
        kind = point.load()
    except Exception as error:
        raise FaultError(f"{whose} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(kind, OwnKind) or kind.value != point.name:
        raise FaultError(f'{whose}: {point.value} is not an OwnKind named "{point.name}"')
    return kind


KINDS: Final[JoinedRows[Kind]] = JoinedRows({kind.value: kind for kind in FaultKind}, GROUP, _load)
"""Kinds by name: those of the simulator, of programs, and of installed packages."""


def register(kind: OwnKind) -> None:
    """Make a kind known in this process, in place of one of that name."""
    KINDS[kind.value] = kind


def kind_named(name: str) -> Kind:
    """Return a kind. Raises: FaultError: there is none, with the nearest name; or its package cannot be loaded."""
    if name not in KINDS:
        raise FaultError(unknown_name("fault", name, KINDS))
    return KINDS[name]


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
