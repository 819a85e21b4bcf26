"""One machine's share of a running fabric: its boundary, and what the coordinator and members report about nodes.

The coordinator has the subnet manager, and with it the model of the whole fabric. It sends programs to the machines
that carry its nodes (`Programs`), and follows their reports. A machine applies the programs to its own nodes, and
reports on them whenever something changes (`Follower`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from hfi_sim.fabric.fabric import FabricChange, FabricNotice
from hfi_sim.nodes.cable import Link
from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.machines.boundary import Boundary, CutLink
from opavnic.cluster.protocol.placement import Placement
from opavnic.cluster.protocol.programs import (
    Program,
    apply_program,
    apply_report,
    node_of,
    program_of,
    report_of,
)
from opavnic.cluster.protocol.transport import NodeName
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.world.world import World

log = logging.getLogger("opavnic.cluster")

AGAIN_S: Final = 0.5
"""Delay before a request is repeated to a machine that did not answer and is still present."""
SETTLE_S: Final = 0.25
"""How long to collect SMPs of an external fabric manager for a node before reporting: many SMPs make one table."""
AT_ONCE: Final = 64
"""Nodes whose programs go in one request."""


def make_boundary(
    world: World,
    transport: ZenohTransport,
    placement: Placement,
    machine: str,
    loop: asyncio.AbstractEventLoop,
) -> Boundary:
    """Connect the cut links of this machine to the transport; they are down."""
    links = {link.name: link for link in world.fabric.links}
    cut = [
        CutLink(links[name], NodeName(peer), leaving)
        for name, (leaving, peer) in placement.peers(machine).items()
    ]
    return Boundary(world.fabric, transport, cut, loop)


class Programs:
    """Keeps the nodes of other machines as the subnet manager here has set them up in the model."""

    def __init__(
        self,
        world: World,
        transport: ZenohTransport,
        placement: Placement,
        machine: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Watch the model; nothing is sent to a machine before its first report."""
        self._fabric = world.fabric
        self._is_ours = world.managed_by == "builtin"
        """Whether the built-in manager sets up nodes; an external fabric manager sets them up where they are."""
        self._transport = transport
        self._loop = loop
        self.carried: dict[NodeName, frozenset[str]] = {}
        """The nodes of each other machine."""
        self._known: dict[NodeName, dict[str, Any]] = {}
        """What was last sent to each machine that is present."""
        self._dirty: dict[NodeName, set[str]] = {}
        self._tasks: dict[NodeName, asyncio.Task[None]] = {}
        for name, at in placement.machine_of.items():
            if at != machine:
                node = NodeName(at)
                self.carried[node] = self.carried.get(node, frozenset()) | {name}
                if self._is_ours:
                    self._watch(node, name)
        for node in self.carried:
            self.gone(node)

    def _watch(self, node: NodeName, name: str) -> None:
        changed = partial(self._changed, node, name)
        if (switch := self._fabric.switches.get(name)) is not None:
            switch.on_configured = switch.port0.on_configured = changed
            return
        for port in self._fabric.hfis[name].ports.values():
            port.on_configured = changed

    def _changed(self, node: NodeName, name: str) -> None:
        if node in self._known:
            self._dirty[node].add(name)
            self._push_soon(node)

    def _push_soon(self, node: NodeName) -> None:
        task = self._tasks.get(node)
        if task is None or task.done():
            self._tasks[node] = self._loop.create_task(self._push(node))

    async def _push(self, node: NodeName) -> None:
        """Send changes until there are none left, or the machine has left."""
        while (known := self._known.get(node)) is not None and (dirty := self._dirty[node]):
            names = sorted(dirty)[:AT_ONCE]
            dirty.difference_update(names)
            programs = {name: program_of(self._fabric, name) for name in names}
            changed = {name: program for name, program in programs.items() if known.get(name) != program}
            if not changed:
                continue
            try:
                await self._transport.ask(node, "program", {"nodes": changed})
            except AskError as error:
                log.warning("machine %s did not accept its programs: %s", node, error)
                dirty.update(names)
                await asyncio.sleep(AGAIN_S)
            else:
                known |= changed

    def reported(self, node: NodeName, report: dict[str, Any]) -> None:
        """Follow a machine's report; its first report since it joined is answered with all its programs.

        Raises:  ClusterError: the report is malformed.
        """
        is_first = node not in self._known
        if is_first:
            self._known[node], self._dirty[node] = {}, set(self.carried[node])
        apply_report(self._fabric, self.carried[node], _report_of(node), report)
        if is_first and self._is_ours:
            self._push_soon(node)

    def gone(self, node: NodeName) -> None:
        """Take the nodes of a machine that left off the model's cables: their state is unknown."""
        self._known.pop(node, None)
        self._dirty.pop(node, None)
        self._fabric.set_links(self._links_of(node), False, by=_report_of(node))

    def _links_of(self, node: NodeName) -> list[Link]:
        carried = self.carried.get(node, frozenset())
        return [link for link in self._fabric.links if any(node_of(end) in carried for end in link.ends)]

    async def close(self) -> None:
        """Stop sending."""
        self._known.clear()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _report_of(node: str) -> str:
    return f"report of {node}"


class Follower:
    """Sets up the nodes of this machine as the fabric's manager says, and reports on them."""

    def __init__(
        self,
        world: World,
        transport: ZenohTransport,
        manager: Callable[[], NodeName | None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Report at once, and on every change.

        Args:  manager: returns the machine with the subnet manager; None: there is none, or it is this one.
        """
        self._fabric = world.fabric
        self._transport = transport
        self._manager = manager
        self._loop = loop
        self._programs: dict[str, Any] = {}
        """The last program of each node."""
        self._reported: dict[str, Any] | None = None
        self._told: dict[str, Program] = {}
        """What the coordinator knows of the nodes here that an external fabric manager has set up."""
        self._set_up: set[str] = set()
        """Nodes of which it may not know everything."""
        self._task: asyncio.Task[None] | None = None
        self._is_due = False
        self._times_forgotten = 0
        self._is_closed = False
        if world.managed_by == "external":
            self._watch_own()
        self._unsubscribe = self._fabric.on_change(self._changed)
        self.report_soon()

    def program(self, programs: Mapping[str, Any]) -> None:
        """Apply programs to nodes.

        Raises:  ClusterError: a program is malformed, or its node is not here.
        """
        own = {hfi.name for hfi in self._fabric.hfis.values() if not hfi.is_remote}
        own |= {switch.name for switch in self._fabric.switches.values() if not switch.is_remote}
        for name, program in programs.items():
            if name not in own:
                raise ClusterError(f"{name} is not a node of this machine")
            apply_program(self._fabric, name, program)
            self._programs[name] = program

    def _watch_own(self) -> None:
        """Note what an external fabric manager sets up here: the coordinator's model is to follow."""
        for switch in self._fabric.switches.values():
            if not switch.is_remote:
                switch.on_configured = switch.port0.on_configured = partial(self._was_set_up, switch.name)
                self._set_up.add(switch.name)
        for hfi in self._fabric.hfis.values():
            if not hfi.is_remote:
                self._set_up.add(hfi.name)
                for port in hfi.ports.values():
                    port.on_configured = partial(self._was_set_up, hfi.name)

    def _was_set_up(self, name: str) -> None:
        if not self._set_up:
            self._loop.call_later(SETTLE_S, self.report_soon)
        self._set_up.add(name)

    def _changed(self, notice: FabricNotice) -> None:
        if notice.change is FabricChange.TABLES:
            return
        if notice.change is FabricChange.LINK_UP:
            # the manager may have set it up before the cable was up here
            link = next(link for link in self._fabric.links if link.name == notice.name)
            self._apply_again(node_of(end) for end in link.ends)
        self.report_soon()

    def _apply_again(self, names: Iterable[str]) -> None:
        for name in names:
            if (program := self._programs.get(name)) is not None:
                apply_program(self._fabric, name, program)

    def forget(self) -> None:
        """Report everything again: the manager was gone, or has changed."""
        self._times_forgotten += 1
        self._reported = None
        self._set_up |= self._told.keys()
        self._told.clear()
        self.report_soon()

    def report_soon(self) -> None:
        """Report after the current change is complete."""
        self._is_due = True
        if not self._is_closed and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._report())

    async def _report(self) -> None:
        while self._is_due and (manager := self._manager()) is not None:
            self._is_due, heard_before = False, self._times_forgotten
            report = report_of(self._fabric)
            names = sorted(self._set_up)[:AT_ONCE]
            self._set_up.difference_update(names)
            self._is_due = bool(self._set_up)
            found = {name: program_of(self._fabric, name) for name in names}
            news = {name: program for name, program in found.items() if self._told.get(name) != program}
            if report == self._reported and not news:
                continue
            try:
                await self._transport.ask(manager, "report", {**report, "set_up": news})
            except AskError as error:
                log.warning("%s did not accept a report: %s", manager, error)
                await asyncio.sleep(AGAIN_S)
                self._set_up |= news.keys()
                self._is_due = True
            else:
                if heard_before == self._times_forgotten:
                    self._reported = report
                    self._told |= news

    async def close(self) -> None:
        """Stop reporting."""
        self._is_closed = True
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
