"""The standby subnet manager of a machine that takes over while the coordinator is gone.

Every machine has the model of the whole fabric, and LIDs follow from the model alone, so a standby needs nothing from
the coordinator except the multicast groups, which `GroupsTold` sends it. It manages the fabric from the moment it
notices that the coordinator has left until the coordinator gives the machines their shares again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hfi_sim.base.errors import FabricError
from hfi_sim.subnet_manager.groups import MulticastGroups
from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.machines.part import AGAIN_S, Follower, Programs
from opavnic.cluster.protocol.transport import NodeName, Transport
from opavnic.world.world import World
from vema.em.desired.election import ELECTION_GROUP

if TYPE_CHECKING:
    from opavnic.cluster.machines.member import Member

log = logging.getLogger("opavnic.cluster")

GroupData = dict[str, dict[str, bool]]


class GroupsTold:
    """Sends the multicast groups to the machines that may manage the fabric later."""

    def __init__(
        self,
        groups: MulticastGroups,
        transport: Transport,
        others: Callable[[], Iterable[NodeName]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Send the groups whenever they change. Args: others: returns the standby machines that are present."""
        self._groups = groups
        self._transport = transport
        self._others = others
        self._loop = loop
        self._told: dict[NodeName, GroupData] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_due = False
        self._is_closed = False
        groups.on_changed = self.tell_soon

    def forget(self, name: NodeName) -> None:
        """Send a machine all groups again: its process is new."""
        self._told.pop(name, None)
        self.tell_soon()

    def tell_soon(self) -> None:
        """Send the groups after the current change is complete; a machine that does not answer is retried."""
        self._is_due = True
        if not self._is_closed and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        while self._is_due:
            self._is_due = is_missed = False
            groups = self._groups.to_json()
            for name in list(self._others()):
                if self._told.get(name) != groups:
                    try:
                        await self._transport.ask(name, "groups", {"groups": groups})
                    except AskError as error:
                        log.warning("%s did not accept the multicast groups: %s", name, error)
                        is_missed = True
                    else:
                        self._told[name] = groups
            if is_missed:
                await asyncio.sleep(AGAIN_S)
                self._is_due = True

    async def close(self) -> None:
        """Stop sending."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def follow_groups(world: World, groups: GroupData) -> None:
    """Take over the groups of another subnet manager. Raises ClusterError if they are malformed."""
    try:
        world.subnet_manager.groups.follow(groups, world.fabric.hfi_ports())
    except (FabricError, ValueError, TypeError, AttributeError) as error:
        raise ClusterError(f"malformed multicast groups: {type(error).__name__}: {error}") from error


def has_own_groups(world: World) -> bool:
    """Return whether a subnet manager has any group other than the managers' own."""
    return bool(world.subnet_manager.groups.to_json().keys() - {f"{ELECTION_GROUP:#x}"})


class StandbyCoordinator:
    """A subnet manager on a member that manages the fabric, or stands by."""

    def __init__(
        self, member: Member, world: World, follower: Follower, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Stand by."""
        self._member = member
        self._world = world
        self._follower = follower
        self._loop = loop
        self._groups: GroupData = {}
        """The groups last received from the active manager."""
        self._programs: Programs | None = None
        self._told: GroupsTold | None = None
        self._ending: set[asyncio.Task[None]] = set()
        member.verbs |= {"groups": self._hear_groups, "report": self._hear_report}

    @property
    def is_acting(self) -> bool:
        """Whether it manages the fabric."""
        return self._programs is not None

    @property
    def groups(self) -> GroupData:
        """The groups that the next manager of the fabric is to start with."""
        return self._world.subnet_manager.groups.to_json() if self.is_acting else {}

    def take_over(self) -> None:
        """Manage the fabric: nodes stay as they are configured, and machines report again."""
        member, world = self._member, self._world
        assert member.placement is not None  # noqa: S101 - it has a share
        log.warning("%s manages the fabric now", member.transport.name)
        member.progress(f"{member.transport.name} manages the fabric now: the coordinator is gone")
        self._follower.stand_aside()
        if self._groups:
            follow_groups(world, self._groups)
        own = str(member.transport.name)
        there = [name for name in member.nodes if name != member.coordinator]
        self._programs = Programs(world, member.transport, member.placement, own, self._loop, there=there)
        self._told = GroupsTold(
            world.subnet_manager.groups, member.transport, member.em_machines_there, self._loop
        )
        world.take_over()

    def stand_back(self) -> None:
        """Leave the fabric to another machine."""
        programs, told, self._programs, self._told = self._programs, self._told, None, None
        if programs is None or told is None:
            return
        log.warning("%s manages the fabric no longer", self._member.transport.name)
        self._member.progress(
            f"{self._member.transport.name} leaves the fabric to {self._member.manager or 'no machine'}"
        )
        self._groups = self._world.subnet_manager.groups.to_json()
        self._world.stand_back()
        programs.release()
        for ending in (programs.close(), told.close()):
            task = self._loop.create_task(ending)
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def lost(self, name: NodeName) -> None:
        """Take a machine that has left off the model."""
        if self._programs is not None:
            self._programs.gone(name)

    async def _hear_groups(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._member.check_manager(asker)
        groups = {
            str(mlid): {str(guid): bool(receives) for guid, receives in members.items()}
            for mlid, members in body["groups"].items()
        }
        self._groups = groups
        return {}

    async def _hear_report(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self._programs is None:
            raise ClusterError(f"{self._member.transport.name} does not manage the fabric")
        if asker not in self._programs.carried:
            raise ClusterError(f"{asker} has no share of the lab")
        self._programs.reported(asker, body)
        return {}

    async def close(self) -> None:
        """Stop managing."""
        if self._programs is not None and self._told is not None:
            await self._programs.close()
            await self._told.close()
        await asyncio.gather(*self._ending, return_exceptions=True)
