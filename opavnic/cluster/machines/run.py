"""Runs a machine of a cluster from its first connection to the removal of its share of the lab."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opavnic.base.files import FileError, read_text
from opavnic.base.packages import advice
from opavnic.base.signals import call_on_ending_signals
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.machines.coordinator import Coordinator
from opavnic.cluster.machines.member import Member
from opavnic.cluster.machines.node import Machine, digest_of
from opavnic.cluster.protocol.placement import MAX_LOADS, Loads
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.daemon import run_lab
from opavnic.lab.run.lab import Lab
from opavnic.state.lab import LabState
from opavnic.state.removed import Removed

Ready = Callable[[Lab, LabState], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """How a machine reaches the others, as given by the user."""

    name: str
    listen: Sequence[str] = ()
    """Where others connect to this machine: tls/ADDRESS:PORT."""
    join: Sequence[str] = ()
    """Where it connects to others."""
    credentials: Path | None = None
    """A folder with its certificate."""
    insecure: bool = False
    """Allow addresses that other machines can reach to be used without TLS."""


def zenoh_transport(options: JoinOptions, *, fabric: int | None, digest: str | None) -> ZenohTransport:
    """Return the transport of a machine; `fabric` makes it a coordinator, which states the fabric's id.

    Raises:  ClusterInputError: an address or credentials that cannot be used. ClusterError: Zenoh is not installed.
    """
    try:
        import zenoh
    except ImportError as error:
        raise ClusterError(
            f"a fabric over several machines needs Zenoh ({error}): {advice('cluster')}"
        ) from error
    zenoh.try_init_log_from_env()  # RUST_LOG then shows, for example, what access control refuses
    from opavnic.cluster.protocol.membership import NO_DIGEST, MachineRole, node_name
    from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan

    credentials = None
    if options.credentials is not None:
        from opavnic.cluster.zenoh.credentials import load_credentials

        credentials = load_credentials(options.credentials)
    plan = SessionPlan(
        node_name(options.name),
        listen=tuple(Address.parse(text, is_listen=True) for text in options.listen),
        join=tuple(Address.parse(text) for text in options.join),
        credentials=credentials,
        is_insecure=options.insecure,
    )
    role = MachineRole.MEMBER if fabric is None else MachineRole.COORDINATOR
    return ZenohTransport(plan, role, fabric=fabric, digest=NO_DIGEST if digest is None else digest)


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
    options: JoinOptions,
    *,
    wait: int | None,
    loads: Loads | None,
    progress: Callable[[str], None],
    ready: Ready,
) -> Removed:
    """Gather machines, run the lab over them, and end it on all of them.

    Raises:  ClusterError, LabError: the lab could not start, or failed; everything has been removed.
    """
    transport = zenoh_transport(options, fabric=model.fabric.id, digest=_short(text))
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
    options: JoinOptions, *, expected: str | None, progress: Callable[[str], None], ready: Ready
) -> Removed | None:
    """Join a coordinator, run this machine's share of its lab, and remove it; None: there was no share.

    Raises:  ClusterError, LabError: refused, could not start, or failed; everything has been removed.
    """
    transport = zenoh_transport(options, fabric=None, digest=None if expected is None else _short(expected))
    member = Member(transport, progress=progress, expected=expected)
    end = member.ended
    call_on_ending_signals(end.set)
    try:
        lab = await member.join()
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
        ending.cancel()
        task.cancel()
        await asyncio.gather(task, ending, return_exceptions=True)


def _short(text: str) -> str:
    return digest_of(text)[:16]


__all__ = ["JoinOptions", "Machine", "run_coordinator", "run_member", "zenoh_transport"]
