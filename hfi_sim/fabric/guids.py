"""The GUIDs of a fabric's nodes: in order of their names' arrival, or as told. A node that comes back has the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hfi_sim.base.errors import FabricError
from hfi_sim.base.kept_numbers import Remembered
from hfi_sim.base.types import Guid
from hfi_sim.nodes.hfi import system_guid

GUID_BASE: Final = 0x0011_7501_0100_0000
"""The first GUID given out: Intel's OUI for HFI1, then our own numbering."""
GUID_STEP: Final = 0x10
"""Room between two nodes for the GUIDs of their ports."""


class GuidSpace:
    """Which node has which GUID."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._of: dict[str, int] = {}
        self._next = GUID_BASE
        self._reserved: set[int] = set()
        self._gone: Remembered[str, int] = Remembered()

    def reserve(self, guids: Iterable[int]) -> None:
        """Keep GUIDs for nodes that will ask for them: others do not get them by chance."""
        self._reserved |= {system_guid(guid) for guid in guids}

    def claim(self, name: str, guid: int | None) -> Guid:
        """Give a node its GUID: the one that it asks for, else the one that it had, else the next one.

        Raises:  FabricError: it is another node's.
        """
        before = self._gone.take(name)
        if guid is None and before is not None and before not in self._names:
            guid = before
        if guid is None:
            guid = self._next
            while guid in self._names or guid in self._reserved:
                guid += GUID_STEP
            self._next = guid + GUID_STEP
        if (known := system_guid(guid)) in self._names:
            raise FabricError(f"node {name!r}: GUID {guid:#018x} belongs to {self._names[known]!r}")
        self._names[known] = name
        self._of[name] = guid
        return Guid(guid)

    def release(self, name: str) -> None:
        """Take note that a node is gone."""
        guid = self._of.pop(name)
        del self._names[system_guid(guid)]
        self._gone.keep(name, guid)
