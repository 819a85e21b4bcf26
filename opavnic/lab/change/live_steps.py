"""Does what differs between a running lab and the file that it is to follow.

First members leave their virtual switches, then hosts, cables and switches go and come, then members join. Where a
virtual switch gets another P_Key, ports are in both partitions until all its VNICs have the new one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hfi_sim.base.errors import HfiSimError
from hfi_sim.wire.sa.message import PACKET_LIFE_S
from opavnic.lab.change.difference import (
    LabDifference,
    as_cabled,
    has_other_pkeys,
    only_nodes,
    remaining_members,
    with_other_rights,
)
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.kernel_host import KernelHost
from opavnic.lab.hosts.vnics import vnics_of
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.status import vnic_state
from opavnic.lab.run.world_of import add_agent, let_manage
from opavnic.world.host_backends.given import VnicKey
from opavnic.world.jobs import current_job
from opavnic.world.long_work import SILENCE_S, Silence
from opavnic.world.parts.em import converged_unless_silent
from opavnic.world.wiring import lay, take_away
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig

_LOOK_AGAIN_S: Final = 0.01


class Performance:
    """The steps of changes of one lab, one change after the other."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    async def perform(self, steps: LabDifference) -> None:
        """Do what differs. Raises LabError."""
        lab, world, after = self._lab, self._lab.world, steps.after
        try:
            await self._let_leave(steps)
            await self._rewire(steps)
            lab.model = after
            rights = with_other_rights(steps)
            let_manage(world, after, rights, before=steps.before)
            self._set_faults(steps)
            lab.machine.follow(after)
            await self._let_join(steps)
            await self._set_up(steps)
            if has_other_pkeys(steps):
                await asyncio.sleep(PACKET_LIFE_S)  # then no frame with an old P_Key is on its way
            let_manage(world, after, rights, before=after)
        except HfiSimError as error:
            if isinstance(error, LabError):
                raise
            raise LabError(str(error)) from error
        finally:
            world.refresh()

    async def _let_leave(self, steps: LabDifference) -> None:
        """Take members off virtual switches, and their interfaces away."""
        lab = self._lab
        core = None if lab.manager is None else lab.manager.em.core
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

    async def _configure(self, config: EmConfig) -> None:
        manager = self._lab.manager
        assert manager is not None  # noqa: S101 - only with one of the lab's own are virtual switches changed
        manager.em.apply(config)
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
                devices.add(world.hosts[name], world.clock)
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
        lab, after = self._lab, steps.after
        manager = lab.manager
        core = None if manager is None else manager.em.core
        if manager is None or core is None:
            return
        wanted = em_config(after)
        config = core.config.model_copy(update={"vesws": wanted.vesws, "mac": wanted.mac})
        if lab.world.managed_by == "external":
            if config != core.config:
                manager.em.apply(config)
            return
        if config != core.config:
            await self._configure(config)
        await self._await_vnics(after)

    async def _await_vnics(self, model: LabModel) -> None:
        """Wait until every member of every virtual switch is up, and its host has noticed."""
        lab, job = self._lab, current_job()
        missing = {
            (port.name, vesw.id): f"{port.member}/{vesw.name}"
            for vesw in model.vesws
            if vesw.link != "down"
            for port in model.members_of(vesw)
            if port.host in lab.hosts
        }
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

    def _is_up(self, port: str, vesw_id: int) -> bool:
        driver = self._lab.world.drivers[port]
        vnics = vnics_of(self._lab.hosts[self._lab.world.host_of(driver.port)], driver)
        return any(vnic.due_vesw_id == vesw_id and vnic_state(vnic) == "up" for vnic in vnics)

    def _set_faults(self, steps: LabDifference) -> None:
        faults = self._lab.world.faults
        for text in steps.faults_gone:
            for shown in faults.show():
                if shown["fault"] == text:
                    faults.remove(shown["number"])
                    break
        for text in steps.faults_new:
            faults.add(text)

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
