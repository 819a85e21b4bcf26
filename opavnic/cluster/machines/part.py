"""What the coordinator and a member tell each other of the nodes that the member carries.

The coordinator has the subnet manager, and with it the model of the whole fabric. It sends programs to the machines
that carry its nodes (`Programs`), and follows their reports. A machine applies the programs to its own nodes, and
reports on them whenever something changes (`Follower`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from hfi_sim.fabric.notices import FabricChange, FabricNotice
from opavnic.cluster.errors import ClusterError, PeerRequestError
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.placement import Placement
from opavnic.cluster.protocol.programs import (
    apply_program,
    apply_report,
    is_remote,
    node_of,
    program_of,
    report_of,
)
from opavnic.cluster.zenoh.requests import MAX_BODY
from opavnic.cluster.zenoh.tasks import Tasks
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.world.world import World
from vema.em.desired.desired import VeswSection

log = logging.getLogger("opavnic.cluster")

AGAIN_S: Final = 0.5
"""Delay before a request is repeated to a machine that did not accept it and is still present."""
SETTLE_S: Final = 0.25
"""How long to collect SMPs of an external fabric manager for nodes before reporting: many SMPs make one table."""
AT_ONCE: Final = MAX_BODY // 2
"""Bytes of nodes and links that go in one request, but for the last one: each report may make the manager sweep."""
OVER: Final = "faults that are over"
"""Where a report lists their numbers."""
VESWS: Final = "vesws"
"""Where a machine is told of the virtual switches of the Ethernet Manager."""
_TOLD_OF_VESWS: Final = {"id", "name", "subnet"}


class Replica:
    """Data by name, of which another machine has a copy: what differs is sent, again until it is accepted."""

    def __init__(
        self,
        read: Callable[[str], Any],
        send: Callable[[NodeName, dict[str, Any]], Awaitable[Any]],
        receiver: Callable[[], NodeName | None],
    ) -> None:
        """Args:  read: returns the data of a name. send: raises PeerRequestError. receiver: None: there is none now."""
        self._read, self._send, self._receiver = read, send, receiver
        self._sent: dict[str, Any] = {}
        self._dirty: dict[str, None] = {}
        self._pushing = Tasks()
        self._is_closed = False

    def begin(self, names: Iterable[str]) -> None:
        """Send everything: the copy is empty."""
        self._sent = {}
        self.changed(names)

    def changed(self, names: Iterable[str]) -> None:
        """Send what has changed, once the current change is complete."""
        self._dirty |= dict.fromkeys(names)
        if not self._is_closed and self._pushing.are_done:
            self._pushing.start(self._push())

    async def _push(self) -> None:
        while self._dirty and (receiver := self._receiver()) is not None:
            sent, size = self._sent, 0
            news: dict[str, Any] = {}
            while self._dirty and size < AT_ONCE:
                name = next(iter(self._dirty))
                data = self._read(name)
                del self._dirty[name]
                if sent.get(name) != data:
                    news[name] = data
                    size += len(name) + len(json.dumps(data))
            if not news:
                continue
            try:
                await self._send(receiver, news)
            except PeerRequestError as error:
                log.warning("%s did not accept what has changed: %s", receiver, error)
                self._dirty |= dict.fromkeys(news)
                await asyncio.sleep(AGAIN_S)
            else:
                sent |= news

    async def close(self) -> None:
        """Stop sending."""
        self._is_closed = True
        await self._pushing.end()


class Programs:
    """Keeps the nodes of other machines as the subnet manager here has set them up in the model."""

    def __init__(
        self,
        world: World,
        transport: ZenohTransport,
        placement: Placement,
        machine: str,
        vesws: Callable[[], Iterable[VeswSection]],
    ) -> None:
        """Watch the model; nothing is sent to a machine before its first report.

        Args:  machine: this one. vesws: returns the virtual switches of the Ethernet Manager, which name the VNICs of
               hosts on other machines.
        """
        self._fabric = world.fabric
        self._present: set[NodeName] = set()
        self.carried: dict[NodeName, frozenset[str]] = {}
        """The nodes of each other machine."""
        for name, at in placement.machine_of.items():
            if at != machine:
                self.carried[NodeName(at)] = self.carried.get(NodeName(at), frozenset()) | {name}
        self._links = {
            node: {
                link.name: link
                for link in world.fabric.links
                if not names.isdisjoint(map(node_of, link.ends))
            }
            for node, names in self.carried.items()
        }
        """Those of the nodes of each other machine, by name."""
        self._replicas: dict[NodeName, Replica] = {}

        async def send(node: NodeName, programs: dict[str, Any]) -> None:
            await transport.request(node, "program", {"nodes": programs})

        def named(_: str) -> list[dict[str, Any]]:
            return [vesw.model_dump(mode="json", include=_TOLD_OF_VESWS) for vesw in vesws()]

        async def tell(node: NodeName, news: dict[str, Any]) -> None:
            await transport.request(node, "vesws", news)

        self._names = {node: Replica(named, tell, partial(self._if_present, node)) for node in self.carried}

        # an external fabric manager sets nodes up where they are
        for node, names in self.carried.items() if world.managed_by == "builtin" else ():
            receiver = partial(self._if_present, node)
            self._replicas[node] = replica = Replica(partial(program_of, self._fabric), send, receiver)
            for name in names:
                _on_configured(world, name, partial(replica.changed, (name,)))
        for node in self.carried:
            self.gone(node)

    def _if_present(self, node: NodeName) -> NodeName | None:
        return node if node in self._present else None

    def reported(self, node: NodeName, report: dict[str, Any]) -> None:
        """Follow a machine's report; its first report since it joined is answered with all its programs.

        Raises:  ClusterError: the report is malformed.
        """
        is_first = node not in self._present
        self._present.add(node)
        apply_report(self._fabric, self.carried[node], self._links[node], _report_of(node), report)
        if is_first:
            self._names[node].begin([VESWS])
            if node in self._replicas:
                self._replicas[node].begin(sorted(self.carried[node]))

    def vesws_changed(self) -> None:
        """Tell the other machines which virtual switches there are now."""
        for replica in self._names.values():
            replica.changed([VESWS])

    def gone(self, node: NodeName) -> None:
        """Take the nodes of a machine that left off the model's cables: their state is unknown."""
        self._present.discard(node)
        self._fabric.set_links(self._links.get(node, {}).values(), False, by=_report_of(node))

    async def close(self) -> None:
        """Stop sending."""
        await asyncio.gather(*(one.close() for one in (*self._replicas.values(), *self._names.values())))


def _report_of(node: str) -> str:
    return f"report of {node}"


def _on_configured(world: World, name: str, changed: Callable[[], None]) -> None:
    """Have changes of the settings of a node told."""
    if (switch := world.fabric.switches.get(name)) is not None:
        switch.on_configured = switch.port0.on_configured = changed
        return
    for port in world.fabric.hfis[name].ports.values():
        port.on_configured = changed


class Follower:
    """Sets up the nodes of this machine as the fabric's manager says, and reports on them."""

    def __init__(
        self, world: World, transport: ZenohTransport, manager: Callable[[], NodeName | None]
    ) -> None:
        """Report at once, and on every change.

        Args:  manager: returns the machine with the subnet manager; None: there is none, or it is this one.
        """
        self._fabric = fabric = world.fabric
        self._programs: dict[str, Any] = {}
        """The last program of each node."""
        self._came_up: set[str] = set()
        """Nodes here whose cables have just come up."""
        self._set_up: set[str] = set()
        """Nodes here that an external fabric manager has just set up."""
        hfis = [hfi for hfi in fabric.hfis.values() if not hfi.is_remote]
        self._node_of = {port.name: hfi.name for hfi in hfis for port in hfi.ports.values()}
        switches = [switch.name for switch in fabric.switches.values() if not switch.is_remote]
        self._nodes = dict.fromkeys([*(hfi.name for hfi in hfis), *switches])
        own = [link for link in fabric.links if not all(map(is_remote, link.ends))]
        self._links = {link.name: link for link in own}
        is_external = world.managed_by == "external"

        async def send(node: NodeName, report: dict[str, Any]) -> None:
            await transport.request(node, "report", report)

        def read(name: str) -> Any:
            if name == OVER:
                return [number for number, fault in world.faults.known.items() if fault.is_over]
            return report_of(fabric, self._links, is_external, name)

        self._replica = Replica(read, send, manager)
        for name in self._nodes if is_external else ():
            _on_configured(world, name, partial(self._was_set_up, name))
        self._ends = (
            fabric.on_change(self._changed),
            world.faults.on_change(lambda _: self._replica.changed([OVER])),
        )
        self.forget()

    def program(self, programs: Mapping[str, Any]) -> None:
        """Apply programs to nodes. Raises ClusterError: a program is malformed, or its node is not here."""
        for name, program in programs.items():
            if name not in self._nodes:
                raise ClusterError(f"{name} is not a node of this machine")
            apply_program(self._fabric, name, program)
            self._programs[name] = program

    def _was_set_up(self, name: str) -> None:
        if not self._set_up:
            asyncio.get_running_loop().call_later(SETTLE_S, self._has_settled)
        self._set_up.add(name)

    def _has_settled(self) -> None:
        names, self._set_up = self._set_up, set()
        self._replica.changed(sorted(names))

    def _changed(self, notice: FabricNotice) -> None:
        name = self._node_of.get(notice.name, notice.name)
        if notice.change is not FabricChange.TABLES and (name in self._links or name in self._nodes):
            self._replica.changed([name])
        if notice.change is FabricChange.LINK_UP:
            # the manager may have set nodes up before their cables were up here
            self._came_up.update(map(node_of, self._links[name].ends) if name in self._links else ())
            if not notice.more:
                names, self._came_up = self._came_up, set()
                for node in sorted(self._programs.keys() & names):
                    apply_program(self._fabric, node, self._programs[node])

    def forget(self) -> None:
        """Report everything again: the manager was gone, or has changed."""
        self._replica.begin([*self._links, *self._nodes, OVER])

    async def close(self) -> None:
        """Stop reporting."""
        for end in self._ends:
            end()
        await self._replica.close()
