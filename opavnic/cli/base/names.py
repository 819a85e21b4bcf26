"""Names of running labs, and of what is in them, for the completion of a command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from opavnic.base.errors import OpavnicError
from opavnic.cli.base.common import ENV_LAB

if TYPE_CHECKING:
    from opavnic.state.lab import LabState


def labs(incomplete: str) -> list[str]:
    """Complete the name of a running lab."""
    from opavnic.lab.ownership.runtime import all_labs

    try:
        return [lab.name for lab in all_labs() if lab.running and lab.name.startswith(incomplete)]
    except OpavnicError:
        return []


def host_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a host of the lab that the command line means."""
    return _of_lab(ctx, incomplete, lambda state: [host.name for host in state.hosts])


def vesw_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the id of a virtual switch of that lab."""
    ids = _of_lab(ctx, "", lambda state: [str(vnic.vesw_id) for _, vnic in state.vnics() if vnic.vesw_id])
    return [found for found in ids if found.startswith(incomplete)]


def place_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a place in that lab: a host, a link, one direction of it."""
    return _of_lab(ctx, incomplete, _places)


def fault_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the words of a fault: its kind, `on`, a place."""
    from hfi_sim.fabric.faults import kind_names

    said = ctx.params.get("fault") or []
    if not said:
        return [kind for kind in kind_names() if kind.startswith(incomplete)]
    return ["on"] if len(said) == 1 else place_names(ctx, incomplete)


def _places(state: LabState) -> list[str]:
    links = [link.name for link in state.links]
    return [host.name for host in state.hosts] + links + [link.cable for link in state.links]


def _of_lab(ctx: typer.Context, incomplete: str, names: Callable[[LabState], Iterable[str]]) -> list[str]:
    """Return names out of the status of a lab; none if it does not answer: a completion never complains."""
    from opavnic.cli.base.common import lab_client
    from opavnic.state.lab import LabState

    try:
        client = lab_client(ctx.params.get("lab") or os.environ.get(ENV_LAB), limit_s=2.0)
        state = client.read(LabState, "/status")
    except OpavnicError:
        return []
    return [name for name in dict.fromkeys(names(state)) if name.startswith(incomplete)]
