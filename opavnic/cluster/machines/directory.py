"""The machines of a fabric as one of them knows them: which are present, what is placed where, which may act on it."""

from __future__ import annotations

from opavnic.cluster.errors import ClusterError
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.placement import Placement
from opavnic.cluster.zenoh.transport import ZenohTransport
from opavnic.lab.run.lab import Lab


class MachineDirectory:
    """What requests of other machines are answered by."""

    def __init__(self, transport: ZenohTransport) -> None:
        """Begin without other machines and without a share of the lab."""
        self.transport = transport
        self.nodes = transport.nodes
        """The other machines that are present."""
        self.clocks: dict[NodeName, float] = {}
        """Seconds by which each machine's clock is ahead of this one's. Only captures and reports to people use it."""
        self.lab: Lab | None = None
        self.placement: Placement | None = None
        self.verbs = transport.verbs
        """What replies to the requests of other machines."""

    @property
    def coordinator(self) -> NodeName | None:
        """The coordinator, if present; may be this machine."""
        return next((name for name, state in self.nodes.items() if state.is_coordinator), None)

    @property
    def manager(self) -> NodeName | None:
        """The machine whose subnet manager manages the nodes here: the coordinator, or None while it is away."""
        return self.coordinator

    def share_here(self) -> Lab:
        """Return this machine's share of the lab. Raises ClusterError if it has none yet."""
        if self.lab is None:
            raise ClusterError(f"{self.transport.name} has no share of the lab yet")
        return self.lab

    def check_coordinator(self, sender: NodeName) -> None:
        """Refuse a machine that is not the coordinator. Raises ClusterError."""
        if sender != self.coordinator:
            raise ClusterError(f"{sender} is not the coordinator of this fabric")

    def trusts(self, sender: NodeName) -> bool:
        """Return whether a machine may act on this one."""
        return self.share_here().model.cluster.trust_members or sender == self.coordinator

    def check_trust(self, sender: NodeName) -> None:
        """Refuse a machine that may not act on this one. Raises ClusterError."""
        if not self.trusts(sender):
            raise ClusterError(
                f"{self.transport.name} accepts this from the coordinator only, not from {sender}: ask there, or write "
                "`cluster: {trust_members: true}` in the lab file"
            )
