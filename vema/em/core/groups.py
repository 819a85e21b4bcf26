"""The multicast groups of the virtual switches: what the subnet manager was told, and what has changed since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from vema.em.core.state import ManagedVesw

_GROUP_PREFIX: Final = 0xFF15
NO_VESW: Final = 0
"""In place of a virtual switch's number: the group of the election of EMs."""


@dataclass(frozen=True, slots=True)
class Group:
    """The multicast group that a virtual switch is to have."""

    guids: frozenset[int]
    """GUIDs of the ports in it."""
    mlid: int
    """Its multicast LID, where the EM chooses; where the subnet manager does, this says nothing."""
    pkey: int
    mtu: int
    """Bytes of Ethernet payload that it is to carry."""


def group_gid(vesw_id: int, pkey: int) -> bytes:
    """Return the GID of the multicast group of a virtual switch: ff15:0:PKEY::ID, a transient one of the site.

    Source: the applications that opa-fm's settings name for VNICs mask the P_Key there; the number of the virtual
    switch in the rest is ours, since the sources of an Ethernet Manager are not published.
    """
    return (_GROUP_PREFIX << 112 | pkey << 80 | vesw_id).to_bytes(16)


class Groups:
    """The group of each virtual switch as last returned by `take`."""

    def __init__(self) -> None:
        self._told: dict[int, Group] = {}
        self._doubtful = True

    def forget(self) -> None:
        """Forget what was returned: another EM may have changed the groups."""
        self._told = {}

    def doubt(self) -> None:
        """Compare again in the next `take`."""
        self._doubtful = True

    def take(self, vesws: Iterable[ManagedVesw]) -> dict[int, Group | None]:
        """Return the changes since the last call, by id of the virtual switch; None: it has no group any more."""
        if not self._doubtful:
            return {}
        self._doubtful = False
        wanted = {}
        for vesw in vesws:
            section = vesw.plan.section
            wanted[section.id] = Group(vesw.guids, section.mlid, section.pkey, section.mtu)
        changed: dict[int, Group | None] = {
            vesw_id: group for vesw_id, group in wanted.items() if self._told.get(vesw_id) != group
        }
        changed |= dict.fromkeys(self._told.keys() - wanted.keys())
        self._told = wanted
        return changed
