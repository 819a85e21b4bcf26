"""Assignment of LIDs to ports: a port keeps its LID as long as it can, also where it was gone for a while."""

from __future__ import annotations

from hfi_sim.base.errors import FabricError
from hfi_sim.base.kept_numbers import Remembered
from hfi_sim.base.types import LID_MULTICAST_FIRST, Guid, Lid


class LidTable:
    """The base LIDs of all GUIDs that are there, and of some that are gone."""

    def __init__(self) -> None:
        self._lids: dict[Guid, Lid] = {}
        self._gone: Remembered[Guid, Lid] = Remembered()
        self._taken: dict[int, Guid] = {}
        self._next_lid: dict[int, int] = {}

    def keep(self, guid: Guid, lid: int, count: int) -> None:
        """Reserve the base LID of a port and those that follow it, before any is given.

        Raises:  FabricError: one is another port's.
        """
        for n in range(lid, lid + count):
            if not self._owns(guid, n):
                raise FabricError(f"LID {n:#x} is kept for two ports")
            self._taken[n] = guid
        self._lids[guid] = Lid(lid)

    def lid_of(self, guid: Guid, lmc: int) -> Lid:
        """Return the base LID of a port, the one it had where that is still right.

        Raises:  FabricError: none is left.
        """
        step = 1 << lmc
        self._gone.take(guid)
        lid = self._lids.get(guid)
        if lid is not None and lid % step == 0 and all(self._owns(guid, n) for n in range(lid, lid + step)):
            for n in range(lid, lid + step):
                self._taken[n] = guid
            return lid
        candidate = self._next_lid.get(step, step)
        while any(n in self._taken for n in range(candidate, candidate + step)):
            candidate += step
        if candidate + step > LID_MULTICAST_FIRST:
            raise FabricError("no unicast LID is left")
        if lid is not None:
            self._taken = {n: owner for n, owner in self._taken.items() if owner != guid}
        self._taken.update(dict.fromkeys(range(candidate, candidate + step), guid))
        self._next_lid[step] = candidate + step
        self._lids[guid] = Lid(candidate)
        return Lid(candidate)

    def retire(self, guid: Guid) -> None:
        """Keep the LIDs of a port that is gone for it, until many others have gone after it."""
        if guid in self._lids:
            for forgotten, _ in self._gone.keep(guid, self._lids[guid]):
                self._free(forgotten)

    def _free(self, guid: Guid) -> None:
        del self._lids[guid]
        freed = min(n for n, owner in self._taken.items() if owner == guid)
        self._taken = {n: owner for n, owner in self._taken.items() if owner != guid}
        self._next_lid = {
            step: min(candidate, max(freed // step, 1) * step) for step, candidate in self._next_lid.items()
        }

    def _owns(self, guid: Guid, lid: int) -> bool:
        return self._taken.get(lid, guid) == guid
