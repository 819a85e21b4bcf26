"""A machine of a cluster that joins a coordinator and receives its share of the lab from it; see node.py."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from opavnic.cluster.errors import ClusterError, PeerRequestError
from opavnic.cluster.machines.node import Machine, digest_of, topology_of
from opavnic.cluster.machines.part import VESWS, Follower
from opavnic.cluster.protocol.membership import NodeName, NodeState
from opavnic.cluster.protocol.placement import placement_of
from opavnic.cluster.zenoh.tasks import Tasks
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.hosts.machine import NetdevKind
from opavnic.lab.run.lab import Lab
from opavnic.world.em_node import EM_NODE
from opavnic.world.world import World
from vema.em.desired.desired import VeswSection

log = logging.getLogger("opavnic.cluster")

_LOOK_AGAIN_S: Final = 0.02
_VESWS: Final = TypeAdapter(list[VeswSection])


class Member(Machine):
    """A machine that joins a coordinator."""

    def __init__(
        self,
        transport: ZenohTransport,
        *,
        progress: Callable[[str], None],
        expected: str | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to join. Args: expected: the text of this machine's own lab file; a coordinator with another one is
        refused.
        """
        super().__init__(transport, progress, wall_clock=wall_clock)
        self._expected = None if expected is None else digest_of(expected)
        self._digest = ""
        self._given: asyncio.Future[Lab | None] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        """Set when the coordinator has ended the lab."""
        self.reason = ""
        """Why the lab has ended."""
        self._follower: Follower | None = None
        self._obeyed_epoch = 0
        """The epoch of the coordinator that gave this machine its share, or found it running the share."""
        self._has_been_up = False
        self._readiness = Tasks()
        self.verbs |= {
            "start": self._start,
            "program": self._program,
            "vesws": self._vesws,
            "down": self._down,
        }

    async def join(self) -> Lab | None:
        """Join the fabric and wait for a share; return it, not started, or None if the lab ended before."""
        self.progress(f"{self.transport.name} looks for the coordinator")
        await self.transport.start()
        self.progress(f"{self.transport.name} waits for its share of the lab")
        return await self._given

    async def _start(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self.check_coordinator(sender)
        digest = str(body["digest"])
        if self._expected is not None and digest != self._expected:
            raise ClusterError(f"{self.transport.name} has another lab file than the coordinator")
        if self._digest and digest != self._digest:
            raise ClusterError(f"{self.transport.name} runs its share of another lab file: end it first")
        self._obeyed_epoch = self.nodes[sender].epoch
        if self._digest:
            if self._follower is not None:
                self._follower.forget()
                self._ready_soon()
            return {"runs": True}
        model = parse_lab(str(body["text"]), str(body["file"]), dict(body["environment"]))
        machines = [str(name) for name in body["machines"]]
        placement = placement_of(topology_of(model), dict(body["placed"]), machines, EM_NODE)
        netdev: NetdevKind = "memory" if body["netdev"] == "memory" else "tap"
        lab = self._make_lab(model, placement, manages=False, file=str(body["file"]), netdev=netdev)
        self._digest = digest
        hosts = ", ".join(placement.hosts[str(self.transport.name)]) or "no hosts"
        self.progress(f"lab {model.name}: {hosts}")
        self._give(lab)
        return {"runs": False}

    def _came(self, name: NodeName, state: NodeState) -> None:
        super()._came(name, state)
        if self._follower is not None and name == self.manager:
            self._follower.forget()

    @property
    def manager(self) -> NodeName | None:
        """The coordinator, once its process has given this machine its share, or has found it running the share."""
        name = self.coordinator
        return name if name is not None and self.nodes[name].epoch == self._obeyed_epoch else None

    def _attach(self, world: World) -> None:
        super()._attach(world)
        assert self.boundary is not None  # noqa: S101 - made just now
        for name, state in list(self.nodes.items()):
            self._meet(name, state)
        self._follower = Follower(world, self.transport, lambda: self.manager)
        world.cleanups.add("reports to the coordinator", self._follower.close)
        world.cleanups.add("readiness", self._readiness.end)

    async def _program(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self.check_coordinator(sender)
        if self._follower is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        nodes = body.get("nodes")
        if not isinstance(nodes, Mapping):
            raise ClusterError("a program without nodes")
        self._follower.program(nodes)
        return {}

    async def _vesws(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self.check_coordinator(sender)
        if self.lab is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        try:
            self.lab.take_vesws(_VESWS.validate_python(body.get(VESWS)))
        except ValueError as error:
            raise ClusterError(f"malformed virtual switches: {error}") from error
        return {}

    async def _down(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self.check_coordinator(sender)
        self.reason = str(body.get("reason", ""))
        self.ended.set()
        self._give(None)
        return {}

    def _give(self, lab: Lab | None) -> None:
        if not self._given.done():
            self._given.set_result(lab)

    async def _await_others(self) -> None:
        self._ready_soon()

    def _ready_soon(self) -> None:
        if self._readiness.are_done:
            self._readiness.start(self._say_ready())

    async def _say_ready(self) -> None:
        """Tell the coordinator once every VNIC here is operational, unless an external fabric manager controls that.

        VNICs are waited for once only: later the Ethernet Manager may have been told to set one down.
        """
        while self._is_awaited and not self._has_been_up and self._not_up():  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(_LOOK_AGAIN_S)  # the kernel reports "up" with a delay
        self._has_been_up = True
        if (manager := self.manager) is None:
            return  # it will start this machine again
        try:
            await self.transport.request(manager, "ready", {})
        except PeerRequestError as error:
            log.warning("the coordinator could not be told that this machine is ready: %s", error)

    @property
    def _is_awaited(self) -> bool:
        return self.lab is not None and self.lab.model.subnet_manager.mode == "builtin"

    async def close(self) -> None:
        """Leave the fabric."""
        await self.transport.stop()
