"""What has happened to links and faults of a fabric, and when; the oldest changes are forgotten. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import ActiveFault, Faults
from hfi_sim.fabric.faults.syntax import spec_text
from hfi_sim.fabric.notices import FabricChange, FabricNotice
from opavnic.state.fabric import ChangeStatus

CHANGES_KEPT: Final = 2000
_LINK_STATES: Final = {FabricChange.LINK_UP: "up", FabricChange.LINK_DOWN: "down"}


class ChangeLog:
    """Keeps the last changes of one fabric."""

    def __init__(self, fabric: Fabric, faults: Faults, clock: Callable[[], float]) -> None:
        """Begin to listen. Args: clock: seconds; since 1970 in a lab, virtual ones in a scenario."""
        self._clock = clock
        self._kept: deque[ChangeStatus] = deque(maxlen=CHANGES_KEPT)
        self._number = 0
        fabric.on_change(self._link)
        faults.on_change(self._fault)

    def after(self, number: int, limit: int = CHANGES_KEPT) -> list[ChangeStatus]:
        """Return the last `limit` changes with a number above `number`, oldest first."""
        found = min(self._number - number, limit, len(self._kept))
        return [self._kept[index] for index in range(len(self._kept) - found, len(self._kept))]

    def __iter__(self) -> Iterator[ChangeStatus]:
        """Yield what is kept, oldest first."""
        return iter(self._kept)

    def _link(self, notice: FabricNotice) -> None:
        if (state := _LINK_STATES.get(notice.change)) is not None:
            self._add("link", notice.name, state)

    def _fault(self, fault: ActiveFault) -> None:
        self._add("fault", str(fault.number), fault.state.value, spec_text(fault.spec))

    def _add(self, kind: str, name: str, state: str, text: str = "") -> None:
        self._number += 1
        self._kept.append(
            ChangeStatus(
                number=self._number, time=self._clock(), kind=kind, name=name, state=state, text=text
            )
        )
