"""A lab in which some hosts are nodes of this process: a VNIC of their own, and no TAP."""

from __future__ import annotations

from typing import Any

from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.lab.errors import LabError
from opavnic.lab.lab import Lab
from opavnic.lab.machine import NetdevKind
from opavnic.lab.model import LabModel


class NodeLab(Lab):
    """A lab with nodes.

    Args:  nodes: hosts that are nodes; in a lab in memory all are.
    """

    def __init__(self, model: LabModel, *, nodes: frozenset[str], netdev: NetdevKind, **options: Any) -> None:
        app_hosts = frozenset(model.hosts) if netdev == "memory" else nodes
        super().__init__(model, netdev=netdev, app_hosts=app_hosts, **options)

    def node_netdev(self, host: str) -> MemoryNetdev:
        """Return the netdev of a node's first VNIC, once the lab has started.

        Raises:  LabError: the host is not a node, or its VNIC has not been made.
        """
        interfaces = self.host(host).interfaces
        netdev = interfaces[0].app_netdev if interfaces else None
        if netdev is None:
            raise LabError(f"host {host} has no VNIC in this process")
        return netdev
