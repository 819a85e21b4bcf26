"""What an Ethernet Manager needs of where it runs: a MAD stack, and a subnet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from hfi_sim.management.sa.session import SaTransport
from vema.em.core.virtual_switches import Group
from vema.em.desired.ports import PortFacts


class MadTransport(SaTransport, Protocol):
    """The MAD stack of the port that the EM runs on; `hfi_sim.management.mad.stack.MadStack` is one."""

    def send(self, dlid: int, mad: bytes, *, sl: int = 0) -> object:
        """Send one MAD without waiting for a response."""
        ...


class EmSubnet(Protocol):
    """What the EM needs of the subnet manager."""

    @property
    def lid(self) -> int:
        """LID of the port that the EM runs on."""
        ...

    @property
    def sl(self) -> int:
        """Service level of MADs to agents."""
        ...

    def ports(self) -> list[PortFacts]:
        """Return the ports that are in service and announce Ethernet on fabric."""
        ...

    def known(self) -> list[PortFacts]:
        """Return all ports that could be members, in service or not."""
        ...

    @property
    def given(self) -> bool:
        """Whether partitions and lanes are given by a fabric manager, which may not fit the configuration, or later."""
        ...

    @property
    def open_ended(self) -> bool:
        """Whether ports may come whose names are not known yet: a member without a port is no mistake then."""
        ...

    def set_groups(self, groups: dict[int, Group | None]) -> None:
        """Give virtual switches, by id, their multicast groups; None deletes the group.

        Raises:  HfiSimError: the subnet manager refuses.
        """

    def group_lids(self) -> Mapping[int, int] | None:
        """Return the multicast LIDs of the groups so far, by id of the virtual switch; None: the EM chooses them."""
        ...

    def group_members(self, mlid: int) -> frozenset[int]:
        """Return the GUIDs of the ports in a group; empty if there is no such group."""
        ...

    def why_not_in_group(self, vesw_id: int, guid: int) -> str:
        """Return why a port is not in the group of a virtual switch, or why there is no group; empty: not known."""
        ...

    def join_election(self) -> None:
        """Let the EM's port receive the heartbeats of other EMs."""

    def election_lids(self, heard: Iterable[int]) -> frozenset[int] | None:
        """Return where heartbeats go; None: not known yet, so that nothing can be said of other EMs.

        Args:  heard: the LIDs of the EMs whose heartbeats have come of late.
        """
        ...

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` when ports come, go or change; the returned function unsubscribes it."""
        ...
