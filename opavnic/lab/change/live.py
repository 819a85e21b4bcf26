"""Changes a running lab: `LivingLab(lab).add_host("h9", vesws=["blue"])`.

All changes go one way: an edit makes the data of a new lab file of those of the running lab, and what differs is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.model import end_text
from opavnic.lab.change import edits
from opavnic.lab.change.difference import LabDifference, difference, refusals
from opavnic.lab.change.edits import EditError
from opavnic.lab.change.live_steps import Performance
from opavnic.lab.change.numbers import HostNumbers, VportNumbers, used_numbers, with_addresses_of, with_ids_of
from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.fabric_model import EXPLICIT
from opavnic.lab.file.members import pinned_vports, vport_numbers
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.parts import lab_model
from opavnic.lab.file.problems import CrossError
from opavnic.lab.file.sections import LabData
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.pinned import with_vports
from opavnic.lab.run.save import saved_data
from opavnic.lab.untrusted.rules import too_large, untrusted_problems
from opavnic.world.em_node import EM_NODE
from opavnic.world.jobs import current_job
from vema.base.sections import AS_WRITTEN
from vema.em.desired.problems import all_named, model_problems

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
        self._doing = Performance(lab)

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
        Raises:  EditError, LabError: it cannot be, and nothing has changed; or it has failed, and says what is so now.
        """

        def add(data: LabData, topology: Topology) -> LabData:
            number = self._numbers.choose(name, data, used_numbers(self.model_of(data)))
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
                for name in steps.hosts_gone:
                    self._numbers.keep(name, before.numbers[name])
                self._vports.keep(before.vports, after.vports)
                await self._doing.perform(steps)
            return said + (await self._end_drift(after, dry_run) if ends_drift else [])

    async def _end_drift(self, model: LabModel, dry_run: bool) -> list[str]:
        """Make hosts what the file says; return what they were not, a line each."""
        reconciler = self._lab.reconciler
        drift = await reconciler.drift(model.hosts)
        if drift and not dry_run:
            current_job().begin()
            await reconciler.end_drift(model.hosts)
        return drift

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
        if refused := [*refusals(before, after)]:
            raise EditError(
                f"cannot change while the lab runs: {', '.join(refused)}; opavnic down, then up with the new file"
            )
        there = lab.world.topology
        changed = set(after.hosts) != set(before.hosts) or after.fabric != before.fabric
        wanted = after.topology if changed else there
        steps = difference(before, after, there, wanted)
        if steps.wiring and lab.share is not None:
            raise EditError("hosts and links of a lab on several machines stay as they are")
        managers = {
            end for cable in there.cables for end in (cable.a, cable.b) if EM_NODE in (cable.a[0], cable.b[0])
        }
        for cable in steps.cables_new:
            if taken := managers & {cable.a, cable.b}:
                port = end_text(taken.pop())
                raise EditError(f"port {port} is that of the managers while the lab runs: take another one")
        if before.em.mode != "builtin" and (before.vesws != after.vesws):
            raise EditError(f"em: {before.em.mode}: virtual switches are up to your own Ethernet Manager")
        manager = lab.manager
        if manager is not None and lab.em_core is None and em_config(before) != em_config(after):
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
