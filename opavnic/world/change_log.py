"""What has happened to links and faults of a fabric, and when; the oldest changes are forgotten. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import ActiveFault, Faults
from hfi_sim.fabric.faults.syntax import spec_text
from hfi_sim.fabric.notices import FabricChange, FabricNotice

CHANGES_KEPT: Final = 2000
ChangedKind = Literal["link", "fault"]
"""What a change has happened to."""


@dataclass(frozen=True, slots=True)
class FabricChanged:
    """A new state of a link or a fault."""

    number: int
    """Counted from 1."""
    time: float
    """Seconds, of the clock that the log was given."""
    kind: ChangedKind
    name: str
    """`h1:1--sw0:2`; the number of a fault."""
    state: str
    """up or down; waiting, active or over."""
    text: str
    """The fault as it was set; empty for a link."""


_LINK_STATES: Final = {FabricChange.LINK_UP: "up", FabricChange.LINK_DOWN: "down"}


class ChangeLog:
    """Keeps the last changes of one fabric."""

    def __init__(self, fabric: Fabric, faults: Faults, clock: Callable[[], float]) -> None:
        """Begin to listen. Args: clock: seconds; since 1970 in a lab, virtual ones in a scenario."""
        self._clock = clock
        self._kept: deque[FabricChanged] = deque(maxlen=CHANGES_KEPT)
        self._number = 0
        fabric.on_change(self._link)
        faults.on_change(self._fault)

    def after(self, number: int, limit: int = CHANGES_KEPT) -> list[FabricChanged]:
        """Return the last `limit` changes with a number above `number`, oldest first."""
        found = min(self._number - number, limit, len(self._kept))
        return [self._kept[index] for index in range(len(self._kept) - found, len(self._kept))]

    def __iter__(self) -> Iterator[FabricChanged]:
        """Yield what is kept, oldest first."""
        return iter(self._kept)

    def _link(self, notice: FabricNotice) -> None:
        if (state := _LINK_STATES.get(notice.change)) is not None:
            self._add("link", notice.name, state)

    def _fault(self, fault: ActiveFault) -> None:
        self._add("fault", str(fault.number), fault.state.value, spec_text(fault.spec))

    def _add(self, kind: ChangedKind, name: str, state: str, text: str = "") -> None:
        self._number += 1
        self._kept.append(FabricChanged(self._number, self._clock(), kind, name, state, text))
