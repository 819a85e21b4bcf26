"""Assignment of LIDs to ports: a port keeps its LID as long as it can."""

from __future__ import annotations

from collections.abc import Mapping

from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import LID_MULTICAST_FIRST, Guid, Lid


class LidTable:
    """The base LID of every GUID ever seen."""

    def __init__(self, table: Mapping[str, int]) -> None:
        """Begin with what `to_json` of an earlier table returned, so that ports keep their LIDs.

        Raises:  FabricError: it is no such table.
        """
        self._lids = _read_lids(table)
        self._taken: dict[int, Guid] = {lid: guid for guid, lid in self._lids.items()}
        self._next_lid: dict[int, int] = {}

    def to_json(self) -> dict[str, int]:
        """Return the table, fit for JSON."""
        return {f"{guid:#018x}": lid for guid, lid in self._lids.items()}

    def lid_of(self, guid: Guid, lmc: int) -> Lid:
        """Return the base LID of a port, the one it had where that is still right.

        Raises:  FabricError: none is left.
        """
        step = 1 << lmc
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

    def _owns(self, guid: Guid, lid: int) -> bool:
        return self._taken.get(lid, guid) == guid


def _read_lids(table: Mapping[str, int]) -> dict[Guid, Lid]:
    lids: dict[Guid, Lid] = {}
    owner: dict[int, str] = {}
    for guid, lid in table.items():
        if not isinstance(lid, int) or not 0 < lid < LID_MULTICAST_FIRST:
            raise FabricError(f"LID table: GUID {guid} has LID {lid!r}; a unicast LID is 1 to 0xefffff")
        if lid in owner:
            raise FabricError(f"LID table: LID {lid:#x} stands at both {owner[lid]} and {guid}")
        owner[lid] = guid
        try:
            lids[Guid(int(guid, 16))] = Lid(lid)
        except ValueError:
            raise FabricError(f"LID table: {guid!r} is not a GUID such as 0x0011750101000000") from None
    return lids
