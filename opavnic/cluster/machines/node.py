"""The machines of a cluster: the coordinator, which has the lab file, and the members, which it gives their share.

coordinator: start -> gather machines -> "offer" of each -> place -> build its share -> "start" to each -> running
member:      join -> "start" -> build its share -> "report" on every change -> "ready" -> running
             <- "program": the settings that the subnet manager has made on its nodes
             <- "down": end
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable
from typing import Any, Final

from hfi_sim.fabric.topology import Topology
from opavnic.cluster.errors import ClusterError, PeerRequestError
from opavnic.cluster.machines.boundary import Boundary, CutLink
from opavnic.cluster.machines.cluster_machines import ClusterMachines
from opavnic.cluster.machines.directory import MachineDirectory
from opavnic.cluster.machines.load_meter import LoadMeter
from opavnic.cluster.machines.tunnels import ControlTunnels
from opavnic.cluster.protocol.membership import NodeName, NodeState
from opavnic.cluster.protocol.placement import Placement
from opavnic.cluster.protocol.status import fold
from opavnic.cluster.zenoh.tasks import Tasks
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.topology import lab_topology
from opavnic.lab.hosts.machine import NetdevKind
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.status import vnic_state, with_devices
from opavnic.lab.run.world_of import Share
from opavnic.state.lab import ClusterStatus, LabState
from opavnic.world.em_node import EM_NODE
from opavnic.world.long_work import in_turns
from opavnic.world.world import World

log = logging.getLogger("opavnic.cluster")

CLOCK_S: Final = 1.0
"""Clock difference between machines above which the user is told."""
_PINGS: Final = 5
"""Requests by which the clock of another machine is measured."""


def digest_of(text: str) -> str:
    """Return the digest by which lab files are compared."""
    return hashlib.sha256(text.encode()).hexdigest()


def topology_of(model: LabModel) -> Topology:
    """Return the topology of a lab, with the node of its managers."""
    return lab_topology(model.fabric, model.hosts, [EM_NODE])


class Machine(MachineDirectory):
    """What the coordinator and members have in common: a transport, a share of the lab, its boundary."""

    def __init__(
        self,
        transport: ZenohTransport,
        progress: Callable[[str], None],
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Register the request handlers; nothing is sent yet. Args: wall_clock: seconds since 1970."""
        self._wall_clock = wall_clock
        super().__init__(transport)
        self.progress = progress
        self._trouble: dict[NodeName, str] = {}
        """Why machines do not start their shares, while the lab is starting."""
        self._tasks = Tasks()
        self.boundary: Boundary | None = None
        self._meter: LoadMeter | None = None
        self.verbs |= {
            "ping": self._pong,
            "offer": self._offer,
            "status": self._say_status,
            "connect": self._connect,
        }
        self.remote_machines = ClusterMachines(self)
        self.tunnels = ControlTunnels(self)
        transport.on_node = self._node

    async def _pong(self, _sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        return {"time": self._wall_clock()}

    async def _offer(self, _sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        """Say what this machine can carry, and what it carries already."""
        placed = {} if self.placement is None else dict(self.placement.machine_of)
        return {"processors": len(os.sched_getaffinity(0)), "placed": placed}

    async def _connect(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self.boundary is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        return self.boundary.connections.requested(sender, body)

    def _node(self, name: NodeName, state: NodeState | None) -> None:
        if state is None:
            self._lost(name)
        else:
            self._came(name, state)

    def _came(self, name: NodeName, state: NodeState) -> None:
        log.info("machine %s has joined (epoch %#x)", name, state.epoch)
        if self.boundary is not None:
            self._meet(name, state)

    def _meet(self, name: NodeName, state: NodeState) -> None:
        """Carry packets to and from a machine. Of two machines the one that is not the coordinator connects."""
        assert self.boundary is not None  # noqa: S101 - there is a share
        own = self.transport.name
        connects = state.is_coordinator or (self.coordinator != own and own < name)
        self.boundary.connections.joined(name, state.epoch, connects=connects)
        self._tasks.start(self._measure(name))

    async def _measure(self, name: NodeName) -> None:
        """Measure how far the clock of a machine is ahead, by the shortest of a few round trips."""
        loop = asyncio.get_running_loop()
        trips: list[tuple[float, float]] = []
        try:
            for _ in range(_PINGS):
                start, wall = loop.time(), self._wall_clock()
                answer = await self.transport.request(name, "ping", {}, timeout_s=5.0)
                trip = loop.time() - start
                trips.append((trip, float(answer.get("time", wall)) - wall - trip / 2))
        except PeerRequestError as error:
            log.info("the clock of %s was not measured: %s", name, error)
        if trips and name in self.nodes:
            self._set_clock(name, min(trips)[1])

    def _set_clock(self, name: NodeName, ahead_s: float) -> None:
        self.clocks[name] = ahead_s
        if abs(ahead_s) > CLOCK_S:
            self.progress(
                f"the clock of {name} is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} this one's: "
                "the fabric does not mind, but certificates and the times in logs do"
            )

    def _lost(self, name: NodeName) -> None:
        log.warning("machine %s has left", name)
        self.clocks.pop(name, None)
        self.tunnels.lost(name)
        if self.boundary is not None:
            self.boundary.connections.gone(name)

    def _make_lab(
        self, model: LabModel, placement: Placement, *, manages: bool, file: str, netdev: NetdevKind
    ) -> Lab:
        machine = str(self.transport.name)
        self.placement = placement
        share = Share(
            machine=machine,
            hosts=frozenset(placement.hosts[machine]),
            elsewhere={
                host: name for name, hosts in placement.hosts.items() if name != machine for host in hosts
            },
            remote_nodes=placement.remote_nodes(machine),
            manages=manages,
            attach=self._attach,
            await_others=self._await_others,
            trouble=lambda: list(self._trouble.values()),
            status=self._status,
            fold=self._fold,
            remote_machines=self.remote_machines,
            vesws_changed=self._vesws_changed,
        )
        timer_resolution_s = 0.0 if netdev == "memory" else None
        self.lab = Lab(model, file=file, netdev=netdev, share=share, timer_resolution_s=timer_resolution_s)
        self.lab.progress = self.progress
        return self.lab

    def _attach(self, world: World) -> None:
        assert self.placement is not None  # noqa: S101 - a lab has been made
        loop = asyncio.get_running_loop()
        links = {link.name: link for link in world.fabric.links}
        cut = []
        for name, (leaving, peer) in self.placement.peers(str(self.transport.name)).items():
            ways = links[name].directions
            cut.append(CutLink(links[name], NodeName(peer), ways[leaving], ways[1 - leaving]))
        self.boundary = Boundary(world.fabric, self.transport, cut, loop)
        world.cleanups.add("links to other machines", self.boundary.close)
        self._meter = LoadMeter(loop)
        world.cleanups.add("measures of this machine", self._meter.close)
        world.cleanups.add("work with other machines", self._tasks.end)
        self.tunnels.open(self.placement.hosts)
        world.cleanups.add("control APIs of other machines", self.tunnels.close)

    async def _await_others(self) -> None:
        raise NotImplementedError

    def _vesws_changed(self) -> None:
        """Handle that the Ethernet Manager has other virtual switches."""

    # --- status --------------------------------------------------------------------------------------------

    def _status(self) -> ClusterStatus:
        """Return the state of the cluster as this machine sees it."""
        own = str(self.transport.name)
        return ClusterStatus(
            machine=own,
            placed=[] if self.placement is None else list(self.placement.hosts),
            there=sorted([own, *map(str, self.nodes)]),
            manager=str(self.manager or ""),
            links=[] if self.boundary is None else self.boundary.status(),
            load=None if self._meter is None else self._meter.load(),
            clocks={str(name): round(ahead, 3) for name, ahead in sorted(self.clocks.items())},
        )

    async def _say_status(self, _sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self.lab is None or self.boundary is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        steps = self.lab.status_steps(counters=body.get("counters") is True)
        return (await with_devices(await in_turns(steps), self.lab.kernels)).as_json()

    async def _fold(self, state: LabState) -> LabState:
        """Ask all machines at once; one that does not answer, or is of another version, is left out."""
        placed = [] if state.cluster is None else state.cluster.placed
        others = [name for name in sorted(self.nodes) if name in placed]
        body = {"counters": "counters" in state.model_fields_set}
        requests = (self.transport.request(name, "status", body, timeout_s=5.0) for name in others)
        answers = await asyncio.gather(*requests, return_exceptions=True)
        shares = {str(self.transport.name): state}
        for name, answer in zip(others, answers, strict=True):
            try:
                if isinstance(answer, BaseException):
                    raise answer
                share = LabState.of_json(answer)
                if share.cluster is None:
                    raise ValueError("cluster: Field required")
                shares[str(name)] = share
            except (PeerRequestError, ValueError) as error:
                log.warning("no status from %s: %s", name, error)
        assert self.lab is not None  # noqa: S101 - it is asked
        return fold(shares, self.lab.model.hosts)

    def _not_up(self) -> list[str]:
        """Return the VNICs here that are not operational, each with its state."""
        vnics: list[HostVnic] = [] if self.lab is None else list(self.lab.vnics())
        return [
            f"{vnic} is {state}"
            for vnic in vnics
            if vnic.asked is not None and (state := vnic_state(vnic)) != "up"
        ]
