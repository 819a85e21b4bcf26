"""Does what differs between a running lab and the file that it is to follow.

First members leave their virtual switches, then hosts, cables and switches go and come, then members join. Where a
virtual switch gets another P_Key, ports are in both partitions until all its VNICs have the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Final, TypeVar

from hfi_sim.base.errors import HfiSimError
from hfi_sim.fabric.faults import FaultSpec
from hfi_sim.fabric.topology import Topology
from hfi_sim.nodes.cable import Link
from hfi_sim.wire.sa.message import PACKET_LIFE_S
from opavnic.lab.change.difference import (
    LabDifference,
    as_cabled,
    difference,
    half_cabled,
    has_other_pkeys,
    only_nodes,
    remaining_members,
    with_other_rights,
)
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.members import Membership
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.kernel_host import KernelHost
from opavnic.lab.hosts.vnics import vnics_of
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.status import vnic_state
from opavnic.lab.run.world_of import add_agent, let_manage
from opavnic.world.host_backends.given import VnicKey
from opavnic.world.jobs import current_job
from opavnic.world.long_work import SILENCE_S, Silence
from opavnic.world.parts.em import BuiltinManager, converged_unless_silent
from opavnic.world.wiring import lay, take_away
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig

_LOOK_AGAIN_S: Final = 0.01

Subject = TypeVar("Subject")


class Performance:
    """The steps of changes of one lab, one change after the other: each is done wholly, or undone."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._down: Set[Membership] = frozenset()
        """The VNICs that were not up when the change began: it does not wait for them."""
        self._unmet: list[str] | None = None
        """While a change is undone: what did not become as it was."""

    async def perform(self, steps: LabDifference) -> None:
        """Do what differs; where that fails, undo it. Raises LabError: what has failed, and what is so now."""
        lab, world = self._lab, self._lab.world
        cabled, links, faults = world.topology, frozenset(world.fabric.links), world.faults.specs()
        config = None if lab.em_core is None else lab.em_core.config
        self._down = {key for key in self._due(steps.before) if not self._is_up(*key)}
        try:
            await self._do(steps)
        except Exception as error:
            current_job().doing("undoes what has been done")
            so_now = await self._undo(steps, cabled, links, faults, config)
            if not isinstance(error, HfiSimError):
                error.add_note(so_now)
                raise
            raise LabError(f"{error}; {so_now.replace(f'; {error}', '')}") from error
        finally:
            world.refresh()

    async def _do(self, steps: LabDifference) -> None:
        lab, world, after = self._lab, self._lab.world, steps.after
        self._end_faults(steps.faults_gone)
        await self._let_leave(steps)
        await self._rewire(steps)
        lab.model = after
        rights = with_other_rights(steps)
        let_manage(world, after, rights, before=steps.before)
        lab.machine.follow(after)
        await self._let_join(steps)
        await self._unless_undoing(self._set_up, steps)
        if has_other_pkeys(steps):
            await asyncio.sleep(PACKET_LIFE_S)  # then no frame with an old P_Key is on its way
        let_manage(world, after, rights, before=after)
        self._begin_faults(steps.faults_new)

    async def _undo(
        self,
        steps: LabDifference,
        cabled: Topology,
        links: Set[Link],
        faults: Mapping[int, FaultSpec],
        config: EmConfig | None,
    ) -> str:
        """Make the lab what it was before a change that has failed; return what is so now.

        Args:  cabled, links, faults, config: how it was cabled, its faults, and what its Ethernet Manager was told.
        """
        lab, world = self._lab, self._lab.world
        self._unmet = []
        fabric = world.fabric
        ends = {frozenset(port.name for port in link.ends): link in links for link in fabric.links}
        world.topology = half_cabled(cabled, ends, {*fabric.hfis, *fabric.switches}, steps)
        back = difference(steps.after, steps.before, world.topology, cabled)
        gone = tuple(name for name in steps.hosts_gone if name not in world.hosts)
        there = tuple(name for name in steps.hosts_new if name in lab.hosts)
        back = replace(back, hosts_gone=there, hosts_new=gone, faults_gone=(), faults_new=())
        try:
            await lab.machine.remove(lab.model, gone)  # what the change has left of them
            await self._do(back)
            for number, spec in faults.items():
                if number not in world.faults.known:
                    world.faults.add(spec, number=number)
            if lab.manager is not None and lab.em_core is None and config is not None:
                lab.manager.em.begin_with(config)
        except HfiSimError as error:
            return f"it is half done, since it could not be undone: {error}; opavnic save shows what is there"
        else:
            ran = [name for name in steps.hosts_set_up if _has_other_commands(name, steps)]
            said = "the lab is as before"
            if gone:
                said += f", but the programs of {', '.join(gone)} have ended"
            if ran:
                said += f"; what commands have done on {', '.join(ran)} stays"
            return "; ".join([said, *self._unmet])
        finally:
            self._unmet = None

    async def _unless_undoing(self, step: Callable[[Subject], Awaitable[None]], subject: Subject) -> None:
        """Take a step that may fail: while a change is undone that is noted, and the rest is undone all the same."""
        if self._unmet is None:
            await step(subject)
        elif not self._unmet:  # else it would only wait again for what does not answer
            try:
                await step(subject)
            except HfiSimError as error:
                self._unmet.append(str(error))

    async def _let_leave(self, steps: LabDifference) -> None:
        """Take members off virtual switches, and their interfaces away."""
        lab, core = self._lab, self._lab.em_core
        if core is None:
            return
        remaining = remaining_members(core.config.vesws, em_config(steps.after).vesws)
        if remaining == core.config.vesws:
            return
        left = self._leaving(steps)
        await self._configure(core.config.model_copy(update={"vesws": remaining}))
        for host, key in left:
            if VportNum(key.vport_num) in lab.world.drivers[key.port].adapters:  # else its driver is gone
                lab.world.drivers[key.port].remove_vnic(VportNum(key.vport_num))
            lab.hosts[host].forget_vport(key)

    def _leaving(self, steps: LabDifference) -> list[tuple[str, VnicKey]]:
        """Return the VNICs of hosts that stay whose virtual switches they leave."""
        world, model = self._lab.world, steps.after
        members = {(port.name, vesw.id) for vesw in model.vesws for port in model.members_of(vesw)}
        return [
            (host, VnicKey(name, int(number)))
            for name, vnics in world.drivers.items()
            if (host := world.host_of(vnics.port)) not in steps.hosts_gone
            for number, adapter in vnics.adapters.items()
            if adapter.vesw_id and (name, adapter.vesw_id) not in members
        ]

    async def _configure(self, config: EmConfig, *, waits: bool = True) -> None:
        manager = self._lab.manager
        assert manager is not None  # noqa: S101 - only with one of the lab's own are virtual switches changed
        manager.em.apply(config)
        if waits:
            await self._unless_undoing(self._converge, manager)

    async def _converge(self, manager: BuiltinManager) -> None:
        if not await converged_unless_silent(manager.em):
            trouble = "; ".join(manager.trouble) or "the agents do not answer"
            raise LabError(
                f"the Ethernet Manager has done nothing for {SILENCE_S:g} s, and is not ready: {trouble}"
            )

    async def _rewire(self, steps: LabDifference) -> None:
        if not steps.wiring:
            return
        lab, world, after = self._lab, self._lab.world, steps.after
        devices = lab.devices
        await lab.machine.add(after, steps.hosts_new)
        with world.fabric.together():
            for name in steps.hosts_gone:
                if devices is not None:
                    devices.remove(name)
                if name in world.hosts:
                    world.remove_host(name)
            take_away(world, steps.cables_gone, steps.switches_gone)
            for name in steps.switches_new:
                node = steps.topology.nodes[name]
                world.fabric.add_switch(name, ports=node.ports, guid=node.guid, description=node.description)
            for name in steps.hosts_new:
                guids = {node.name: node.guid for node in steps.topology.hosts()[name]}
                world.add_host(name, guids, ports=after.hosts[name].ports, guids=guids)
            let_manage(world, after, steps.hosts_new)
            world.keep_lids(only_nodes(steps.topology, steps.switches_new, steps.hosts_new))
            lay(world, steps.cables_new)
        world.topology = as_cabled(world.topology, steps)
        lab.model = after
        for name in steps.hosts_new:
            backend = lab.hosts[name]
            lab.connect_host(name, backend)
            backend.announces = True
            add_agent(world, after, backend, can_crash=True)
            if devices is not None and backend.has_our_devices:
                devices.add(world.hosts[name])
        await lab.boot_kernels(steps.hosts_new)
        if steps.hosts_gone:
            world.refresh()
            for name in steps.hosts_gone:
                lab.reconciler.forget(name)
            if lab.kernels is not None:
                await lab.kernels.end(steps.hosts_gone)
            await lab.machine.remove(after, steps.hosts_gone)
        if lab.files is not None and (steps.hosts_gone or steps.hosts_new):
            lab.files.follow({name: host.is_apart for name, host in after.hosts.items()})

    async def _let_join(self, steps: LabDifference) -> None:
        """Let members join; with a fabric manager of the user's they come up when that has let them."""
        core, waits = self._lab.em_core, self._lab.world.managed_by != "external"
        if core is None:
            return
        wanted = em_config(steps.after)
        config = core.config.model_copy(update={"vesws": wanted.vesws, "mac": wanted.mac})
        if config != core.config:
            await self._configure(config, waits=waits)
        if waits:
            await self._unless_undoing(self._await_vnics, steps.after)

    async def _await_vnics(self, model: LabModel) -> None:
        """Wait until every member of every virtual switch is up, and its host has noticed."""
        lab, job = self._lab, current_job()
        missing = {key: what for key, what in self._due(model).items() if key not in self._down}
        total = len(missing)
        job.doing("VNICs are up", total)
        silence = Silence(asyncio.get_running_loop().time)
        while missing := {key: what for key, what in missing.items() if not self._is_up(*key)}:
            if trouble := lab.machine.trouble:
                raise LabError("; ".join(trouble))
            job.count(total - len(missing))
            if silence.look(len(missing)) > SILENCE_S:
                first = ", ".join([*missing.values()][:3])
                raise LabError(f"not up, and nothing has happened for {SILENCE_S:g} s: {first}")
            await asyncio.sleep(_LOOK_AGAIN_S)  # the kernel reports "up" in its own time

    def _due(self, model: LabModel) -> dict[Membership, str]:
        """Return the members that are to be up, and what people call them."""
        return {
            (vesw.id, port.name): f"{port.member}/{vesw.name}"
            for vesw in model.vesws
            if vesw.link != "down"
            for port in model.members_of(vesw)
            if port.host in self._lab.hosts
        }

    def _is_up(self, vesw_id: int, port: str) -> bool:
        driver = self._lab.world.drivers[port]
        vnics = vnics_of(self._lab.hosts[self._lab.world.host_of(driver.port)], driver)
        return any(vnic.due_vesw_id == vesw_id and vnic_state(vnic) == "up" for vnic in vnics)

    def _end_faults(self, texts: Iterable[str]) -> None:
        faults = self._lab.world.faults
        for text in texts:
            for shown in faults.show():
                if shown["fault"] == text:
                    faults.remove(shown["number"])
                    break

    def _begin_faults(self, texts: Iterable[str]) -> None:
        """Set faults, as at the start of a lab: once all else is there. Raises FaultError: none of them is set then."""
        faults, numbers = self._lab.world.faults, list[int]()
        try:
            for text in texts:
                numbers.append(faults.add(text).number)
        except HfiSimError:
            for number in numbers:
                faults.remove(number)
            raise

    async def _set_up(self, steps: LabDifference) -> None:
        """Set up new hosts, and hosts that stay by what differs."""
        lab = self._lab
        if steps.hosts_set_up:
            for host in lab.hosts.values():
                host.vesws_changed()
        for name in steps.hosts_set_up:
            host = lab.hosts[name]
            if isinstance(host, KernelHost):
                host.setup = steps.after.hosts[name]
        before, after = steps.before.vnics, steps.after.vnics
        moved = [name for name in after if name in before and before[name] != after[name]]
        await lab.reconciler.set_up(dict.fromkeys([*steps.hosts_set_up, *moved, *steps.hosts_new]))
        lab.machine.watch(steps.hosts_new)


def _has_other_commands(host: str, steps: LabDifference) -> bool:
    return steps.before.hosts[host].exec != steps.after.hosts[host].exec
