"""The multicast groups of the virtual switches: what the subnet manager was told, and what has changed since."""

from __future__ import annotations

from collections.abc import Iterable

from vema.em.state import Vesw


class Groups:
    """The members by group LID as last returned by `take`."""

    def __init__(self) -> None:
        self._told: dict[int, frozenset[int]] = {}
        self._doubtful = True

    def forget(self) -> None:
        """Forget what was returned: another EM may have changed the groups."""
        self._told = {}

    def doubt(self) -> None:
        """Compare again in the next `take`."""
        self._doubtful = True

    def take(self, vesws: Iterable[Vesw]) -> dict[int, frozenset[int]]:
        """Return the changes since the last call: group LID -> GUIDs of its ports; an empty set deletes the group."""
        if not self._doubtful:
            return {}
        self._doubtful = False
        wanted = {vesw.plan.section.mlid: vesw.guids for vesw in vesws}
        changed = {mlid: guids for mlid, guids in wanted.items() if self._told.get(mlid) != guids}
        changed |= {mlid: frozenset() for mlid in self._told if mlid not in wanted}
        self._told = wanted
        return changed
