"""Changes a running lab: `LivingLab(lab).add_host("h9", vesws=["blue"])`.

All changes go one way: an edit makes the data of a new lab file of those of the running lab, and what differs is done.
First members leave their virtual switches, then hosts, cables and switches go and come, then members join. Where a
virtual switch gets another P_Key, ports are in both partitions until all its VNICs have the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from hfi_sim.base.errors import HfiSimError
from hfi_sim.fabric.topology import Topology
from hfi_sim.wire.sa.message import PACKET_LIFE_S
from opavnic.lab.change import edits
from opavnic.lab.change.difference import (
    LabDifference,
    as_cabled,
    difference,
    has_other_pkeys,
    only_nodes,
    refusals,
    remaining_members,
    with_other_rights,
)
from opavnic.lab.change.edits import EditError, LabData
from opavnic.lab.change.numbers import HostNumbers, VportNumbers, with_addresses_of, with_ids_of
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.fabric_model import EXPLICIT
from opavnic.lab.file.members import pinned_vports, vport_numbers
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.parts import lab_model
from opavnic.lab.file.problems import CrossError
from opavnic.lab.hosts.kernel_host import KernelHost
from opavnic.lab.hosts.vnics import vnics_of
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.pinned import with_vports
from opavnic.lab.run.save import saved_data
from opavnic.lab.run.status import vnic_state
from opavnic.lab.run.world_of import add_agent, let_manage
from opavnic.lab.untrusted.rules import too_large, untrusted_problems
from opavnic.world.host_backends.given import VnicKey
from opavnic.world.jobs import current_job
from opavnic.world.long_work import SILENCE_S, Silence
from opavnic.world.parts.em import converged_unless_silent
from opavnic.world.wiring import lay, take_away
from vema.base.sections import AS_WRITTEN
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig
from vema.em.desired.problems import all_named, model_problems

_LOOK_AGAIN_S: Final = 0.01

Edit = Callable[[LabData, Topology], LabData]


class LivingLab:
    """The changes of one lab."""

    def __init__(self, lab: Lab, *, untrusted: bool = False) -> None:
        """Args:  lab: it runs. untrusted: changes bring nothing that the rules for such labs refuse."""
        self._lab = lab
        self._untrusted = untrusted
        self._one_at_a_time = asyncio.Lock()
        self._numbers = HostNumbers()
        self._vports = VportNumbers()

    # --- what people ask for -------------------------------------------------------------------------------

    async def add_host(
        self,
        name: str,
        section: Mapping[str, Any] | None = None,
        *,
        vesws: Iterable[str] = (),
        at: str | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Add a host, with its cable, and wait until its VNICs are up. Return what was done, a line each.

        Args:    section: its keys, as in a lab file. vesws: the virtual switches that it joins. at: a switch, or a port
                 of one; default: a free port. dry_run: change nothing.
        Raises:  EditError, LabError: it cannot be, and nothing has changed; or it has failed in part, which is said.
        """

        def add(data: LabData, topology: Topology) -> LabData:
            number = self._numbers.choose(name, data)
            return edits.add_host(data, topology, name, section, vesws=vesws, at=at, number=number)

        return await self.change(add, dry_run)

    async def remove_host(self, name: str, *, dry_run: bool = False) -> list[str]:
        """End the programs of a host and remove it, with its cables. Returns and raises as `add_host`."""
        return await self.change(lambda data, topology: edits.remove_host(data, topology, name), dry_run)

    async def add_link(
        self, near: str, far: str, options: Mapping[str, Any] | None = None, *, dry_run: bool = False
    ) -> list[str]:
        """Lay a cable between two free ports. Args: options: as in a lab file. Returns and raises as `add_host`."""
        return await self.change(
            lambda data, topology: edits.add_link(data, topology, [near, far], options), dry_run
        )

    async def remove_link(self, near: str, far: str, *, dry_run: bool = False) -> list[str]:
        """Take a cable away; what is on its way there is lost. Returns and raises as `add_host`."""
        return await self.change(
            lambda data, topology: edits.remove_link(data, topology, [near, far]), dry_run
        )

    async def add_vesw(self, section: Mapping[str, Any], *, dry_run: bool = False) -> list[str]:
        """Add a virtual switch and wait until its members are up. Returns and raises as `add_host`."""
        return await self.change(lambda data, _: edits.add_vesw(data, section), dry_run)

    async def remove_vesw(self, name: str, *, dry_run: bool = False) -> list[str]:
        """Remove a virtual switch, with the interfaces of its members. Returns and raises as `add_host`."""
        return await self.change(lambda data, _: edits.remove_vesw(data, name), dry_run)

    async def join(self, vesw: str, hosts: Iterable[str], *, dry_run: bool = False) -> list[str]:
        """Let hosts join a virtual switch, and wait until they are up. Returns and raises as `add_host`."""
        return await self.change(lambda data, _: edits.join(data, vesw, hosts), dry_run)

    async def leave(self, vesw: str, hosts: Iterable[str], *, dry_run: bool = False) -> list[str]:
        """Let hosts leave a virtual switch; their interfaces go. Returns and raises as `add_host`."""
        return await self.change(lambda data, _: edits.leave(data, vesw, hosts), dry_run)

    async def follow(self, wanted: LabModel, *, dry_run: bool = False) -> list[str]:
        """Do what differs between a whole lab file and the running lab. Returns and raises as `add_host`."""
        return await self.change(
            lambda data, topology: self._to_follow(wanted, data, topology), dry_run, ends_drift=True
        )

    async def change(self, edit: Edit, dry_run: bool = False, *, ends_drift: bool = False) -> list[str]:
        """Do what differs once the data of the running lab are edited. Returns and raises as `add_host`.

        Args:  ends_drift: make hosts, too, what the file says: see `HostReconciler`.
        """
        job = current_job()
        if self._one_at_a_time.locked():
            job.doing("waits for another change")
        async with self._one_at_a_time:
            data, *_ = saved_data(self._lab)
            before = self.model_of(data)
            edited = edit(data, self._lab.world.topology)
            if self._untrusted and (refused := untrusted_problems(edited)):
                raise EditError(all_named(refused, edited))
            after = self._keeping(before, edited, keeps_addresses=not ends_drift)
            if self._untrusted and (refused := too_large(after)):
                raise EditError(all_named(refused, edited))
            steps = self._difference(before, after)
            said = steps.lines()
            if not dry_run and said:
                job.begin()
                await self._change(steps)
            return said + (await self._end_drift(after, dry_run) if ends_drift else [])

    async def _end_drift(self, model: LabModel, dry_run: bool) -> list[str]:
        """Make hosts what the file says; return what they were not, a line each."""
        reconciler = self._lab.reconciler
        drift = await reconciler.drift(model.hosts)
        if drift and not dry_run:
            current_job().begin()
            await reconciler.end_drift(model.hosts)
        return drift

    async def _change(self, steps: LabDifference) -> None:
        """Do what differs. A host that cannot be added does not stay. Raises as `add_host`."""
        for name in steps.hosts_gone:
            self._numbers.keep(name, steps.before.numbers[name])
        self._vports.keep(steps.before.vports, steps.after.vports)
        try:
            await self._perform(steps)
        except LabError as error:
            if steps.hosts_new:
                await self._take_back(steps.hosts_new, error)
            raise

    async def _take_back(self, hosts: Iterable[str], error: LabError) -> None:
        """Remove hosts that were added by a change that has failed, and say so."""
        lab = self._lab
        data, *_ = saved_data(lab)
        before = after = self.model_of(data)
        for name in hosts:
            if name in data["hosts"]:
                data = edits.remove_host(data, lab.world.topology, name)
                self._numbers.keep(name, before.numbers[name])
        try:
            after = self._keeping(before, data)
            await self._perform(self._difference(before, after))
        except (LabError, EditError) as another:
            raise LabError(f"{error}; what was added stays: {another}") from error
        names = ", ".join(hosts)
        raise LabError(f"{error}; not added: {names}") from error

    def _keeping(self, before: LabModel, data: LabData, *, keeps_addresses: bool = True) -> LabModel:
        """Return the model of data in which what stays keeps the number of its vport, and its addresses.

        Args:  keeps_addresses: else those of the data count.
        """
        after = self.model_of(data)
        kept = data
        if keeps_addresses:
            kept = with_addresses_of(before, after, kept)
        numbers = {key: number for key, number in before.vports.items() if key in after.vports}
        if not (numbers | self._vports.again(after.vports, numbers)).items() <= after.vports.items():
            told = {key: number for key, number in after.pinned_vports.items() if key not in numbers}
            told = self._vports.again(after.vports, numbers | told) | told
            kept = with_vports(kept, after, pinned_vports(vport_numbers(after.vports, numbers | told)))
        return after if kept is data else self.model_of(kept)

    def model_of(self, data: LabData) -> LabModel:
        """Return the model of plain data. Raises EditError: all mistakes."""
        try:
            return self._lab.checked.of(data)
        except ValidationError as error:
            causes = (item.get("ctx", {}).get("error") for item in error.errors(include_url=False))
            crossed = next((cause.problems for cause in causes if isinstance(cause, CrossError)), None)
            problems = model_problems(error, lab_model(), data) if crossed is None else crossed
            raise EditError(all_named(problems, data)) from error

    def _difference(self, before: LabModel, after: LabModel) -> LabDifference:
        lab = self._lab
        if refused := refusals(before, after):
            raise EditError(
                f"cannot change while the lab runs: {', '.join(refused)}; opavnic down, then up with the new file"
            )
        there = lab.world.topology
        changed = set(after.hosts) != set(before.hosts) or after.fabric != before.fabric
        wanted = after.topology if changed else there
        steps = difference(before, after, there, wanted)
        if steps.wiring and lab.share is not None:
            raise EditError("hosts and links of a lab on several machines stay as they are")
        if before.em.mode != "builtin" and (before.vesws != after.vesws):
            raise EditError(f"em: {before.em.mode}: virtual switches are up to your own Ethernet Manager")
        manager = lab.manager
        if manager is not None and manager.em.core is None and em_config(before) != em_config(after):
            raise LabError(f"virtual switches stay as they are: {'; '.join(manager.trouble)}")
        held = {app.host for app in before.apps} | {uplink.host for uplink in before.uplinks.values()}
        if used := held & set(steps.hosts_gone):
            raise EditError(f"host {sorted(used)[0]} has an app or an uplink: it stays")
        return steps

    def _to_follow(self, wanted: LabModel, data: LabData, topology: Topology) -> LabData:
        """Return the data of a whole file, with the numbers and, in the same shape, the cables of what runs."""
        lab = self._lab
        new = wanted.model_dump(mode="json", exclude_unset=True, context=AS_WRITTEN)
        new["hosts"] = edits.keep_numbers(new["hosts"], lab.model.numbers)
        new = with_ids_of(data, new, lab.world.fabric)
        gone = [name for name in data["hosts"] if name not in new["hosts"]]
        added = [name for name in new["hosts"] if name not in data["hosts"]]
        shape = wanted.fabric.topology
        is_same = shape.kind != EXPLICIT and shape in (lab.first_shape, lab.model.fabric.topology)
        if not is_same or not (gone or added or lab.model.fabric.topology.kind == EXPLICIT):
            return new
        cabled = edits.with_explicit_topology(data, topology)
        for name in gone:
            cabled = edits.remove_host(cabled, topology, name)
        for name in added:
            cabled = edits.add_host(cabled, topology, name, {"hfis": wanted.hosts[name].hfis})
        fabric = {**new.get("fabric", {}), "topology": cabled["fabric"]["topology"]}
        return {**new, "fabric": fabric}

    # --- doing it ------------------------------------------------------------------------------------------

    async def _perform(self, steps: LabDifference) -> None:
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
