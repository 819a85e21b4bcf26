"""One machine's share of a lab that runs on several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from opavnic.state.lab import ClusterStatus, LabState
from opavnic.world.remote_machines import RemoteMachines
from opavnic.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of a lab on this machine, and its callbacks."""

    machine: str
    """The name of this machine in the cluster."""
    hosts: frozenset[str]
    """The hosts that are here."""
    elsewhere: Mapping[str, str]
    """The hosts on other machines, each with its machine."""
    remote_nodes: frozenset[str]
    """The nodes of the fabric, HFIs and switches, that other machines carry."""
    manages: bool
    """Whether subnet manager and Ethernet Manager of the lab run here."""
    attach: Callable[[World], None]
    """Called with the world once it is wired, before anything runs on it."""
    await_others: Callable[[], Awaitable[None]]
    """Waits until the other machines are ready as well."""
    trouble: Callable[[], list[str]]
    """Returns why other machines will not be ready."""
    status: Callable[[], ClusterStatus]
    """Returns the entry `cluster` of the state of this machine."""
    fold: Callable[[LabState], Awaitable[LabState]]
    """Makes the state of this machine that of the whole lab."""
    remote_machines: RemoteMachines
    """The other machines, as the parts of the lab ask them."""
