"""Kinds of faults by name: those of the simulator, those of programs, and those of installed packages.

A kind of one's own breaks something in a fabric, and mends it again. A program makes one known by `register`, a package
by an entry point of the group `opavnic.faults`, whose name is the kind's. Place, times and count are as of any fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from hfi_sim.base.errors import FaultError
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.link.rule import FaultKind, FaultTarget

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
_own: Final[dict[str, OwnKind]] = {}
_INSTALLED: Final = {point.name: point for point in entry_points(group=GROUP)}


def register(kind: OwnKind) -> None:
    """Make a kind known in this process, in place of one of that name."""
    _own[kind.value] = kind


def kind_names() -> list[str]:
    """Return the names of all kinds."""
    return list(dict.fromkeys([*(kind.value for kind in FaultKind), *_own, *_INSTALLED]))


def kind_named(name: str) -> Kind:
    """Return a kind; one of a package is loaded when it is first asked for.

    Raises:  FaultError: there is none, with the nearest name; or its package cannot be loaded.
    """
    if name in list(FaultKind):
        return FaultKind(name)
    if name not in _own and name in _INSTALLED:
        _own[name] = _load(name)
    if name not in _own:
        raise FaultError(unknown_name("fault", name, kind_names()))
    return _own[name]


def _load(name: str) -> OwnKind:
    point = _INSTALLED[name]
    whose = f"fault {name} of {point.dist.name if point.dist else point.value}"
    try:
        kind = point.load()
    except Exception as error:
        raise FaultError(f"{whose} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(kind, OwnKind) or kind.value != name:
        raise FaultError(f'{whose}: {point.value} is not an OwnKind named "{name}"')
    return kind
