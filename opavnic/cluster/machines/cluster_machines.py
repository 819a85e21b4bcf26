"""The other machines as the control API of one machine sees them: views, changes of faults, their own control APIs.

Views that show no traffic are available to every machine. The coordinator numbers faults: other machines ask it, and
may change faults on their own nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from hfi_sim.base.errors import InputError
from hfi_sim.engine.link.rule import FaultTarget
from hfi_sim.fabric.faults import FaultSpec, parse_fault, spec_text
from hfi_sim.fabric.faults.targets import directions_of, links_of, node_of
from hfi_sim.nodes.cable import LinkDirection
from opavnic.cluster.errors import ClusterError, PeerRequestError
from opavnic.cluster.machines.directory import MachineDirectory
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.status import fold_faults
from opavnic.state.fabric import LanesState
from opavnic.world.fabric_views import FAULTS, LANES, VIEWS, FabricView, Model
from opavnic.world.parts.fabric import remove_fault
from opavnic.world.remote_machines import RemoteControl
from opavnic.world.world import World

LOOK_S: Final = 5.0
"""Time limit for a machine to return a view."""


class ClusterMachines:
    """Satisfies `opavnic.world.remote_machines.RemoteMachines`, and serves the same requests of other machines."""

    def __init__(self, machine: MachineDirectory) -> None:
        """Register the request handlers."""
        self._machine = machine
        self._over: dict[NodeName, set[int]] = {}
        """On the coordinator: the faults that are over on each machine."""
        machine.verbs |= {
            "look": self._say,
            "change-fault": self._requested_change,
            "faults": self._take_faults,
        }

    @property
    def _world(self) -> World:
        return self._machine.share_here().world

    def _owner(self, direction: LinkDirection) -> NodeName:
        """Return the machine whose engine sends in this direction."""
        placement = self._machine.placement
        assert placement is not None  # noqa: S101 - there is a share
        return NodeName(placement.machine_of[node_of(direction.source)])

    # # --- views ---------------------------------------------------------------------------------------------

    async def look(self, view: FabricView[Model], query: Mapping[str, str]) -> Model:
        """See RemoteMachines.look."""
        if view is LANES:
            return cast("Model", await self._lanes(query))
        if view is FAULTS:
            names = sorted(self._machine.nodes)
            requests = (self._request(name, FAULTS, {}) for name in names)
            replies = await asyncio.gather(*requests, return_exceptions=True)
            shares = [reply for reply in replies if not isinstance(reply, BaseException)]
            return cast("Model", fold_faults([FAULTS.of(self._world, {}), *shares]))
        manager = self._machine.manager
        if manager is None or manager == self._machine.transport.name:
            return view.of(self._world, query)
        return await self._request(manager, view, query)

    async def _request(self, name: NodeName, view: FabricView[Model], query: Mapping[str, str]) -> Model:
        body = {"what": view.name, "query": dict(query)}
        reply = await self._machine.transport.request(name, "look", body, timeout_s=LOOK_S)
        try:
            return view.model.of_json(reply)
        except ValueError as error:
            raise PeerRequestError(f"{name}: malformed reply: {error}") from error

    async def _lanes(self, query: Mapping[str, str]) -> LanesState:
        """Take the lanes of each direction from the machine whose engine carries it."""
        rows = {row.name: row for row in LANES.of(self._world, query).directions}
        owners = {
            direction.name: self._owner(direction)
            for direction in directions_of(self._world.fabric, query.get("on", ""))
        }
        names = sorted({owner for owner in owners.values() if owner in self._machine.nodes})
        replies = await asyncio.gather(
            *(self._request(name, LANES, query) for name in names), return_exceptions=True
        )
        for name, reply in zip(names, replies, strict=True):
            if isinstance(reply, PeerRequestError):
                raise reply
            if not isinstance(reply, BaseException):
                rows |= {row.name: row for row in reply.directions if owners.get(row.name) == name}
        return LanesState(directions=list(rows.values()))

    async def _say(self, _sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        query = {str(key): str(value) for key, value in dict(body.get("query", {})).items()}
        what = str(body.get("what"))
        if what not in VIEWS:
            raise InputError(f'"{what[:40]}" is not one of {", ".join(VIEWS)}')
        reply: dict[str, Any] = VIEWS[what].of(self._world, query).as_json()
        return reply

    # --- faults --------------------------------------------------------------------------------------------

    async def change_faults(self, change: Mapping[str, Any]) -> int | None:
        """See RemoteMachines.change_faults."""
        coordinator = self._machine.coordinator
        if coordinator == self._machine.transport.name:
            return await self._change(change)
        if coordinator is None:
            raise ClusterError("the coordinator, which sets faults on all machines, is not present")
        reply = await self._machine.transport.request(
            coordinator, "change-fault", dict(change), timeout_s=30.0
        )
        number = reply.get("number")
        return number if isinstance(number, int) else None

    async def _requested_change(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        if self._machine.coordinator != self._machine.transport.name:
            raise ClusterError(f"{self._machine.transport.name} is not the coordinator")
        if not self._machine.trusts(sender):
            self._check_own(sender, body)
        return {"number": await self._change(body)}

    async def _change(self, change: Mapping[str, Any]) -> int | None:
        """Apply a change here and on the other machines; if one of them refuses a new fault, undo it."""
        faults, number = self._world.faults, None
        if "add" in change:
            number = faults.add(str(change["add"])).number
        else:
            remove_fault(faults, change.get("remove"))
        if failed := await self._tell_all():
            if number is not None:
                remove_fault(faults, number)
                await self._tell_all()
            raise ClusterError("; ".join(failed))
        return number

    async def _tell_all(self) -> list[str]:
        """Tell all machines the faults; return what went wrong."""
        names = sorted(self._machine.nodes)
        replies = await asyncio.gather(*map(self.tell_faults, names), return_exceptions=True)
        return [str(reply) for reply in replies if isinstance(reply, PeerRequestError)]

    def _check_own(self, sender: NodeName, change: Mapping[str, Any]) -> None:
        """Refuse a change of faults that are not on nodes of the requesting machine."""
        specs = self._world.faults.specs()
        if "add" in change:
            wanted = [parse_fault(str(change["add"]))]
        elif change.get("remove") is None:
            wanted = list(specs.values())
        else:
            wanted = [spec for number, spec in specs.items() if number == change["remove"]]
        for spec in wanted:
            if not self._is_own(sender, spec):
                raise ClusterError(
                    f"{spec.kind} on {spec.on}: {sender} may change faults of its own nodes and their links: ask on "
                    "the coordinator, or write `cluster: {trust_members: true}` in the lab file"
                )

    def _is_own(self, sender: NodeName, spec: FaultSpec) -> bool:
        placement = self._machine.placement
        target = spec.kind.target
        if placement is None or target is FaultTarget.NODES:
            return False
        carried = {name for name, machine in placement.machine_of.items() if machine == str(sender)}
        if target is FaultTarget.PROGRAM:
            return spec.on in placement.hosts.get(str(sender), ())
        if target in (FaultTarget.SWITCH, FaultTarget.HFI):
            return spec.on in carried
        links = links_of(self._world.fabric, spec.on)
        return all(any(node_of(end) in carried for end in link.ends) for link in links)

    async def tell_faults(self, name: NodeName) -> None:
        """Make a machine set the faults that are set here, but for those that are over there: its process may be new.

        Raises:  PeerRequestError: the machine refused or did not reply.
        """
        over = self._over.get(name, set())
        told = [
            [number, spec_text(fault.spec), number in over or (fault.is_over and fault.spec.count is None)]
            for number, fault in self._world.faults.known.items()
        ]
        await self._machine.transport.request(name, "faults", {"faults": told})

    async def _take_faults(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._machine.check_coordinator(sender)
        faults = self._world.faults
        wanted = {int(number): (str(text), is_over is True) for number, text, is_over in body["faults"]}
        for number, fault in list(faults.known.items()):
            if number not in wanted or spec_text(fault.spec) != wanted[number][0]:
                faults.remove(number)
        for number, (text, is_over) in wanted.items():
            if number not in faults.known and not is_over:
                faults.add(text, number=number)
            elif number in faults.known and is_over:
                faults.finish(faults.known[number])
        return {}

    def hear_over(self, name: NodeName, numbers: Any) -> None:
        """Note which faults are over on a machine: another process of it is not to set them again."""
        self._over.setdefault(name, set()).update(self._world.faults.known.keys() & set(numbers))

    def controls(self, ways: Iterable[LinkDirection]) -> list[RemoteControl]:
        """See RemoteMachines.controls."""
        directory, clocks = self._machine.share_here().directory, self._machine.clocks
        names = sorted({self._owner(way) for way in ways} - {self._machine.transport.name})
        return [
            RemoteControl(str(name), directory.machine_socket(name), clocks.get(name, 0.0)) for name in names
        ]
