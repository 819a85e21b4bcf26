"""A lab in which some hosts are nodes of this process: a VNIC of their own, and no TAP."""

from __future__ import annotations

from typing import Any

from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.lab.apps import NodeHost, node_netdev
from opavnic.lab.hosts import LabHost, plan_interfaces
from opavnic.lab.lab import Lab
from opavnic.lab.model import LabModel


class NodeLab(Lab):
    """A lab with nodes.

    Args:  nodes: hosts that are nodes; in a lab in memory all are.
    """

    def __init__(self, model: LabModel, *, nodes: frozenset[str], **options: Any) -> None:
        super().__init__(model, **options)
        self._nodes = nodes

    def _make_host(self, name: str) -> LabHost:
        if name in self._nodes or self.netdev == "memory":
            return NodeHost(name, plan_interfaces(self.model, name))
        return super()._make_host(name)

    def node_netdev(self, host: str) -> MemoryNetdev:
        """Return the netdev of a node's first VNIC, once the lab has started.

        Raises:  LabError: the host is none, or its VNIC has not been made.
        """
        return node_netdev(self, host)
