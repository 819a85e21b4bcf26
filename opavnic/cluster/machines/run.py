"""Runs a machine of a cluster from its first connection to the removal of its share of the lab."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opavnic.base.files import FileError, read_text
from opavnic.base.signals import call_on_ending_signals
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.machines.coordinator import Coordinator
from opavnic.cluster.machines.member import Member
from opavnic.cluster.machines.node import digest_of
from opavnic.cluster.protocol.membership import NO_DIGEST
from opavnic.cluster.protocol.placement import MAX_LOADS, Loads
from opavnic.cluster.protocol.zenoh_config import SessionPlan
from opavnic.cluster.zenoh.tasks import Tasks
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.daemon import run_lab
from opavnic.lab.run.lab import Lab
from opavnic.state.lab import LabState
from opavnic.state.removed import Removed

Ready = Callable[[Lab, LabState], None]


def load_loads(path: Path, model: LabModel) -> Loads:
    """Read what a lab has carried. Raises ClusterInputError: the file cannot be read, or is of another lab."""
    try:
        return Loads.parse(read_text(path, MAX_LOADS, "file of loads"), str(path), model.name)
    except FileError as error:
        raise ClusterInputError(str(error)) from None


async def run_coordinator(
    model: LabModel,
    text: str,
    file: str,
    plan: SessionPlan,
    *,
    wait: int | None,
    loads: Loads | None,
    progress: Callable[[str], None],
    ready: Ready,
) -> Removed:
    """Gather machines, run the lab over them, and end it on all of them.

    Raises:  ClusterError, LabError: the lab could not start, or failed; everything has been removed.
    """
    transport = ZenohTransport(plan, _short(text))
    coordinator = Coordinator(model, text, file, transport, progress=progress, wait=wait, loads=loads)
    end = asyncio.Event()
    call_on_ending_signals(end.set)
    try:
        lab = await _unless(end, coordinator.gather())
        if lab is None:
            return Removed(model.name)
        return await run_lab(lab, lambda status: ready(lab, status), end)
    finally:
        await coordinator.close()


async def run_member(
    plan: SessionPlan, *, expected: str | None, progress: Callable[[str], None], ready: Ready
) -> Removed | None:
    """Join a coordinator, run this machine's share of its lab, and remove it; None: there was no share.

    Raises:  ClusterError, LabError: refused, could not start, or failed; everything has been removed.
    """
    transport = ZenohTransport(plan, NO_DIGEST if expected is None else _short(expected))
    member = Member(transport, progress=progress, expected=expected)
    end = member.ended
    call_on_ending_signals(end.set)
    try:
        lab = await _unless(end, member.join())
        if lab is None:
            if member.reason:
                raise ClusterError(member.reason)
            return None
        removed = await run_lab(lab, lambda status: ready(lab, status), end)
        if member.reason:
            progress(member.reason)
        return removed
    finally:
        await member.close()


async def _unless(end: asyncio.Event, coming: Any) -> Any:
    """Return the result of `coming`, or None if `end` is set first."""
    task, ending = asyncio.ensure_future(coming), asyncio.ensure_future(end.wait())
    try:
        await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await Tasks((task, ending)).end()


def _short(text: str) -> str:
    return digest_of(text)[:16]
