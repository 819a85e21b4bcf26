"""One machine's share of a lab that runs on several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opavnic.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What of a lab is here, and who is told about it."""

    machine: str
    """The name of this machine in the cluster."""
    hosts: frozenset[str]
    """The hosts that are here."""
    elsewhere: frozenset[str]
    """The nodes of the fabric, HFIs and switches, that other machines carry."""
    manages: bool
    """Whether subnet manager and Ethernet Manager of the lab run here."""
    attach: Callable[[World], None]
    """Called with the world once it is wired, before anything runs on it."""
    await_others: Callable[[], Awaitable[None]]
    """Waits until the other machines are ready as well."""
    trouble: Callable[[], list[str]]
    """Returns why other machines will not be ready."""
    status: Callable[[], dict[str, Any]]
    """Returns the entry `cluster` of the status of this machine."""
    fold: Callable[[dict[str, Any], bool], Awaitable[dict[str, Any]]]
    """Makes the status of this machine that of the whole lab; whether counters are asked for."""
    spread: Callable[[dict[str, Any]], Awaitable[None]]
    """Has the other machines make a change of faults, `add` or `remove`, that was made here."""
    run: Callable[[str, Sequence[str], float], Awaitable[dict[str, Any]]]
    """Runs a program to its end on a host, whichever machine that is on."""
