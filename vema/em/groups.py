"""The multicast groups of the virtual switches: what the subnet manager was told, and what it has to be told next."""

from __future__ import annotations

from collections.abc import Iterable

from vema.em.state import Vesw


class Groups:
    """Members by group LID, as far as they have been handed out."""

    def __init__(self) -> None:
        self._told: dict[int, frozenset[int]] = {}
        self._doubtful = True

    def forget(self) -> None:
        """Take it that another EM may have changed them."""
        self._told = {}

    def doubt(self) -> None:
        """Look again at the next `take`."""
        self._doubtful = True

    def take(self, vesws: Iterable[Vesw]) -> dict[int, frozenset[int]]:
        """Return what changed since the last time: group LID -> GUIDs of its ports; empty: delete it."""
        if not self._doubtful:
            return {}
        self._doubtful = False
        wanted = {vesw.plan.section.mlid: vesw.guids for vesw in vesws}
        changed = {mlid: guids for mlid, guids in wanted.items() if self._told.get(mlid) != guids}
        changed |= {mlid: frozenset() for mlid in self._told if mlid not in wanted}
        self._told = wanted
        return changed
