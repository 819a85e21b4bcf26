"""The coordinator of a cluster: it has the lab file, the subnet manager and an Ethernet Manager; see node.py."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any, Final

from opavnic.cluster.errors import ClusterError, ClusterInputError, PeerRequestError
from opavnic.cluster.machines.node import Machine, digest_of, topology_of
from opavnic.cluster.machines.part import OVER, Programs
from opavnic.cluster.protocol.membership import NodeName, NodeState
from opavnic.cluster.protocol.placement import Loads, Placement, place, placement_of
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.yaml_source import variables_of
from opavnic.lab.hosts.machine import NetdevKind
from opavnic.lab.run.lab import Lab
from opavnic.world.em_node import EM_NODE
from opavnic.world.long_work import LOOK_S, Silence
from opavnic.world.world import World
from vema.em.desired.desired import VeswSection

log = logging.getLogger("opavnic.cluster")

READY_S: Final = 60.0
"""Time limit for the VNICs of all machines to become operational."""


class Coordinator(Machine):
    """The machine with the lab file, the subnet manager and the Ethernet Manager."""

    def __init__(
        self,
        model: LabModel,
        text: str,
        file: str,
        transport: ZenohTransport,
        *,
        progress: Callable[[str], None],
        wait: int | None = None,
        loads: Loads | None = None,
        netdev: NetdevKind = "tap",
    ) -> None:
        """Prepare to gather machines.

        Args:    text: of the lab file, for the other machines. wait: number of machines to gather, this one
                 included; None: as given in the lab file. loads: what the lab has carried before.
        Raises:  ClusterInputError: the number of machines is given nowhere, or nothing is placed by load.
        """
        super().__init__(transport, progress)
        if loads is not None and not model.cluster.by_load:
            raise ClusterInputError(
                "loads are for a lab with `cluster: {place: auto}`: this one places no node by load"
            )
        self._loads = loads
        self._model = model
        self._text = text
        self._file = file
        self._netdev: NetdevKind = netdev
        self._names = model.cluster.nodes if isinstance(model.cluster.nodes, list) else None
        if self._names is not None and str(transport.name) not in self._names:
            raise ClusterInputError(
                f"cluster.nodes: {', '.join(self._names)}; the coordinator is {transport.name}: "
                "list it, or name it with --name"
            )
        count = model.cluster.nodes if isinstance(model.cluster.nodes, int) else wait
        self._count = len(self._names) if self._names is not None else count
        if self._count is None:
            raise ClusterInputError(
                f"{model.name}: how many machines? Write `cluster: {{nodes: 3}}` in the lab file, or pass --wait 3"
            )
        self._gathered = asyncio.Event()
        self._is_running = False
        """All machines have been ready once: a machine that leaves from now on may rejoin."""
        self._ready: set[NodeName] = set()
        self._reports = 0
        """How often others have told of their shares: a sign that they are at work."""
        self._changed = asyncio.Event()
        self._programs: Programs | None = None
        self.verbs |= {"report": self._report, "ready": self._is_ready}

    async def gather(self) -> Lab:
        """Join the fabric, wait for the other machines, and return this machine's share of the lab, not started."""
        await self.transport.start()
        self._look()
        await self._gathered.wait()
        own = str(self.transport.name)
        machines = [own, *sorted(str(name) for name in self.nodes if self._is_wanted(name))]
        placement = await self._place(machines)
        for machine in machines:
            hosts = ", ".join(placement.hosts[machine]) or "no hosts"
            self.progress(f"{machine}: {hosts}")
        return self._make_lab(self._model, placement, manages=True, file=self._file, netdev=self._netdev)

    async def _place(self, machines: list[str]) -> Placement:
        """Place the lab, or take it as it runs already: nothing that runs is moved.

        Raises:  ClusterError: a machine does not answer, or runs another share than its place among others allows.
        """
        topology, section = topology_of(self._model), self._model.cluster
        offers = [await self._offer(self.transport.name, {})]
        offers += await asyncio.gather(
            *(self.transport.request(NodeName(name), "offer", {}) for name in machines[1:])
        )
        for machine, offer in zip(machines, offers, strict=True):
            if placed := offer.get("placed"):
                try:
                    return placement_of(topology, placed, machines, EM_NODE)
                except ClusterError as error:
                    raise ClusterError(
                        f"{machine} runs its share of another placement: {error}: end it first"
                    ) from error
        return place(
            topology,
            machines,
            managers=EM_NODE,
            wanted=section.named,
            labels=section.labels,
            capacities=[int(offer["processors"]) for offer in offers] if section.by_load else None,
            loads=self._loads,
        )

    def _is_wanted(self, name: NodeName) -> bool:
        return self._names is None or str(name) in self._names

    def _look(self) -> None:
        there = 1 + sum(map(self._is_wanted, self.nodes))
        if self._gathered.is_set():
            return
        assert self._count is not None  # noqa: S101 - checked when this was made
        self.progress(f"{there} of {self._count} machines are there")
        if there >= self._count:
            self._gathered.set()

    def _came(self, name: NodeName, state: NodeState) -> None:
        super()._came(name, state)
        self._look()
        if self.boundary is not None:
            self._tasks.start(self._start(name))

    def _lost(self, name: NodeName) -> None:
        super()._lost(name)
        self._ready.discard(name)
        if not self._is_running and self.placement is not None and str(name) in self.placement.hosts:
            self._trouble[name] = f"machine {name} left while the lab was starting"
            self._changed.set()
        if self._programs is not None:
            self._programs.gone(name)

    def _attach(self, world: World) -> None:
        with world.fabric.together():  # what other machines carry is not there yet
            super()._attach(world)
            assert self.placement is not None  # noqa: S101 - made just now
            own = str(self.transport.name)
            self._programs = Programs(world, self.transport, self.placement, own, self._vesws)
        world.cleanups.add("programs of other machines", self._programs.close)
        for name, state in list(self.nodes.items()):
            self._meet(name, state)
            self._tasks.start(self._start(name))

    def _vesws(self) -> list[VeswSection]:
        return [] if self.lab is None else list(self.lab.managed_vesws)

    def _vesws_changed(self) -> None:
        if self._programs is not None:
            self._programs.vesws_changed()

    async def _start(self, name: NodeName) -> None:
        """Give a machine its share, or find out that it is running it already."""
        assert self.placement is not None  # noqa: S101 - called once placed
        if str(name) not in self.placement.hosts:
            self.progress(f"{name} joined too late: the lab runs on {', '.join(self.placement.hosts)}")
            await self._say_down(name, f"lab {self._model.name} started without {name}: it joined too late")
            return
        body = {
            "lab": self._model.name,
            "text": self._text,
            "environment": variables_of(self._text, os.environ),
            "file": self._file,
            "digest": digest_of(self._text),
            "machines": list(self.placement.hosts),
            "placed": dict(self.placement.machine_of),
            "netdev": self._netdev,
        }
        try:
            await self.transport.request(name, "start", body)
        except ClusterError as error:
            log.warning("%s does not start: %s", name, error)
            self._trouble[name] = str(error)
            self._changed.set()

    async def _report(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self._programs is None or sender not in self._programs.carried:
            raise ClusterError(f"{sender} has no share of lab {self._model.name}")
        self._programs.reported(sender, body)
        self.remote_machines.hear_over(sender, body.get(OVER, []))
        self._reports += 1
        return {}

    @property
    def coordinator(self) -> NodeName:
        """This machine."""
        return self.transport.name

    async def _is_ready(self, sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        # it may have missed changes while it was away, or have faults that were set before this process started
        await self.remote_machines.tell_faults(sender)
        self._ready.add(sender)
        self._changed.set()
        return {}

    async def _await_others(self) -> None:
        assert self.placement is not None  # noqa: S101 - the lab has started
        own = str(self.transport.name)
        wanted = {NodeName(name) for name in self.placement.hosts if name != own}
        silence = Silence(asyncio.get_running_loop().time)
        while not wanted <= self._ready:
            if self._trouble:
                raise LabError("; ".join(self._trouble.values()))
            if silence.look((len(self._ready), self._reports)) > READY_S:
                missing = ", ".join(sorted(wanted - self._ready))
                raise LabError(f"not ready, and nothing was heard for {READY_S:g} s: {missing}")
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
        self._is_running = True

    async def _say_down(self, name: NodeName, reason: str) -> None:
        try:
            await self.transport.request(name, "down", {"reason": reason}, timeout_s=5.0)
        except PeerRequestError as error:
            log.warning("%s could not be told to end: %s", name, error)

    async def close(self) -> None:
        """End the lab on the other machines, and leave the fabric."""
        await self._tasks.end()
        reason = f"lab {self._model.name} has ended"
        await asyncio.gather(*(self._say_down(name, reason) for name in list(self.nodes)))
        await self.transport.stop()
